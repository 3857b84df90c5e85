"""How a loss or a metric finds its layer again after the model was saved.

A loss needs the transitions, so it must know its layer. Kept in an attribute or in the config, the
layer would be walked by Keras's weight loader or come back as a second, unconnected layer. So the
layer is held in a closure, and the config carries a key only: loading builds the layers first, each
enters itself under its key, and the loss built after them takes the newest layer of that key.
"""

import threading
import weakref

_local = threading.local()


def _layers():
    """Living layers of this thread by key: a file loaded in another thread has its own."""
    if not hasattr(_local, "layers"):
        _local.layers = weakref.WeakValueDictionary()
    return _local.layers


def register(key, layer):
    """Enter `layer` as the newest one of `key`."""
    _layers()[key] = layer


def find(key):
    """The newest living layer of `key` in this thread."""
    layer = _layers().get(key)
    if layer is None:
        raise ValueError(
            "This loss or metric belongs to a ConditionalRandomField that does not exist here. "
            "It can be restored only together with its model: use `keras.models.load_model(path)`, "
            f"or take `crf.sparse_loss` from the layer anew. Expected a layer with key {key!r}."
        )
    return layer
