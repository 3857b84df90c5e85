"""Which transitions, starts and ends the labels of a model allow, whatever their order."""

from typing import NamedTuple

import numpy as np

from keras_crf.scheme_table import take_apart
from keras_crf.spans import IGNORE
from keras_crf.tag_schemes import TagSet


class Legality(NamedTuple):
    """Boolean arrays that say which labels may stand where."""

    transitions: np.ndarray  # (k, k): [i, j] is true where label i may be FOLLOWED BY label j
    starts: np.ndarray  # (k,): may stand first
    ends: np.ndarray  # (k,): may stand last


def legal(labels, scheme) -> Legality:
    """Says which of the labels of a model may follow which, start and end, in THEIR order.

    Args:
        labels: k different tag names in any order, such as `["I-PER", "O", "B-PER"]`; some of the
            scheme's tags may be missing. `B_PER` is read as `B-PER`, `B` as `b`.
        scheme: The name of a scheme, see `TagSet`.

    Returns:
        `Legality`, a tuple `(transitions, starts, ends)`.
    """
    parts = [take_apart(label)[:2] for label in labels]
    types = sorted({label for letter, label in parts if letter not in (None, "O")}) or [""]
    tags = TagSet(() if str(scheme).upper() == "SBME" else types, scheme)
    ids = [tags._by_parts.get(part, IGNORE) for part in parts]
    for n, label in enumerate(labels):
        if ids[n] == IGNORE or ids[n] in ids[:n]:
            raise ValueError(
                f"Expected different tags of {tags.scheme}, such as {tags.names[:5]}. Received: "
                f"{label!r} at position {n}. Mask the positions that carry another label, such as "
                "padding; for labels of your own making write the boolean arrays by hand."
            )
    transitions = tags.allowed_transitions[np.ix_(ids, ids)]
    return Legality(transitions, tags.allowed_starts[ids], tags.allowed_ends[ids])


def reach(allowed_transitions) -> int | None:
    """Finds the smallest d such that every label reaches every label in exactly d legal steps.

    If d steps suffice, so do d + 1. Hence squares of the matrix bracket d and halving finds it.

    Args:
        allowed_transitions: Booleans `(k, k)`: [i, j] is true where i may be followed by j.

    Returns:
        d >= 1, or None if some label never reaches some other, or only in step with a cycle.
    """
    powers = [np.asarray(allowed_transitions, bool)]  # of 1, 2, 4... steps
    enough = (len(powers[0]) - 1) ** 2 + 1  # Wielandt's bound on d
    while not powers[-1].all() and 2 ** (len(powers) - 1) < enough:
        powers.append(_walk(powers[-1], powers[-1]))
    if not powers[-1].all():
        return None
    steps, walked = 0, np.eye(len(powers[0]), dtype=bool)
    for n, power in reversed([*enumerate(powers)]):
        further = _walk(walked, power)
        if not further.all():
            steps, walked = steps + 2**n, further
    return steps + 1


def _walk(first, then):
    """Pairs (i, j) joined by a way of `first` and a way of `then`."""
    return first.astype("float32") @ then.astype("float32") > 0


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
