"""The layer: outputs, masks, labels, warnings and errors."""

import warnings

import keras
import models
import numpy as np
import pytest
from backend import numpy, tensor

from keras_crf import ConditionalRandomField


def built(k=3, **kwargs):
    crf = ConditionalRandomField(**kwargs)
    crf.build((None, None, k))
    return crf


# --- Outputs and masks ---


def test_emissions_pass_through_with_minus_infinity_where_masked(rng):
    emissions, mask = rng.normal(size=(2, 3, 4)).astype("float32"), np.array([[1, 1, 0], [0, 1, 1]])
    output = built(4)(emissions, mask=mask)
    expected = np.where(mask[..., None], emissions, -np.inf)
    np.testing.assert_array_equal(numpy(output), expected)


def test_it_is_idempotent(rng):
    crf, mask = built(4), np.array([[1, 0, 1]])
    once = crf(rng.normal(size=(1, 3, 4)), mask=mask)
    np.testing.assert_array_equal(numpy(crf(once)), numpy(once))
    np.testing.assert_array_equal(numpy(crf(once, mask=mask)), numpy(once))


def test_output_shapes_and_dtypes(rng):
    inputs = keras.Input((None, 4))
    crf = ConditionalRandomField()
    symbolic = [crf(inputs, output=name) for name in ("emissions", "tags", "marginals")]
    assert [x.shape for x in symbolic] == [(None, None, 4), (None, None), (None, None, 4)]
    assert [x.dtype for x in symbolic] == ["float32", "int32", "float32"]
    outputs = keras.Model(inputs, symbolic).predict(rng.normal(size=(2, 5, 4)), verbose=0)
    assert [x.shape for x in outputs] == [(2, 5, 4), (2, 5), (2, 5, 4)]
    assert [str(x.dtype) for x in outputs] == ["float32", "int32", "float32"]


def test_tags_and_marginals_in_the_graph_equal_those_outside(rng):
    inputs, mask = keras.Input((6, 4)), keras.Input((6,), dtype="int32")
    crf = ConditionalRandomField(pad_value=-9)
    outputs = [crf(inputs, mask=mask, output=name) for name in ("emissions", "tags", "marginals")]
    x = [rng.normal(size=(3, 6, 4)), rng.integers(0, 2, (3, 6))]
    emissions, tags, marginals = keras.Model([inputs, mask], outputs).predict(x, verbose=0)
    np.testing.assert_array_equal(numpy(crf.decode(emissions)), tags)
    np.testing.assert_allclose(numpy(crf.marginals(emissions)), marginals, atol=1e-6)
    assert np.all((tags == -9) == (x[1] == 0))


def test_symbolic_decode_is_the_tags_output(rng):
    inputs = keras.Input((5, 3))
    crf = ConditionalRandomField()
    tagger = keras.Model(inputs, [crf.decode(inputs), crf.marginals(inputs)])
    x = rng.normal(size=(2, 5, 3))
    tags, marginals = tagger.predict(x, verbose=0)
    np.testing.assert_array_equal(tags, numpy(crf.decode(x)))
    assert marginals.shape == x.shape


def test_the_implicit_mask_is_used_and_ends_here(rng):
    model, crf = models.tagger()
    x = np.array([[3, 4, 0, 0]])
    output = model(x)
    assert np.all(numpy(output)[0, 2:] == -np.inf)
    assert getattr(output, "_keras_mask", None) is None
    assert crf.compute_mask(None, mask=np.ones((1, 4))) is None


def test_loss_with_as_many_sequences_as_positions(rng):
    """A per-sequence loss times a (b, t) mask is silently wrong where b == t; ours has no mask."""
    model, crf = models.compiled_tagger(length=6)
    x, y = models.data(rng, n=6, t=6)
    expected = np.mean([-numpy(crf.log_probability(model(x[i : i + 1]), y[i : i + 1]))[0]
                        for i in range(6)])  # fmt: skip
    np.testing.assert_allclose(model.evaluate(x, y, verbose=0)[0], expected, rtol=1e-5)


