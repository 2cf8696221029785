import tensorflow as tf


def needs_static_shapes():
    """Whether the operations at hand are compiled by XLA, to which sizes must be known."""
    graph = tf.compat.v1.get_default_graph()
    while graph is not None:
        context = graph._get_control_flow_context()
        while context is not None:
            if context.IsXLAContext():
                return True
            context = context.outer_context
        graph = getattr(graph, "outer_graph", None)
    return False
