"""Fifteen situations in which CRF layers are known to go wrong, at the level of the layer.

Each case is right when the loss, its gradients (all finite) and the tags equal enumeration.
"""

import enumeration
import keras
import numpy as np
import pytest
from backend import numpy, tensor, value_and_gradients
from keras import ops

import keras_crf
from keras_crf import linear_chain

LENGTHS = (5, 3, 1, 4)


def right_padding(lengths=LENGTHS, t=5):
    return np.arange(t) < np.array(lengths)[:, None]


def holes(rng):
    mask = rng.random((4, 5)) < 0.6
    mask[:, 2] = [True, False, True, False]
    return mask


class Case:
    """Emissions, mask and tags of one situation; the scores are those of the layer."""

    def __init__(self, rng, mask, k=3):
        self.mask = np.asarray(mask, bool)
        self.emissions = rng.normal(size=(*self.mask.shape, k)).astype("float32") * 1.5
        self.tags = rng.integers(0, k, self.mask.shape)
        self.transitions = rng.normal(size=(k, k)).astype("float32")
        self.start, self.end = rng.normal(size=(2, k)).astype("float32")

    def padded_with(self, value):
        self.emissions[~self.mask] = value
        return self

    def with_tags_in_padding(self, value):
        self.tags[~self.mask] = value
        return self

    def forbid_transitions(self, rng):
        self.tags = np.arange(self.tags.shape[1]) % 2 + 0 * self.tags  # leaves many pairs free
        used = np.zeros(self.transitions.shape, bool)
        for tags, mask in zip(self.tags, self.mask, strict=True):
            used[tags[mask][:-1], tags[mask][1:]] = True
        self.transitions[(rng.random(used.shape) < 0.6) & ~used] = -np.inf
        assert np.isinf(self.transitions).any()
        return self

    def forbid_labels(self, rng):
        gold = np.eye(self.emissions.shape[-1], dtype=bool)[self.tags]
        self.emissions[(rng.random(gold.shape) < 0.4) & ~gold] = -np.inf
        assert np.isinf(self.emissions).any()
        return self

    def times(self, factor):
        self.emissions *= factor
        return self


CASES = {
    "right_pad": lambda rng: Case(rng, right_padding()),
    "full_len": lambda rng: Case(rng, np.ones((4, 5))),
    "L1": lambda rng: Case(rng, np.ones((4, 1))),
    "B1": lambda rng: Case(rng, np.ones((1, 5))),
    "pad_emissions_1e30": lambda rng: Case(rng, right_padding()).padded_with(1e30),
    "pad_emissions_nan": lambda rng: Case(rng, right_padding()).padded_with(np.nan),
    "pad_emissions_inf": lambda rng: Case(rng, right_padding()).padded_with(np.inf),
    "pad_tags_-100": lambda rng: Case(rng, right_padding()).with_tags_in_padding(-100),
    "mask_holes": lambda rng: Case(rng, holes(rng)),
    "left_pad": lambda rng: Case(rng, right_padding()[:, ::-1]),
    "empty_row": lambda rng: Case(rng, right_padding((5, 0, 3, 0))),
    "transition_-inf": lambda rng: Case(rng, right_padding()).forbid_transitions(rng),
    "emission_-inf": lambda rng: Case(rng, right_padding()).forbid_labels(rng),
    "emission_x1e4": lambda rng: Case(rng, right_padding()).times(1e4),
}


def layer_of(case, **kwargs):
    crf = keras_crf.ConditionalRandomField(**kwargs)
    crf.build(case.emissions.shape)
    for name in ("transitions", "start", "end"):
        weight = crf._transitions if name == "transitions" else getattr(crf, f"_{name}_scores")
        weight.assign(getattr(case, name) / crf.lr_multiplier)
    return crf


@pytest.mark.parametrize("name", CASES)
def test_loss_gradients_and_tags(rng, name):
    case = CASES[name](rng)
    crf = layer_of(case)
    scores = (case.transitions, case.start, case.end)
    chains = [
        enumeration.Chain(np.where(keep[:, None], row, 0), *scores, keep=keep)
        for row, keep in zip(case.emissions, case.mask, strict=True)
    ]
    expected = np.array([c.loss(tags) for c, tags in zip(chains, case.tags, strict=True)])

    losses = -numpy(crf.log_probability(case.emissions, case.tags, case.mask))
    np.testing.assert_allclose(losses, expected, rtol=1e-5, atol=1e-4)
    loss = crf.sparse_loss(case.tags, crf(tensor(case.emissions), mask=case.mask))
    np.testing.assert_allclose(numpy(loss), expected.mean(), rtol=1e-5, atol=1e-4)

    tags = numpy(crf.decode(case.emissions, mask=case.mask))
    for row, chain in enumerate(chains):
        assert tags[row][case.mask[row]].tolist() == list(chain.best_path())
    assert np.all(tags[~case.mask] == crf.pad_value)

    gradients = gradients_of(case)
    wanted = [c.loss_gradients(tags) for c, tags in zip(chains, case.tags, strict=True)]
    np.testing.assert_allclose(gradients[0], np.stack([w[0] for w in wanted]), atol=1e-4)
    for index in (1, 2, 3):
        np.testing.assert_allclose(gradients[index], sum(w[index] for w in wanted), atol=1e-4)


