"""The mathematics against enumeration, over masks, boundaries and forbidden labels."""

import enumeration
import numpy as np
import pytest
from backend import BACKEND, compiled, numpy, tensor, value_and_gradients
from hypothesis import given
from keras import ops
from problems import Problem, problems

from keras_crf import chains, linear_chain

INF = np.inf


def library_losses(problem):
    return -numpy(linear_chain.log_likelihood(
        tensor(problem.scores[0]), problem.tags, *problem.scores[1:], mask=problem.mask
    ))  # fmt: skip


def library_gradients(problem):
    def loss(emissions, transitions, start, end):
        return -ops.sum(linear_chain.log_likelihood(
            emissions, problem.tags, transitions, start, end, problem.mask
        ))  # fmt: skip

    return value_and_gradients(loss, *problem.scores)


def check_against_enumeration(problem, tolerance=2e-5):
    np.testing.assert_allclose(library_losses(problem), problem.losses(), atol=tolerance)
    assert np.all(library_losses(problem) >= 0)
    _, gradients = library_gradients(problem)
    for gradient, expected in zip(gradients, problem.gradients(), strict=True):
        np.testing.assert_allclose(gradient, expected, atol=tolerance)
    marginals = numpy(linear_chain.marginals(*problem.scores, problem.mask))
    expected = np.stack([chain.marginals() for chain in problem.chains()])
    np.testing.assert_allclose(marginals, expected, atol=tolerance)
    check_decoding(problem)


def check_decoding(problem):
    """The decoded path scores as high as the best one (rounding may choose between near ties)."""
    paths = numpy(linear_chain.viterbi(*problem.scores, problem.mask))
    assert paths.dtype == np.int32
    for path, chain in zip(paths, problem.chains(), strict=True):
        assert np.all(path[~chain.keep] == -1)
        best = chain.scores.max()
        assert chain.log_z - chain.loss(path) >= best - 1e-5 * max(1, abs(best))


@given(problems())
def test_everything_equals_enumeration(problem):
    check_against_enumeration(problem, tolerance=5e-5)


@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("t", [1, 2, 5])
def test_every_mask_pattern(rng, t, k):
    masks = enumeration.paths(t, 2).astype(bool)
    check_against_enumeration(Problem.random(rng, len(masks), t, k, mask=masks))


@pytest.mark.parametrize("scale", [1.0, 100.0])
def test_both_recursions_with_masks(rng, scale):
    """Scale 1 takes the scaled recursion, scale 100 the one in log space."""
    problem = Problem.random(rng, 4, 5, 3, scale)
    chain = chains.shift(chains.fold(*problem.scores, problem.mask))
    assert bool(numpy(chain.safe)) == (scale == 1.0)
    check_against_enumeration(problem, tolerance=1e-4)


@given(problems())
def test_masked_positions_are_removed(problem):
    """Equal to the sequence cut by hand, and blind to what stands at removed positions."""
    emissions, *rest = problem.scores
    polluted = emissions.copy()
    polluted[~problem.mask] = np.nan
    tags = np.where(problem.mask, problem.tags, -100)
    dirty = Problem(polluted, *rest, problem.mask, tags)
    np.testing.assert_array_equal(library_losses(dirty), library_losses(problem))
    value, gradients = library_gradients(dirty)
    assert np.isfinite(value)
    assert np.all(gradients[0][~problem.mask] == 0)
    assert all(np.all(np.isfinite(gradient)) for gradient in gradients)
    for row, keep, gold, loss in zip(
        emissions, problem.mask, problem.tags, library_losses(problem), strict=True
    ):
        if keep.any():
            cut = Problem(row[keep][None], *rest, np.ones((1, keep.sum())), gold[keep][None])
            np.testing.assert_allclose(library_losses(cut), loss, atol=5e-5)
        else:
            assert loss == 0


def test_batch_of_one_equals_its_row_in_a_padded_batch(rng):
    emissions, *rest = Problem.random(rng, 3, 6, 4).scores
    lengths = np.array([6, 4, 1])
    mask = np.arange(6) < lengths[:, None]
    together = numpy(linear_chain.log_partition(emissions, *rest, mask))
    paths = numpy(linear_chain.viterbi(emissions, *rest, mask))
    for row, n in enumerate(lengths):
        alone = (emissions[row : row + 1, :n], *rest)
        np.testing.assert_allclose(
            numpy(linear_chain.log_partition(*alone)), together[row], rtol=1e-6
        )
        np.testing.assert_array_equal(numpy(linear_chain.viterbi(*alone))[0], paths[row, :n])


