"""Losses in `fit` and outside: units, weights, the learning-rate multiplier, mixed precision."""

import contextlib
import warnings

import keras
import models
import numpy as np
import pytest
from backend import BACKEND, numpy, tensor
from keras import ops

from keras_crf import ConditionalRandomField


def built(k=3, **kwargs):
    crf = ConditionalRandomField(**kwargs)
    crf.build((None, None, k))
    return crf


def test_nats_per_sequence_averaged_over_the_batch(rng):
    crf = built()
    emissions, tags = rng.normal(size=(4, 5, 3)), rng.integers(0, 3, (4, 5))
    expected = -numpy(crf.log_probability(emissions, tags)).mean()
    for loss in (crf.sparse_loss, crf.loss):
        np.testing.assert_allclose(numpy(loss(tags, crf(emissions))), expected, rtol=1e-6)
    one_hot = np.eye(3)[tags]
    np.testing.assert_allclose(numpy(crf.dense_loss(one_hot, crf(emissions))), expected, rtol=1e-5)
    twice = [np.concatenate([part, part]) for part in (tags, emissions)]
    np.testing.assert_allclose(numpy(crf.sparse_loss(twice[0], crf(twice[1]))), expected, rtol=1e-6)


def test_sample_weights_scale_sequences(rng):
    crf = built()
    emissions, tags = rng.normal(size=(3, 5, 3)), rng.integers(0, 3, (3, 5))
    losses = -numpy(crf.log_probability(emissions, tags))
    weights = np.array([0.0, 1.0, 2.0], "float32")
    value = crf.sparse_loss(tags, crf(emissions), sample_weight=weights)
    np.testing.assert_allclose(numpy(value), (losses * weights).mean(), rtol=1e-5)
    value = crf.sparse_loss(tags, crf(emissions), sample_weight=[0.0, 1.0, 2.0])
    np.testing.assert_allclose(numpy(value), (losses * weights).mean(), rtol=1e-5)
    value = crf.sparse_loss(tags, crf(emissions), sample_weight=2.0)
    np.testing.assert_allclose(numpy(value), 2 * losses.mean(), rtol=1e-5)
    for checked in (crf.sparse_loss, crf.sparse_accuracy.update_state):
        with pytest.raises(ValueError, match=r"`sample_weight` must have the shape \(batch,\)"):
            checked(tags, crf(emissions), sample_weight=np.ones((3, 5)))


def test_fit_with_sample_weights_of_zero_ignores_those_rows(rng):
    x, y = models.data(rng, n=16)
    weights = (np.arange(16) < 8).astype("float32")
    results = []
    for labels in (y, np.where(weights[:, None] > 0, y, (y + 1) % 4)):
        keras.utils.set_random_seed(3)
        model, crf = models.tagger()
        model.compile("sgd", loss=crf.sparse_loss)
        model.fit(x, labels, sample_weight=weights, batch_size=16, epochs=2, verbose=0)
        results.append(numpy(crf.transitions))
    np.testing.assert_array_equal(*results)


@pytest.mark.parametrize("jit_compile", [False, True, "auto"])
def test_fit_evaluate_and_dense_labels(rng, jit_compile):
    if BACKEND == "torch" and jit_compile is True:
        pytest.skip("compiling the unrolled loop takes minutes there")
    x, y = models.data(rng)
    model, crf = models.tagger(length=7)
    model.compile(
        "adam",
        loss=crf.dense_loss,
        metrics=[crf.dense_accuracy],
        jit_compile=jit_compile,
    )
    one_hot = np.eye(models.LABELS)[y]
    losses = model.fit(x, one_hot, epochs=3, verbose=0).history["loss"]
    assert losses[2] < losses[0]
    loss, accuracy = model.evaluate(x, one_hot, verbose=0)
    emissions = model.predict(x, verbose=0)
    np.testing.assert_allclose(loss, -numpy(crf.log_probability(emissions, y)).mean(), rtol=1e-5)
    right = (emissions.argmax(-1) == y) & (x > 0)
    np.testing.assert_allclose(accuracy, right.sum() / (x > 0).sum(), rtol=1e-5)


def test_a_wrong_label_in_a_compiled_graph_makes_the_loss_nan(rng):
    if BACKEND == "torch":
        pytest.skip("PyTorch runs eagerly, where the label is named")
    x, y = models.data(rng)
    y = y + models.LABELS * (x > 0)
    model, crf = models.compiled_tagger()
    assert np.isnan(model.evaluate(x, y, verbose=0)[0])
    before = numpy(crf.transitions)
    assert np.isnan(model.fit(x, y, verbose=0).history["loss"][0])
    np.testing.assert_array_equal(numpy(crf.transitions), before)  # shown, but nothing destroyed


