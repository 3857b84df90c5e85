"""What a CRF knows beyond its best path, against enumeration: on every mask, with constraints."""

import enumeration
import numpy as np
import pytest
from backend import compiled, numpy, tensor, value_and_gradients
from hypothesis import given
from keras import ops
from problems import INF, Problem, problems

from keras_crf import chains, linear_chain


def numeric_gradients(function, arrays, step=1e-5):
    """Central differences of a float64 function, for finite entries only."""
    gradients = []
    for index, array in enumerate(arrays):
        gradient = np.zeros(array.shape)
        for place in np.argwhere(np.isfinite(array)):
            values = []
            for sign in (1, -1):
                moved = [np.array(part, "float64") for part in arrays]
                moved[index][tuple(place)] += sign * step
                values.append(function(*moved))
            gradient[tuple(place)] = (values[0] - values[1]) / (2 * step)
        gradients.append(gradient)
    return gradients


def total_over_chains(problem, method, *args):
    """Sum over the batch of a method of the oracle, as a function of the scores."""

    def total(*scores):
        moved = Problem(*scores, problem.mask, problem.tags)
        return sum(getattr(chain, method)(*args) for chain in moved.chains())

    return total


# --- Entropy ---


@given(problems())
def test_entropy(problem):
    value = numpy(linear_chain.entropy(*problem.scores, problem.mask))
    expected = [chain.entropy() for chain in problem.chains()]
    np.testing.assert_allclose(value, expected, atol=1e-4)
    assert np.all(value >= 0)


@pytest.mark.parametrize("forbid", [False, True])
def test_gradient_of_entropy_agrees_with_finite_differences(rng, forbid):
    problem = Problem.random(rng, 3, 4, 3)
    problem = problem.forbid(rng) if forbid else problem

    def total(*scores):
        return ops.sum(linear_chain.entropy(*scores, mask=problem.mask))

    _, gradients = value_and_gradients(total, *problem.scores)
    expected = numeric_gradients(total_over_chains(problem, "entropy"), problem.scores)
    for gradient, wanted in zip(gradients, expected, strict=True):
        np.testing.assert_allclose(gradient, wanted, atol=2e-4)


def test_entropy_of_uniform_and_of_certain_paths():
    uniform = linear_chain.entropy(np.zeros((1, 7, 3)), np.zeros((3, 3)))
    np.testing.assert_allclose(numpy(uniform), 7 * np.log(3), rtol=1e-6)
    certain = np.where(np.eye(3)[[[0, 1, 2, 0]]] > 0, 500.0, 0)
    np.testing.assert_allclose(numpy(linear_chain.entropy(certain, np.zeros((3, 3)))), 0, atol=1e-5)


# --- Kullback-Leibler divergence ---


def two(problem, rng):
    """A second problem over the same lattice, with the same forbidden entries."""
    moved = [part + rng.normal(size=part.shape).astype("float32") for part in problem.scores]
    return Problem(*moved, problem.mask, problem.tags)


@given(problems())
def test_kl_divergence(problem):
    rng = np.random.default_rng(3)
    other = two(problem, rng)
    value = numpy(linear_chain.kl_divergence(problem.scores, other.scores, problem.mask))
    pairs = zip(problem.chains(), other.chains(), strict=True)
    expected = np.array([p.kl_divergence(q) for p, q in pairs])
    np.testing.assert_allclose(value, expected, atol=2e-4)
    assert np.all(value >= 0)
    itself = numpy(linear_chain.kl_divergence(problem.scores, problem.scores, problem.mask))
    np.testing.assert_allclose(itself, 0, atol=1e-5)


def test_gradients_of_kl_divergence_agree_with_finite_differences(rng):
    problem = Problem.random(rng, 2, 3, 3)
    other = two(problem, rng)

    def total(*scores):
        return ops.sum(linear_chain.kl_divergence(scores[:4], scores[4:], mask=problem.mask))

    def oracle(*scores):
        p = Problem(*scores[:4], problem.mask, problem.tags).chains()
        q = Problem(*scores[4:], problem.mask, problem.tags).chains()
        return sum(a.kl_divergence(b) for a, b in zip(p, q, strict=True))

    scores = (*problem.scores, *other.scores)
    _, gradients = value_and_gradients(total, *scores)
    for gradient, wanted in zip(gradients, numeric_gradients(oracle, scores), strict=True):
        np.testing.assert_allclose(gradient, wanted, atol=2e-4)