@pytest.mark.parametrize("dtype", ["bool", "int8", "int64", "float32"])
def test_masks_of_any_dtype(rng, dtype):
    problem = Problem.random(rng, 3, 4, 2)
    mask = problem.mask.astype(dtype)
    value = linear_chain.log_partition(*problem.scores, mask)
    expected = [chain.log_z for chain in problem.chains()]
    np.testing.assert_allclose(numpy(value), expected, atol=1e-5)


def test_rows_of_minus_infinity_are_removed_and_single_ones_forbid(rng):
    problem = Problem.random(rng, 4, 5, 3)
    emissions, *rest = problem.scores
    in_band = np.where(problem.mask[..., None], emissions, -INF)
    np.testing.assert_array_equal(
        numpy(linear_chain.log_partition(in_band, *rest)),
        numpy(linear_chain.log_partition(emissions, *rest, problem.mask)),
    )
    forbidding = emissions.copy()
    forbidding[:, 2, 1] = -INF
    marginals = numpy(linear_chain.marginals(forbidding, *rest))
    assert np.all(marginals[:, 2, 1] == 0)
    np.testing.assert_allclose(marginals.sum(-1), 1, atol=1e-6)


def test_a_forbidden_gold_path_is_infinitely_unlikely():
    emissions = np.array([[[0.0, -INF], [0.0, 0.0]]])
    value = linear_chain.log_likelihood(emissions, [[1, 0]], np.zeros((2, 2)))
    assert numpy(value) == -INF


def test_no_legal_path_at_all():
    emissions = np.array([[[0.0, -INF], [0.0, 0.0]]])
    only_label_1 = [-INF, 0.0]
    assert numpy(linear_chain.log_partition(emissions, np.zeros((2, 2)), only_label_1)) == -INF
    value = linear_chain.log_likelihood(emissions, [[0, 0]], np.zeros((2, 2)), only_label_1)
    assert numpy(value) == -INF
    path = numpy(linear_chain.viterbi(emissions, np.zeros((2, 2)), only_label_1))
    assert np.all((path >= 0) & (path < 2))


@pytest.mark.parametrize("tag", [-1, 3, 99])
def test_a_label_out_of_range_gives_nan_and_only_in_its_sequence(rng, tag):
    problem = Problem.random(rng, 2, 3, 3, mask=np.ones((2, 3)))
    problem.tags[1, 2] = tag
    losses = library_losses(problem)
    assert np.isfinite(losses[0])
    assert np.isnan(losses[1])


def test_path_score_and_log_partition_make_the_likelihood(rng):
    problem = Problem.random(rng, 3, 4, 3)
    emissions, *rest = problem.scores
    score = numpy(linear_chain.path_score(emissions, problem.tags, *rest, problem.mask))
    log_z = numpy(linear_chain.log_partition(*problem.scores, problem.mask))
    np.testing.assert_allclose(log_z - score, problem.losses(), atol=2e-5)
    np.testing.assert_allclose(log_z, [chain.log_z for chain in problem.chains()], atol=2e-5)


def test_gradient_of_log_partition_is_the_marginals(rng):
    problem = Problem.random(rng, 3, 5, 3)

    def total(*scores):
        return ops.sum(linear_chain.log_partition(*scores, mask=problem.mask))

    _, gradients = value_and_gradients(total, *problem.scores)
    marginals = numpy(linear_chain.marginals(*problem.scores, problem.mask))
    np.testing.assert_allclose(gradients[0], marginals, atol=1e-6)
    pairs = sum(chain.expected_pairs() for chain in problem.chains())
    np.testing.assert_allclose(gradients[1], pairs, atol=2e-5)