@pytest.mark.parametrize("label", [1.5, -0.5, 2.0**32, np.nan])
def test_labels_that_are_no_whole_numbers_are_refused(rng, label):
    crf, tags = built(), np.zeros((2, 4))
    tags[1, 2] = label
    emissions = rng.normal(size=(2, 4, 3))
    with pytest.raises(ValueError, match=r"at sequence 1, position 2 is not one of"):
        crf.log_probability(emissions, tags)
    mask = np.ones((2, 4))
    mask[1, 2] = 0
    assert np.all(np.isfinite(numpy(crf.log_probability(emissions, tags, mask))))


def test_dense_rows_without_a_label_are_masked_out(rng):
    """One-hot of a label that is none is a row of zeros."""
    crf = built()
    emissions, tags = rng.normal(size=(3, 5, 3)), rng.integers(0, 3, (3, 5))
    tags[0, 1] = tags[2, :] = -100
    zeros = np.where((tags >= 0)[..., None], np.eye(3)[np.maximum(tags, 0)], 0.0)
    ignored = np.where((tags >= 0)[..., None], zeros, -100.0)
    expected = numpy(crf.sparse_loss(tags, crf(emissions)))
    for weights in (zeros, ignored):
        value = numpy(crf.dense_loss(weights, crf(emissions)))
        np.testing.assert_allclose(value, expected, rtol=1e-5)
        sparse, dense = crf.sparse_accuracy, crf.dense_accuracy
        sparse.update_state(tags, crf(emissions))
        dense.update_state(weights, crf(emissions))
        assert numpy(dense.result()) == numpy(sparse.result())


def test_dense_loss_is_never_negative(rng):
    crf = built(transitions_initializer=keras.initializers.RandomNormal(stddev=3, seed=1))
    tags = rng.integers(0, 3, (64, 30))
    emissions = np.where(np.eye(3)[tags] > 0, 40.0, 0.0)
    losses = [crf.dense_loss(np.eye(3)[tags[i : i + 1]], crf(emissions[i : i + 1]))
              for i in range(64)]  # fmt: skip
    assert np.all(np.array([numpy(loss) for loss in losses]) >= 0)


@pytest.mark.skipif(BACKEND != "jax", reason="only there weights are passed as arguments")
def test_a_jax_loop_that_leaves_the_transitions_out_is_warned(rng):
    import jax

    x, y = models.data(rng)
    model, crf = models.compiled_tagger()

    def loss_of(trainable, scope):
        y_pred, _ = model.stateless_call(trainable, non_trainable, x)
        with scope(trainable):
            return crf.sparse_loss(y, y_pred)

    trainable = [v.value for v in model.trainable_variables]
    non_trainable = [v.value for v in model.non_trainable_variables]
    with pytest.warns(UserWarning, match="will get no gradient"):
        jax.grad(loss_of)(trainable, lambda _: contextlib.nullcontext())

    def scope(values):
        pairs = zip(model.trainable_variables, values, strict=True)
        return keras.StatelessScope(state_mapping=list(pairs))

    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        gradients = jax.grad(loss_of)(trainable, scope)
    for variable, gradient in zip(model.trainable_variables, gradients, strict=True):
        assert np.abs(gradient).max() > 0, variable.path


@pytest.mark.skipif(BACKEND != "torch", reason="a trap of PyTorch's autograd functions")
def test_second_derivatives_are_refused_on_torch(rng):
    import torch

    crf = built()
    emissions = torch.tensor(rng.normal(size=(2, 4, 3)), dtype=torch.float32, requires_grad=True)
    loss = crf.sparse_loss(np.zeros((2, 4)), crf(emissions))
    with pytest.raises(ValueError, match="Gradients of gradients"):
        torch.autograd.grad(loss, emissions, create_graph=True)


@pytest.mark.parametrize("floatx", ["float64", "bfloat16"])
def test_other_floatx(rng, floatx):
    keras.config.set_floatx(floatx)
    try:
        crf = built()
        emissions, tags = rng.normal(size=(2, 4, 3)), rng.integers(0, 3, (2, 4))
        loss = crf.sparse_loss(tags, crf(emissions))
        expected = -numpy(crf.log_probability(emissions.astype("float32"), tags)).mean()
        np.testing.assert_allclose(numpy(loss), expected, rtol=1e-5)
        metric = crf.viterbi_accuracy
        metric.update_state(tags, crf(emissions))
        assert 0 <= float(numpy(metric.result())) <= 1
        assert numpy(crf.entropy(emissions)).shape == (2,)
        assert numpy(crf.n_best(emissions, 2)[0]).shape == (2, 2, 4)
    finally:
        keras.config.set_floatx("float32")


# --- The learning-rate multiplier ---


