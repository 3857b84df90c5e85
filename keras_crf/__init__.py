"""A conditional random field for Keras 3, in the spirit of bert4keras."""

from keras_crf import linear_chain
from keras_crf.compilation import use_xla
from keras_crf.layers import ConditionalRandomField
from keras_crf.viterbi import ViterbiDecoder

__version__ = "0.1.0.dev0"

__all__ = ["ConditionalRandomField", "ViterbiDecoder", "linear_chain", "use_xla"]