@pytest.mark.parametrize("dtype", ["bool", "int8", "int64", "float32"])
def test_masks_of_any_dtype(rng, dtype):
    crf, mask = built(), np.array([[1, 0, 1, 1]])
    emissions = rng.normal(size=(1, 4, 3))
    expected = numpy(crf(emissions, mask=mask.astype("bool")))
    np.testing.assert_array_equal(numpy(crf(emissions, mask=mask.astype(dtype))), expected)


# --- Weights ---


@pytest.mark.parametrize("lr_multiplier", [1.0, 100.0])
def test_parameters_are_counted_and_trainable_for_every_multiplier(lr_multiplier):
    assert built(5, lr_multiplier=lr_multiplier).count_params() == 5 * 5 + 5 + 5
    bare = built(5, lr_multiplier=lr_multiplier, use_boundary=False)
    assert bare.count_params() == 25
    assert [weight.name for weight in bare.trainable_weights] == ["transitions"]
    assert not bare.non_trainable_weights


def test_live_effective_scores():
    crf = built(2, lr_multiplier=10)
    crf._transitions.assign([[1.0, 2.0], [3.0, 4.0]])
    np.testing.assert_allclose(numpy(crf.transitions), [[10, 20], [30, 40]])
    np.testing.assert_array_equal(numpy(crf.trans), numpy(crf.transitions))
    crf._start_scores.assign([0.5, 0.0])
    np.testing.assert_allclose(numpy(crf.start_scores), [5, 0])
    np.testing.assert_allclose(numpy(crf.end_scores), [0, 0])
    assert numpy(built(2, use_boundary=False).start_scores).tolist() == [0, 0]


def test_the_initializer_is_that_of_the_effective_scores():
    crf = built(4, lr_multiplier=1000, transitions_initializer=keras.initializers.Constant(3.0))
    np.testing.assert_allclose(numpy(crf.transitions), 3.0, rtol=1e-6)


def test_the_regularizer_is_that_of_the_effective_transitions():
    crf = built(2, lr_multiplier=100, transitions_regularizer="l2", transitions_initializer="ones")
    np.testing.assert_allclose(numpy(sum(crf.losses)), 4 * 0.01, rtol=1e-5)


def test_config_round_trip():
    crf = ConditionalRandomField(
        lr_multiplier=50,
        use_boundary=False,
        transitions_initializer="zeros",
        transitions_regularizer=keras.regularizers.L2(0.5),
        ignore_index=-7,
        pad_value=0,
        name="chain",
    )
    config = crf.get_config()
    again = ConditionalRandomField.from_config(config)
    assert again.get_config() == config
    assert again.transitions_regularizer.l2 == pytest.approx(0.5)


# --- Values ---


def test_log_probability_is_score_minus_log_partition(rng):
    crf = built()
    emissions = rng.normal(size=(1, 4, 3)).astype("float32")
    paths = np.array(list(np.ndindex(3, 3, 3, 3)))
    values = numpy(crf.log_probability(np.repeat(emissions, len(paths), 0), paths))
    np.testing.assert_allclose(np.exp(values).sum(), 1, rtol=1e-5)
    best = numpy(crf.decode(emissions))[0]
    assert paths[values.argmax()].tolist() == best.tolist()
    assert numpy(crf.log_partition(emissions)).shape == (1,)


@pytest.mark.parametrize("dtype", ["int8", "int64", "float32", "float16"])
def test_labels_of_any_dtype_and_with_a_trailing_axis(rng, dtype):
    crf = built()
    emissions, tags = rng.normal(size=(2, 4, 3)), rng.integers(0, 3, (2, 4))
    expected = numpy(crf.log_probability(emissions, tags))
    for labels in (tags, tags[..., None]):
        value = crf.log_probability(emissions, labels.astype(dtype))
        np.testing.assert_array_equal(numpy(value), expected)


