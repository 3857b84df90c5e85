"""Tag schemes: from spans to tags, back again, and which tags may follow which.

A span is `(start, end, label)`, half-open: `text[start:end]` is the entity or the word. A tagger
sees one tag per position, and a *scheme* says how spans are spelled as tags. Every scheme is one
row of `SCHEMES`; spelling, reading, legality and conversion all follow from that row.

A sequence of tags has two readings. The *lenient* one, the default, is that of the CoNLL script
`conlleval`: a tag continues the span in front of it if the scheme joins the two and their types
agree; any other tag but `O` opens a span. It reads whatever a model puts out. The *strict* one is
that of seqeval's strict mode: a span counts only if its first tag may open and its last tag may
close a span where they stand.

Sources: Ramshaw and Marcus 1995, "Text Chunking using Transformation-Based Learning" (IOB1); Tjong
Kim Sang and Veenstra 1999, "Representing Text Chunks" (IOB2, IOE1, IOE2); Ratinov and Roth 2009,
"Design Challenges and Misconceptions in Named Entity Recognition" (BILOU); Xue 2003, "Chinese Word
Segmentation as Character Tagging" (SBME; bert4keras for the order of its ids).
"""

from collections import Counter
from itertools import pairwise

import numpy as np

from keras_crf.legality import CorpusCheck, IllegalPlace
from keras_crf.scheme_table import (
    ALIASES,
    SCHEMES,
    check_arguments,
    checked_types,
    derive,
    spelling_of,
    take_apart,
)
from keras_crf.spans import IGNORE, Span, in_order


