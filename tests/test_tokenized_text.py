"""Labels, tokens and characters of one text; windows and what they lose."""

import warnings
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_crf import tokenized_text
from keras_crf.alignment import CharacterAligner, WordPieceAligner
from keras_crf.tokenized_text import stitch

PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *"play ##ing e ##e - 天 空".split()]


pytestmark = pytest.mark.filterwarnings("ignore:.*tokens are unknown")


@pytest.fixture(autouse=True)
def _nothing_is_lost_yet(monkeypatch):
    monkeypatch.setattr(tokenized_text, "_lost", Counter())


@pytest.fixture(scope="module", params=["characters", "pieces"])
def align(request):
    if request.param == "characters":
        return CharacterAligner(PIECES)
    return WordPieceAligner(PIECES, lowercase=True)


# --- labels and spans


def test_blanks_at_the_ends_of_a_span_are_left_out():
    tokens = WordPieceAligner(PIECES, lowercase=True)("天  playing  空")
    aligned = tokens.align([(2, 12, "X")])
    assert aligned == ([(1, 2, "X")], [])
    assert tokens.restore(aligned.spans) == [(3, 10, "X")]


def test_spans_that_cut_a_word_are_reported():
    tokens = WordPieceAligner(PIECES, lowercase=True)("playing  空")
    spans = [(0, 4, "A"), (3, 10, "B"), (7, 9, "C"), (9, 10, "D")]
    with pytest.warns(UserWarning, match=r"3 span\(s\) begin .* A 'play' at \(0, 4\)"):
        aligned = tokens.align(spans)
    assert aligned.spans == [(1, 2, "D")]
    assert aligned.lost == spans[:3]


def test_lost_spans_are_counted_over_all_texts():
    tokens = WordPieceAligner(PIECES, lowercase=True)("playing  空")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(120):
            tokens.align([(0, 4, "X")])
    counts = [str(warning.message).partition(" ")[0] for warning in caught]
    assert counts == ["1", "10", "100"]


def test_a_lost_span_of_blanks_is_said_to_be_one():
    tokens = WordPieceAligner(PIECES, lowercase=True)("playing  空")
    with pytest.warns(UserWarning, match=r"1 span\(s\) .* hold no word \(1 hold blanks only\)"):
        assert tokens.align([(7, 9, "X")]).lost == [(7, 9, "X")]


def test_spans_without_labels():
    tokens = CharacterAligner(PIECES)("天空")
    aligned = tokens.align([(0, 2)])
    assert aligned.spans == [(0, 2, None)]
    assert tokens.restore([(0, 2)]) == [(0, 2, None)]


def test_labels_are_placed_at_first_pieces():
    tokens = WordPieceAligner(PIECES, lowercase=True)("playing 空", add_special=True)
    placed = tokens.place([7, 8])
    assert placed.tolist() == [-100, 7, -100, 8, -100]
    assert placed.dtype == np.int32
    assert tokens.place([7, 8], fill=0).tolist() == [0, 7, 0, 8, 0]
    padded = np.arange(20).reshape(10, 2)
    assert tokens.pick(padded).tolist() == [[2, 3], [6, 7]]


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda t: t.align([(1, 4, "X")]), r"<= 2, the length of the text. Received: span \(1, 4"),
        (lambda t: t.align([(1, 1, "X")]), r"start < end"),
        (lambda t: t.align([(0.0, 1.0, "X")]), r"with whole numbers. Received: \(0.0, 1.0"),
        (lambda t: t.restore([(0, 3, "X")]), r"last <= 2, the number of labels"),
        (lambda t: t.place([1]), r"Expected 2 labels.*Received: 1 for '天空'"),
        (lambda t: t.pick(np.zeros(1)), r"values for 2 tokens. Received: shape \(1,\)"),
    ],
)
def test_bad_positions_are_reported(call, message):
    with pytest.raises(ValueError, match=message):
        call(CharacterAligner(PIECES)("天空"))