def two_steps(optimizer, lr_multiplier, rng_seed=0, steps=2):
    """Effective transitions and the Dense kernel, before and after training."""
    rng = np.random.default_rng(rng_seed)
    keras.utils.set_random_seed(5)
    inputs = keras.Input((6, 5))
    # Start near zero: there float32 resolves steps of 1e-6 to many digits.
    initializer = keras.initializers.RandomUniform(-1e-3, 1e-3, seed=1)
    crf = ConditionalRandomField(lr_multiplier, transitions_initializer=initializer)
    dense = keras.layers.Dense(3, kernel_initializer=keras.initializers.GlorotUniform(seed=2))
    model = keras.Model(inputs, crf(dense(inputs)))
    model.compile(optimizer, loss=crf.sparse_loss)
    x, y = rng.normal(size=(8, 6, 5)), rng.integers(0, 3, (8, 6))
    before = numpy(crf.transitions), numpy(dense.kernel)
    model.fit(x, y, batch_size=8, epochs=steps, shuffle=False, verbose=0)
    return before, (numpy(crf.transitions), numpy(dense.kernel))


OPTIMIZERS = {
    "SGD": lambda: keras.optimizers.SGD(1e-6),
    "Adam": lambda: keras.optimizers.Adam(1e-6),
    "AdamW": lambda: keras.optimizers.AdamW(1e-6, weight_decay=0.0),
    "RMSprop": lambda: keras.optimizers.RMSprop(1e-6),
    "Lion": lambda: keras.optimizers.Lion(1e-6),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_the_effective_multiplier_is_m(name):
    """Two steps; m = 100 moves the transitions 100 times as far as m = 1, to 1 %."""
    moves, starts = [], []
    for m in (1, 100):
        (start, _), (end, _) = two_steps(OPTIMIZERS[name](), m)
        moves.append(end.astype("float64") - start)
        starts.append(start)
    np.testing.assert_allclose(starts[0], starts[1], rtol=1e-6)
    ratio = np.linalg.norm(moves[1]) / np.linalg.norm(moves[0])
    assert ratio == pytest.approx(100, rel=0.01)


def test_start_values_do_not_depend_on_m():
    values = []
    for m in (1, 1000):
        initializer = keras.initializers.GlorotUniform(seed=4)
        crf = built(7, lr_multiplier=m, transitions_initializer=initializer)
        values.append(numpy(crf.transitions))
    np.testing.assert_allclose(values[0], values[1], rtol=1e-6)


def test_global_clipnorm_moves_the_rest_of_the_model_alike():
    moves = []
    for m in (1, 1000):
        optimizer = keras.optimizers.SGD(1.0, global_clipnorm=0.01)
        (_, before), (_, after) = two_steps(optimizer, m, steps=1)
        moves.append(after - before)
    assert np.abs(moves[0]).max() > 1e-3
    np.testing.assert_allclose(moves[0], moves[1], rtol=1e-4, atol=1e-7)


# --- Mixed precision ---


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
def test_mixed_precision_fits_decodes_and_saves(rng, policy, tmp_path):
    keras.config.set_dtype_policy(policy)
    x, y = models.data(rng)
    model, crf = models.compiled_tagger(length=7)
    assert crf.dtype_policy.name == "float32"
    history = model.fit(x, y, epochs=3, verbose=0).history
    assert history["loss"][2] < history["loss"][0]
    emissions = model.predict(x, verbose=0)
    assert emissions.dtype == np.float32
    path = tmp_path / "model.keras"
    model.save(path)
    again = keras.models.load_model(path)
    np.testing.assert_array_equal(again.predict(x, verbose=0), emissions)
    tags = numpy(crf.decode(emissions))
    np.testing.assert_array_equal(numpy(again.layers[-1].decode(emissions)), tags)
    assert np.all((tags == -1) == (x == 0))
    np.testing.assert_allclose(
        again.evaluate(x, y, verbose=0), model.evaluate(x, y, verbose=0), rtol=1e-6
    )


def test_gradient_reaches_every_weight(rng):
    """After one step every score has moved, start and end included."""
    model, crf = models.compiled_tagger(optimizer="sgd")
    x, y = models.data(rng)
    before = [numpy(scores) for scores in crf.scores()]
    model.fit(x, y, epochs=1, verbose=0)
    for start, scores in zip(before, crf.scores(), strict=True):
        assert np.abs(numpy(scores) - start).max() > 0


def test_emissions_may_come_from_half_precision(rng):
    crf = built()
    half = ops.cast(tensor(rng.normal(size=(2, 4, 3))), "bfloat16")
    assert numpy(crf.sparse_loss(np.zeros((2, 4)), crf(half))).dtype == np.float32
