"""The NumPy decoder: equal to the decoder in the graph, and to enumeration."""

import enumeration
import numpy as np
import pytest
from backend import numpy
from hypothesis import given
from hypothesis import strategies as st

import keras_crf
from keras_crf import ViterbiDecoder, linear_chain


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
    ],
)
def test_errors_say_what_was_expected(call, message):
    with pytest.raises(ValueError, match=message):
        call()