class TagSet:
    """The tags of one scheme for a list of types, and all that can be done with them.

    Ids follow bert4keras: `O` is 0, then all letters of the first type, all of the second, and so
    on; for segmentation s, b, m, e are 0 to 3. Wherever a method takes `tags`, these are the names
    or the ids of ONE sequence, shape `(t,)`. Negative ids (-1, -100) and the name None are padding:
    they are taken out before the tags are read, as masked positions are taken out of the chain. So
    an entity goes on across padding in its middle; its span keeps the positions of the input.

    Args:
        types: Names of the types in the order of their ids; any text, `"PER.NAM"`, `"組織"`. `[""]`
            gives tags that are bare letters. Empty for segmentation.
        scheme: "BIO" (also "IOB2"), "IOB1", "IOE1", "IOE2", "BIOES" (also "IOBES"), "BILOU" (also
            "BIOUL"), "BMES" (has `O`) or "SBME": word segmentation, no types and no `O`.
        separator: What `names` have between letter and type, "-" or "_". Both are understood.

    Attributes:
        names: Tag names in the order of their ids, `O` first.
        ids: Ids by tag name.
        allowed_transitions: Booleans `(k, k)`: [i, j] is true where tag i may be FOLLOWED BY tag j.
        allowed_starts: Booleans `(k,)`: the tags that may stand first.
        allowed_ends: Booleans `(k,)`: the tags that may stand last.
        borders: Booleans `(k, k)`: [i, j] is true where no span goes on from tag i to tag j and
            both may stand there: a legal border between words.
        reason: Why `from_tags` chose this scheme; otherwise empty.

    Example:
        >>> tags = TagSet(["PER", "LOC"], "BIO")
        >>> tags.names
        ['O', 'B-PER', 'I-PER', 'B-LOC', 'I-LOC']
        >>> tags.decode([0, 1, 2, 0, 4])
        [Span(start=1, end=3, label='PER'), Span(start=4, end=5, label='LOC')]
    """

    def __init__(self, types=(), scheme="BIO", separator="-"):
        """See the class."""
        self.types = checked_types(types)
        check_arguments(self.types, scheme, separator)
        self.scheme = ALIASES.get(scheme.upper(), scheme.upper())
        self.separator, self.reason = separator, ""
        self._row = SCHEMES[self.scheme]
        self._labels = self.types or (None,)
        self._group_of = {label or None: group for group, label in enumerate(self._labels)}
        self._first = 1 if self.types else 0  # the first id inside a span
        tails = [separator + label if label else "" for label in self._labels]
        names = [letter + tail for tail in tails for letter in self._row.letters]
        self.names = ["O"] * self._first + names
        self.ids = {name: i for i, name in enumerate(self.names)}
        self._by_parts = {take_apart(name)[:2]: i for name, i in self.ids.items()}
        # A letter and a type number per id; "" and -1 for O and, with the last id, the border.
        letters = np.array([""] * self._first + [*self._row.letters] * len(tails) + [""])
        self._groups = (np.arange(len(self) + 1) - self._first) // len(self._row.letters)
        self._groups[-1] = -1
        tables = derive(self._row, letters, self._groups)
        self._joins, self._follows, self._opens, self._closes = tables
        self._legal = self._joins | (self._opens & self._closes)
        self.allowed_transitions = self._legal[:-1, :-1].copy()
        self.borders = (self._opens & self._closes & ~self._follows)[:-1, :-1]
        self.allowed_starts = self._legal[-1, :-1].copy()
        self.allowed_ends = self._legal[:-1, -1].copy()

    def __len__(self):
        """Number of tags, k."""
        return len(self.names)

    def __repr__(self):
        """The call that makes this tag set."""
        return f"TagSet({list(self.types)}, {self.scheme!r}, {self.separator!r})"

    def __eq__(self, other):
        """Equal if types, scheme and separator are."""
        return isinstance(other, TagSet) and self.get_config() == other.get_config()

    def __hash__(self):
        """Equal tag sets have equal hashes."""
        return hash((self.types, self.scheme, self.separator))

    def get_config(self) -> dict:
        """A plain dict from which `from_config` builds the same tag set."""
        return {"types": list(self.types), "scheme": self.scheme, "separator": self.separator}

    @classmethod
    def from_config(cls, config) -> "TagSet":
        """The tag set that `get_config` described."""
        return cls(**config)

    def to_ids(self, tags) -> np.ndarray:
        """Ids `(t,)`, int32, of names; ids are checked and passed on, padding included."""
        array = _as_array(tags)
        if array.dtype.kind in "UO":
            return np.array([self._id(tag, i) for i, tag in enumerate(array.tolist())], "int32")
        if (array >= len(self)).any():
            self._refuse(int(array.max()), int(array.argmax()))
        return array.astype("int32")

    def to_names(self, ids) -> list[str | None]:
        """Names of ids `(t,)`; None at padding."""
        return [self.names[i] if i >= 0 else None for i in self.to_ids(ids).tolist()]

    def _id(self, tag, position=0):
        """The id of a name, also in another spelling: `B_PER` or `b-PER` for `B-PER`."""
        if tag in self.ids or tag is None:
            return self.ids.get(tag, IGNORE)
        parts = take_apart(tag)[:2]
        return self._by_parts[parts] if parts in self._by_parts else self._refuse(tag, position)

    def _refuse(self, tag, position):
        raise ValueError(
            f"Unknown tag {tag!r} at position {position}, expected an id below {len(self)} or "
            f"a name such as {self.names[:9]}. TagSet.from_tags finds the tags of a corpus."
        )

    def _kept(self, tags):
        """The ids that are not padding, and their positions."""
        ids = self.to_ids(tags)
        places = np.flatnonzero(ids >= 0)
        return ids[places], places

    def check(self, tags) -> list[IllegalPlace]:
        """Every place where names or ids `(t,)` break the scheme, both ends of the text too."""
        places, pairs = self._illegal_pairs(tags)
        return [self._illegal(place, *pair) for place, pair in zip(places, pairs, strict=True)]

    def check_corpus(self, corpus) -> CorpusCheck:
        """Counts illegal sequences, and the pairs of tags at fault, among many sequences.

        Args:
            corpus: Sequences of names or ids, each `(t,)`.

        Returns:
            A `CorpusCheck`: `.sequences`, `.illegal_sequences`, `.places`, `.pairs`; print it.
        """
        found = []
        for n, tags in enumerate(corpus):
            try:
                found.append(self._illegal_pairs(tags)[1])
            except ValueError as error:
                raise ValueError(f"Sequence {n}: {error}") from error
        names = [*self.names, None]
        pairs = Counter((names[i], names[j]) for pairs in found for i, j in pairs)
        return CorpusCheck(len(found), sum(map(bool, found)), pairs)

    def _illegal_pairs(self, tags):
        """Places and pairs of ids where a sequence breaks the scheme; k is the border."""
        ids, places = self._kept(tags)
        path = np.concatenate([[len(self)], ids, [len(self)]])  # from border to border
        bad = np.flatnonzero(~self._legal[path[:-1], path[1:]])
        where = places[np.minimum(bad, len(places) - 1)].tolist()
        return where, [*zip(path[bad].tolist(), path[bad + 1].tolist(), strict=True)]

    def _illegal(self, place, i, j):
        row, beside = self._row, self._groups[i] == self._groups[j]
        opens = " or ".join(row.opens_beside if beside else row.opens)
        closes = " or ".join(row.closes_beside if beside else row.closes)
        left, right = ([*self.names, None][tag] for tag in (i, j))
        reasons = []
        if not self._closes[i, j]:
            reasons.append(f"{left} may not end a span here, {self.scheme} needs {closes}")
        if not self._opens[i, j]:
            reasons.append(f"{right} may not begin a span here, {self.scheme} needs {opens}")
        return IllegalPlace(place, (left, right), "; ".join(reasons))

    def encode(self, spans, length) -> np.ndarray:
        """Spells spans as tags.

        Args:
            spans: `(start, end, label)` without overlap, in any order. Words and bare letters have
                no label: `(start, end)`, or a label that is None or "".
            length: Number of positions t.

        Returns:
            Ids `(t,)`, int32. A position in no span is `O`, or padding (-100) in segmentation,
            where only blanks and special tokens belong to no word.
        """
        spans = in_order(spans, length)
        ids = np.full(length, 0 if self.types else IGNORE, "int32")
        for left, span, right in zip([None, *spans], spans, [*spans[1:], None], strict=False):
            base = self._first + self._group(span) * len(self._row.letters)
            spelling = spelling_of(self._row, _touch(left, span), _touch(span, right))
            single, first, inner, last = (base + place for place in spelling)
            ids[span.start : span.end] = inner
            ids[span.start], ids[span.end - 1] = first, last
            if span.end - span.start == 1:
                ids[span.start] = single
        return ids

    def _group(self, span):
        if (span.label or None) not in self._group_of:
            raise ValueError(
                f"Unknown label in span {tuple(span)}, expected one of {list(self._labels)}."
            )
        return self._group_of[span.label or None]

    def decode(self, tags, strict=False) -> list[Span]:
        """Reads tags as spans.

        Args:
            tags: Names or ids `(t,)`.
            strict: False reads every sequence, as conlleval does; for segmentation s and b open a
                word, m and e extend it (bert4keras), and the words cover all but padding. True
                drops every span whose first or last tag is illegal where it stands, and equals
                seqeval's strict mode on any tags of BIO, IOE2, BIOES and BILOU. (Of a span with a
                misplaced B in IOB1 or E in IOE1 seqeval may keep a part; here all of it goes.)

        Returns:
            `Span`s in the order of the text.
        """
        ids, places = self._kept(tags)
        before, after = np.append(len(self), ids), np.append(ids, len(self))  # (t + 1,)
        goes_on = (self._joins if strict else self._follows)[before, after]
        inside = self._groups[ids] >= 0
        starts = np.flatnonzero(inside & ~goes_on[:-1])
        ends = np.flatnonzero(inside & ~goes_on[1:]) + 1
        if strict:
            opens, closes = self._opens[before, after], self._closes[before, after]
            whole = opens[starts] & closes[ends]
            starts, ends = starts[whole], ends[whole]
        columns = places[starts], places[ends - 1] + 1, self._groups[ids[starts]]
        rows = zip(*(column.tolist() for column in columns), strict=True)
        return [Span(start, end, self._labels[group]) for start, end, group in rows]

    def convert(self, tags, to) -> list[str] | np.ndarray:
        """Respells names or ids `(t,)` in another scheme, after the lenient reading.

        `to` is a `TagSet` that has all types in `tags`, or the name of a scheme. Names come back as
        names, ids as ids; padding stays where it is. SBME has the spans of bare letters such as
        those of `TagSet([""], "BMES")`, but no `O`: there `O` becomes padding.
        """
        to = to if isinstance(to, TagSet) else self._in_scheme(to)
        array = _as_array(tags)
        ids = self.to_ids(array)
        kept = ids >= 0
        ids[kept] = to.encode(self.decode(ids[kept]), int(kept.sum()))
        return to.to_names(ids) if array.dtype.kind in "UO" else ids

    def _in_scheme(self, scheme):
        """The tag set of the same spans: SBME without types is the others with the type ""."""
        words = str(scheme).upper() == "SBME"
        return TagSet(
            self.types if any(self.types) else () if words else [""], scheme, self.separator
        )

    @classmethod
    def from_tags(cls, corpus) -> "TagSet":
        """Finds the types of a corpus, sequences of tag names, and guesses its scheme.

        Of the schemes that have all letters seen, the one that makes the fewest places illegal
        wins; of equal ones the first in `SCHEMES`. Types are sorted. `.reason` tells the counts.
        """
        corpus = list(corpus)
        if any(isinstance(tags, str) and {"-", "_"} & set(tags) for tags in corpus):
            raise ValueError(
                "Expected a corpus: a list of sequences of tag names. Received: tag names. Put one "
                "sequence into a list of its own."
            )
        corpus = [list(tags) for tags in corpus]
        pairs = _pairs(corpus)
        parts = {tag: take_apart(tag, corpus) for tag, _ in pairs if tag not in (None, "O")}
        letters = {letter for letter, _, _ in parts.values()}
        types = sorted({label for _, label, _ in parts.values()})
        separators = {between for *_, between in parts.values()}
        words = types == [""] and letters <= set("SBME") and "O" not in {tag for tag, _ in pairs}
        sets = [
            cls(() if words else types, scheme, min(separators - {""}, default="-"))
            for scheme, row in SCHEMES.items()
            if types and letters <= set(row.letters.upper()) and words == (scheme == "SBME")
        ]
        if not sets:
            known = ", ".join(f"{scheme} ({row.letters})" for scheme, row in SCHEMES.items())
            found = f"has the letters {sorted(letters)}" if letters else "shows: all tags are O"
            raise ValueError(f"No scheme {found}. Known: {known}.")
        illegal = [tags._illegal_among(pairs) for tags in sets]
        best = sets[int(np.argmin(illegal))]
        counts = ", ".join(f"{s.scheme} {n:,}" for s, n in zip(sets, illegal, strict=True))
        best.reason = f"Illegal places among {pairs.total():,} pairs of tags, if read as {counts}."
        return best

    def _illegal_among(self, pairs):
        ids = {tag: len(self) if tag is None else self._id(tag) for pair in pairs for tag in pair}
        return sum(n for (i, j), n in pairs.items() if not self._legal[ids[i], ids[j]])


def _touch(left, right):
    """Whether a span of the same type begins where `left` ends."""
    if left is None or right is None:
        return False
    return left.end == right.start and (left.label or None) == (right.label or None)


def _as_array(tags):
    tags = tags if hasattr(tags, "dtype") else list(tags)
    nested = len(tags) > 0 and np.ndim(tags[0]) > 0
    array = np.asarray([] if nested else tags)
    kind = array.dtype.kind
    if nested or kind not in "UOiufb" or (kind == "f" and (array % 1).any()):
        raise ValueError(
            "Expected the tags of ONE sequence, names or whole numbers of shape (t,), received "
            f"{str(tags)[:60]}. Loop over the sequences of a batch; decode bytes."
        )
    return array


def _pairs(corpus):
    """Counts neighbouring tags; None stands for the border of a sequence."""
    return Counter(pair for tags in corpus for pair in pairwise([None, *tags, None]))
