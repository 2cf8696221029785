"""Terms on a gate's weights, logits or selectors, added to the loss in training."""

from comet_keras.regularizers.entropy import Entropy
from comet_keras.regularizers.importance import Importance
from comet_keras.regularizers.load import Load
from comet_keras.regularizers.load_balance import LoadBalance
from comet_keras.regularizers.reciprocal import Reciprocal
from comet_keras.regularizers.regularizer import GateRegularizer
from comet_keras.regularizers.router_z import RouterZ
