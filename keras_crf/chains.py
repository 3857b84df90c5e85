"""A batch of chains: arguments checked, boundaries folded in, scores relative to their maxima.

The functions of `linear_chain` take scores as users have them. This module turns them into what the
loops of `sweeps` run on: no boundary scores, no mask, nothing large.
"""

from typing import Any, NamedTuple

from keras import ops

# float32 underflows 87 nats below 1; the rest is room for products of several factors.
_SAFE_RANGE = 80.0


class Chain(NamedTuple):
    """Scores of a batch without boundary scores.

    Attributes:
        unary: `(b, t, k)`; -inf in the rows of removed positions, by which the loops know them.
        transitions: `(k, k)`.
        kept: `(b, t)` booleans.
        forbids: `()` boolean: some label is forbidden at some position, boundaries aside.
        length: the time axis as the caller gave it; None if unknown.
    """

    unary: Any
    transitions: Any
    kept: Any
    forbids: Any
    length: int | None


class Shifted(NamedTuple):
    """A chain whose largest score is zero, in every row of `unary` and in `transitions`.

    Attributes:
        unary: `(b, t, k)`, at most 0.
        transitions: `(k, k)`, at most 0.
        kept: `(b, t)` booleans.
        peaks: `(b, t)`, what the rows have lost.
        peak: `()`, what the transitions have lost.
        safe: `()` boolean: no entry of a scaled message can underflow.
        impossible: `(b,)` booleans: nothing is left at a kept position, so that no path exists. The
            loops would take such a position for a removed one.
    """

    unary: Any
    transitions: Any
    kept: Any
    peaks: Any
    peak: Any
    safe: Any
    impossible: Any

    def offset(self):
        """`(b,)`, what the score of every path has lost."""
        steps = ops.maximum(ops.sum(ops.cast(self.kept, "float32"), axis=1) - 1.0, 0.0)
        return ops.sum(self.peaks, axis=1) + ops.where(steps > 0, steps * self.peak, 0.0)


def fold(emissions, transitions, start=None, end=None, mask=None):
    """Check the shapes of all arguments and make a `Chain` of them."""
    emissions, transitions = float32(emissions), float32(transitions)
    start, end = (scores if scores is None else float32(scores) for scores in (start, end))
    mask = mask if mask is None else ops.convert_to_tensor(mask)
    _check_shapes(emissions, transitions, start, end, mask)
    length = emissions.shape[1]
    if mask is not None:
        mask = never_empty(ops.cast(mask, "bool"), length, False)
    emissions = never_empty(emissions, length, -float("inf"))
    kept = kept_positions(emissions, mask)
    forbids = ops.any(ops.logical_and(kept[..., None], emissions == -float("inf")))
    unary = _with_boundary(emissions, kept, start, end)
    unary = ops.where(kept[..., None], unary, -float("inf"))
    return Chain(unary, transitions, kept, forbids, length)


def kept_positions(emissions, mask=None):
    """(b, t): False where masked, and where a row is -inf throughout. NaN keeps, and shows."""
    kept = ops.logical_not(ops.all(emissions == -float("inf"), axis=-1))
    return kept if mask is None else ops.logical_and(kept, ops.cast(mask, "bool"))


def _with_boundary(emissions, kept, start, end):
    rank = ops.cumsum(ops.cast(kept, "int32"), axis=1)  # (b, t), 1 at the first kept position
    if start is not None:
        emissions = emissions + ops.where((rank == 1)[..., None], start, 0.0)
    if end is not None:
        emissions = emissions + ops.where((rank == rank[:, -1:])[..., None], end, 0.0)
    return emissions


def shift(chain, reach=None):
    """Make the largest score of every row, and of the transitions, zero: a `Shifted`.

    Args:
        chain: a `Chain`.
        reach: in how many steps every label reaches every label along transitions that are not
            forbidden, if some are; None if unknown or never.
    """
    unary, transitions = chain.unary, chain.transitions
    peaks = ops.stop_gradient(ops.where(chain.kept, largest(unary, axis=-1), 0.0))  # (b, t)
    peak = ops.stop_gradient(largest(transitions))
    unary = unary - finite(peaks)[..., None]
    transitions = transitions - finite(peak)
    safe = _is_safe(unary, transitions, chain.forbids, reach)
    impossible = is_impossible(unary, chain.kept)
    return Shifted(unary, transitions, chain.kept, peaks, peak, safe, impossible)


def is_impossible(unary, kept):
    """(b,): whether some kept position has no possible label."""
    return ops.any(ops.logical_and(kept, ops.all(unary == -float("inf"), axis=-1)), axis=1)


