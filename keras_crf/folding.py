"""Where words begin and end, and how they are lower-cased, with places in the raw text kept."""

import re
import unicodedata
from collections.abc import Sequence

_CJK = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)
# Default_Ignorable_Code_Point of the Unicode standard: folding drops these.
_IGNORABLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)


class CharacterKinds(dict):
    """Code point -> "w" part of a word, "k" a word of its own, "-" between words.

    Meant for `str.translate`. The rules are those of BERT's basic tokenizer as Keras-Hub has them.
    """

    def __init__(self, split_on_cjk: bool):
        """Start empty: kinds are looked up when a character is met first."""
        super().__init__()
        self.split_on_cjk = split_on_cjk

    def __missing__(self, code):
        """Find the kind of a code point and keep it."""
        char = chr(code)
        category = unicodedata.category(char)
        if char == " " or category in ("Cc", "Cf"):
            kind = "-"
        elif category[0] == "P" or (char.isascii() and not char.isalnum()):
            kind = "k"
        else:
            is_cjk = any(low <= code <= high for low, high in _CJK)
            kind = "k" if is_cjk and self.split_on_cjk else "w"
        self[code] = kind
        return kind

    def __reduce__(self):
        """A dict with an argument of its own does not pickle by itself."""
        return CharacterKinds, (self.split_on_cjk,)


def fold(word: str) -> str:
    """Unicode NFKC_Casefold, the lower-casing of Keras-Hub."""
    if word.isascii():
        return word.lower()
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", word).casefold())
    return _IGNORABLE.sub("", folded)


def fold_bounds(word: str, folded: str) -> tuple[Sequence[int], Sequence[int]]:
    """Where a folded word can be cut, and the same places in the raw word.

    Folding may lengthen a word (one sharp s, two letters), shorten it (letter and accent) and drop
    characters. A place i is a border if the parts before and after it fold on their own. What is
    dropped belongs to the character before it.

    Args:
        word: raw word.
        folded: `fold(word)`, or `word` itself when nothing is folded.

    Returns:
        `(positions, sources)`: borders in the folded word, ascending, and in the raw word.
    """
    if word.isascii() or word == folded:
        return range(len(word) + 1), range(len(word) + 1)
    bounds = {}
    # A word this long holds mostly what is dropped; trying each place would take quadratic time.
    for i in range(len(word) + 1) if len(word) <= 400 else (0, len(word)):
        left = fold(word[:i])
        if left + fold(word[i:]) == folded:
            bounds[len(left)] = i
    bounds[0] = 0
    positions = sorted(bounds)
    return positions, [bounds[position] for position in positions]
