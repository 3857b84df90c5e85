"""A text, its tokens, and the way between labels, tokens and characters.

Three kinds of positions meet in a tagger:

- *characters* of the raw text, in which spans are given and returned: `text[start:end]`;
- *tokens*, the rows a model sees: pieces of words, `[CLS]`, `[SEP]`;
- *label positions*, the tokens that carry a label, one per word (or per character): the others are
  masked out.

`TokenizedText` holds all three. A text longer than a model becomes `Window`s: `Window.labels` gives
each its labels for training, `stitch` joins what a model said about them.
"""

import warnings
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from keras_crf.spans import IGNORE, Span, as_span


class AlignedSpans(NamedTuple):
    """Spans in label positions, and the spans that have none.

    Attributes:
        spans: list of `Span`, `(first, last + 1, label)`, half-open, in label positions.
        lost: list of `Span`, `(start, end, label)`, in characters: spans that begin or end inside a
            word, hold no word at all, or reach beyond the window.
    """

    spans: list[Span]
    lost: list[Span]


class TokenizedText(NamedTuple):
    """The tokens of one text.

    Attributes:
        text: the raw string.
        ids: `(n,)` int32, vocabulary ids.
        offsets: `(n, 2)` int32, half-open character offsets into `text`, never decreasing. Special
            tokens are empty there: `[CLS]` before the first token, `[SEP]` after the last.
        mask: `(n,)` bool, true at the tokens that carry a label: the first piece of each word.
        extent: `(start, end)`, the characters within which spans are whole here: less than the text
            in a window; None is all.
        pad_id: id of `[PAD]`, which batches are filled with.
    """

    text: str
    ids: np.ndarray
    offsets: np.ndarray
    mask: np.ndarray
    extent: tuple[int, int] | None = None
    pad_id: int = 0

    def label_offsets(self) -> np.ndarray:
        """Characters behind each label: `(m, 2)`, from the first piece of a word to its last."""
        first = np.flatnonzero(self.mask)
        if not len(first):
            return np.zeros((0, 2), "int32")
        last = np.append(first[1:], len(self.ids)) - 1  # [SEP] ends where the last piece does
        return np.stack([self.offsets[first, 0], self.offsets[last, 1]], axis=1)

    def align(self, spans: Iterable[Span], warn: bool = True) -> AlignedSpans:
        """Turn character spans into spans of label positions.

        Blanks (and other characters without a token) at the ends of a span are left out.

        Args:
            spans: `(start, end, label)`, half-open characters of `text`, or `(start, end)`.
            warn: whether a warning counts what is lost.

        Returns:
            `AlignedSpans`. A span that would cut a word is in `lost`, as is one that reaches beyond
            a window: to train on windows align the WHOLE text and use `Window.labels`. Warnings
            count what is lost over all texts, at first and at 10, 100, 1000... spans.
        """
        starts, ends = self.label_offsets().T.tolist()
        low, high = self.extent or (0, len(self.text))
        aligned, lost = [], []
        for start, end, label in map(self._checked, spans):
            first, last = bisect_right(ends, start), bisect_left(starts, end)
            here = low <= start and end <= high and first < last
            if here and start <= starts[first] and ends[last - 1] <= end:
                aligned.append(Span(first, last, label))
            else:
                lost.append(Span(start, end, label))
        if lost and warn:
            _warn_lost(self, lost)
        return AlignedSpans(aligned, lost)

    def restore(self, spans: Iterable[Span]) -> list[Span]:
        """Turn spans of label positions back into character spans.

        Args:
            spans: `(first, last + 1, label)`, half-open, in label positions.

        Returns:
            List of `Span`, `(start, end, label)`, half-open characters of `text`.
        """
        starts, ends = self.label_offsets().T.tolist()
        restored = []
        for first, last, label in map(as_span, spans):
            if not 0 <= first < last <= len(starts):
                raise ValueError(
                    f"Expected 0 <= first < last <= {len(starts)}, the number of labels. "
                    f"Received: ({first}, {last}, {label!r})"
                )
            restored.append(Span(starts[first], ends[last - 1], label))
        return restored

    def restore_tokens(self, spans: Iterable[Sequence]) -> list[tuple]:
        """Turn spans of token positions, as `crf.decode_spans` gives them, into character spans.

        Args:
            spans: `(start, end, ...)`, half-open, in tokens (special ones and pieces counted); what
                follows, such as label and probability, is kept.

        Returns:
            List of `(start, end, ...)`, half-open characters of `text`, whole words each.
        """
        offsets, number = self.label_offsets(), np.cumsum(self.mask) - 1
        restored = []
        for start, end, *rest in spans:
            if not (0 <= start < end <= len(self.mask) and self.mask[start]):
                raise ValueError(
                    f"Expected 0 <= start < end <= {len(self.mask)}, the number of tokens, and a "
                    f"start that carries a label. Received: {(start, end, *rest)}"
                )
            first, last = offsets[number[start]], offsets[number[end - 1]]
            restored.append((int(first[0]), int(last[1]), *rest))
        return restored

    def place(self, labels: Sequence[int], fill: int = IGNORE) -> np.ndarray:
        """Put one label per label position on the tokens.

        Args:
            labels: `(m,)` label ids.
            fill: value for all other tokens; -100 is what the CRF's losses leave out.

        Returns:
            `(n,)` int32.
        """
        count = int(self.mask.sum())
        if len(labels) != count:
            raise ValueError(
                f"Expected {count} labels, one per true position of the mask. "
                f"Received: {len(labels)} for {self.text[:40]!r}"
            )
        placed = np.full(len(self.ids), fill, "int32")
        placed[self.mask] = labels
        return placed

    def pick(self, values: np.ndarray) -> np.ndarray:
        """Take the values at the label positions: `(t, ...)`, padded or not, to `(m, ...)`."""
        values = np.asarray(values)
        if len(values) < len(self.ids):
            raise ValueError(
                f"Expected values for {len(self.ids)} tokens. Received: shape {values.shape}"
            )
        return values[: len(self.ids)][self.mask]

    def part(self, start: int, stop: int) -> "TokenizedText":
        """The tokens `start` to `stop - 1`, offsets into the WHOLE text; see `extent`.

        The extent holds the words that are whole here, and what lies between them and the words
        that are not.
        """
        words, first = self.label_offsets(), np.flatnonzero(self.mask)
        cut_before = int(np.searchsorted(first, start))
        cut_after = int(np.searchsorted(np.append(first[1:], len(self.ids)), stop, side="right"))
        low = int(words[cut_before - 1, 1]) if cut_before else 0
        high = int(words[cut_after, 0]) if cut_after < len(words) else len(self.text)
        arrays = {name: getattr(self, name)[start:stop] for name in ("ids", "offsets", "mask")}
        return self._replace(**arrays, extent=(low, high))

    def _checked(self, span):
        span = as_span(span)
        if not 0 <= span.start < span.end <= len(self.text):
            raise ValueError(
                f"Expected 0 <= start < end <= {len(self.text)}, the length of the text. "
                f"Received: span {tuple(span)} of {self.text[:40]!r}"
            )
        return span


