"""Spans, half-open: `text[start:end]` is the entity or the word."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from operator import index
from typing import NamedTuple

import numpy as np

IGNORE = -100
"""Label of the positions that carry none: `[CLS]`, `[SEP]`, continuing pieces, padding."""


class Span(NamedTuple):
    """Positions `start` to `end - 1` and their type; for a word of a segmentation it is None."""

    start: int
    end: int
    label: str | None = None


def as_span(span: Sequence) -> Span:
    """A `Span` from `(start, end, label)`, or from `(start, end)` where there are no labels."""
    try:
        start, end, *label = span
        return Span(index(start), index(end), *label)
    except (TypeError, ValueError):
        raise ValueError(
            "Expected a span (start, end, label), or (start, end) where there are no labels, with "
            f"whole numbers. Received: {span!r}."
        ) from None


def word_spans(words: Iterable[str]) -> list[Span]:
    """The spans that the words of a sentence hold in the text that they make up together."""
    ends = np.cumsum([0, *map(len, words)]).tolist()
    return [Span(start, end) for start, end in pairwise(ends)]


def drop_overlaps(spans: Iterable[Sequence]) -> tuple[list[Span], list[Span]]:
    """Keep one of spans that overlap, as tags cannot spell both: the longest, else the first.

    Args:
        spans: `(start, end, label)` in any order.

    Returns:
        `(kept, dropped)`, each in the order of the text: count what was dropped.
    """
    kept, dropped = [], []
    for span in sorted(map(as_span, spans), key=lambda span: (span.start - span.end, span.start)):
        free = all(span.end <= other.start or other.end <= span.start for other in kept)
        (kept if free else dropped).append(span)
    return sorted(kept, key=_place), sorted(dropped, key=_place)


def in_order(spans: Iterable[Sequence], length: int) -> list[Span]:
    """Spans sorted by their start; refuses those outside of `length` positions and overlaps."""
    spans = sorted((_inside(as_span(span), length) for span in spans), key=_place)
    for left, right in pairwise(spans):
        if right.start < left.end:
            raise ValueError(
                f"Spans {tuple(left)} and {tuple(right)} overlap at position {right.start}: keep "
                "one, as `spans.drop_overlaps` does."
            )
    return spans


def _inside(span, length):
    if not 0 <= span.start < span.end <= length:
        raise ValueError(
            f"Span {tuple(span)} is empty or outside the text. Expected 0 <= start < end <= "
            f"{length}, the length of the text; end is one past the last position."
        )
    return span


def _place(span):
    return span[:2]
