"""What differs between backends, for the tests only."""

import keras
import numpy as np
from keras import ops

BACKEND = keras.backend.backend()


def numpy(tensor):
    return np.asarray(ops.convert_to_numpy(tensor))


def tensor(array, dtype="float32"):
    return ops.convert_to_tensor(np.asarray(array, dtype))


def value_and_gradients(function, *arrays):
    """Value and gradients of a scalar function of float arrays, as NumPy."""
    arrays = [np.asarray(array, "float32") for array in arrays]
    return globals()[f"_{BACKEND}_value_and_gradients"](function, arrays)


def _tensorflow_value_and_gradients(function, arrays):
    import tensorflow as tf

    inputs = [tf.constant(array) for array in arrays]
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        value = function(*inputs)
    gradients = tape.gradient(value, inputs, unconnected_gradients="zero")
    return numpy(value), [numpy(gradient) for gradient in gradients]


def _jax_value_and_gradients(function, arrays):
    import jax

    value, gradients = jax.value_and_grad(function, argnums=tuple(range(len(arrays))))(*arrays)
    return numpy(value), [numpy(gradient) for gradient in gradients]


def _torch_value_and_gradients(function, arrays):
    import torch

    inputs = [torch.tensor(array, requires_grad=True) for array in arrays]
    value = function(*inputs)
    value.backward()
    gradients = [torch.zeros_like(x) if x.grad is None else x.grad for x in inputs]
    return numpy(value), [numpy(gradient) for gradient in gradients]


def compiled(function, jit_compile=True):
    """`function` as a compiled graph; PyTorch runs it eagerly."""
    if BACKEND == "jax":
        import jax

        return jax.jit(function)
    if BACKEND == "tensorflow":
        import tensorflow as tf

        return tf.function(function, jit_compile=jit_compile)
    return function
