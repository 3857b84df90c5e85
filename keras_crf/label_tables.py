"""The labels of a layer as arrays that a graph can look things up in."""

import numpy as np

from keras_crf.scheme_table import SCHEMES, spelling_of, take_apart
from keras_crf.tag_schemes import TagSet


class LabelTables:
    """How the labels of a model, in THEIR order, spell spans.

    Attributes:
        labels: the k names.
        tag_set: a `TagSet` of the same scheme and types, in its own order.
        types: names of the types; `[None]` for word segmentation.
        type_of: `(k,)` int32, index of each label's type; -1 for a label outside all spans.
        goes_on: `(k + 1, k + 1)` booleans, `[i, j]`: label j goes on with the span of label i, as
            the lenient reading has it; the last row and column stand for the border.
        joins: `(k, k)` booleans: the same within one correctly spelled span.
        spelling: `(types, 4)` int32: the labels of a span of one position, and the first, inner and
            last label of a longer one; None in schemes where a span's neighbours decide (IOB1,
            IOE1) or when a label is missing.
    """

    def __init__(self, labels, scheme):
        self.labels = list(labels)
        parts = [take_apart(label)[:2] for label in self.labels]
        words = str(scheme).upper() == "SBME"
        types = list(dict.fromkeys(label for letter, label in parts if letter not in (None, "O")))
        self.tag_set = TagSet(() if words else types or [""], scheme)
        self.types = [None] if words else list(self.tag_set.types)
        ids = self.tag_set.to_ids(self.labels)  # (k,), of our labels in the order of the tag set
        self.type_of = self.tag_set._groups[ids].astype("int32")
        with_border = np.append(ids, len(self.tag_set))
        self.goes_on = self.tag_set._follows[np.ix_(with_border, with_border)]
        self.joins = self.tag_set._joins[np.ix_(ids, ids)]
        self.spelling = self._spelling(ids.tolist())

    def _spelling(self, ids):
        row = SCHEMES[self.tag_set.scheme]
        if row.opens != row.opens_beside or row.closes != row.closes_beside:
            return None
        first = len(self.tag_set) - len(self.types) * len(row.letters)
        places = spelling_of(row, False, False)
        wanted = [
            [first + group * len(row.letters) + place for place in places]
            for group in range(len(self.types))
        ]
        if not set(np.ravel(wanted)) <= set(ids):
            return None
        return np.array([[ids.index(tag) for tag in tags] for tags in wanted], "int32")

    def spans(self, tags):
        """Spans of one sequence of our label ids `(t,)`, negative = no position: `Span`s."""
        names = [self.labels[tag] if tag >= 0 else None for tag in np.asarray(tags).tolist()]
        return self.tag_set.decode(names)
