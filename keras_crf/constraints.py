"""Which transitions, starts and ends the labels of a layer allow."""

import numpy as np

from keras_crf.tag_schemes import legal, reach


class Constraints:
    """Boolean tables of what is allowed, from label names and a scheme or given by hand.

    Attributes:
        transitions: `(k, k)` booleans; `[i, j]`: label i may be followed by label j.
        starts: `(k,)` booleans: labels that may come first.
        ends: `(k,)` booleans: labels that may come last.
        reach: in how many legal steps every label reaches every label; None if never.
    """

    def __init__(self, labels, scheme):
        if isinstance(scheme, str):
            if labels is None:
                raise ValueError(
                    f"`scheme` {scheme!r} needs `labels`, the names of the labels in their order, "
                    'such as ["O", "B-PER", "I-PER"]. Received: labels=None'
                )
            tables = legal(labels, scheme)
        else:
            tables = scheme
        self.transitions, self.starts, self.ends = _checked(tables)
        self.reach = reach(self.transitions)

    def tables(self):
        """The three tables, in the order of the scores."""
        return self.transitions, self.starts, self.ends

    def first_illegal_step(self, tags):
        """Index and pair of the first illegal step in one sequence of labels `(n,)`, or None."""
        if len(tags) and not self.starts[tags[0]]:
            return 0, (None, tags[0])
        illegal = np.flatnonzero(~self.transitions[tags[:-1], tags[1:]])
        if len(illegal):
            return illegal[0] + 1, (tags[illegal[0]], tags[illegal[0] + 1])
        if len(tags) and not self.ends[tags[-1]]:
            return len(tags) - 1, (tags[-1], None)
        return None


def _checked(tables):
    try:
        transitions, starts, ends = (np.asarray(table).astype(bool) for table in tables)
    except (TypeError, ValueError) as error:
        raise ValueError(
            "`scheme` must be the name of a tag scheme or three boolean arrays: allowed "
            f"transitions (k, k), starts (k,) and ends (k,). Received: {tables!r}"
        ) from error
    k = starts.size
    if (transitions.shape, starts.shape, ends.shape) != ((k, k), (k,), (k,)):
        raise ValueError(
            "`scheme` must hold allowed transitions (k, k), starts (k,) and ends (k,). "
            f"Received shapes: {transitions.shape}, {starts.shape}, {ends.shape}"
        )
    return transitions, starts, ends
