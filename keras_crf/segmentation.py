"""Word segmentation as labels: words to s, b, m, e and back, and long sentences cut to length."""

import warnings
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

SEGMENTATION_LABELS = ("s", "b", "m", "e")
"""Single, begin, middle, end: the label ids 0 to 3, in the order of bert4keras."""

_SENTENCE_ENDS = frozenset("。！？!?；;…")
_CLAUSE_ENDS = frozenset("，,、：:")
_CLOSERS = frozenset("”’」』）)】》〉")


def words_to_labels(words: Sequence[str]) -> tuple[str, np.ndarray]:
    """Turn the words of a sentence into its text and one label per character.

    Args:
        words: non-empty strings.

    Returns:
        `(text, labels)`: the words joined without blanks, and int32 `(len(text),)` with
        s=0 (word of one character), b=1, m=2, e=3 (first, middle, last character).
    """
    _check_words(words)
    labels = []
    for word in words:
        labels += [0] if len(word) == 1 else [1, *[2] * (len(word) - 2), 3]
    return "".join(words), np.array(labels, dtype="int32")


def labels_to_words(text: str, labels: Sequence[int]) -> list[str]:
    """Cut a text into words: s and b open a word, m and e extend it.

    Illegal sequences, such as m after s, are read the same way and never raise.

    Args:
        text: raw text.
        labels: `(len(text),)` ids of `SEGMENTATION_LABELS`, one per character.

    Returns:
        Words whose concatenation is `text`.
    """
    labels = np.asarray(labels)
    if labels.shape != (len(text),):
        raise ValueError(
            "Expected one label per character. "
            f"Received: {len(text)} characters, labels of shape {labels.shape}"
        )
    if wrong := np.flatnonzero((labels < 0) | (labels > 3)).tolist():
        raise ValueError(
            "Expected label ids 0 to 3 (s, b, m, e); leave out masked positions before the call. "
            f"Received: {labels[wrong[0]]} at position {wrong[0]}"
        )
    starts = [0, *(np.flatnonzero(labels[1:] <= 1) + 1).tolist(), len(text)]
    return [text[i:j] for i, j in pairwise(starts)] if text else []


def split_at_punctuation(words: Sequence[str], max_length: int) -> list[list[str]]:
    """Cut the words of a long sentence into pieces of at most `max_length` characters.

    Each cut falls at a word border as far to the right as possible: after sentence punctuation
    (with its closing quotes and brackets) where the piece holds any, else after a comma or colon,
    else anywhere between two words. A sentence that fits stays whole.

    A word longer than `max_length` leaves no such border: it is cut into chunks of `max_length`
    characters, which stand as words of their own, and a warning names it. Joined, the pieces
    always give the text of the sentence.

    Args:
        words: the words of one sentence, non-empty strings.
        max_length: largest number of characters in a piece, 1 or more.

    Returns:
        List of pieces, each a non-empty list of words.
    """
    if max_length < 1:
        raise ValueError(f"Expected max_length >= 1. Received: {max_length}")
    _check_words(words)
    words = [chunk for word in words for chunk in _chunks(word, max_length)]
    lengths = np.cumsum([0] + [len(word) for word in words])  # lengths[i]: characters before word i
    pieces, start = [], 0
    while start < len(words):
        limit = int(np.searchsorted(lengths, lengths[start] + max_length, side="right")) - 1
        end = _best_border(words, start, limit)
        pieces.append(list(words[start:end]))
        start = end
    return pieces


def _check_words(words):
    if "" in words:
        raise ValueError(
            "Expected words of one character or more. "
            f"Received: words[{list(words).index('')}] is empty"
        )


def _chunks(word, max_length):
    if len(word) <= max_length:
        return [word]
    warnings.warn(
        f"The word {word!r} has {len(word)} characters, more than max_length={max_length}, and "
        "was cut into several words. Raise max_length to keep it whole.",
        stacklevel=3,
    )
    return [word[i : i + max_length] for i in range(0, len(word), max_length)]


def _best_border(words, start, limit):
    """The border in (start, limit] of highest rank, the rightmost among equals."""
    if limit == len(words):
        return limit
    return max(range(start + 1, limit + 1), key=lambda i: (_border_rank(words, i), i))


def _border_rank(words, border):
    """2 after a sentence, 1 after a clause, 0 elsewhere; closers stay with what they close."""
    if words[border][0] in _CLOSERS:
        return 0
    last = border - 1
    while last > 0 and words[last] in _CLOSERS:
        last -= 1
    final = words[last][-1]
    return 2 if final in _SENTENCE_ENDS else 1 if final in _CLAUSE_ENDS else 0
