"""A text, its tokens, and the way between labels, tokens and characters.

Three kinds of positions meet in a tagger:

- *characters* of the raw text, in which spans are given and returned: `text[start:end]`;
- *tokens*, the rows a model sees: pieces of words, `[CLS]`, `[SEP]`;
- *label positions*, the tokens that carry a label, one per word (or per character): the others are
  masked out.

`TokenizedText` holds all three; `split_windows` and `stitch` deal with texts longer than a model.
"""

import warnings
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

Span = tuple[int, int, str]


class AlignedSpans(NamedTuple):
    """Spans in label positions, and the spans that have none.

    Attributes:
        spans: list of `(first, last + 1, label)`, half-open, in label positions.
        lost: list of `(start, end, label)`, in characters: spans that begin or end inside a word
            or hold no word at all.
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
    """

    text: str
    ids: np.ndarray
    offsets: np.ndarray
    mask: np.ndarray

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
            spans: `(start, end, label)`, half-open characters of `text`.
            warn: count lost spans in a warning.

        Returns:
            `AlignedSpans`. A span that would cut a word is in `lost`.
        """
        spans = [self._checked(span) for span in spans]
        starts, ends = np.array([span[:2] for span in spans], "int32").reshape(-1, 2).T
        # A label beyond the last, so that every index below has one.
        firsts, lasts = np.append(self.label_offsets(), [[len(self.text)] * 2], axis=0).T
        first = np.searchsorted(lasts[:-1], starts, side="right")
        last = np.searchsorted(firsts[:-1], ends, side="left")
        whole = (first < last) & (starts <= firsts[first]) & (lasts[last - 1] <= ends)
        aligned, lost = [], []
        for span, i, j, fits in zip(spans, first.tolist(), last.tolist(), whole, strict=True):
            aligned.append((i, j, span[2])) if fits else lost.append(span)
        if lost and warn:
            self._warn_lost(lost)
        return AlignedSpans(aligned, lost)

    def restore(self, spans: Iterable[Span]) -> list[Span]:
        """Turn spans of label positions back into character spans.

        Args:
            spans: `(first, last + 1, label)`, half-open, in label positions.

        Returns:
            List of `(start, end, label)`, half-open characters of `text`.
        """
        offsets = self.label_offsets()
        restored = []
        for first, last, label in spans:
            if not 0 <= first < last <= len(offsets):
                raise ValueError(
                    f"Expected 0 <= first < last <= {len(offsets)}, the number of labels. "
                    f"Received: ({first}, {last}, {label!r})"
                )
            restored.append((int(offsets[first, 0]), int(offsets[last - 1, 1]), label))
        return restored

    def place(self, labels: Sequence[int], fill: int = -100) -> np.ndarray:
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

    def _checked(self, span):
        start, end, _ = span
        if not 0 <= start < end <= len(self.text):
            raise ValueError(
                f"Expected 0 <= start < end <= {len(self.text)}, the length of the text. "
                f"Received: span {span} of {self.text[:40]!r}"
            )
        return span

    def _warn_lost(self, lost):
        start, end, label = lost[0]
        warnings.warn(
            f"{len(lost)} span(s) begin or end inside a word, the first being {label} "
            f"{self.text[start:end]!r} at ({start}, {end}) of {self.text[:40]!r}. They have no "
            "label; see `AlignedSpans.lost`. In character mode every span has one.",
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
    if len(windows) != len(values):
        raise ValueError(
            "Expected one array per window. "
            f"Received: {len(windows)} windows and {len(values)} arrays"
        )
    middles = [(a.stop + b.start) // 2 for a, b in pairwise(windows)]
    cuts = [0, *middles, windows[-1].stop]
    parts = []
    for window, array, start, stop in zip(windows, values, cuts, cuts[1:], strict=False):
        shift = window.lead - window.start  # row of a token in this window
        parts.append(np.asarray(array)[start + shift : stop + shift])
    return np.concatenate(parts)
