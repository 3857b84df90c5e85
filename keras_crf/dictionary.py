"""Word lists at decode time: a dictionary becomes scores or permitted labels for every position.

*Soft*, `Dictionary.bonus`: a listed word is worth some nats, so that it wins where the model is in
doubt. *Hard*, `Dictionary.allowed_labels`: a listed word comes out whole wherever it stands. Both
are arrays for `ViterbiDecoder.decode`; no model has to be trained again.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import product

import numpy as np

from keras_crf.spans import Span
from keras_crf.tag_schemes import TagSet
from keras_crf.tokenized_text import TokenizedText

_END = ""  # key of a word's type in the trie: no character is empty
_UNTYPED = {(): None, ("",): ""}  # types of a tag set for words, and the label of their spans


class Dictionary:
    """Words to be found in texts, for segmentation or, with a type each, for entities.

    Args:
        words: strings, or a mapping from string to type: `{"冯家坪": "LOC"}`. They are compared
            with the raw text character by character, upper and lower case included.

    Attributes:
        words: dict from word to type, None without types.

    Example:
        dictionary = Dictionary(["量子点", "显示屏"])
        tags = TagSet(scheme="SBME")
        decoder.decode(nodes, bonus=dictionary.bonus(text, tags, weight=3.0))
        decoder.decode(nodes, allowed_labels=dictionary.allowed_labels(text, tags))
    """

    def __init__(self, words: Iterable[str] | Mapping[str, str]):
        """See the class."""
        if isinstance(words, str):
            raise TypeError(f"Expected a list of words or a mapping to types. Received: {words!r}")
        self.words = dict(words) if isinstance(words, Mapping) else dict.fromkeys(words)
        self._types = {*self.words.values()}
        self._trie = {}
        for word, label in self.words.items():
            _check_word(word)
            node = self._trie
            for char in word:
                node = node.setdefault(char, {})
            node[_END] = label

    def __len__(self):
        """Number of words."""
        return len(self.words)

    def find(self, text: str) -> list[Span]:
        """All places of all words, those that overlap included.

        Returns:
            `Span(start, end, type)`s, half-open characters of `text`, by start and then by end.
        """
        found = []
        for start, char in enumerate(text):
            node, end = self._trie.get(char), start + 1
            while node is not None:
                if _END in node:
                    found.append(Span(start, end, node[_END]))
                node = node.get(text[end]) if end < len(text) else None
                end += 1
        return found

    def bonus(
        self,
        text: str | TokenizedText,
        tags: TagSet,
        weight: float,
        labels: Sequence[str] | None = None,
    ) -> np.ndarray:
        """Scores that make listed words likelier, to be added to emissions.

        A word of n positions gives weight / n to the label that spells it at each of them, so that
        a path that spells the whole word gains `weight`; a path that spells a part gains a part.
        Where words overlap, a label gets the largest of their scores, not the sum: none ever gets
        more than `weight`, however many words of the list stand within each other.

        The gain is per word. Where a listed word is made of listed words, their sum is larger: list
        what shall come out whole. In schemes without a letter for the last position (BIO, IOB1) a
        longer entity that begins with the word gains as much as the word.

        Args:
            text: a raw text, one position per character, or a tokenized one, one position per
                token, of which those with a label count.
            tags: scheme and types. Without types (SBME) those of the words are ignored.
            weight: nats, above 0. The odds of a path with the word rise by a factor e^weight.
            labels: the k names in the order of the emissions; that of `tags` by default.

        Returns:
            float32 `(t, k)`.
        """
        if not 0 < weight < np.inf:
            raise ValueError(f"Expected a weight above 0, in nats. Received: {weight!r}")
        matches, kept = self._matches(text, tags)
        scores = np.zeros((int(kept.sum()), len(tags)), "float32")
        for positions, lengths, label in _spelled(matches, tags):
            np.maximum.at(scores[:, label], positions, (weight / lengths).astype("float32"))
        return _on_rows(_in_order_of(labels, scores, tags), kept, np.float32(0))

    def allowed_labels(
        self, text: str | TokenizedText, tags: TagSet, labels: Sequence[str] | None = None
    ) -> np.ndarray:
        """Labels with which every listed word comes out whole, as one span with just its borders.

        Where words overlap, the leftmost wins, of those that begin together the longest. The labels
        of the other positions stay free but for those beside a word, which can not go on with it or
        lead into it. With the transitions of the scheme there is always a legal path; without any,
        the path that comes out reads the same.

        Args:
            text: as in `bonus`.
            tags: as in `bonus`.
            labels: as in `bonus`.

        Returns:
            Booleans `(t, k)`.
        """
        matches, kept = self._matches(text, tags)
        allowed = np.ones((int(kept.sum()), len(tags)), bool)
        chosen = leftmost_longest(matches)
        ids, forced = tags.encode(chosen, len(allowed)), _covered(chosen, len(allowed))
        opens, closes = forced[1:] & ~forced[:-1], forced[:-1] & ~forced[1:]
        allowed[:-1][opens] &= tags.borders.T[ids[1:][opens]]
        allowed[1:][closes] &= tags.borders[ids[:-1][closes]]
        allowed[forced] = np.eye(len(tags), dtype=bool)[ids[forced]]
        return _on_rows(_in_order_of(labels, allowed, tags), kept, True)

    def _matches(self, text, tags):
        """Spans in label positions, and booleans (t,): the rows of these positions."""
        if isinstance(text, str):
            matches, kept = self.find(text), np.ones(len(text), bool)
        else:
            matches, kept = text.align(self.find(text.text), warn=False).spans, text.mask
        if tags.types not in _UNTYPED:
            self._check_types(tags)
            return matches, kept
        label = _UNTYPED[tags.types]
        return [Span(start, end, label) for start, end, _ in matches], kept

    def _check_types(self, tags):
        unknown = sorted(map(str, self._types - {*tags.types}))
        if unknown:
            raise ValueError(
                f"Expected words of the types {list(tags.types)}. Received: words of type "
                f"{unknown}. Make the dictionary from a mapping such as "
                f"{{word: {tags.types[0]!r}}}."
            )


def leftmost_longest(spans: Iterable[Span]) -> list[Span]:
    """Of spans that overlap the one that begins first, of those that begin together the longest."""
    chosen, free = [], 0
    for span in sorted(spans, key=lambda span: (span[0], -span[1])):
        if span[0] >= free:
            chosen.append(span)
            free = span[1]
    return chosen


def _check_word(word):
    if not isinstance(word, str) or not word or word != word.strip():
        raise ValueError(
            "Expected words of one character or more, without blanks or line ends around them. "
            f"Received: {word!r}. `str.strip` takes them away."
        )


def _covered(spans, length):
    """Booleans (t,): the positions in any of the spans, which do not overlap."""
    covered = np.zeros(length + 1, "int8")
    for start, end, _ in spans:
        covered[start] += 1
        covered[end] -= 1
    return np.cumsum(covered[:length]) > 0


def _in_order_of(labels, columns, tags):
    """Columns (t, k) of the tags, in the order of a model's labels."""
    return columns if labels is None else columns[:, tags.to_ids(list(labels))]


