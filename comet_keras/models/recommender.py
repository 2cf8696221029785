"""The shape that the paper's models for MovieLens, Books and Jester share."""

from comet_keras.models.gate_strings import make_gate, make_permutation, reads_ids

ACTIVATIONS = {"binary": "sigmoid", "regression": None}


def recommender(
    name,
    vocabulary_sizes,
    tasks,
    gate,
    num_experts,
    k,
    gamma,
    entropy_weight,
    embedding_size,
    expert_units,
    zeta=1e-4,
    permutation_start="soft",
    dropout=0.5,
    head_units=256,
    seed=0,
):
    """Tasks on pairs of ids by a mixture of experts with a gate a task; see `movielens`.

    Args:
        name: str, of the model.
        vocabulary_sizes: dict from each id to its number of ids; hash gates read the first.
        tasks: dict from task to `"binary"` or `"regression"`.

    Returns:
        A functional `keras.Model`, uncompiled.
    """
    # Imported here: the command line loads this module without Keras.
    import keras

    from comet_keras.experts import DenseExperts
    from comet_keras.mixture import MixtureOfExperts

    ids = {feature: keras.Input((), dtype="int32", name=feature) for feature in vocabulary_sizes}
    embedded = [
        keras.layers.Embedding(size, embedding_size, name=f"{feature}_embedding")(ids[feature])
        for feature, size in vocabulary_sizes.items()
    ]
    shared = keras.layers.Concatenate(name="shared")(embedded)
    first, num_ids = next(iter(vocabulary_sizes.items()))
    options = {"k": k, "gamma": gamma, "entropy_weight": entropy_weight, "num_ids": num_ids, "seed": seed}
    mixture = MixtureOfExperts(
        DenseExperts(num_experts, expert_units, activation="relu", dropout=dropout, name="experts"),
        gates={task: make_gate(gate, num_experts, name=f"{task}_gate", **options) for task in tasks},
        permutation=make_permutation(gate, num_experts, zeta, permutation_start),
        name="mixture",
    )
    towers = mixture(shared, gate_inputs=ids[first] if reads_ids(gate) else shared)
    outputs = {}
    for task, kind in tasks.items():
        hidden = keras.layers.Dense(head_units, activation="relu", name=f"{task}_hidden")(towers[task])
        outputs[task] = keras.layers.Dense(1, activation=ACTIVATIONS[kind], name=task)(hidden)
    return keras.Model(ids, outputs, name=name)