_lost = Counter()  # spans lost in this process: all, and those that hold blanks only


def _warn_lost(tokens, lost):
    """Count lost spans over all texts; warn at first, then when the count grows a digit."""
    before = _lost["all"]
    blank = sum(not tokens.text[start:end].strip() for start, end, _ in lost)
    _lost.update(all=len(lost), blank=blank)
    if before and len(str(before)) == len(str(_lost["all"])):
        return
    start, end, label = lost[0]
    warnings.warn(
        f"{_lost['all']} span(s) begin or end inside a word, hold no word ({_lost['blank']} hold "
        f"blanks only) or reach beyond a window, such as {label} {tokens.text[start:end]!r} at "
        f"({start}, {end}) of {tokens.text[:40]!r}. They have no label; see "
        "`AlignedSpans.lost`. In character mode all spans of a whole text have. On windows train "
        "with `Window.labels`.",
        stacklevel=3,
    )


class Window(NamedTuple):
    """A part of a long text that fits a model.

    Attributes:
        tokens: `TokenizedText` of the part, special tokens included, offsets into the WHOLE text.
        start: index of its first token in the whole text (special tokens not counted).
        stop: index after its last token.
        lead: number of special tokens in front.
    """

    tokens: TokenizedText
    start: int
    stop: int
    lead: int

    def labels(self, placed: np.ndarray) -> np.ndarray:
        """Labels to train on this window, sliced out of those of the WHOLE text.

        They are labels of a part: the first may continue a span that began before the window, and
        what two windows share is learned in both.

        Args:
            placed: `(n,)`, a label for each token of the whole text, from `TokenizedText.place`.

        Returns:
            `(m,)`, one per label position of `tokens`: what `BucketedBatches` takes. With -100 at
            all other tokens: `window.tokens.place(window.labels(placed))`.
        """
        if len(placed) < self.stop:
            raise ValueError(
                f"Expected a label for each token of the whole text, {self.stop} or more. "
                f"Received: {len(placed)} labels. `place` of the whole text puts them on its tokens"
            )
        mask = self.tokens.mask[self.lead : self.lead + self.stop - self.start]
        return np.asarray(placed)[self.start : self.stop][mask]


