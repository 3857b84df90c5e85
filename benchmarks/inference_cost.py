"""What n-best and span probabilities cost, relative to Viterbi and marginals.

    KERAS_BACKEND=jax python benchmarks/inference_cost.py

Each row times two calls in turn, several times, and prints the medians and their ratio. On
TensorFlow the calls are compiled by XLA. The last column is what the ratio should not exceed.
"""

import argparse
import statistics
import time

import keras
import numpy as np

from keras_crf import ConditionalRandomField, TagSet

SHAPES = [(32, 128, 9), (16, 512, 21), (64, 64, 61)]


def compiled(function):
    """The function as the backend compiles it."""
    if keras.backend.backend() == "jax":
        import jax

        return jax.jit(function)
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        return tf.function(function, jit_compile=True)
    return function


def seconds(function, *args):
    """Time of one call, its result waited for."""
    started = time.perf_counter()
    keras.ops.convert_to_numpy(keras.tree.flatten(function(*args))[0])
    return time.perf_counter() - started


def ratio(first, second, args, repeats):
    """Medians of both in milliseconds, measured in turn."""
    for function in (first, second):
        seconds(function, *args), seconds(function, *args)
    times = [(seconds(first, *args), seconds(second, *args)) for _ in range(repeats)]
    return [1000 * statistics.median(column) for column in zip(*times, strict=True)]


def rows(shape, n):
    """Name, the two calls and the bound of each row."""
    b, t, k = shape
    tags = TagSet([f"T{i}" for i in range((k - 1) // 2)], "BIO")
    crf = ConditionalRandomField(labels=tags.names, scheme="BIO")
    crf.build(shape)
    spans = np.array([[[s, s + 1 + s % 3, s % len(tags.types)] for s in range(0, t - 4, 4)]] * b)
    viterbi = compiled(crf.decode)
    yield f"{n}-best / Viterbi", compiled(lambda y: crf.n_best(y, n)[0]), viterbi, n
    marginals = compiled(crf.marginals)
    yield "spans / marginals", compiled(lambda y: crf.span_probability(y, spans)), marginals, 2


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("-n", type=int, default=5, help="paths of n-best")
    options = parser.parse_args()
    print(f"{keras.backend.backend()}, keras {keras.__version__}")
    print(f"{'(b, t, k)':<16}{'what':<20}{'ms':>9}{'ms':>9}{'ratio':>8}{'bound':>7}")
    for shape in SHAPES:
        emissions = np.random.default_rng(0).normal(size=shape).astype("float32")
        for name, first, second, bound in rows(shape, options.n):
            args = (keras.ops.convert_to_tensor(emissions),)
            a, b = ratio(first, second, args, options.repeats)
            print(f"{shape!s:<16}{name:<20}{a:>9.2f}{b:>9.2f}{a / b:>8.2f}{bound:>7}")


if __name__ == "__main__":
    main()
