"""From text to tokens with offsets that are carried along, never searched for afterwards.

`CharacterAligner` makes exactly one token of every character of a string (Chinese);
`WordPieceAligner` makes the tokens of `keras_hub.tokenizers.BertTokenizer` and knows where each
came from. Both return `TokenizedText`. Text given by a user is plain text: a literal "[SEP]" in it
never becomes the special token.

No Keras is needed here: a vocabulary is a Keras-Hub tokenizer, a list, a dict, or a `vocab.txt`.
"""

import bisect
import os
import re
import unicodedata
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from keras_crf.folding import CharacterKinds, fold, fold_bounds
from keras_crf.text_files import numbered_lines
from keras_crf.tokenized_text import TokenizedText, Window, window_bounds

Vocabulary = Any  # Keras-Hub tokenizer, list of tokens, dict token -> id, or path of a vocab.txt

_MAX_BYTES_PER_WORD = 100  # longer words are unknown, as in Keras-Hub
_MAX_CACHED_WORDS = 200_000
_ENOUGH_TO_WARN = 20  # tokens seen before the share of unknown ones means anything

_WORDS = re.compile("w+|k")


class _Aligner:
    """What both modes share: the vocabulary, special tokens, pre-split words and windows."""

    def __init__(self, vocabulary, unknown, first, last, padding):
        self.vocabulary = read_vocabulary(vocabulary)
        self.unknown_id = self._special_id(unknown)
        self.padding, self._pad_id = padding, self.vocabulary.get(padding, 0)
        self.first, self.last = first, last
        self._seen = self._unknown = 0
        self._warned = False

    @property
    def pad_id(self) -> int:
        """Id of the padding token."""
        return self._special_id(self.padding)

    def __call__(self, text: str, add_special: bool = False) -> TokenizedText:
        """Tokenize one text.

        Args:
            text: any string.
            add_special: put `[CLS]` in front and `[SEP]` behind, both masked out.

        Returns:
            `TokenizedText`.
        """
        if not isinstance(text, str):
            raise ValueError(
                f"Expected one text, a str. Received: {type(text).__name__} {text!r:.40}"
            )
        return self._finished(text, self._tokenize(text), add_special)

    def words(
        self, words: Sequence[str], separator: str = " ", add_special: bool = False
    ) -> TokenizedText:
        """Tokenize words that are given, with exactly one label position per word.

        A word of which nothing is left (a zero-width blank) becomes one unknown token.

        Args:
            words: non-empty strings without the blanks between them.
            separator: what joins them to the text that offsets refer to; "" for Chinese.
            add_special: put `[CLS]` in front and `[SEP]` behind, both masked out.

        Returns:
            `TokenizedText` of `separator.join(words)`, its mask true at each word's first piece.
        """
        _check_words(words)
        parts, start = [], 0
        for word in words:
            parts.append(self._given_word(word, start))
            start += len(word) + len(separator)
        return self._finished(separator.join(words), _joined(parts), add_special)

    def _finished(self, text, parts, add_special):
        tokens = TokenizedText(text, *parts, pad_id=self._pad_id)
        self._count_unknown(tokens)
        return self._with_special(tokens) if add_special else tokens

    def windows(
        self,
        tokens: TokenizedText,
        max_length: int,
        overlap: int | None = None,
        add_special: bool = True,
    ) -> list[Window]:
        """Cut the tokens of a long text into overlapping windows; `stitch` joins the results.

        Args:
            tokens: the whole text, tokenized without special tokens.
            max_length: tokens in a window, special tokens included: the model's length.
            overlap: tokens that two neighbours share at least; a quarter of `max_length` if None.
            add_special: put `[CLS]` and `[SEP]` around each window.

        Returns:
            List of `Window`: a single one if the text fits. Their labels for training are slices of
            those of the whole text: see `Window.labels`.
        """
        if len(tokens.mask) and not tokens.mask[0]:
            raise ValueError(
                "Expected a text tokenized without special tokens, as each window gets its own. "
                f"Received: first token {tokens.ids[0]} without a label. Leave out `add_special`"
            )
        room = max_length - 2 * add_special
        overlap = max_length // 4 if overlap is None else overlap
        windows = []
        for start, stop in window_bounds(len(tokens.ids), room, overlap):
            part = tokens.part(start, stop)
            part = self._with_special(part) if add_special else part
            windows.append(Window(part, start, stop, int(add_special)))
        return windows

    def _given_word(self, word, start):
        ids, offsets, _ = self._tokenize(word)
        if not len(ids):
            ids, offsets = np.array([self.unknown_id], "int32"), np.zeros((1, 2), "int32")
        offsets = offsets + start
        offsets[0, 0], offsets[-1, 1] = start, start + len(word)  # characters without a token too
        return ids, offsets, np.arange(len(ids)) == 0

    def _with_special(self, tokens):
        start, end = (tokens.offsets[0, 0], tokens.offsets[-1, 1]) if len(tokens.ids) else (0, 0)
        ids = [[self._special_id(self.first)], tokens.ids, [self._special_id(self.last)]]
        offsets = [[[start, start]], tokens.offsets, [[end, end]]]
        return tokens._replace(
            ids=np.concatenate(ids).astype("int32"),
            offsets=np.concatenate(offsets).astype("int32"),
            mask=np.concatenate([[False], tokens.mask, [False]]),
        )

    def _special_id(self, token):
        if token not in self.vocabulary:
            raise ValueError(
                f"Expected the special token {token!r} in the vocabulary of "
                f"{len(self.vocabulary)} entries. Name the token that stands for it, or add it"
            )
        return self.vocabulary[token]

    def _count_unknown(self, tokens):
        if self._warned:
            return
        unknown = tokens.offsets[tokens.ids == self.unknown_id].tolist()
        blank = sum(tokens.text[start:end].isspace() for start, end in unknown)
        self._seen += len(tokens.ids) - blank
        self._unknown += len(unknown) - blank
        if self._seen < _ENOUGH_TO_WARN or self._unknown * 3 <= self._seen:
            return
        self._warned = True
        warnings.warn(
            f"{self._unknown} of the first {self._seen} tokens are unknown. Check that vocabulary "
            "and text belong together, that `lowercase` is right, and that character mode is "
            "used for a vocabulary of characters.",
            stacklevel=4,
        )