@pytest.mark.parametrize("scale", [1.0, 100.0])
def test_gradients_follow_the_upstream_weights(rng, scale):
    problem = Problem.random(rng, 3, 4, 3, scale)
    weights = np.array([0.0, 2.0, -0.5], "float32")

    def total(*scores):
        emissions, *rest = scores
        values = linear_chain.log_likelihood(emissions, problem.tags, *rest, problem.mask)
        return ops.sum(values * tensor(weights))

    _, gradients = value_and_gradients(total, *problem.scores)
    rows = [c.loss_gradients(t) for c, t in zip(problem.chains(), problem.tags, strict=True)]
    for index, gradient in enumerate(gradients[1:], start=1):
        expected = -sum(w * row[index] for w, row in zip(weights, rows, strict=True))
        np.testing.assert_allclose(gradient, expected, atol=5e-5)
    expected = np.stack([-w * row[0] for w, row in zip(weights, rows, strict=True)])
    np.testing.assert_allclose(gradients[0], expected, atol=5e-5)


# --- Soft labels ---


def test_one_hot_weights_equal_integer_tags(rng):
    problem = Problem.random(rng, 4, 5, 3).forbid(rng)
    one_hot = np.eye(3)[problem.tags]
    emissions, *rest = problem.scores
    soft = linear_chain.log_likelihood(emissions, one_hot, *rest, problem.mask)
    np.testing.assert_allclose(-numpy(soft), library_losses(problem), atol=2e-5)


def test_soft_weights_give_the_expected_score(rng):
    problem = Problem.random(rng, 2, 3, 2, mask=np.ones((2, 3)))
    weights = rng.dirichlet(np.ones(2), (2, 3))
    emissions, *rest = problem.scores
    value = numpy(linear_chain.path_score(emissions, weights, *rest))
    for row, chain in enumerate(problem.chains()):
        chances = [np.prod(weights[row, range(3), path]) for path in chain.paths]
        np.testing.assert_allclose(value[row], np.dot(chances, chain.scores), atol=1e-5)


def test_gradient_with_respect_to_soft_weights(rng):
    """Also where a weight is zero, and next to forbidden labels that have none."""
    problem = Problem.random(rng, 2, 3, 3, mask=[[1, 1, 1], [1, 0, 1]])
    emissions, transitions, start, end = problem.scores
    emissions[0, 1, 2] = -INF
    weights = np.eye(3)[[[0, 1, 2], [2, 0, 1]]].astype("float32")

    def total(weights):
        return ops.sum(linear_chain.path_score(
            emissions, weights, transitions, start, end, problem.mask
        ))  # fmt: skip

    _, (gradient,) = value_and_gradients(total, weights)
    np.testing.assert_allclose(
        gradient[0, 0], emissions[0, 0] + start + transitions[:, 1], atol=1e-5
    )
    np.testing.assert_allclose(gradient[1, 2], emissions[1, 2] + end + transitions[2], atol=1e-5)
    assert np.all(np.isfinite(gradient))
    assert np.all(gradient[1, 1] == 0)


def test_weights_that_do_not_sum_to_one_are_taken_literally(rng):
    problem = Problem.random(rng, 3, 4, 2)
    emissions, *rest = problem.scores
    weights = rng.random((3, 4, 2)) * 3
    weights[0, 1] = 0
    value = linear_chain.log_likelihood(emissions, weights, *rest, problem.mask)
    score = linear_chain.path_score(emissions, weights, *rest, problem.mask)
    expected = numpy(score) - [chain.log_z for chain in problem.chains()]
    np.testing.assert_allclose(numpy(value), expected, atol=1e-4)


# --- Ties, ends of the range, precision ---


@pytest.mark.parametrize("k", [2, 3])
def test_ties_go_to_the_lower_label(rng, k):
    """Small whole numbers make many exact ties."""
    b, t = 64, 4
    emissions = rng.integers(-1, 2, (b, t, k)).astype("float32")
    transitions = rng.integers(-1, 2, (k, k)).astype("float32")
    start, end = rng.integers(-1, 2, (2, k)).astype("float32")
    mask = rng.random((b, t)) < 0.8
    problem = Problem(emissions, transitions, start, end, mask, None)
    paths = numpy(linear_chain.viterbi(*problem.scores, mask))
    np.testing.assert_array_equal(paths, problem.best_paths())


