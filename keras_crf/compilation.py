"""How the loops of the CRF are run on each backend.

The recursions of `linear_chain` are short steps repeated for every position, and what they cost is
decided by who runs the loop:

| where                              | how the loop is run                                         |
|------------------------------------|-------------------------------------------------------------|
| JAX                                | `jax.jit`                                                   |
| TensorFlow, eager                  | a `tf.function` for any length (Python would be 50x slower) |
| TensorFlow graph, known length     | XLA, also where Keras itself compiles without it (on CPUs)  |
| TensorFlow graph, unknown length   | plain graph ops: no recompilation for each new length       |
| PyTorch                            | eagerly                                                     |
"""

import functools

import keras
from keras import ops

_use_xla = True


def use_xla(enabled=True):
    """Allow or forbid XLA for the CRF's own loops inside TensorFlow graphs.

    On by default. It acts where a graph is traced, so call it before `fit`, `predict` or `export`.
    Forbid it to convert a model for a runtime that has no XLA.

    Args:
        enabled: False keeps the loops as ordinary graph ops.

    Returns:
        The value that was in force before.
    """
    global _use_xla
    before, _use_xla = _use_xla, bool(enabled)
    return before


def compiled(function):
    """Wrap a pure function of tensors so that its loops run fast on the backend in use.

    The first argument is `(b, t, k)`; all arguments are tensors, and nothing needs a gradient.
    """
    backend = keras.backend.backend()
    if backend == "jax":
        import jax

        return jax.jit(function)
    if backend == "tensorflow":
        return _compiled_for_tensorflow(function)
    return function


def _compiled_for_tensorflow(function):
    import tensorflow as tf

    @functools.cache
    def traced(num_labels, jit_compile):
        # One tf.function per number of labels: k stays static when the other axes are relaxed.
        return tf.function(function, jit_compile=jit_compile, reduce_retracing=True)

    @functools.wraps(function)
    def run(first, *rest):
        length, num_labels = first.shape[1:3]
        if tf.executing_eagerly():
            return traced(num_labels, None)(first, *rest)
        if _use_xla and length is not None and not tf.distribute.has_strategy():
            return traced(num_labels, True)(first, *rest)
        return function(first, *rest)

    return run


def is_concrete(tensor):
    """Whether the values of `tensor` can be looked at: False while a graph is being traced."""
    backend = keras.backend.backend()
    if isinstance(tensor, keras.KerasTensor):
        return False
    if backend == "jax":
        import jax

        return not isinstance(tensor, jax.core.Tracer)
    if backend == "tensorflow":
        import tensorflow as tf

        return tf.executing_eagerly()
    return tensor.device.type != "meta"


def with_closed_form_gradient(function):
    """`keras.ops.custom_gradient` with one contract on every backend.

    Args:
        function: takes tensors, returns a value and a function from the gradient of that value to
            the gradients of the tensors.

    Returns:
        A function of the tensors that returns the value alone.
    """

    @ops.custom_gradient
    def run(*tensors):
        value, gradient = function(*tensors)

        def gradient_of_upstream(*args, upstream=None):
            _refuse_second_order()
            return gradient(args[-1] if upstream is None else upstream)

        return value, gradient_of_upstream

    return run


def _refuse_second_order():
    """PyTorch would take the closed form for a constant, and be silently wrong."""
    if keras.backend.backend() == "torch":
        import torch

        if torch.is_grad_enabled():
            raise ValueError(
                "Gradients of gradients (`create_graph=True`) through a CRF are not available on "
                "the PyTorch backend. Use JAX, or keep the CRF's loss out of the gradient penalty."
            )