def test_kl_divergence_is_infinite_where_q_forbids(rng):
    p = Problem.random(rng, 1, 3, 2, mask=np.ones((1, 3)))
    forbidding = p.scores[0].copy()
    forbidding[0, 1, 0] = -INF
    q = (forbidding, *p.scores[1:])
    assert numpy(linear_chain.kl_divergence(p.scores, q)) == INF
    assert np.isfinite(numpy(linear_chain.kl_divergence(q, p.scores)))


# --- Marginals in a loss ---


@pytest.mark.parametrize("scale", [1.0, 100.0])
def test_gradient_of_marginals_agrees_with_finite_differences(rng, scale):
    problem = Problem.random(rng, 2, 4, 3, scale)
    weights = rng.normal(size=(2, 4, 3))

    def total(*scores):
        marginals = linear_chain.marginals(*scores, mask=problem.mask)
        return ops.sum(marginals * tensor(weights))

    def oracle(*scores):
        chains_ = Problem(*scores, problem.mask, problem.tags).chains()
        return sum(np.sum(c.marginals() * w) for c, w in zip(chains_, weights, strict=True))

    _, gradients = value_and_gradients(total, *problem.scores)
    expected = numeric_gradients(oracle, problem.scores)
    for gradient, wanted in zip(gradients, expected, strict=True):
        np.testing.assert_allclose(gradient, wanted, atol=2e-4)


# --- Partial labels ---


@given(problems())
def test_partial_labels(problem):
    """Random sets that hold the gold label."""
    rng = np.random.default_rng(5)
    k = problem.scores[0].shape[-1]
    sets = np.eye(k, dtype=bool)[problem.tags] | (rng.random((*problem.tags.shape, k)) < 0.4)
    emissions, *rest = problem.scores
    value = numpy(linear_chain.partial_log_likelihood(emissions, sets, *rest, problem.mask))
    pairs = zip(problem.chains(), sets, strict=True)
    expected = [chain.partial_loss(allowed) for chain, allowed in pairs]
    np.testing.assert_allclose(-value, expected, atol=1e-4)


def test_one_hot_sets_full_sets_and_empty_sets(rng):
    problem = Problem.random(rng, 3, 4, 3).forbid(rng)
    emissions, *rest = problem.scores

    def value(sets):
        return numpy(linear_chain.partial_log_likelihood(emissions, sets, *rest, problem.mask))

    np.testing.assert_allclose(-value(np.eye(3)[problem.tags]), problem.losses(), atol=1e-4)
    np.testing.assert_array_equal(value(np.ones((3, 4, 3))), 0)
    empty = np.ones((3, 4, 3))
    row, position = np.argwhere(problem.mask)[0]
    empty[row, position] = 0
    assert np.isnan(value(empty)[row])
    assert np.isfinite(np.delete(value(empty), row)).all()


def test_gradient_of_partial_labels_agrees_with_finite_differences(rng):
    problem = Problem.random(rng, 2, 4, 3)
    sets = np.eye(3, dtype=bool)[problem.tags] | (rng.random((2, 4, 3)) < 0.4)

    def total(emissions, *rest):
        return -ops.sum(
            linear_chain.partial_log_likelihood(emissions, sets, *rest, mask=problem.mask)
        )

    def oracle(*scores):
        rows = zip(Problem(*scores, problem.mask, problem.tags).chains(), sets, strict=True)
        return sum(chain.partial_loss(allowed) for chain, allowed in rows)

    _, gradients = value_and_gradients(total, *problem.scores)
    for gradient, wanted in zip(gradients, numeric_gradients(oracle, problem.scores), strict=True):
        np.testing.assert_allclose(gradient, wanted, atol=2e-4)


def test_sets_of_forbidden_labels_leave_no_path(rng):
    emissions = rng.normal(size=(1, 3, 3))
    emissions[0, 1, 2] = -INF
    sets = np.ones((1, 3, 3))
    sets[0, 1] = [0, 0, 1]
    value = linear_chain.partial_log_likelihood(emissions, sets, np.zeros((3, 3)))
    assert numpy(value) == -INF