@pytest.mark.parametrize("t", [600, 2000])
@pytest.mark.parametrize("scale", [1.5, 1e4])
def test_long_and_large_stay_within_1e_5_of_float64(rng, t, scale):
    k = 5
    emissions = (rng.uniform(-1, 1, (1, t, k)) * scale).astype("float32")
    transitions, start, end = rng.normal(size=(k, k)), rng.normal(size=k), rng.normal(size=k)
    parts = [np.asarray(part, "float32") for part in (transitions, start, end)]
    tags = rng.integers(0, k, (1, t))
    log_z = enumeration.long_log_partition(emissions[0], *parts)
    score = enumeration.score(emissions[0].astype("float64"), *parts, tags[0])
    value, gradients = value_and_gradients(
        lambda *scores: ops.sum(linear_chain.log_partition(*scores)), emissions, *parts
    )
    np.testing.assert_allclose(value, log_z, rtol=1e-5)
    marginals = enumeration.long_marginals(emissions[0], *parts)
    np.testing.assert_allclose(gradients[0][0], marginals, atol=2e-3 if scale > 100 else 1e-5)
    likelihood = linear_chain.log_likelihood(emissions, tags, *parts)
    np.testing.assert_allclose(-numpy(likelihood), log_z - score, rtol=1e-5)


def test_the_loss_of_a_near_certain_path_keeps_its_digits():
    """Path score and log Z are both near 1e7, their difference is 0.05: nothing may cancel."""
    t, k = 1000, 3
    tags = np.arange(t)[None] % k
    emissions = np.where(np.eye(k)[tags] > 0, 1e4, 1e4 - 10.5).astype("float32")
    zeros = np.zeros((k, k))
    value = numpy(linear_chain.log_likelihood(emissions, tags, zeros))
    np.testing.assert_allclose(-value, t * np.log1p(2 * np.exp(-10.5)), rtol=1e-4)


def test_rows_with_a_single_finite_label(rng):
    problem = Problem.random(rng, 3, 5, 4, scale=1e3, mask=np.ones((3, 5)))
    emissions, *rest = problem.scores
    emissions = np.where(np.eye(4)[problem.tags] > 0, emissions, -INF)
    forced = Problem(emissions, *rest, problem.mask, problem.tags)
    np.testing.assert_array_equal(library_losses(forced), 0)
    _, gradients = library_gradients(forced)
    assert all(np.allclose(gradient, 0, atol=1e-6) for gradient in gradients)


def test_labels_far_below_the_best_do_not_underflow():
    """The only legal continuation starts 100 nats below the best label."""
    emissions = np.array([[[0.0, -100.0], [0.0, 0.0]]], "float32")
    transitions = np.array([[-INF, -INF], [0.0, 0.0]], "float32")
    value = numpy(linear_chain.log_partition(emissions, transitions))
    np.testing.assert_allclose(value, -100 + np.log(2), rtol=1e-6)


# --- Every way of running ---


ENTRY_POINTS = {
    "path_score": lambda e, y, T, s, q, m: linear_chain.path_score(e, y, T, s, q, m),
    "log_partition": lambda e, y, T, s, q, m: linear_chain.log_partition(e, T, s, q, m),
    "log_likelihood": lambda e, y, T, s, q, m: linear_chain.log_likelihood(e, y, T, s, q, m),
    "marginals": lambda e, y, T, s, q, m: linear_chain.marginals(e, T, s, q, m),
    "viterbi": lambda e, y, T, s, q, m: linear_chain.viterbi(e, T, s, q, m),
}


def arguments(rng, b=3, t=4, k=3, scale=1.5):
    problem = Problem.random(rng, b, t, k, scale)
    emissions, *rest = problem.scores
    parts = (emissions, problem.tags, *rest, problem.mask)
    dtypes = ("float32", "int32", "float32", "float32", "float32", "bool")
    return [tensor(part, dtype) for part, dtype in zip(parts, dtypes, strict=True)]


@pytest.mark.parametrize("scale", [1.5, 100.0])
@pytest.mark.parametrize("jit_compile", [True, False])
@pytest.mark.parametrize("name", ENTRY_POINTS)
def test_compiled_equals_eager(rng, name, jit_compile, scale):
    function, args = ENTRY_POINTS[name], arguments(rng, scale=scale)
    np.testing.assert_allclose(
        numpy(compiled(function, jit_compile)(*args)), numpy(function(*args)), atol=1e-4
    )


