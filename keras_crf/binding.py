"""How a loss or a metric finds its layer again after the model was saved.

A loss needs the transitions, so it must know its layer. Kept in a config, the layer would come back
as a second, unconnected one. So the config of a loss carries the key and the name of its layer, and
the layer keeps the same key in its config and beside its weights. A loss that is made from a config
waits. When a layer loads its weights, which is the last thing that happens to a model that is being
loaded, the losses that wait for it are bound to it. A loss that still waits when it is first used
takes the one living layer that fits, and refuses to choose between several.
"""

import threading
import weakref
from collections import defaultdict

_local = threading.local()


def _registry():
    """Living layers by key and waiting bindings of this thread; a load stays within one."""
    if not hasattr(_local, "layers"):
        _local.layers = defaultdict(weakref.WeakSet)
        _local.waiting = weakref.WeakSet()
    return _local


class Binding:
    """Reference to a layer that may not be known yet.

    It is no Keras object, so that Keras does not walk through it when it saves.

    Args:
        layer: the layer, or None to wait for one.
        key: key of the layer that is waited for.
        name: its name.
        on_bound: called with the layer once it is known.
    """

    def __init__(self, layer=None, key=None, name=None, on_bound=lambda layer: None):
        self._layer, self._key, self._name, self._on_bound = None, key, name, on_bound
        if layer is None:
            _registry().waiting.add(self)
        else:
            self._bind(layer)

    def _bind(self, layer):
        _registry().waiting.discard(self)
        self._layer = layer
        self._on_bound(layer)

    def layer(self):
        """The layer; a `ValueError` if none or more than one may be meant."""
        if self._layer is None:
            self._bind(self._only_candidate())
        return self._layer

    def _only_candidate(self):
        candidates = list(_registry().layers[self._key])
        candidates = [c for c in candidates if c.name == self._name] or candidates
        if len(candidates) != 1:
            raise ValueError(
                f"This loss or metric belongs to the ConditionalRandomField {self._name!r}, and "
                f"{len(candidates)} layers that may be meant exist here. Expected one: load it "
                "together with its model (`keras.models.load_model`), or take `crf.sparse_loss` "
                "from the layer anew and compile with that."
            )
        return candidates[0]

    def get_config(self):
        """What `waiting` needs to find the layer again."""
        layer = self.layer()
        return {"layer": [layer.key, layer.name]}

    @classmethod
    def waiting(cls, config):
        """A binding for `get_config()` of another one."""
        key, name = config["layer"]
        return cls(key=key, name=name)

    def then(self, on_bound):
        """Call `on_bound` with the layer, now or when it is known."""
        self._on_bound = on_bound
        if self._layer is not None:
            on_bound(self._layer)


def enter(layer):
    """Make a layer known under its key."""
    _registry().layers[layer.key].add(layer)


def loaded(layer):
    """Bind what waits for a layer that has just loaded its weights.

    The names of layers of a subclassed model are not kept, so that the key alone must do there.
    """
    waiting = [binding for binding in _registry().waiting if binding._key == layer.key]
    named = [binding for binding in waiting if binding._name == layer.name]
    for binding in named or waiting:
        binding._bind(layer)