def window_bounds(length: int, room: int, overlap: int) -> list[tuple[int, int]]:
    """Cover `range(length)` by windows of `room` positions, neighbours sharing `overlap` or more.

    All windows are full: the last one is moved to the left rather than cut short.

    Args:
        length: number of positions.
        room: positions in a window.
        overlap: positions that two neighbours share at least, less than `room`.

    Returns:
        List of half-open `(start, stop)`; one window if everything fits.
    """
    if not 0 <= overlap < room:
        raise ValueError(
            "Expected 0 <= overlap < tokens in a window (its length without special tokens). "
            f"Received: overlap={overlap}, {room} tokens in a window"
        )
    if length <= room:
        return [(0, length)]
    starts = [*range(0, length - room, room - overlap), length - room]
    return [(start, start + room) for start in starts]


def stitch(windows: Sequence[Window], values: Sequence[np.ndarray]) -> np.ndarray:
    """Join what a model said about overlapping windows, so that ONE decode covers the whole text.

    Each token is taken from the window in which it is farthest from an edge. As all windows are
    equally long, that is the middle of the overlap of two neighbours.

    Args:
        windows: the windows of one text, in order.
        values: per window `(t, ...)`, such as emissions `(t, k)`; padding at the end is ignored.

    Returns:
        `(n, ...)` for the n tokens of the text, special tokens not counted.
    """
    _check_windows(windows, values)
    middles = [(a.stop + b.start) // 2 for a, b in pairwise(windows)]
    cuts = [0, *middles, windows[-1].stop]
    parts = []
    for window, array, start, stop in zip(windows, values, cuts, cuts[1:], strict=False):
        shift = window.lead - window.start  # row of a token in this window
        parts.append(np.asarray(array)[start + shift : stop + shift])
    return np.concatenate(parts)


def _check_windows(windows, values):
    if not windows or len(windows) != len(values):
        raise ValueError(
            "Expected one window or more, and one array per window. "
            f"Received: {len(windows)} windows and {len(values)} arrays"
        )
    if windows[0].start or any(not a.start < b.start <= a.stop for a, b in pairwise(windows)):
        places = [(window.start, window.stop) for window in windows]
        raise ValueError(f"Expected all windows of ONE text, in order. Received: {places}")
    for i, (window, array) in enumerate(zip(windows, values, strict=True)):
        if len(array) < len(window.tokens.ids):
            raise ValueError(
                f"Expected values for the {len(window.tokens.ids)} tokens of window {i}, special "
                f"tokens included. Received: shape {np.shape(array)}"
            )