def test_ignore_index_masks(rng):
    crf = built(ignore_index=-5)
    emissions, tags = rng.normal(size=(2, 4, 3)), rng.integers(0, 3, (2, 4))
    mask = np.array([[1, 1, 0, 1], [0, 1, 1, 0]])
    expected = numpy(crf.log_probability(emissions, tags, mask))
    ignored = np.where(mask, tags, -5)
    np.testing.assert_array_equal(numpy(crf.log_probability(emissions, ignored)), expected)


# --- Errors and warnings ---


@pytest.mark.parametrize("label", [3, -1, -2])
def test_an_eager_label_out_of_range_is_named(rng, label):
    crf, tags = built(), np.zeros((2, 4), int)
    tags[1, 2] = label
    message = rf"Label {label} at sequence 1, position 2 is not one of the 3 labels 0\.\.2"
    with pytest.raises(ValueError, match=message):
        crf.sparse_loss(tags, crf(rng.normal(size=(2, 4, 3))))
    mask = np.ones((2, 4))
    mask[1, 2] = 0
    loss = crf.sparse_loss(tags, crf(rng.normal(size=(2, 4, 3)), mask=mask))
    assert np.isfinite(numpy(loss))


def test_probabilities_as_emissions_warn_once(rng):
    crf = built()
    probabilities = rng.dirichlet(np.ones(3), (2, 4))
    with pytest.warns(UserWarning, match="remove the softmax"):
        crf.decode(probabilities, mask=[[1, 1, 1, 0], [1, 1, 0, 0]])
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        crf.decode(probabilities)
        built().decode(rng.normal(size=(2, 4, 3)))


def test_a_softmax_in_the_model_warns_when_it_is_built():
    inputs = keras.Input((5, 8))
    probabilities = [
        keras.layers.Dense(3, activation="softmax")(inputs),
        keras.layers.Softmax()(keras.layers.Dense(3)(inputs)),
    ]
    for emissions in probabilities:
        with pytest.warns(UserWarning, match="remove the softmax"):
            ConditionalRandomField()(emissions)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        ConditionalRandomField()(keras.layers.Dense(3)(inputs))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ConditionalRandomField(ignore_index=None), "`ignore_index` must be an integer"),
        (lambda: built(3)(np.zeros((2, 4, 5))), "expected axis -1 of input shape to have value 3"),
        (
            lambda: ConditionalRandomField()(keras.Input((5, 3)), mask=keras.Input((7,))),
            "`mask` must have the shape",
        ),
        (lambda: built().log_partition(keras.Input((5, 3))), "takes values, not symbolic tensors"),
        (lambda: ConditionalRandomField(lr_multiplier=0), "`lr_multiplier` must be positive"),
        (lambda: ConditionalRandomField().transitions, "has no transitions yet"),
        (lambda: ConditionalRandomField()(np.zeros((2, 3))), "takes emissions of the shape"),
        (lambda: built()(np.zeros((2, 4, 3)), mask=np.ones((2, 5))), "`mask` must have the shape"),
        (lambda: built()(np.zeros((2, 4, 3)), output="paths"), "`output` must be one of"),
        (lambda: built()(keras.Input((4, 3)), output="paths"), "`output` must be one of"),
        (
            lambda: built().sparse_loss(np.zeros((2, 4, 3)), tensor(np.zeros((2, 4, 3)))),
            "For one-hot labels use",
        ),
        (
            lambda: built().dense_loss(np.zeros((2, 4)), tensor(np.zeros((2, 4, 3)))),
            "For integer labels use `sparse_loss`",
        ),
    ],
)
def test_errors_say_what_was_expected(call, message):
    with pytest.raises(ValueError, match=message):
        call()


# --- Every kind of model ---


