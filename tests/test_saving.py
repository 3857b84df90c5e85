"""A saved model is the same model: other processes, other backends, other multipliers."""

import gc
import json
import os
import subprocess
import sys

import golden
import keras
import models
import numpy as np
import pytest
from backend import BACKEND, numpy

import keras_crf
from keras_crf import ConditionalRandomField


@pytest.fixture
def trained(rng, tmp_path):
    model, crf = models.compiled_tagger(lr_multiplier=10)
    x, y = models.data(rng)
    model.fit(x, y, epochs=2, batch_size=16, verbose=0, shuffle=False)
    path = tmp_path / "model.keras"
    model.save(path)
    return model, crf, path, x, y


def crf_of(model):
    return next(layer for layer in model.layers if isinstance(layer, ConditionalRandomField))


def fit_on(model, x, y):
    return model.fit(x, y, epochs=2, batch_size=16, verbose=0, shuffle=False).history["loss"]


def test_the_loaded_model_equals_the_saved_one_and_trains_on_exactly(trained):
    model, crf, path, x, y = trained
    again = keras.models.load_model(path)
    np.testing.assert_array_equal(again.predict(x, verbose=0), model.predict(x, verbose=0))
    for name, weight in ((w.path, w) for w in crf.weights):
        same = next(w for w in crf_of(again).weights if w.path == name)
        np.testing.assert_array_equal(numpy(weight), numpy(same))
    assert again.evaluate(x, y, verbose=0) == model.evaluate(x, y, verbose=0)
    np.testing.assert_allclose(fit_on(again, x, y), fit_on(model, x, y), rtol=1e-6)
    np.testing.assert_allclose(
        numpy(crf_of(again).transitions), numpy(crf.transitions), rtol=1e-5, atol=1e-6
    )


def test_loss_and_metrics_look_at_the_loaded_layer(trained):
    model, crf, path, x, y = trained
    before = model.evaluate(x, y, verbose=0)
    again = keras.models.load_model(path)
    own = crf_of(again)
    assert own is not crf
    own._transitions.assign(numpy(own._transitions) * -3)
    changed = again.evaluate(x, y, verbose=0)
    assert abs(changed[0] - before[0]) > 1e-3
    assert model.evaluate(x, y, verbose=0) == before
    emissions = again.predict(x, verbose=0)
    expected = ((numpy(own.decode(emissions)) == y) & (x > 0)).sum() / (x > 0).sum()
    assert changed[2] == pytest.approx(expected, abs=1e-6)


def test_two_loads_of_one_file_are_independent(trained):
    *_, path, x, y = trained
    first, second = keras.models.load_model(path), keras.models.load_model(path)
    before = second.evaluate(x, y, verbose=0)
    fit_on(first, x, y)
    assert second.evaluate(x, y, verbose=0) == before
    start = numpy(crf_of(second).transitions)
    fit_on(second, x, y)
    assert np.abs(numpy(crf_of(second).transitions) - start).max() > 0
    np.testing.assert_allclose(
        numpy(crf_of(second).transitions), numpy(crf_of(first).transitions), rtol=1e-5, atol=1e-6
    )


def test_two_models_in_one_process(rng, tmp_path):
    x, y = models.data(rng)
    pairs = [models.compiled_tagger(lr_multiplier=m) for m in (1, 50)]
    for index, (model, _) in enumerate(pairs):
        fit_on(model, x, y)
        model.save(tmp_path / f"{index}.keras")
    for index, (model, _) in enumerate(pairs):
        again = keras.models.load_model(tmp_path / f"{index}.keras")
        assert again.evaluate(x, y, verbose=0) == model.evaluate(x, y, verbose=0)


def test_a_clone_has_its_own_loss(trained):
    model, crf, _, x, y = trained
    clone = keras.models.clone_model(model)
    clone.set_weights(model.get_weights())
    layer = crf_of(clone)
    assert layer is not crf
    clone.compile("adam", loss=layer.sparse_loss, metrics=[layer.viterbi_accuracy])
    start, original = numpy(layer.transitions), numpy(crf.transitions)
    np.testing.assert_allclose(clone.evaluate(x, y, verbose=0)[0],
                               model.evaluate(x, y, verbose=0)[0], rtol=1e-6)  # fmt: skip
    fit_on(clone, x, y)
    assert np.abs(numpy(layer.transitions) - start).max() > 0
    np.testing.assert_array_equal(numpy(crf.transitions), original)


def test_a_compile_config_that_may_mean_two_layers_is_refused(trained):
    """Model and clone have a CRF of one key and name: neither is guessed."""
    model, _, _, x, y = trained
    clone = keras.models.clone_model(model)
    for compiled in (clone, model):
        compiled.compile_from_config(model.get_compile_config())
        with pytest.raises(ValueError, match="2 layers that may be meant exist"):
            fit_on(compiled, x, y)
        model.compile("adam", loss=crf_of(model).sparse_loss)


