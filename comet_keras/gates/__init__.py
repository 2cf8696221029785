"""Gates: layers from inputs to expert weights."""

from comet_keras.gates.comet import COMETGate
from comet_keras.gates.dselect_k import DSelectKGate
from comet_keras.gates.gate import Gate
from comet_keras.gates.hash import HashGate
from comet_keras.gates.softmax import SoftmaxGate
from comet_keras.gates.top_k import TopKGate