# --- windows


@given(
    length=st.integers(0, 60),
    max_length=st.integers(4, 20),
    overlap=st.integers(0, 20),
    special=st.booleans(),
)
def test_stitched_windows_give_the_whole_text(length, max_length, overlap, special):
    align = CharacterAligner(PIECES)
    tokens = align("".join(map(chr, range(0x4E00, 0x4E00 + length))))
    overlap = min(overlap, max_length - 2 * special - 1)
    windows = align.windows(tokens, max_length, overlap, add_special=special)
    assert all(len(window.tokens.ids) <= max_length for window in windows)
    seen = [np.pad(window.tokens.offsets, [(0, 3), (0, 0)]) for window in windows]
    assert stitch(windows, seen).tolist() == tokens.offsets.tolist()
    shared = [a.stop - b.start for a, b in zip(windows, windows[1:], strict=False)]
    assert all(count >= overlap for count in shared)


@given(length=st.integers(1, 60), max_length=st.integers(1, 20), overlap=st.integers(0, 19))
def test_each_token_comes_from_where_it_is_farthest_from_an_edge(length, max_length, overlap):
    align = CharacterAligner(PIECES)
    overlap = min(overlap, max_length - 1)
    windows = align.windows(align("天" * length), max_length, overlap, add_special=False)

    def distance(t):
        """To the nearest edge; the ends of the text are none."""
        sides = []
        for window in windows:
            left = t - window.start if window.start else length
            right = window.stop - 1 - t if window.stop < length else length
            sides.append(min(left, right) if window.start <= t < window.stop else -1)
        return sides

    values = [np.full(window.stop - window.start, i) for i, window in enumerate(windows)]
    for t, chosen in enumerate(stitch(windows, values)):
        assert distance(t)[chosen] == max(distance(t))


@given(data=st.data(), text=st.text("e天 \u200b-", max_size=40), special=st.booleans())
def test_labels_of_windows_are_slices_of_those_of_the_text(align, data, text, special):
    tokens = align(text)
    labels = np.arange(tokens.mask.sum())
    placed = tokens.place(labels)
    windows = align.windows(tokens, data.draw(st.integers(5, 20)), 2, add_special=special)
    for window in windows:
        again = window.tokens.place(window.labels(placed))
        inner = again[window.lead : len(again) - window.lead]
        assert inner.tolist() == placed[window.start : window.stop].tolist()
        assert (np.delete(again, np.s_[window.lead : len(again) - window.lead]) == -100).all()


@pytest.mark.filterwarnings("ignore:.*begin or end inside a word")
@given(data=st.data(), text=st.text("e天 -", min_size=1, max_size=30))
def test_a_window_aligns_the_spans_that_are_whole_in_it(align, data, text):
    tokens = align(text)
    start, end = sorted(data.draw(st.tuples(*[st.integers(0, len(text))] * 2)))
    if start == end:
        return
    whole = tokens.align([(start, end)])
    for window in align.windows(tokens, data.draw(st.integers(5, 12)), 2):
        before = int(tokens.mask[: window.start].sum())
        here = window.tokens.align([(start, end)]).spans
        moved = [(first + before, last + before, None) for first, last, _ in here]
        assert moved in ([], whole.spans)
        inside = tokens.part(window.start, window.stop).extent
        assert bool(here) == (bool(whole.spans) and inside[0] <= start and end <= inside[1])


def test_a_span_cut_by_a_window_is_lost_there():
    align = CharacterAligner(PIECES)
    tokens, span = align("天" * 20), (5, 15, "PER")
    windows = align.windows(tokens, 12, 4)
    with pytest.warns(UserWarning, match=r"reach beyond a window.* train with `Window.labels`"):
        aligned = [window.tokens.align([span]) for window in windows]
    assert all(found == ([], [span]) for found in aligned)
    assert align.windows(tokens, 17, 4)[0].tokens.align([span]).spans == [span]