@pytest.mark.parametrize("scale", [1.0, 8.0])
def test_entropy_keeps_its_digits_on_long_chains(rng, scale):
    """Against the chain rule: the sum of local entropies, in float64."""
    t, k = 2000, 5
    emissions = rng.normal(size=(1, t, k)) * scale
    transitions = rng.normal(size=(k, k))
    none = np.zeros(k)
    beta = np.zeros((t, k))
    for i in reversed(range(t - 1)):
        beta[i] = np.logaddexp.reduce(transitions + emissions[0, i + 1] + beta[i + 1], axis=1)
    marginals = enumeration.long_marginals(emissions[0], transitions, none, none)
    logits = transitions[None] + (emissions[0] + beta)[1:, None, :]
    steps = np.exp(logits - np.logaddexp.reduce(logits, axis=2, keepdims=True))
    local = -np.sum(steps * np.log(np.maximum(steps, 1e-300)), axis=2)
    first = -np.sum(marginals[0] * np.log(marginals[0]))
    expected = first + np.sum(marginals[:-1] * local)
    value = numpy(linear_chain.entropy(emissions, transitions))[0]
    np.testing.assert_allclose(value, expected, rtol=2e-6)


# --- The n best ---


@pytest.mark.parametrize("n", [1, 3, 10])
@given(problem=problems())
def test_n_best(problem, n):
    emissions, transitions, *boundary = problem.scores
    paths, scores = linear_chain.n_best(emissions, transitions, n, *boundary, problem.mask)
    paths, scores = numpy(paths), numpy(scores)
    assert paths.shape == (len(emissions), n, emissions.shape[1])
    for row, chain in enumerate(problem.chains()):
        expected = chain.n_best(n)
        np.testing.assert_allclose(scores[row], expected, rtol=1e-5, atol=1e-4)
        found = paths[row][scores[row] > -INF]
        assert len({tuple(path) for path in found}) == len(found), "a path came twice"
        assert np.all(found[:, ~chain.keep] == -1)
        assert np.all(paths[row][scores[row] == -INF] == -1)
        for path, score in zip(found, scores[row], strict=False):
            np.testing.assert_allclose(chain.log_z - chain.loss(path), score, rtol=1e-5, atol=1e-4)


def test_the_first_of_the_n_best_is_the_viterbi_path_ties_included(rng):
    """Whole numbers make ties; thirds make sums that round differently in another order."""
    emissions = (rng.integers(-1, 2, (200, 30, 3)) / 3).astype("float32")
    transitions = (rng.integers(-1, 2, (3, 3)) / 3).astype("float32")
    mask = rng.random((200, 30)) < 0.8
    paths, _ = linear_chain.n_best(emissions, transitions, 4, mask=mask)
    best = numpy(linear_chain.viterbi(emissions, transitions, mask=mask))
    np.testing.assert_array_equal(numpy(paths)[:, 0], best)
    for row, keep in zip(numpy(paths), mask, strict=True):
        assert len({tuple(path) for path in row}) == min(4, 3 ** keep.sum())


def test_n_must_be_positive():
    with pytest.raises(ValueError, match="`n` must be 1 or more"):
        linear_chain.n_best(np.zeros((1, 2, 2)), np.zeros((2, 2)), 0)


# --- Samples ---


@pytest.mark.parametrize("scale", [1.0, 60.0])
def test_sampling_frequencies_match_path_probabilities(rng, scale):
    """Each of the few paths is as frequent as it is probable, within five standard errors."""
    n = 20000
    problem = Problem.random(rng, 2, 3, 2, scale, mask=[[1, 1, 1], [1, 0, 1]])
    emissions, transitions, *boundary = problem.scores
    samples = numpy(linear_chain.sample(emissions, transitions, n, *boundary, problem.mask, seed=1))
    assert samples.shape == (2, n, 3)
    for row, chain in enumerate(problem.chains()):
        assert np.all(samples[row][:, ~chain.keep] == -1)
        drawn = samples[row][:, chain.keep]
        for path, p in zip(chain.paths, chain.probabilities, strict=True):
            share = np.mean(np.all(drawn == path, axis=1))
            assert abs(share - p) <= 5 * np.sqrt(p * (1 - p) / n) + 1e-9


def test_sampling_is_seeded_and_obeys_forbidden_entries(rng):
    problem = Problem.random(rng, 3, 5, 3).forbid(rng)
    emissions, transitions, *boundary = problem.scores

    def draw(seed):
        return numpy(
            linear_chain.sample(emissions, transitions, 50, *boundary, problem.mask, seed=seed)
        )

    np.testing.assert_array_equal(draw(3), draw(3))
    assert np.any(draw(3) != draw(4))
    for chain, paths in zip(problem.chains(), draw(3), strict=True):
        assert all(np.isfinite(chain.loss(path)) for path in paths)