def _spelled(spans, tags):
    """Yields positions `(n,)`, the lengths of the spans they are in, and a label that spells these.

    A position occurs once for each span it is in.
    """
    by_type = defaultdict(list)
    for start, end, label in spans:
        by_type[label].append((start, end))
    for label, bounds in by_type.items():
        bounds = np.array(bounds)
        lengths = bounds[:, 1] - bounds[:, 0]
        owner = np.repeat(np.arange(len(bounds)), lengths)  # (n,): the span of each position
        place = np.arange(len(owner)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        positions, lengths = bounds[owner, 0] + place, lengths[owner]
        begins, ends = place == 0, place == lengths - 1
        roles = begins & ends, begins & ~ends, ~begins & ~ends, ends & ~begins
        for role, ids in zip(roles, _spellings(tags, label), strict=True):
            for i in ids:
                yield positions[role], lengths[role], i


def _spellings(tags, label):
    """Label ids of a span of one position, and of first, inner and last positions.

    Several where the letter depends on whether a span of the same type is beside it (IOB1, IOE1).
    """
    found = [set(), set(), set(), set()]
    for left, right in product((0, 1), repeat=2):
        beside = [(0, 1, label)] * left, [(4, 5, label)] * right
        first, inner, last = tags.encode([*beside[0], (1, 4, label), *beside[1]], 5)[1:4].tolist()
        beside = [(0, 1, label)] * left, [(2, 3, label)] * right
        single = tags.encode([*beside[0], (1, 2, label), *beside[1]], 3)[1].item()
        for ids, i in zip(found, (single, first, inner, last), strict=True):
            ids.add(i)
    return found


def _on_rows(values, kept, fill):
    """Values of the label positions on all rows: (t, k)."""
    rows = np.full((len(kept), values.shape[1]), fill, values.dtype)
    rows[kept] = values
    return rows
