"""The NumPy decoder: equal to the decoder in the graph, and to enumeration."""

from itertools import pairwise

import enumeration
import numpy as np
import pytest
from backend import numpy
from hypothesis import given
from hypothesis import strategies as st

import keras_crf
from keras_crf import ViterbiDecoder, linear_chain
from keras_crf.tag_schemes import SCHEMES, TagSet


@st.composite
def chains(draw):
    """Whole-number scores tie often; real ones test rounding; some labels are forbidden."""
    t, k = draw(st.integers(1, 6)), draw(st.sampled_from([1, 2, 3, 7]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    shapes = ((3, t, k), (k, k), (k,), (k,))
    if draw(st.booleans()):
        scores = [rng.integers(-2, 3, shape).astype("float32") for shape in shapes]
    else:
        scale = draw(st.sampled_from([1e-3, 1, 1e5]))
        scores = [(rng.normal(size=shape) * scale).astype("float32") for shape in shapes]
    if draw(st.booleans()):
        for part in scores:
            part[rng.random(part.shape) < 0.25] = -np.inf
    return scores, rng.random((3, t)) < 0.7


@given(chains())
def test_equal_to_the_graph_on_every_input(chain):
    (emissions, transitions, start, end), mask = chain
    decoder = ViterbiDecoder(transitions, start_scores=start, end_scores=end)
    expected = numpy(linear_chain.viterbi(emissions, transitions, start, end, mask))
    np.testing.assert_array_equal(decoder.decode(emissions, mask), expected)


def test_equal_to_the_graph_on_long_sequences(rng):
    emissions = rng.normal(size=(2, 3000, 9)).astype("float32")
    transitions = rng.normal(size=(9, 9)).astype("float32")
    expected = numpy(linear_chain.viterbi(emissions, transitions))
    np.testing.assert_array_equal(ViterbiDecoder(transitions).decode(emissions), expected)


def test_one_sequence_and_a_batch(rng):
    nodes, trans = rng.normal(size=(4, 3)), rng.normal(size=(3, 3))
    decoder = ViterbiDecoder(trans)
    path = decoder.decode(nodes)
    assert path.tolist() == enumeration.Chain(nodes, trans).best_path()
    np.testing.assert_array_equal(decoder.decode(nodes[None]), path[None])


def test_starts_and_ends_are_obeyed_and_the_input_is_not_modified(rng):
    decoder = ViterbiDecoder(np.zeros((3, 3)), starts=[0, 1], ends=[2])
    nodes = rng.normal(size=(200, 4, 3))
    before = nodes.copy()
    mask = rng.random((200, 4)) < 0.8
    paths = decoder.decode(nodes, mask)
    np.testing.assert_array_equal(nodes, before)
    for path, keep in zip(paths, mask, strict=True):
        if keep.sum() > 1:
            assert path[keep][0] in (0, 1)
            assert path[keep][-1] == 2


def test_whole_number_nodes_with_starts():
    assert ViterbiDecoder(np.zeros((2, 2)), starts=[1]).decode([[5, 0], [0, 0]]).tolist() == [1, 0]


def test_padding_rows_of_minus_infinity_and_pad_value():
    nodes = np.array([[0.0, 1.0], [-np.inf, -np.inf], [1.0, 0.0]])
    decoder = ViterbiDecoder(np.zeros((2, 2)))
    assert decoder.decode(nodes).tolist() == [1, -1, 0]
    assert decoder.decode(nodes, mask=[1, 0, 0], pad_value=9).tolist() == [1, 9, 9]


def test_empty_sequences_and_batches():
    decoder = ViterbiDecoder(np.zeros((2, 2)))
    assert decoder.decode(np.zeros((0, 2))).shape == (0,)
    assert decoder.decode(np.zeros((0, 5, 2))).shape == (0, 5)


def test_transitions_can_be_replaced(rng):
    decoder = ViterbiDecoder(np.zeros((2, 2)))
    decoder.trans = np.array([[-9.0, 9.0], [9.0, -9.0]])
    assert decoder.decode([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0]]).tolist() == [0, 1, 0]


def test_the_decoder_of_a_layer(rng):
    for use_boundary in (True, False):
        crf = keras_crf.ConditionalRandomField(use_boundary=use_boundary)
        emissions = crf(rng.normal(size=(5, 6, 4)))
        np.testing.assert_array_equal(
            crf.decoder().decode(numpy(emissions)), numpy(crf.decode(emissions))
        )


# Constraints, bonuses and scores


@st.composite
def lattices(draw, whole_numbers=None):
    """A decoder, the arguments of a call, and per row the lattice that they describe."""
    t, k = draw(st.integers(0, 4)), draw(st.integers(1, 3))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    ties = draw(st.booleans()) if whole_numbers is None else whole_numbers

    def scores(size):
        return rng.integers(-1, 2, size).astype("float64") if ties else rng.normal(size=size)

    trans, start, end, nodes, bonus = map(scores, ((k, k), k, k, (3, t, k), (3, t, k)))
    share = draw(st.sampled_from([0.5, 0.8, 1.0]))  # of what is allowed
    allowed, starts, ends, labels = (rng.random(size) < share for size in ((k, k), k, k, (3, t, k)))
    mask = rng.random((3, t)) < draw(st.sampled_from([0.6, 1.0]))
    decoder = ViterbiDecoder(trans, starts, ends, start, end, allowed)
    call = {"nodes": nodes, "mask": mask, "bonus": bonus, "allowed_labels": labels}
    restricted = [
        np.where(on, values, -np.inf)
        for on, values in ((labels, nodes + bonus), (allowed, trans), (starts, start), (ends, end))
    ]
    emissions, *others = restricted
    with np.errstate(invalid="ignore"):  # probabilities where there is no path
        chains = [enumeration.Chain(emissions[row], *others, mask[row]) for row in range(3)]
    return decoder, call, chains


def ranked(chain):
    """All paths above -inf, best first; between equals the lower last label, and so on."""
    order = sorted(
        np.flatnonzero(chain.scores > -np.inf),
        key=lambda n: (-chain.scores[n], chain.paths[n].tolist()[::-1]),
    )
    return chain.paths[order].tolist(), chain.scores[order]


@given(lattices())
def test_decode_is_brute_force_on_the_restricted_lattice(lattice):
    decoder, call, chains = lattice
    tags, scores = decoder.decode(**call, return_score=True)
    np.testing.assert_array_equal(decoder.decode(**call), tags)
    for path, score, chain in zip(tags, scores, chains, strict=True):
        paths, expected = ranked(chain)
        np.testing.assert_allclose(score, max(expected, default=-np.inf), rtol=0, atol=1e-12)
        if paths:
            assert path[chain.keep].tolist() == paths[0]
        assert set(path[~chain.keep]) <= {-1}
        assert set(path[chain.keep]) <= set(range(chain.k))


@pytest.mark.parametrize("n", [1, 2, 5, 100])
@given(lattice=lattices(whole_numbers=True))
def test_n_best_is_the_head_of_the_sorted_list_of_all_paths(n, lattice):
    decoder, call, chains = lattice
    tags, scores = decoder.n_best(n=n, pad_value=-7, **call)
    assert tags.shape == (3, n, call["mask"].shape[1]) and scores.shape == (3, n)
    for row, chain in enumerate(chains):
        paths, expected = ranked(chain)
        found = min(n, len(paths))
        assert tags[row][:found, chain.keep].tolist() == paths[:n]
        np.testing.assert_array_equal(scores[row, :found], expected[:n])
        assert set(tags[row, found:].ravel()) | set(tags[row][:, ~chain.keep].ravel()) <= {-7}
        assert set(scores[row, found:]) <= {-np.inf}
        if found:
            np.testing.assert_array_equal(tags[row, 0], decoder.decode(**call, pad_value=-7)[row])


@given(lattices(whole_numbers=False))
def test_scores_of_n_best_are_exact(lattice):
    decoder, call, chains = lattice
    _, scores = decoder.n_best(n=9, **call)
    for row, chain in enumerate(chains):
        expected = np.append(ranked(chain)[1], [-np.inf] * 9)[:9]
        np.testing.assert_allclose(scores[row], expected, rtol=0, atol=1e-12)


def test_n_best_of_long_sequences(rng):
    nodes, trans = rng.normal(size=(3, 200, 5)), rng.normal(size=(5, 5))
    decoder = ViterbiDecoder(trans)
    mask = rng.random((3, 200)) < 0.9
    tags, scores = decoder.n_best(nodes, 50, mask)
    best, score = decoder.decode(nodes, mask, return_score=True)
    np.testing.assert_array_equal(tags[:, 0], best)
    np.testing.assert_array_equal(scores[:, 0], score)
    assert (np.diff(scores) <= 1e-4).all()
    for row in range(3):
        assert len({tuple(path) for path in tags[row]}) == 50
        kept = nodes[row][mask[row]]
        for path, expected in zip(tags[row], scores[row], strict=True):
            parts = kept, trans, np.zeros(5), np.zeros(5), path[mask[row]]
            np.testing.assert_allclose(enumeration.score(*parts), expected, rtol=1e-12)
        alone = decoder.n_best(nodes[row], 50, mask[row])
        np.testing.assert_array_equal(alone[0], tags[row])
        np.testing.assert_array_equal(alone[1], scores[row])


def test_a_score_is_more_exact_than_float32():
    nodes = np.full((1000, 2), 0.1)
    _, score = ViterbiDecoder(np.full((2, 2), 1e-9)).decode(nodes, return_score=True)
    assert score.shape == ()
    np.testing.assert_allclose(score, 100 + 999e-9, rtol=1e-14)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_ten_thousand_random_decodes_hold_nothing_illegal(scheme, rng):
    tags = TagSet(() if scheme == "SBME" else ["PER", "LOC"], scheme)
    decoder = ViterbiDecoder.from_labels(tags.names, scheme)
    nodes = rng.normal(size=(10_000, 7, len(tags))) * 5
    mask = rng.random((10_000, 7)) < 0.8
    paths, scores = decoder.decode(nodes, mask, return_score=True)
    assert (scores > -np.inf).all()
    for path, keep in zip(paths, mask, strict=True):
        path = path[keep]
        assert all(tags.allowed_transitions[i, j] for i, j in pairwise(path.tolist()))
        if len(path):
            assert tags.allowed_starts[path[0]] and tags.allowed_ends[path[-1]]


def test_labels_in_another_order_and_transitions(rng):
    labels, trans = ["e", "m", "b", "s"], rng.normal(size=(4, 4))
    start, end = rng.normal(size=(2, 4))
    decoder = ViterbiDecoder.from_labels(labels, "SBME", trans, start, end)
    nodes = rng.normal(size=(5, 4))
    in_order = np.argsort([TagSet(scheme="SBME").ids[label] for label in labels])
    other = ViterbiDecoder.from_labels(
        "sbme", "SBME", trans[in_order][:, in_order], start[in_order], end[in_order]
    )
    np.testing.assert_array_equal(decoder.decode(nodes), in_order[other.decode(nodes[:, in_order])])
    decoder.trans = np.zeros((4, 4))  # the constraints stay
    assert {"sb", "bm", "be", "mm", "me", "es", "eb", "ss"} >= {
        labels[i] + labels[j] for i, j in pairwise(decoder.decode(nodes))
    }


def test_constraints_that_leave_no_path():
    decoder = ViterbiDecoder(np.zeros((2, 2)), starts=[0], allowed=[[True, False], [True, True]])
    nodes = np.zeros((3, 2))
    blocked = np.array([[True, True], [False, True], [True, True]])  # 0 in front, 1 behind
    tags, score = decoder.decode(nodes, allowed_labels=blocked, return_score=True)
    assert score == -np.inf and set(tags) <= {0, 1}
    paths, scores = decoder.n_best(nodes, 2, allowed_labels=blocked)
    assert (paths == -1).all() and (scores == -np.inf).all()


def test_a_position_without_labels_is_not_a_masked_one():
    decoder = ViterbiDecoder(np.zeros((2, 2)))
    nothing = np.array([[True, True], [False, False]])
    tags, score = decoder.decode(np.zeros((2, 2)), allowed_labels=nothing, return_score=True)
    assert score == -np.inf and set(tags) <= {0, 1}
    _, score = decoder.decode(np.zeros((2, 2)), [1, 0], allowed_labels=nothing, return_score=True)
    assert score == 0


def test_n_best_of_nothing():
    decoder = ViterbiDecoder(np.zeros((2, 2)))
    paths, scores = decoder.n_best(np.zeros((0, 2)), 2)
    assert paths.shape == (2, 0) and scores.tolist() == [0, -np.inf]
    paths, scores = decoder.n_best(np.zeros((1, 3, 2)), 2, mask=np.zeros((1, 3)))
    assert (paths == -1).all() and scores.tolist() == [[0, -np.inf]]
    assert decoder.n_best(np.zeros((0, 3, 2)), 2)[0].shape == (0, 2, 3)


def test_arguments_are_not_modified(rng):
    nodes, bonus = rng.normal(size=(2, 4, 3))
    labels = rng.random((4, 3)) < 0.7
    before = nodes.copy(), bonus.copy(), labels.copy()
    decoder = ViterbiDecoder(np.zeros((3, 3)), starts=[0], allowed=np.eye(3) > 0)
    decoder.n_best(nodes, 3, bonus=bonus, allowed_labels=labels)
    for array, copy in zip((nodes, bonus, labels), before, strict=True):
        np.testing.assert_array_equal(array, copy)


TWO = ViterbiDecoder(np.zeros((2, 2)))


def test_transitions_of_another_size_are_refused():
    decoder = ViterbiDecoder(np.zeros((2, 2)))
    decoder.trans = np.zeros((3, 3))
    with pytest.raises(ValueError, match=r"`trans` must have the shape \(2, 2\)"):
        decoder.decode(np.zeros((4, 2)))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ViterbiDecoder(np.zeros((2, 3))), "`trans` must have the shape"),
        (lambda: ViterbiDecoder(np.zeros((2, 2)), starts=[2]), "`starts` must hold label ids"),
        (lambda: ViterbiDecoder(np.zeros((2, 2)), start_scores=[0]), "`start_scores` must have"),
        (lambda: ViterbiDecoder(np.zeros((2, 2))).decode(np.zeros((4, 3))), "`nodes` must have"),
        (
            lambda: ViterbiDecoder(np.zeros((2, 2))).decode(np.zeros((4, 2)), mask=[1]),
            "`mask` must have the shape",
        ),
        (lambda: ViterbiDecoder(np.zeros((2, 2)), starts=[True]), r"shape \(2,\). Received: \(1,"),
        (
            lambda: ViterbiDecoder(np.zeros((2, 2)), allowed=[[0, -np.inf], [0, 0]]),
            "`allowed` must hold booleans.*pass `scores > -numpy.inf`",
        ),
        (lambda: TWO.decode(np.zeros((4, 2)), bonus=[1, 2]), "`bonus` must have the shape"),
        (
            lambda: TWO.decode([[0, 0]], bonus=[[np.inf, 2]]),
            "to force labels pass",
        ),
        (lambda: TWO.decode([[0, 0]], bonus=[[np.nan, 2]]), "Received: nan"),
        (lambda: TWO.decode([[0, 0]], allowed_labels=[[0, 1]]), "`allowed_labels` must hold bool"),
        (lambda: TWO.decode([[0, 0]], allowed_labels=[True]), "`allowed_labels` must have the"),
        (lambda: TWO.n_best([[0, 0]], 0), "`n` must be a number of paths, 1 or more. Received: 0"),
        (lambda: TWO.n_best([[0, 0]], 1.5), "Received: 1.5"),
    ],
)
def test_errors_say_what_was_expected(call, message):
    with pytest.raises(ValueError, match=message):
        call()
