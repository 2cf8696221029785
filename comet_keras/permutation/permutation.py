import warnings

import keras
import numpy as np
from keras import ops

from comet_keras.initializers import fresh
from comet_keras.permutation.sinkhorn import schedule, sinkhorn
from comet_keras.reductions import entropy
from comet_keras.step_counter import add_step_counter, advance, once_in_step
from comet_keras.validation import non_negative_float, positive_float, positive_int


@keras.saving.register_keras_serializable("comet_keras")
class Permutation(keras.layers.Layer):
    """Local search: a learned permutation of the experts, soft at first and then hard.

    Maps weights g `(..., n)` to `P g`: expert i receives `sum_j P_ij g_j`. In the first stage P is, in
    training, the soft matrix `S^R(U / tau)` of a trainable U, tau falling and R rising by the step.
    The `HardenPermutation` callback sets the stage's length, and at its end replaces P by the nearest
    permutation, a fixed integer weight; U has no effect from then on. Source: COMET (Ibrahim et al.,
    KDD 2023), section 4.

    Inference always gathers by the hard permutation: the final one, or within the first stage the one
    nearest to the present soft matrix (the callback renews it before each evaluation and at the end of
    each epoch), so that a model is sparse whenever its training stops. Before any training it is the
    identity.

    Args:
        num_experts: int >= 1, n.
        temperature: pair of floats, tau at the start and end of the first stage. Default `(3e-2, 3e-6)`, from one
            standard deviation of the initial U to 1e-4 of it: every expert is at every place at first, and U can
            still reorder them. The paper's `(1e-3, 1e-7)` is nearly hard before the first step, and how much it
            reorders depends on the seed (`docs/results.md`).
        rounds: pair of ints, Sinkhorn rounds R at the start and end. Default `(20, 150)`.
        entropy_weight: float >= 0, zeta: in the first stage, zeta times the summed entropies of the rows
            of S and of S with normalised rows is added to the loss. Default 1e-4 (section S1.3).
        warm_start: bool. True (default): each step's rounds start from the potentials of the step before,
            so that S stays close to doubly stochastic and hardening mostly rounds it, as long as U changes
            slowly against tau; in stages of few steps, or if the best assignment changes late, rows can be
            off (the callback reports it). False: each step starts cold as in the paper, with too few rounds
            for low temperatures.
        initializer: of U. Default uniform in (-0.05, 0.05). `keras.initializers.Identity(0.5)` starts
            from no permutation.
        **kwargs: `name`, `dtype` and the rest of `keras.layers.Layer`.

    Call arguments:
        inputs: float tensor `(..., n)`, gate weights.
        training: bool.

    Returns:
        Float tensor `(..., n)` in the layer's compute dtype, on the simplex if the inputs are.

    Example:

    >>> permutation = Permutation(4)
    >>> weights = permutation(SoftmaxGate(4)(keras.ops.ones((2, 8))))
    """

    def __init__(
        self,
        num_experts,
        temperature=(3e-2, 3e-6),
        rounds=(20, 150),
        entropy_weight=1e-4,
        warm_start=True,
        initializer=None,
        **kwargs,
    ):
        kwargs.setdefault("autocast", False)
        super().__init__(**kwargs)
        self.supports_masking = True
        self.num_experts = positive_int("num_experts", num_experts)
        self.temperature = _pair("temperature", temperature, float)
        self.rounds = _pair("rounds", rounds, int)
        self.entropy_weight = non_negative_float("entropy_weight", entropy_weight)
        self.warm_start = bool(warm_start)
        self.initializer = keras.initializers.get(
            initializer or keras.initializers.RandomUniform(-0.05, 0.05)
        )
        self._warn_without_stage = True
        self._stage_steps_to_come = 0

    @property
    def _dtype(self):
        return "float64" if self.compute_dtype == "float64" else "float32"

    def build(self, input_shape):
        n = self.num_experts
        if input_shape[-1] != n:
            raise ValueError(
                f"Permutation expects weights of {n} experts, shape (..., {n}). "
                f"Received shape: {tuple(input_shape)}"
            )

        def state(name, shape, dtype, initializer="zeros"):
            return self.add_weight(
                name=name,
                shape=shape,
                dtype=dtype,
                initializer=initializer,
                trainable=False,
                autocast=False,
                aggregation="mean" if dtype.startswith("float") else "none",
            )

        self.logits = self.add_weight(
            name="logits",
            shape=(n, n),
            dtype=self._dtype,
            initializer=fresh(self.initializer),
            autocast=False,
        )
        # Row i takes the weight of column assignment[i].
        self.assignment = state(
            "assignment", (n,), "int32", lambda shape, dtype=None: ops.arange(n, dtype="int32")
        )
        self.hardened = state("hardened", (), "bool")
        self.potentials = state("potentials", (n,), self._dtype)
        self.step = add_step_counter(self)
        self.stage_steps = state(
            "stage_steps", (), "int32", keras.initializers.Constant(self._stage_steps_to_come)
        )
        self.built = True

    def call(self, inputs, training=False):
        weights = ops.cast(inputs, self._dtype)
        # Frozen like other layers with state: as in inference.
        if training and self.trainable:
            self._check_stage()
            weights = self._permute_in_training(weights)
        else:
            weights = self._permute_hard(weights)
        return ops.cast(weights, self.compute_dtype)

    def _permute_hard(self, weights):
        return ops.take(weights, ops.convert_to_tensor(self.assignment), axis=-1)

    def _permute_in_training(self, weights):
        hardened = ops.logical_and(self.hardened, True)
        # The matrix belongs to the step, however many gates share the permutation.
        matrix = once_in_step(self, lambda: self._run_step(weights, hardened))
        # One product in both stages: gathering columns, and its gradient, takes TensorFlow ten times as
        # long. Zeros stay exact zeros.
        rows = ops.matmul(ops.reshape(weights, (-1, self.num_experts)), ops.transpose(matrix))
        return ops.reshape(rows, ops.shape(weights))

    def _run_step(self, weights, hardened):
        """The matrix of this training step; adds the entropy term and advances the state."""
        # Once hard no round is run, and U has no effect whatever its optimizer still does to it.
        logits = ops.where(hardened, 0.0, ops.convert_to_tensor(self.logits))
        soft, potentials = self._soft_matrix(logits, hardened)
        penalty = self.entropy_weight * ops.cond(
            hardened, lambda: ops.zeros((), self._dtype), lambda: self._entropy(soft)
        )
        self.add_loss(ops.cast(penalty, keras.config.floatx()))
        self.potentials.assign(ops.where(hardened, ops.convert_to_tensor(self.potentials), potentials))
        advance(self.step, weights)
        hard = ops.one_hot(self.assignment, self.num_experts, dtype=self._dtype)
        return ops.where(hardened, hard, soft)

    def _soft_matrix(self, logits, hardened=False):
        tau, rounds = schedule(self.step, self.stage_steps, self.temperature, self.rounds)
        rounds = ops.where(hardened, 0, rounds)
        start = self.potentials if self.warm_start else None
        return sinkhorn(logits, tau, rounds, max(self.rounds), start)

    def _entropy(self, matrix):
        sums = ops.sum(matrix, axis=1, keepdims=True)
        rows = matrix / ops.maximum(sums, float(np.finfo(self._dtype).tiny))
        return ops.sum(entropy(matrix) + entropy(rows))

    def _check_stage(self):
        if self._warn_without_stage:
            self._warn_without_stage = False
            warnings.warn(
                f"Permutation {self.name!r} is trained without a first stage: it would stay soft in "
                "training while inference uses a hard permutation. Add HardenPermutation() to the "
                "callbacks of fit, or call `begin(stage_steps)` and `harden()` in your own loop.",
                stacklevel=2,
            )

    def begin(self, stage_steps=None):
        """Sets the length of the first stage in training steps, counted from the first one.

        None: the length is told later; the temperature stays at the start until then.
        """
        if stage_steps is not None:
            stage_steps = positive_int("stage_steps", stage_steps)
            if self.built:
                self.stage_steps.assign(stage_steps)
            else:
                self._stage_steps_to_come = stage_steps
        self._warn_without_stage = False

    def load_own_variables(self, store):
        super().load_own_variables(store)
        if bool(ops.convert_to_numpy(self.hardened)):
            self._warn_without_stage = False

    def soft_matrix(self):
        """The soft matrix S of the present step `(n, n)`, as a numpy array."""
        return np.asarray(ops.convert_to_numpy(self._soft_matrix(self.logits)[0]))

    def hard_matrix(self):
        """The permutation that inference uses, as a numpy array `(n, n)` of zeros and ones."""
        return np.eye(self.num_experts)[ops.convert_to_numpy(self.assignment)]

    def round(self):
        """Renews the hard permutation from U; nothing changes once hardened.

        The linear assignment is solved in float64 on the host. Its solution for log S and for U is the
        same, since a row or column potential adds the same to every permutation.

        Returns:
            Dict with `distance`, the Frobenius norm of S - P, and `row_deviation`, the largest deviation
            of a row sum of S from 1.
        """
        if bool(ops.convert_to_numpy(self.hardened)):
            return {"distance": 0.0, "row_deviation": 0.0}
        from scipy.optimize import linear_sum_assignment

        utilities = np.asarray(ops.convert_to_numpy(self.logits), "float64")
        if not np.isfinite(utilities).all():
            warnings.warn(
                f"Permutation {self.name!r} keeps its assignment: its logits are not finite, the "
                "training has diverged."
            )
            return {"distance": float("nan"), "row_deviation": float("nan")}
        _, assignment = linear_sum_assignment(utilities, maximize=True)
        self.assignment.assign(assignment.astype("int32"))
        soft = self.soft_matrix()
        return {
            "distance": float(np.linalg.norm(soft - self.hard_matrix())),
            "row_deviation": float(np.abs(soft.sum(axis=1) - 1).max()),
        }

    def harden(self):
        """Ends the first stage: rounds, and fixes the permutation. Returns what `round` returns."""
        report = self.round()
        self.hardened.assign(True)
        self._warn_without_stage = False
        return report

    def compute_output_shape(self, input_shape):
        return tuple(input_shape)

    def get_config(self):
        config = super().get_config()
        config.pop("autocast", None)
        return {
            **config,
            "num_experts": self.num_experts,
            "temperature": list(self.temperature),
            "rounds": list(self.rounds),
            "entropy_weight": self.entropy_weight,
            "warm_start": self.warm_start,
            "initializer": keras.initializers.serialize(self.initializer),
        }


def _pair(name, value, kind):
    if not isinstance(value, (list, tuple)) or len(value) != 2:
        raise ValueError(
            f"`{name}` must be a pair, at the start and end of the first stage. Received: {name}={value!r}"
        )
    check = positive_int if kind is int else positive_float
    return tuple(check(name, v) for v in value)