class CharacterAligner(_Aligner):
    r"""One token per character, so that `len(labels) == len(text)` for EVERY string.

    An id is looked up for the character itself, else for its lower-case or NFKC form (full-width
    digits and letters) when that is one entry of the vocabulary; else it is the unknown token.

    Args:
        vocabulary: Keras-Hub tokenizer, list of tokens, dict token -> id, or path of a `vocab.txt`
            (one token a line).
        blank: token for blanks, which BERT vocabularies lack; the unknown token by default.
        unknown: name of the unknown token.
        first: name of the token in front of a text.
        last: name of the token behind a text.
        padding: name of the padding token.

    Example:
        >>> align = CharacterAligner(["[UNK]", "a", "1"])
        >>> align("A\uff11 ?").ids.tolist()
        [1, 2, 0, 0]
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        blank: str | None = None,
        unknown: str = "[UNK]",
        first: str = "[CLS]",
        last: str = "[SEP]",
        padding: str = "[PAD]",
    ):
        """Read the vocabulary and find the special tokens in it."""
        super().__init__(vocabulary, unknown, first, last, padding)
        blank_id = self.unknown_id if blank is None else self._special_id(blank)
        self._ids = _CharacterIds(self.vocabulary, self.unknown_id, blank_id)
        self._steps = np.zeros((0, 2), "int32")

    def _tokenize(self, text):
        ids = np.array([*map(self._ids.__getitem__, text)], "int32")
        return ids, self._offsets(len(text)), np.ones(len(text), bool)

    def _offsets(self, length):
        """Rows `(i, i + 1)`: a read-only view of one array that grows with the longest text."""
        if length > len(self._steps):
            start = np.arange(max(length, 2 * len(self._steps)), dtype="int32")
            self._steps = np.stack([start, start + 1], axis=1)
            self._steps.flags.writeable = False
        return self._steps[:length]


class _CharacterIds(dict):
    """Character -> id, filled while characters are met."""

    def __init__(self, vocabulary, unknown_id, blank_id):
        super().__init__()
        self.vocabulary, self.unknown_id, self.blank_id = vocabulary, unknown_id, blank_id

    def __missing__(self, char):
        normal = unicodedata.normalize("NFKC", char)
        forms = (form for form in (char, char.lower(), normal, normal.lower()))
        default = self.blank_id if char.isspace() else self.unknown_id
        found = next((form for form in forms if form in self.vocabulary), None)
        self[char] = default if found is None else self.vocabulary[found]
        return self[char]

    def __reduce__(self):  # a dict with arguments of its own does not pickle by itself
        return _CharacterIds, (self.vocabulary, self.unknown_id, self.blank_id)


class WordPieceAligner(_Aligner):
    """The ids of `keras_hub.tokenizers.BertTokenizer`, with offsets.

    The first piece of a word carries its label, the others are masked out.
    Words end at blanks and control characters; punctuation and CJK characters are words of their
    own. Each word is folded (if `lowercase`) and cut into the longest pieces of the vocabulary.
    U+3000 is no blank to Keras-Hub, so that it is none here.

    Args:
        vocabulary: Keras-Hub tokenizer, list of tokens, dict token -> id, or path of a `vocab.txt`
            (one token a line).
        lowercase: NFKC and case folding. None: what the Keras-Hub tokenizer says, else False.
        split_on_cjk: whether CJK characters are words. None: likewise, else True.
        suffix_indicator: mark in front of pieces that continue a word.
        unknown: name of the unknown token.
        first: name of the token in front of a text.
        last: name of the token behind a text.
        padding: name of the padding token.

    Example:
        >>> align = WordPieceAligner(["[UNK]", "play", "##ing"], lowercase=True)
        >>> align("Playing!").offsets.tolist()
        [[0, 4], [4, 7], [7, 8]]

    Source: Schuster and Nakajima, "Japanese and Korean voice search", 2012.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        lowercase: bool | None = None,
        split_on_cjk: bool | None = None,
        suffix_indicator: str = "##",
        unknown: str = "[UNK]",
        first: str = "[CLS]",
        last: str = "[SEP]",
        padding: str = "[PAD]",
    ):
        """Read the vocabulary and find the special tokens in it."""
        super().__init__(vocabulary, unknown, first, last, padding)
        if hasattr(vocabulary, "get_vocabulary"):
            _check_tokenizer(vocabulary, suffix_indicator)
        if lowercase is None:
            lowercase = getattr(vocabulary, "lowercase", False)
        if split_on_cjk is None:
            split_on_cjk = getattr(vocabulary, "split_on_cjk", True)
        self.lowercase, self.suffix_indicator = lowercase, suffix_indicator
        self._kinds = CharacterKinds(split_on_cjk)
        self._longest = max(map(len, self.vocabulary))
        self._cache = {}

    def _tokenize(self, text):
        ids, offsets, mask = [], [], []
        for match in _WORDS.finditer(text.translate(self._kinds)):
            start, end = match.span()
            word = text[start:end]
            pieces = self._cache.get(word)
            if pieces is None:
                pieces = self._remember(word)
            first = True
            for piece, left, right in pieces:
                ids.append(piece)
                offsets.append((start + left, start + right))
                mask.append(first)
                first = False
        offsets = np.array(offsets, "int32").reshape(-1, 2)
        return np.array(ids, "int32"), offsets, np.array(mask, bool)

    def _remember(self, word):
        if len(self._cache) >= _MAX_CACHED_WORDS:
            self._cache.clear()
        self._cache[word] = pieces = self._pieces(word)
        return pieces

    def _pieces(self, word):
        """The pieces of a word as `(id, start, end)`, characters counted from its start."""
        folded = fold(word) if self.lowercase else word
        if len(folded.encode("utf-8", "surrogatepass")) > _MAX_BYTES_PER_WORD:
            return [(self.unknown_id, 0, len(word))]
        cuts = self._cuts(folded)
        if cuts is None:
            return [(self.unknown_id, 0, len(word))]
        positions, sources = fold_bounds(word, folded)
        pieces = []
        for start, end, piece in cuts:
            left = bisect.bisect_right(positions, start) - 1
            right = bisect.bisect_left(positions, end)
            pieces.append((piece, sources[left], sources[right]))
        return pieces

    def _cuts(self, word):
        """Greedy longest match first: `(start, end, id)` per piece, None if a part has none."""
        cuts, start = [], 0
        while start < len(word):
            prefix = self.suffix_indicator if start else ""
            for end in range(min(len(word), start + self._longest), start, -1):
                piece = self.vocabulary.get(prefix + word[start:end])
                if piece is not None:
                    break
            else:
                return None
            cuts.append((start, end, piece))
            start = end
        return cuts