def test_window_labels_want_the_whole_text():
    align = CharacterAligner(PIECES)
    windows = align.windows(align("天" * 20), 12, 4)
    with pytest.raises(ValueError, match="each token of the whole text, 20 or more. Received: 10"):
        windows[-1].labels(np.zeros(10))


def test_a_short_text_is_one_window():
    align = WordPieceAligner(PIECES, lowercase=True)
    (window,) = align.windows(align("playing 天空"), 512)
    whole = align("playing 天空", add_special=True)
    assert window.tokens.ids.tolist() == whole.ids.tolist()
    assert (window.start, window.stop, window.lead) == (0, 4, 1)


def test_an_entity_across_a_window_border_is_found():
    align = CharacterAligner(PIECES)
    text = "空" * 9 + "天" * 4 + "空" * 9
    windows = align.windows(align(text), max_length=12, overlap=4)
    # A stand-in for a model: it scores 天 one, but sees nothing at the edges of a window.
    scores = [(window.tokens.ids == PIECES.index("天")).astype(float) for window in windows]
    for row, window in zip(scores, windows, strict=True):
        row[: window.lead + 1] = row[-window.lead - 1 :] = 0
    assert np.flatnonzero(stitch(windows, scores)).tolist() == [9, 10, 11, 12]


@pytest.mark.parametrize("max_length, overlap", [(10, 8), (10, -1), (2, 0)])
def test_windows_that_cannot_move_are_refused(max_length, overlap):
    align = CharacterAligner(PIECES)
    with pytest.raises(ValueError, match="Expected 0 <= overlap < tokens in a window"):
        align.windows(align("天" * 30), max_length, overlap)


def test_windows_of_a_text_with_special_tokens_are_refused():
    align = CharacterAligner(PIECES)
    with pytest.raises(ValueError, match="without special tokens.* Received: first token 2 "):
        align.windows(align("天空", add_special=True), 8)


def test_stitch_wants_one_array_per_window():
    align = CharacterAligner(PIECES)
    with pytest.raises(ValueError, match="1 windows and 2 arrays"):
        stitch(align.windows(align("天"), 9), [np.zeros(3)] * 2)
    with pytest.raises(ValueError, match="0 windows and 0 arrays"):
        stitch([], [])


@pytest.mark.parametrize("size", [0, 5, 11])
def test_stitch_refuses_arrays_that_are_too_short(size):
    align = CharacterAligner(PIECES)
    windows = align.windows(align("天" * 20), 12, 4)
    values = [np.zeros((12, 3)) for _ in windows]
    values[1] = np.zeros((size, 3))
    with pytest.raises(ValueError, match=rf"12 tokens of window 1.* shape \({size}, 3\)"):
        stitch(windows, values)


def test_stitch_refuses_windows_of_several_texts():
    align = CharacterAligner(PIECES)
    windows = align.windows(align("天" * 20), 12, 4)
    for mixed in (windows * 2, windows[::-1], windows[1:]):
        with pytest.raises(ValueError, match="all windows of ONE text, in order"):
            stitch(mixed, [np.zeros((12, 3))] * len(mixed))


def test_token_spans_are_restored_to_whole_words_and_keep_what_follows():
    """Special tokens and pieces count as tokens, as they do in what a model decodes."""
    pieces = ["[UNK]", "[CLS]", "[SEP]", "[PAD]", "ann", "##a", "lives", "in", "rome"]
    text = WordPieceAligner(pieces, lowercase=True)("Anna lives in Rome", add_special=True)
    spans = text.restore_tokens([(1, 2, "PER", 0.9), (5, 6, "LOC", 0.8)])
    assert spans == [(0, 4, "PER", 0.9), (14, 18, "LOC", 0.8)]
    for wrong in [(0, 2), (2, 3), (5, 9), (3, 3)]:
        with pytest.raises(ValueError, match="a start that carries a label"):
            text.restore_tokens([wrong])
