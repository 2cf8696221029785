import tensorflow as tf


def needs_static_shapes():
    """Whether tensors must have sizes that do not depend on the data: where XLA compiles them."""
    graph = tf.compat.v1.get_default_graph()
    while graph is not None:
        context = graph._get_control_flow_context()
        while context is not None:
            if context.IsXLAContext():
                return True
            context = context.outer_context
        graph = getattr(graph, "outer_graph", None)
    return False