def _is_safe(unary, transitions, forbids, reach):
    """Whether no entry of a scaled message can underflow.

    If every label reaches every other in d steps, the entries of a message differ by at most d
    times the range of the transitions plus that of one row of unary scores; both have their
    maximum at zero. d is 1 when no transition is forbidden, and then a label forbidden at one
    position is an exact zero that loses nothing. Forbidden transitions AND labels may close every
    near path.
    """
    unbroken = ops.logical_not(ops.any(transitions == -float("inf")))
    depth = largest(-finite_part(unary)) + largest(-finite_part(transitions))
    safe = ops.logical_and(unbroken, depth < _SAFE_RANGE)
    if reach is None:
        return safe
    within_reach = ops.logical_and(ops.logical_not(forbids), reach * depth < _SAFE_RANGE)
    return ops.logical_or(safe, within_reach)


def finite_part(scores):
    """Scores with 0 in place of minus infinity."""
    return ops.where(scores == -float("inf"), 0.0, scores)


def latest_kept(kept):
    """(b, t) index of the last kept position up to each position, -1 where there is none."""
    return ops.maximum(previous_kept(kept), _indices(kept))


def previous_kept(kept):
    """(b, t) index of the kept position before each position, -1 where there is none."""
    indices = _indices(kept)
    if kept.shape[1] is None:
        return _running_maximum_before(indices)
    return _running_maximum_before_by_doubling(indices, kept.shape[1])


def _indices(kept):
    indices = ops.arange(ops.shape(kept)[1], dtype="int32")
    return ops.cast(ops.where(kept, indices, -1), "int32")


def _running_maximum_before(indices):
    def step(latest, index):
        return ops.maximum(latest, index), latest

    none = ops.full_like(ops.sum(indices, axis=1), -1)  # (b,)
    return ops.transpose(ops.scan(step, none, ops.transpose(indices))[1])


def _running_maximum_before_by_doubling(indices, length):
    """log2(t) whole-array steps in place of t small ones."""

    def shifted(values, by):
        return ops.pad(values[:, : length - by], ((0, 0), (by, 0)), constant_values=-1)

    latest = shifted(indices, 1)
    for by in (2**n for n in range((length - 1).bit_length())):
        latest = ops.maximum(latest, shifted(latest, by))
    return latest


# === Axes that may be empty ===


def never_empty(values, length, removed):
    """Append a removed position to a time axis that is empty, or unknown and perhaps empty.

    Loops and gathers fail on an empty axis. `cut` takes the position away again.
    """
    if length:
        return values
    padding = [[0, 0] for _ in values.shape]
    padding[1] = [0, 1]
    return ops.pad(values, padding, constant_values=removed)


def cut(values, length):
    """Undo `never_empty` on a result (b, t, ...)."""
    return values if length else values[:, :-1]


def largest(scores, axis=None, keepdims=False):
    """Maximum, also of nothing: some backends refuse the maximum of an empty axis or batch."""
    return ops.max(scores, axis=axis, keepdims=keepdims, initial=-float("inf"))


def finite(peak):
    """The value to subtract: -inf minus itself would be NaN."""
    return ops.where(peak == -float("inf"), 0.0, peak)


def float32(scores):
    """Scores as a float32 tensor."""
    return ops.cast(ops.convert_to_tensor(scores), "float32")


# === Shapes ===


def _check_shapes(emissions, transitions, start, end, mask):
    k = emissions.shape[-1] if len(emissions.shape) == 3 else None
    if k is None:
        raise ValueError(
            "`emissions` must have the shape (batch, time, labels), with a known number of labels. "
            f"Received: {tuple(emissions.shape)}"
        )
    if tuple(transitions.shape) != (k, k):
        raise ValueError(
            f"`transitions` must have the shape {(k, k)}, as `emissions` has {k} labels. "
            f"Received: {tuple(transitions.shape)}"
        )
    for name, scores in (("start", start), ("end", end)):
        if scores is not None and tuple(scores.shape) != (k,):
            raise ValueError(
                f"`{name}` must have the shape {(k,)}, one score a label. "
                f"Received: {tuple(scores.shape)}"
            )
    if mask is not None:
        check_axes("mask", mask, emissions)


def check_axes(name, value, emissions, rank=2):
    """Refuse a `value` that does not share the first `rank` axes of the emissions."""
    axes = zip(value.shape, emissions.shape[:rank], strict=False)
    agree = all(a == b or None in (a, b) for a, b in axes)
    if len(value.shape) != rank or not agree:
        raise ValueError(
            f"`{name}` must have the shape {tuple(emissions.shape[:rank])}, as `emissions` has "
            f"{tuple(emissions.shape)}. Received: {tuple(value.shape)}"
        )
