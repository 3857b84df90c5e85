"""A conditional random field for Keras 3, in the spirit of bert4keras."""

import importlib.metadata
import warnings

from keras_crf import linear_chain
from keras_crf.compilation import use_xla
from keras_crf.dictionary import Dictionary
from keras_crf.layers import ConditionalRandomField
from keras_crf.spans import Span
from keras_crf.tag_schemes import TagSet
from keras_crf.viterbi import ViterbiDecoder

__version__ = "0.1.0.dev0"

__all__ = [
    "ConditionalRandomField",
    "Dictionary",
    "Span",
    "TagSet",
    "ViterbiDecoder",
    "linear_chain",
    "use_xla",
]


def _warn_of_the_other_package():
    """Two distributions own the import name: `keras-crf` (TensorFlow Addons) and `keras3-crf`."""
    try:
        importlib.metadata.version("keras-crf")
    except importlib.metadata.PackageNotFoundError:
        return
    warnings.warn(
        "The package `keras-crf`, which has the same import name as `keras3-crf`, is installed as "
        "well and their files overwrite each other: run `pip uninstall keras-crf keras3-crf`, "
        "then `pip install keras3-crf`.",
        stacklevel=3,
    )


_warn_of_the_other_package()