def read_vocabulary(vocabulary: Vocabulary) -> dict[str, int]:
    """Read a vocabulary as a dict from token to id.

    Args:
        vocabulary: Keras-Hub tokenizer, list of tokens, dict token -> id, or path of a `vocab.txt`
            (one token a line, gzip and xz too).

    Returns:
        Dict from token to id.
    """
    if isinstance(vocabulary, Mapping):
        return dict(vocabulary)
    if isinstance(vocabulary, set | frozenset):
        raise ValueError(
            "Expected tokens in the order of their ids. Received: a set, without order"
        )
    if isinstance(vocabulary, str | os.PathLike):
        vocabulary = [line.rstrip() for _, line in numbered_lines(vocabulary)]
    elif hasattr(vocabulary, "get_vocabulary"):
        vocabulary = vocabulary.get_vocabulary()
    return {token: i for i, token in enumerate(vocabulary)}


def _check_tokenizer(tokenizer, suffix_indicator):
    """Refuse Keras-Hub settings under which the ids would differ."""
    ours = {"split": True, "strip_accents": False, "suffix_indicator": suffix_indicator}
    for name, expected in ours.items():
        if getattr(tokenizer, name, expected) != expected:
            raise ValueError(
                f"Expected a tokenizer with {name}={expected!r}. "
                f"Received: {name}={getattr(tokenizer, name)!r}. Pass `get_vocabulary()` of it to "
                "do without this setting"
            )


def _check_words(words):
    if isinstance(words, str):
        raise ValueError(f"Expected a list of words. Received: the text {words[:40]!r}")
    if "" in words:
        raise ValueError(f"Expected words of one character or more. Received: {list(words)!r:.80}")


def _joined(parts):
    """Concatenate (ids, offsets, mask) of the parts of a text."""
    if not parts:
        return np.zeros(0, "int32"), np.zeros((0, 2), "int32"), np.zeros(0, bool)
    ids, offsets, mask = zip(*parts, strict=True)
    return np.concatenate(ids), np.concatenate(offsets), np.concatenate(mask)
