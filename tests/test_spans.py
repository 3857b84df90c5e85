"""Spans: what is taken for one, words as spans, overlaps."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_crf.spans import Span, as_span, drop_overlaps, in_order, word_spans


def test_pairs_triples_and_numpy_numbers_are_spans():
    assert as_span((1, 2)) == as_span([1, 2, None]) == Span(1, 2)
    assert as_span((np.int64(1), np.int32(2), "X")) == Span(1, 2, "X")
    assert type(as_span(np.array([1, 2])).start) is int


@pytest.mark.parametrize("span", [(1,), (1, 2, "X", 3), (1.0, 2.0, "X"), "ab", None, 3, ("a", "b")])
def test_what_is_no_span_is_refused(span):
    with pytest.raises(ValueError, match=r"Expected a span \(start, end, label\)"):
        as_span(span)


def test_words_make_up_a_text():
    assert word_spans(["天", "气很好"]) == [(0, 1, None), (1, 4, None)]
    assert word_spans([]) == []


def test_the_longest_of_overlapping_spans_is_kept_and_the_others_reported():
    kept, dropped = drop_overlaps([(6, 8, "B"), (0, 4, "A"), (2, 7, "C"), (8, 9, "D"), (5, 7, "E")])
    assert kept == [(2, 7, "C"), (8, 9, "D")]
    assert dropped == [(0, 4, "A"), (5, 7, "E"), (6, 8, "B")]
    assert drop_overlaps([(1, 3, "B"), (0, 2, "A")]) == ([(0, 2, "A")], [(1, 3, "B")])


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 9), st.sampled_from("XY"))))
def test_what_is_kept_can_be_spelled_and_nothing_disappears(places):
    given = [Span(start, start + size, label) for start, size, label in places]
    kept, dropped = drop_overlaps(given)
    assert in_order(kept, 20) == kept
    assert sorted(kept + dropped) == sorted(given)


def test_an_overlap_names_the_way_out():
    with pytest.raises(ValueError, match=r"overlap at position 2: keep one, as `spans.drop_overl"):
        in_order([(2, 4, "B"), (0, 3, "A")], 9)
