"""The table of tag schemes, what follows from one of its rows, and how tag names are read."""

import re
from functools import cache
from typing import NamedTuple

import numpy as np


class Scheme(NamedTuple):
    """One row of the table: the letters of a scheme and what each may do."""

    letters: str  # in the order of their ids
    opens: str  # letters of the first tag of a span
    closes: str  # letters of the last tag of a span
    opens_beside: str  # the first tag where a span of the SAME type ends just before
    closes_beside: str  # the last tag where a span of the SAME type begins just after
    joins: str  # pairs of letters that stand side by side within one span
    clings: str = ""  # letters that the lenient reading attaches to whatever is in front


SCHEMES = {
    #                 letters  opens closes  beside: opens closes  joins
    "BIO": Scheme("BI", "B", "BI", "B", "BI", "BI II"),
    "IOB1": Scheme("BI", "I", "BI", "B", "BI", "BI II"),
    "IOE1": Scheme("IE", "IE", "I", "IE", "E", "II IE"),
    "IOE2": Scheme("IE", "IE", "E", "IE", "E", "II IE"),
    "BIOES": Scheme("BIES", "BS", "ES", "BS", "ES", "BI BE II IE"),
    "BILOU": Scheme("BILU", "BU", "LU", "BU", "LU", "BI BL II IL"),
    "BMES": Scheme("BMES", "BS", "ES", "BS", "ES", "BM BE MM ME"),
    "SBME": Scheme("sbme", "sb", "se", "sb", "se", "bm be mm me", clings="me"),
}
ALIASES = {"IOB2": "BIO", "IOBES": "BIOES", "BIOUL": "BILOU"}


def derive(row, letters, groups):
    """What may follow what, from a row of `SCHEMES` and the letter and type of each id.

    Four tables (k + 1, k + 1) of booleans about tag i in front of tag j: j goes on with the span of
    i; the same, lenient; j may open a span behind i; i may close a span in front of j.
    """
    same = groups[:, None] == groups

    def able(chosen):  # O and the border, both "", can open and close anywhere
        return np.isin(letters, [*chosen, ""])

    joins = same & np.isin(np.char.add(letters[:, None], letters), row.joins.split())
    clings = same & np.isin(letters, [*row.clings])
    opens = np.where(same, able(row.opens_beside), able(row.opens))
    closes = np.where(same, able(row.closes_beside)[:, None], able(row.closes)[:, None])
    return joins, joins | clings, opens, closes


@cache
def spelling_of(row, left, right):
    """Places in `row.letters` of the single, first, inner and last letter of a span.

    Each is the only letter that may open, close, be joined to the next or to the one before.
    `left`, `right`: whether a span of the same type touches this one there.
    """
    opens = row.opens_beside if left else row.opens
    closes = row.closes_beside if right else row.closes
    joined_on, joined_to = zip(*row.joins.split(), strict=True)
    needs = [(opens, closes), (opens, joined_on), (joined_on, joined_to), (joined_to, closes)]
    return tuple(row.letters.index(*(set(a) & set(b))) for a, b in needs)


def checked_types(types):
    """Types as a tuple; refuses what has no order or is not different."""
    if not isinstance(types, str | bytes | set | frozenset):
        types = tuple(types)
        if all(isinstance(label, str) for label in types) and len(set(types)) == len(types):
            return types
    raise ValueError(
        "types must be a list of different names, whose order is that of the ids (that of a set "
        f"changes from run to run). Received: {types!r}."
    )


def check_arguments(types, scheme, separator):
    """Refuses what makes no tag set."""
    known = [*SCHEMES, *ALIASES]
    if not isinstance(scheme, str) or scheme.upper() not in known:
        raise ValueError(f"Unknown scheme {scheme!r}, expected one of {', '.join(known)}.")
    if separator not in ("-", "_"):
        raise ValueError(f'Expected the separator "-" or "_". Received: {separator!r}.')
    if (scheme.upper() == "SBME") == (len(types) > 0):
        raise ValueError(
            f"{scheme} was given the types {list(types)}. Segmentation (SBME) has none, every "
            'other scheme one or more, such as ["PER", "LOC"].'
        )


def take_apart(tag, corpus=None):
    """Letter, type and separator of a tag name; three times None if it is none."""
    match = re.fullmatch(r"([A-Za-z])(?:([-_])(.+))?", str(tag), re.DOTALL)
    if match is None and corpus is not None:
        place = next((n, tags.index(tag)) for n, tags in enumerate(corpus) if tag in tags)
        raise ValueError(
            f"Tag {tag!r} in sequence {place[0]} at position {place[1]} is neither O, nor a "
            "letter, nor a letter and a type with - or _ between them, such as B-PER."
        )
    return (match[1].upper(), match[3] or "", match[2] or "") if match else (None, None, None)