@pytest.mark.parametrize("t", [0, 1])
@pytest.mark.parametrize("name", ENTRY_POINTS)
def test_short_time_axes(rng, name, t):
    args = arguments(rng, t=t)
    shape = {"marginals": (3, t, 3), "viterbi": (3, t)}.get(name, (3,))
    for function in (ENTRY_POINTS[name], compiled(ENTRY_POINTS[name])):
        value = numpy(function(*args))
        assert value.shape == shape
        assert np.all(np.isfinite(value))


def test_an_empty_batch_has_no_losses(rng):
    args = arguments(rng, b=0)
    assert numpy(ENTRY_POINTS["log_likelihood"](*args)).shape == (0,)


@pytest.mark.skipif(BACKEND != "tensorflow", reason="other backends have no unknown axes")
@pytest.mark.parametrize("jit_compile", [True, False])
def test_unknown_lengths_in_one_trace(rng, jit_compile):
    """No retracing for each length; a length of zero included; gradients too."""
    import tensorflow as tf

    traces = []

    def loss_and_gradients(e, y, T, s, q, m):
        traces.append(1)
        with tf.GradientTape() as tape:
            tape.watch((e, T, s, q))
            loss = -tf.reduce_sum(linear_chain.log_likelihood(e, y, T, s, q, m))
        paths = linear_chain.viterbi(e, T, s, q, m)
        marginals = linear_chain.marginals(e, T, s, q, m)
        return loss, tape.gradient(loss, (e, T, s, q)), paths, marginals

    axes = [(None, None, 3), (None, None), (3, 3), (3,), (3,), (None, None)]
    dtypes = ["float32", "int32", "float32", "float32", "float32", "bool"]
    signature = [tf.TensorSpec(shape, dtype) for shape, dtype in zip(axes, dtypes, strict=True)]
    function = tf.function(loss_and_gradients, input_signature=signature, jit_compile=jit_compile)
    for b, t in [(2, 3), (3, 5), (1, 1), (4, 2), (2, 0)]:
        args = arguments(rng, b=b, t=t)
        for got, expected in zip(
            tf.nest.flatten(function(*args)),
            tf.nest.flatten(loss_and_gradients(*args)),
            strict=True,
        ):
            np.testing.assert_allclose(numpy(got), numpy(expected), atol=1e-5)
    assert len(traces) == 1 + 5  # one graph, five eager calls


@pytest.mark.skipif(BACKEND != "tensorflow", reason="only TensorFlow graphs take the switch")
def test_the_core_is_compiled_in_plain_graphs_unless_forbidden(rng):
    import tensorflow as tf

    import keras_crf

    def must_compile(concrete):
        functions = concrete.graph.as_graph_def().library.function
        return any(function.attr["_XlaMustCompile"].b for function in functions)

    args = arguments(rng)
    for allowed in (True, False):
        before = keras_crf.use_xla(allowed)
        try:
            function = tf.function(ENTRY_POINTS["log_partition"])
            assert must_compile(function.get_concrete_function(*args)) == allowed
        finally:
            keras_crf.use_xla(before)


# --- Errors ---


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"emissions": np.zeros((2, 3))}, "`emissions` must have the shape"),
        ({"transitions": np.zeros((2, 3))}, r"`transitions` must have the shape \(2, 2\)"),
        ({"start": np.zeros(3)}, r"`start` must have the shape \(2,\)"),
        ({"end": np.zeros((1, 2))}, r"`end` must have the shape \(2,\)"),
        ({"mask": np.ones((2, 4))}, r"`mask` must have the shape \(2, 3\)"),
        ({"mask": np.ones((2, 3, 1))}, r"`mask` must have the shape \(2, 3\)"),
    ],
)
def test_wrong_shapes_are_named(change, message):
    args = {"emissions": np.zeros((2, 3, 2)), "transitions": np.zeros((2, 2)), **change}
    with pytest.raises(ValueError, match=message):
        linear_chain.log_partition(**args)


def test_wrong_tag_shapes_are_named():
    with pytest.raises(ValueError, match=r"`tags` must have the shape \(2, 3\)"):
        linear_chain.path_score(np.zeros((2, 3, 2)), np.zeros((2, 4)), np.zeros((2, 2)))
