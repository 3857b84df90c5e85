"""Word segmentation as labels: words to s, b, m, e and back, and long sentences cut to length."""

import warnings
from collections.abc import Sequence

import numpy as np

from keras_crf.spans import word_spans
from keras_crf.tag_schemes import TagSet

_SBME = TagSet(scheme="SBME")
_SENTENCE_ENDS = frozenset("。！？!?；;…")
_CLAUSE_ENDS = frozenset("，,、：:")
_CLOSERS = frozenset("”’」』）)】》〉")


def words_to_labels(words: Sequence[str]) -> tuple[str, np.ndarray]:
    """Turn the words of a sentence into its text and one label per character.

    Args:
        words: non-empty strings.

    Returns:
        `(text, labels)`: the words joined without blanks, and int32 `(len(text),)`, the ids of
        `TagSet(scheme="SBME")`: s=0 (word of one character), b=1, m=2, e=3 (first, middle, last).
    """
    _check_words(words)
    text = "".join(words)
    return text, _SBME.encode(word_spans(words), len(text))


def labels_to_words(text: str, labels: Sequence[int]) -> list[str]:
    """Cut a text into words: s and b open a word, m and e extend it.

    Illegal sequences, such as m after s, are read the same way and never raise. This is
    `TagSet(scheme="SBME").decode` with slices of the text instead of spans.

    Args:
        text: raw text.
        labels: `(len(text),)` ids, or names, of s, b, m, e, one per character. Padding (negative)
            between two words is in neither; within a word it is taken in.

    Returns:
        Words; without padding their concatenation is `text`.
    """
    if len(labels) != len(text):
        raise ValueError(
            "Expected one label per character. "
            f"Received: {len(text)} characters, labels of shape {np.shape([*labels])}"
        )
    return [text[start:end] for start, end, _ in _SBME.decode(labels)]


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