def test_copied_layers_in_one_model_keep_their_own_losses(rng, tmp_path):
    """As in ensembles: two layers with one key, told apart by their names."""
    inputs = keras.Input((7, 4))
    first = ConditionalRandomField(name="first")
    second = ConditionalRandomField.from_config({**first.get_config(), "name": "second"})
    model = keras.Model(inputs, {"a": first(inputs), "b": second(inputs)})
    model.compile("sgd", loss={"a": first.sparse_loss, "b": second.sparse_loss})
    x, y = rng.normal(size=(8, 7, 4)), rng.integers(0, 4, (8, 7))
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    labels = {"a": y, "b": y}
    np.testing.assert_allclose(
        again.evaluate(x, labels, verbose=0), model.evaluate(x, labels, verbose=0), rtol=1e-6
    )
    for name in ("first", "second"):
        start = numpy(again.get_layer(name).transitions)
        again.fit(x, labels, verbose=0)
        assert np.abs(numpy(again.get_layer(name).transitions) - start).max() > 0


@keras.saving.register_keras_serializable("tests")
class Subclassed(keras.Model):
    """Builds its layers itself, so that no config of the CRF is kept."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.embedding = keras.layers.Embedding(models.VOCABULARY, 8, mask_zero=True)
        self.dense = keras.layers.Dense(models.LABELS)
        self.crf = ConditionalRandomField()

    def call(self, x):
        return self.crf(self.dense(self.embedding(x)))


@pytest.mark.parametrize("original_lives", [True, False])
def test_a_subclassed_model_finds_its_own_layer(rng, tmp_path, original_lives):
    x, y = models.data(rng)
    model = Subclassed()
    model(x[:1])
    metrics = [model.crf.viterbi_accuracy]
    model.compile("adam", loss=model.crf.sparse_loss, metrics=metrics)
    model.fit(x, y, epochs=1, verbose=0)
    model.save(tmp_path / "model.keras")
    expected = model.evaluate(x, y, verbose=0)
    if not original_lives:
        del model, metrics
        gc.collect()
    loaded = [keras.models.load_model(tmp_path / "model.keras") for _ in range(2)]
    for again in loaded:
        assert again.loss._binding.layer() is again.crf
        np.testing.assert_allclose(again.evaluate(x, y, verbose=0), expected, rtol=1e-6)
    start = [numpy(again.crf.transitions) for again in loaded]
    loaded[0].fit(x, y, epochs=1, verbose=0)
    assert np.abs(numpy(loaded[0].crf.transitions) - start[0]).max() > 0
    np.testing.assert_array_equal(numpy(loaded[1].crf.transitions), start[1])


@pytest.mark.parametrize("suffix", [".weights.h5", ".keras"])
def test_weights_saved_at_multiplier_1000_load_at_1(rng, tmp_path, suffix):
    x, _ = models.data(rng)
    model, crf = models.tagger(lr_multiplier=1000)
    crf._start_scores.assign(rng.normal(size=4))
    path = tmp_path / f"model{suffix}"
    model.save_weights(path) if "weights" in suffix else model.save(path)
    other, plain = models.tagger(lr_multiplier=1)
    other.load_weights(path)
    for saved, loaded in zip(crf.scores(), plain.scores(), strict=True):
        np.testing.assert_allclose(numpy(loaded), numpy(saved), rtol=1e-6)
    np.testing.assert_array_equal(
        numpy(plain.decode(other.predict(x, verbose=0))),
        numpy(crf.decode(model.predict(x, verbose=0))),
    )


def test_the_boundary_and_the_number_of_labels_must_fit(tmp_path):
    model, _ = models.tagger(use_boundary=False)
    path = tmp_path / "model.weights.h5"
    model.save_weights(path)
    other, _ = models.tagger(use_boundary=True)
    with pytest.raises(ValueError, match="`use_boundary` it was saved with"):
        other.load_weights(path)


FRESH = """
import sys, numpy as np, keras, keras_crf
model = keras.models.load_model(sys.argv[1])
data = np.load(sys.argv[2])
results = model.evaluate(data["x"], data["y"], verbose=0)
emissions = model.predict(data["x"], verbose=0)
crf = model.layers[-1]
tags = keras.ops.convert_to_numpy(crf.decode(emissions))
model.fit(data["x"], data["y"], epochs=2, batch_size=16, verbose=0, shuffle=False)
trans = keras.ops.convert_to_numpy(crf.transitions)
np.savez(sys.argv[3], results=results, emissions=emissions, tags=tags, trans=trans)
"""


def backends():
    """This backend, and the others that are installed here."""
    found = [BACKEND]
    for name in ("tensorflow", "jax", "torch"):
        installed = subprocess.run([sys.executable, "-c", f"import {name}"], capture_output=True)
        if name != BACKEND and installed.returncode == 0:
            found.append(name)
    return found


@pytest.mark.parametrize("backend", backends())
def test_a_fresh_process_needs_only_the_import(trained, tmp_path, backend):
    """No custom_objects; compiled; the same numbers, and training goes on where it stopped."""
    model, crf, path, x, y = trained
    inputs, outputs = tmp_path / "in.npz", tmp_path / "out.npz"
    np.savez(inputs, x=x, y=y)
    environment = {**os.environ, "KERAS_BACKEND": backend}
    command = [sys.executable, "-c", FRESH, str(path), str(inputs), str(outputs)]
    subprocess.run(command, check=True, env=environment, capture_output=True)
    got = np.load(outputs)
    np.testing.assert_allclose(got["results"], model.evaluate(x, y, verbose=0), rtol=1e-5)
    emissions = model.predict(x, verbose=0)
    np.testing.assert_allclose(got["emissions"], emissions, atol=1e-5)
    np.testing.assert_array_equal(got["tags"], numpy(crf.decode(emissions)))
    fit_on(model, x, y)
    np.testing.assert_allclose(got["trans"], numpy(crf.transitions), atol=1e-4)


def test_several_heads_survive_saving(rng, tmp_path):
    inputs = keras.Input((7,), dtype="int32")
    features = keras.layers.Embedding(models.VOCABULARY, 8, mask_zero=True)(inputs)
    heads = {name: ConditionalRandomField(name=name) for name in ("words", "types")}
    outputs = {
        "words": heads["words"](keras.layers.Dense(4)(features)),
        "types": heads["types"](keras.layers.Dense(6)(features)),
    }
    model = keras.Model(inputs, outputs)
    model.compile("adam", loss={name: head.sparse_loss for name, head in heads.items()})
    x, y = models.data(rng)
    labels = {"words": y, "types": x % 6}
    model.fit(x, labels, epochs=1, verbose=0)
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(
        again.evaluate(x, labels, verbose=0), model.evaluate(x, labels, verbose=0), rtol=1e-6
    )
    start = numpy(again.get_layer("types").transitions)
    again.fit(x, labels, epochs=1, verbose=0)
    assert np.abs(numpy(again.get_layer("types").transitions) - start).max() > 0


def test_a_tagging_model_is_saved_like_any_other(trained, tmp_path):
    model, crf, _, x, _ = trained
    tagger = keras.Model(model.input, crf(model.layers[-2].output, mask=None, output="tags"))
    tagger.save(tmp_path / "tagger.keras")
    again = keras.models.load_model(tmp_path / "tagger.keras")
    np.testing.assert_array_equal(again.predict(x, verbose=0), tagger.predict(x, verbose=0))


def test_a_loss_without_its_layer_says_so():
    crf = ConditionalRandomField()
    crf.build((None, None, 2))
    config = keras.losses.serialize(crf.sparse_loss)
    assert keras.losses.deserialize(config)._binding.layer() is crf
    del crf
    gc.collect()
    with pytest.raises(ValueError, match="0 layers that may be meant exist"):
        keras.losses.deserialize(config)._binding.layer()


def test_registered_names_are_frozen():
    """Files refer to these names: changing one breaks every saved model."""
    from keras_crf import losses, metrics

    for cls in (
        keras_crf.ConditionalRandomField,
        losses.SparseLoss,
        losses.DenseLoss,
        losses.PartialLoss,
        metrics.SparseAccuracy,
        metrics.DenseAccuracy,
        metrics.ViterbiAccuracy,
    ):
        name = keras.saving.get_registered_name(cls)
        assert name == f"keras_crf>{cls.__name__}"
        assert keras.saving.get_registered_object(name) is cls


@pytest.mark.parametrize("name", ["golden-0.1"])
def test_a_file_of_an_earlier_version_loads_on_every_backend(name):
    """Written once on TensorFlow by tests/golden.py; compiled, evaluated, decoded, trained on."""
    expected = json.loads((golden.DATA / f"{name}.json").read_text())
    model = keras.models.load_model(golden.DATA / f"{name}.keras")
    x, y = np.array(golden.IDS), np.array(golden.TAGS)
    results = model.evaluate(x, y, verbose=0, return_dict=True)
    assert results == pytest.approx(expected["evaluation"], rel=1e-4)
    crf = crf_of(model)
    np.testing.assert_allclose(numpy(crf.transitions), expected["transitions"], rtol=1e-5)
    np.testing.assert_array_equal(numpy(crf.decode(model.predict(x, verbose=0))), expected["tags"])
    model.fit(x, y, epochs=1, verbose=0)
    assert np.abs(numpy(crf.transitions) - expected["transitions"]).max() > 0