def gradients_of(case):
    def total(emissions, *scores):
        return -ops.sum(linear_chain.log_likelihood(emissions, case.tags, *scores, case.mask))

    scores = (case.emissions, case.transitions, case.start, case.end)
    _, gradients = value_and_gradients(total, *scores)
    assert all(np.all(np.isfinite(gradient)) for gradient in gradients)
    return gradients


@pytest.mark.parametrize("mask", [right_padding()[1], right_padding()[1][::-1]])
def test_sum_to_one(rng, mask):
    """The probabilities of all paths of one sequence sum to one."""
    case = Case(rng, mask[None])
    paths = np.zeros((3 ** mask.sum(), 5), int)
    paths[:, mask] = enumeration.paths(mask.sum(), 3)
    emissions = np.repeat(case.emissions, len(paths), axis=0)
    masks = np.repeat(case.mask, len(paths), axis=0)
    value = layer_of(case).log_probability(emissions, paths, masks)
    np.testing.assert_allclose(np.exp(numpy(value).astype("float64")).sum(), 1, atol=1e-5)


def test_L600_K21(rng):
    case = Case(rng, np.ones((1, 600)), k=21)
    scores = (case.transitions, case.start, case.end)
    log_z = enumeration.long_log_partition(case.emissions[0], *scores)
    score = enumeration.score(case.emissions[0].astype("float64"), *scores, case.tags[0])
    loss = -numpy(layer_of(case).log_probability(case.emissions, case.tags))[0]
    np.testing.assert_allclose(loss, log_z - score, rtol=1e-6)
    expected = enumeration.long_marginals(case.emissions[0], *scores)
    expected[np.arange(600), case.tags[0]] -= 1
    np.testing.assert_allclose(gradients_of(case)[0][0], expected, atol=5e-6)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision_inputs_are_computed_in_float32(rng, dtype):
    """Loss, tags, marginals and gradients are those of the rounded emissions in float32."""
    case = Case(rng, right_padding())
    half = ops.cast(tensor(case.emissions), dtype)
    case.emissions = numpy(ops.cast(half, "float32"))
    crf = layer_of(case)
    for value in (
        lambda e: crf.log_probability(e, case.tags, case.mask),
        lambda e: crf.decode(e, mask=case.mask),
        lambda e: crf.marginals(e, mask=case.mask),
        lambda e: crf(e, mask=case.mask),
    ):
        assert numpy(value(half)).dtype in (np.float32, np.int32)
        np.testing.assert_array_equal(numpy(value(half)), numpy(value(case.emissions)))

    def total(emissions):
        emissions = ops.cast(emissions, dtype)
        return -ops.sum(crf.log_probability(emissions, case.tags, case.mask))

    _, (gradient,) = value_and_gradients(total, case.emissions)
    np.testing.assert_allclose(gradient, gradients_of(case)[0], atol=0.01)


@pytest.mark.parametrize("lr_multiplier", [1.0, 100.0])
def test_gradients_reach_the_stored_weights_unscaled(rng, lr_multiplier):
    """One step of SGD at rate 1 shows the gradient; it is that of the effective scores."""
    case = Case(rng, right_padding())
    inputs = keras.Input(case.emissions.shape[1:])
    crf = layer_of(case, lr_multiplier=lr_multiplier)
    model = keras.Model(inputs, crf(inputs))
    model.compile(keras.optimizers.SGD(1.0), loss=crf.sparse_loss)
    emissions = np.where(case.mask[..., None], case.emissions, -np.inf)
    before = [numpy(weight) for weight in crf.weights]
    model.fit(emissions, case.tags, batch_size=4, verbose=0)
    for index, (start, weight) in enumerate(zip(before, crf.weights, strict=True), start=1):
        expected = gradients_of(case)[index] / len(case.tags)
        np.testing.assert_allclose(start - numpy(weight), expected, atol=2e-5)