# --- The reach of constraints ---


def bio(types=2):
    """Allowed transitions of O, B-1, I-1, B-2, ...: I follows B or I of its own type."""
    k = 1 + 2 * types
    allowed = np.ones((k, k), bool)
    for inside in range(2, k, 2):
        allowed[:, inside] = False
        allowed[[inside - 1, inside], inside] = True
    return allowed


@pytest.mark.parametrize(("scale", "safe"), [(1.0, True), (12.0, False)])
def test_constraints_within_reach_take_the_scaled_recursion(rng, scale, safe):
    allowed = bio()
    problem = Problem.random(rng, 3, 5, 5, scale, mask=rng.random((3, 5)) < 0.8)
    emissions, transitions, start, end = problem.scores
    transitions = np.where(allowed, transitions, -INF)
    start = np.where([1, 1, 0, 1, 0], start, -INF)
    constrained = Problem(emissions, transitions, start, end, problem.mask, None)
    chain = chains.shift(chains.fold(*constrained.scores, problem.mask), reach=2)
    assert bool(numpy(chain.safe)) == safe
    assert not bool(numpy(chains.shift(chains.fold(*constrained.scores, problem.mask)).safe))
    expected = [c.log_z for c in constrained.chains()]
    value = linear_chain.log_partition(*constrained.scores, problem.mask, reach=2)
    np.testing.assert_allclose(numpy(value), expected, rtol=1e-5, atol=1e-4)
    marginals = linear_chain.marginals(*constrained.scores, problem.mask, reach=2)
    expected = np.stack([c.marginals() for c in constrained.chains()])
    np.testing.assert_allclose(numpy(marginals), expected, atol=2e-5)


def test_forbidden_labels_switch_the_reach_off(rng):
    """The one label left at a position is far below: by the table it would be within reach."""
    allowed = bio(1)  # O, B, I
    emissions = np.zeros((1, 3, 3), "float32")
    emissions[0, 0] = [0, -70, -INF]
    emissions[0, 1] = [-INF, -INF, 0]
    transitions = np.where(allowed, 0.0, -INF)
    chain = enumeration.Chain(emissions[0], transitions)
    value = linear_chain.log_partition(emissions, transitions, reach=2)
    np.testing.assert_allclose(numpy(value), chain.log_z, rtol=1e-6)


# --- Every way of running ---


DISTRIBUTION = {
    "entropy": lambda e, T, s, q, m: linear_chain.entropy(e, T, s, q, m),
    "kl": lambda e, T, s, q, m: linear_chain.kl_divergence((e, T, s, q), (e * 2, T, s, q), m),
    "partial": lambda e, T, s, q, m: linear_chain.partial_log_likelihood(e, e > -1, T, s, q, m),
    "n_best": lambda e, T, s, q, m: linear_chain.n_best(e, T, 3, s, q, m)[0],
    "n_best_scores": lambda e, T, s, q, m: linear_chain.n_best(e, T, 3, s, q, m)[1],
    "sample": lambda e, T, s, q, m: linear_chain.sample(e, T, 3, s, q, m, seed=2),
}


@pytest.mark.parametrize("jit_compile", [True, False])
@pytest.mark.parametrize("name", DISTRIBUTION)
def test_compiled_equals_eager(rng, name, jit_compile):
    problem = Problem.random(rng, 3, 4, 3)
    args = [tensor(part) for part in problem.scores] + [tensor(problem.mask, "bool")]
    function = DISTRIBUTION[name]
    if name == "sample" and jit_compile:  # XLA has random numbers of its own
        run = compiled(function)
        np.testing.assert_array_equal(numpy(run(*args)), numpy(run(*args)))
        return
    np.testing.assert_allclose(
        numpy(compiled(function, jit_compile)(*args)), numpy(function(*args)), atol=1e-4
    )


@pytest.mark.parametrize("t", [0, 1])
@pytest.mark.parametrize("name", DISTRIBUTION)
def test_short_time_axes(rng, name, t):
    problem = Problem.random(rng, 2, t, 3)
    args = [tensor(part) for part in problem.scores] + [tensor(problem.mask, "bool")]
    value = numpy(DISTRIBUTION[name](*args))
    shape = {"n_best": (2, 3, t), "n_best_scores": (2, 3), "sample": (2, 3, t)}.get(name, (2,))
    assert value.shape == shape