def test_sequential_and_subclassed_models(rng):
    x, y = models.data(rng)

    class Subclassed(keras.Model):
        def __init__(self):
            super().__init__()
            self.embedding = keras.layers.Embedding(models.VOCABULARY, 8, mask_zero=True)
            self.dense = keras.layers.Dense(models.LABELS)
            self.crf = ConditionalRandomField()

        def call(self, x):
            return self.crf(self.dense(self.embedding(x)))

    crf = ConditionalRandomField()
    embedding = keras.layers.Embedding(models.VOCABULARY, 8, mask_zero=True)
    sequential = keras.Sequential([embedding, keras.layers.Dense(models.LABELS), crf])
    subclassed = Subclassed()
    for model, layer in ((sequential, crf), (subclassed, subclassed.crf)):
        model(x[:1])
        model.compile("adam", loss=layer.sparse_loss, metrics=[layer.sparse_accuracy])
        before = numpy(layer.transitions)
        losses = model.fit(x, y, epochs=2, verbose=0).history["loss"]
        assert losses[1] < losses[0]
        assert np.abs(numpy(layer.transitions) - before).max() > 0


def test_several_heads_of_different_size(rng):
    inputs = keras.Input((7,), dtype="int32")
    features = keras.layers.Embedding(models.VOCABULARY, 8, mask_zero=True)(inputs)
    words = ConditionalRandomField(name="words")
    types = ConditionalRandomField(name="types", lr_multiplier=10)
    outputs = {
        "words": words(keras.layers.Dense(4)(features)),
        "types": types(keras.layers.Dense(6)(features)),
        "score": keras.layers.Dense(1)(features[:, 0]),
    }
    model = keras.Model(inputs, outputs)
    losses = {"words": words.sparse_loss, "types": types.sparse_loss, "score": "mse"}
    metrics = {"words": [words.viterbi_accuracy], "types": [types.sparse_accuracy]}
    model.compile("adam", loss=losses, metrics=metrics)
    x, y = models.data(rng)
    labels = {"words": y, "types": x % 6, "score": x[:, :1].astype("float32")}
    before = [numpy(layer.transitions) for layer in (words, types)]
    history = model.fit(x, labels, epochs=2, verbose=0).history
    assert history["loss"][1] < history["loss"][0]
    assert "words_viterbi_accuracy" in history
    for layer, start in zip((words, types), before, strict=True):
        assert np.abs(numpy(layer.transitions) - start).max() > 0


def test_metrics_before_the_layer_is_built(rng):
    """As in a Sequential model that is compiled before its first batch."""
    x, y = models.data(rng)
    crf = ConditionalRandomField()
    embedding = keras.layers.Embedding(models.VOCABULARY, 8, mask_zero=True)
    model = keras.Sequential([embedding, keras.layers.Dense(models.LABELS), crf])
    model.compile("adam", loss=crf.sparse_loss, metrics=[crf.viterbi_accuracy])
    model.fit(x, y, epochs=1, verbose=0)
    emissions = model.predict(x, verbose=0)
    expected = ((numpy(crf.decode(emissions)) == y) & (x > 0)).sum() / (x > 0).sum()
    assert model.evaluate(x, y, verbose=0)[1] == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("lr_multiplier", [0.5, 1.0, 10.0])
def test_transitions_may_be_minus_infinity(rng, lr_multiplier):
    crf = built(2, lr_multiplier=lr_multiplier)
    crf._transitions.assign([[0.0, -np.inf], [1.0, 0.0]])
    np.testing.assert_allclose(
        numpy(crf.transitions), [[0, -np.inf], [lr_multiplier, 0]], rtol=1e-6
    )
    emissions = rng.normal(size=(3, 4, 2))
    tags = numpy(crf.decode(emissions))
    assert not np.any((tags[:, :-1] == 0) & (tags[:, 1:] == 1))
    metric = crf.viterbi_accuracy
    metric.update_state(tags, crf(emissions))
    assert float(numpy(metric.result())) == 1
