"""The loops of the linear chain: messages that sweep along time.

Everything here is about a chain without boundary scores: unary scores `(b, t, k)`, minus infinity
in the rows of removed positions, and transitions `(k, k)`; for sums both have their maximum at
zero.

One sweep carries a state from position to position and records the state in front of each; run
forwards and backwards, it gives log Z, marginals and pairwise counts without another loop. It
exists for three semirings: scaled probabilities (a matrix product a step and no exponentials
inside), their logarithms (k^2 exponentials a step, but nothing underflows) and max-plus (Viterbi).
Sums take the scaled form whenever it provably loses nothing, decided batch by batch at run time.

The scaled form is also the more accurate one: a state is renormalised at every position, so that
rounding does not grow with the length.
"""

import functools
from collections import namedtuple

import keras
import numpy as np
from keras import ops

from keras_crf.chains import finite, largest
from keras_crf.compilation import compiled

# === One sweep for three semirings ===

# `none` is the state before the first kept position and the potential of a removed one; `one` is
# neutral for `join`; `pass_on` sends states (..., k) through a (k, k) matrix; `normalise` keeps
# states in range.
_Semiring = namedtuple("_Semiring", "none one join pass_on normalise")


def log_sum_exp(scores, axis, keepdims=False):
    """-inf where everything is: no NaN from -inf minus -inf."""
    peak = finite(largest(scores, axis=axis, keepdims=True))
    total = ops.log(ops.sum(ops.exp(scores - peak), axis=axis, keepdims=True)) + peak
    return total if keepdims else ops.squeeze(total, axis)


def _reciprocal(total):
    """1 / total, and 0 for the empty sum of a removed position."""
    return ops.where(total == 0, 0.0, 1.0 / ops.where(total == 0, 1.0, total))


def _matmul(states, matrix):
    if matrix.shape[0] > 16:
        return ops.matmul(states, matrix)
    return ops.sum(states[..., :, None] * matrix, axis=-2)  # fuses; a tiny product call does not


_SCALED = _Semiring(
    none=0.0,
    one=1.0,
    join=ops.multiply,
    pass_on=_matmul,
    normalise=lambda states: states * _reciprocal(ops.sum(states, axis=-1, keepdims=True)),
)
_LOG = _Semiring(
    none=-float("inf"),
    one=0.0,
    join=ops.add,
    pass_on=lambda states, matrix: log_sum_exp(states[..., :, None] + matrix, axis=-2),
    normalise=lambda states: states - finite(log_sum_exp(states, axis=-1, keepdims=True)),
)
_MAX = _Semiring(
    none=-float("inf"),
    one=0.0,
    join=ops.add,
    pass_on=lambda states, matrix: largest(states[..., :, None] + matrix, axis=-2),
    normalise=lambda states: states - finite(largest(states, axis=-1, keepdims=True)),
)


def _arriving(semiring, states, matrix):
    """Messages that reach a position from the state on its far side; `one` if there is none."""
    empty = ops.all(states == semiring.none, axis=-1, keepdims=True)
    return ops.where(empty, semiring.one, semiring.pass_on(states, matrix))


def _sweep(semiring, potentials, matrix, reverse=False):
    """Carry a state along time and record, at every position, the state before it is visited.

    Args:
        semiring: how messages are joined, passed on and normalised.
        potentials: `(t, b, k)` local factors; a row of `none` is passed over.
        matrix: `(k, k)` from the position already visited to the next one.
        reverse: start from the last position.

    Returns:
        The state after the whole sweep `(b, k)`, and the states before each position `(t, b, k)`:
        that of the nearest kept position on the side where the sweep began, or a row of `none`.
    """

    def step(state, potential):
        visited = semiring.join(_arriving(semiring, state, matrix), potential)
        removed = ops.all(potential == semiring.none, axis=-1, keepdims=True)
        return ops.where(removed, state, semiring.normalise(visited)), state

    nothing = ops.full_like(ops.sum(potentials, axis=0), semiring.none)  # (b, k)
    return ops.scan(step, nothing, potentials, reverse=reverse)


# === Sums over all paths ===


def _forward(unary, transitions, safe):
    """Log Z (b,) and forward states (t, b, k), scaled if `safe`, else in log space."""
    potentials = ops.transpose(unary, (1, 0, 2))  # (t, b, k)
    removed = ops.all(potentials == -float("inf"), axis=-1)  # (t, b)

    def scaled():
        factors, matrix = ops.exp(potentials), ops.exp(transitions)
        _, before = _sweep(_SCALED, factors, matrix)
        growth = ops.log(ops.sum(_arriving(_SCALED, before, matrix) * factors, axis=-1))
        return ops.sum(ops.where(removed, 0.0, growth), axis=0), before

    def logarithmic():
        _, before = _sweep(_LOG, potentials, transitions)
        growth = log_sum_exp(_arriving(_LOG, before, transitions) + potentials, axis=-1)
        return ops.sum(ops.where(removed, 0.0, growth), axis=0), before

    return ops.cond(safe, scaled, logarithmic)


def _expected_counts(unary, transitions, safe, before, upstream):
    """Gradients of sum_b upstream_b log Z_b: (b, t, k) for `unary`, (k, k) for `transitions`."""
    potentials = ops.transpose(unary, (1, 0, 2))

    def scaled():
        factors, matrix = ops.exp(potentials), ops.exp(transitions)
        ahead = _backward(_SCALED, factors, matrix)  # (t, b, k)
        joint = _arriving(_SCALED, before, matrix) * ahead
        shares = ahead * _reciprocal(ops.sum(joint, axis=-1, keepdims=True))
        shares = shares * upstream[:, None]
        pairs = ops.einsum("tbi,tbj->ij", before, shares) * matrix
        return _arriving(_SCALED, before, matrix) * shares, pairs

    def logarithmic():
        ahead = _backward(_LOG, potentials, transitions)
        arriving = _arriving(_LOG, before, transitions)
        norm = log_sum_exp(arriving + ahead, axis=-1, keepdims=True)
        ahead = ahead - finite(norm)
        points = ops.exp(arriving + ahead) * upstream[:, None]
        return points, _log_pairs(before, ahead, transitions, upstream)

    points, pairs = ops.cond(safe, scaled, logarithmic)
    return ops.transpose(points, (1, 0, 2)), pairs


def _backward(semiring, potentials, matrix):
    """Local factor joined with all that follows, up to scale; `none` where removed: (t, b, k)."""
    matrix = ops.transpose(matrix)
    _, after = _sweep(semiring, potentials, matrix, reverse=True)
    return semiring.normalise(semiring.join(_arriving(semiring, after, matrix), potentials))


def _log_pairs(before, ahead, transitions, upstream):
    """Pairwise marginals summed over batch and time (k, k), in memory b k^2."""

    def add(t, counts):
        joint = before[t][:, :, None] + transitions + ahead[t][:, None, :]  # (b, i, j)
        return counts + ops.einsum("b,bij->ij", upstream, ops.exp(joint))

    return ops.fori_loop(0, ops.shape(before)[0], add, ops.zeros_like(transitions))


def _marginals(unary, transitions, safe):
    """Gradient of log Z for `unary`: (b, t, k)."""
    value, before = _forward(unary, transitions, safe)
    return _expected_counts(unary, transitions, safe, before, ops.ones_like(value))[0]


def _log_sweep(potentials, transitions, safe, reverse=False):
    """What `_sweep` returns, as logarithms of normalised states: (b, k) and (t, b, k)."""

    def scaled():
        factors, matrix = ops.exp(potentials), ops.exp(transitions)
        final, states = _sweep(_SCALED, factors, matrix, reverse)
        return ops.log(final), ops.log(states)

    def logarithmic():
        return _sweep(_LOG, potentials, transitions, reverse)

    return ops.cond(safe, scaled, logarithmic)


def _log_messages(unary, transitions, safe):
    """States in front, what reaches each position from there and from behind, states behind.

    Logarithms, (t, b, k) each; states are normalised, `none` is -inf and no message is 0.
    """
    potentials = ops.transpose(unary, (1, 0, 2))
    backwards = ops.transpose(transitions)

    def scaled():
        factors, matrix, back = ops.exp(potentials), ops.exp(transitions), ops.exp(backwards)
        _, before = _sweep(_SCALED, factors, matrix)
        _, after = _sweep(_SCALED, factors, back, reverse=True)
        arrivals = _arriving(_SCALED, before, matrix), _arriving(_SCALED, after, back)
        return tuple(ops.log(message) for message in (before, *arrivals, after))

    def logarithmic():
        _, before = _sweep(_LOG, potentials, transitions)
        _, after = _sweep(_LOG, potentials, backwards, reverse=True)
        arrivals = _arriving(_LOG, before, transitions), _arriving(_LOG, after, backwards)
        return (before, *arrivals, after)

    return ops.cond(safe, scaled, logarithmic)


forward = compiled(_forward)
expected_counts = compiled(_expected_counts)
marginals = compiled(_marginals)
log_messages = compiled(_log_messages)


# === The best path ===


@compiled
def viterbi(unary, transitions):
    """(b, t) int32. Keeps states, not back-pointers: the argmax is redone on the best path only."""
    potentials = ops.transpose(unary, (1, 0, 2))  # (t, b, k)
    final, before = _sweep(_MAX, potentials, transitions)
    removed = ops.all(potentials == -float("inf"), axis=-1, keepdims=True)
    before = ops.where(removed, -float("inf"), before)
    into = ops.transpose(transitions)  # [j, i]: from i into j

    def step(tag, state):
        best = ops.argmax(state + ops.take(into, tag, axis=0), axis=-1)  # (b,)
        nothing_before = ops.all(state == -float("inf"), axis=-1)
        return ops.where(nothing_before, tag, ops.cast(best, "int32")), tag

    last = ops.cast(ops.argmax(final, axis=-1), "int32")
    return ops.transpose(ops.scan(step, last, before, reverse=True)[1])


# === The n best paths ===


@functools.cache
def _n_best_of(n):
    return compiled(functools.partial(_n_best, n=n))


def n_best(unary, transitions, n):
    """The n best paths (b, n, t) int32, and which of them exist (b, n)."""
    return _n_best_of(n)(unary, transitions)


def _n_best(unary, transitions, n):
    """Viterbi forwards, then the n best suffixes backwards (Soong and Huang, ICASSP 1991).

    The state in front of a position tells how well a suffix can be completed. n suffixes are
    enough: the suffix of one of the n best paths cannot be worse than n others, each of which
    completes to another path.
    """
    potentials = ops.transpose(unary, (1, 0, 2))  # (t, b, k)
    final, before = _sweep(_MAX, potentials, transitions)
    removed = ops.all(potentials == -float("inf"), axis=-1, keepdims=True)
    before = ops.where(removed, -float("inf"), before)
    scores, labels = _top(ops.concatenate([final] + [_nothing_like(final)] * (n - 1), axis=1), n)
    labels = labels % transitions.shape[0]
    suffixes = ops.where(scores == -float("inf"), scores, ops.zeros_like(scores))  # (b, n)
    both = ops.stack([before, ops.where(removed, 0.0, potentials)], axis=2)  # (t, b, 2, k)
    step = functools.partial(_extend_suffixes, transitions=transitions, n=n)
    (_, last), (codes, _) = ops.scan(step, (labels, suffixes), both, reverse=True)
    return _unwind(codes, transitions.shape[0], n), last > -float("inf")


def _nothing_like(scores):
    return ops.full_like(scores, -float("inf"))


def _extend_suffixes(carry, both, transitions, n):
    """The n best suffixes that begin one position earlier.

    Args:
        carry: labels (b, n) at this position, and scores (b, n) of what follows each.
        both: (b, 2, k) state in front of this position, and its unary scores.
        transitions: (k, k).
        n: number of suffixes.

    Returns:
        The new carry; and, as codes parent * k + label, the labels here and for each new suffix the
        place of the one that it extends.
    """
    labels, suffixes = carry
    k = transitions.shape[0]
    state, unary = both[:, 0], both[:, 1]
    suffixes = suffixes + ops.take_along_axis(unary, labels, axis=1)
    # Relative to the best one, whose scores are then, to the last bit, those of Viterbi.
    suffixes = suffixes - finite(suffixes[:, :1])
    ways = ops.take(ops.transpose(transitions), labels, axis=0) + suffixes[..., None]  # (b, n, i)
    totals = ops.reshape(state[:, None] + ways, (-1, n * k))
    viterbi = ops.cast(ops.argmax(totals[:, :k], axis=-1), "int32")[:, None]
    ahead_of_all = np.arange(n * k, dtype="int32") == viterbi
    _, places = _top(ops.where(ahead_of_all, float("inf"), totals), n)  # place = parent * k + i
    chosen = ops.take_along_axis(ops.reshape(ways, (-1, n * k)), places, axis=1)
    exists = ops.take_along_axis(totals, places, axis=1) > -float("inf")
    chosen = ops.where(exists, chosen, _nothing_like(chosen))
    nothing_before = ops.all(state == -float("inf"), axis=1, keepdims=True)  # (b, 1)
    same = ops.zeros_like(places) + np.arange(n, dtype="int32")
    parents = ops.where(nothing_before, same, places // k)
    new_labels = ops.where(nothing_before, labels, places % k)
    new_suffixes = ops.where(nothing_before, suffixes, chosen)
    return (new_labels, new_suffixes), (parents * k + labels, new_suffixes)


def _unwind(codes, k, n):
    """Follow each suffix from the first position to the last: labels (b, n, t)."""

    def step(slot, code):
        slot = ops.take_along_axis(code // k, slot, axis=1)
        return slot, ops.take_along_axis(code % k, slot, axis=1)

    slots = ops.zeros_like(codes[0]) + np.arange(n, dtype="int32")
    return ops.transpose(ops.scan(step, slots, codes)[1], (1, 2, 0))


def _top(values, n):
    """The n largest values of the last axis and their places; of equal ones the first."""
    if keras.backend.backend() == "torch":  # whose top-k is not stable
        order = ops.argsort(-values, axis=-1)[..., :n]
        return ops.take_along_axis(values, order, axis=-1), ops.cast(order, "int32")
    if n > 8:
        values, order = ops.top_k(values, n)
        return values, ops.cast(order, "int32")
    return _top_one_by_one(values, n)


def _top_one_by_one(values, n):
    """Take the maximum n times: cheaper than sorting while n is small."""
    count = ops.shape(values)[-1]
    index = ops.arange(count, dtype="int32")
    free = ops.ones_like(values, dtype="bool")
    found = []
    for _ in range(n):
        best = largest(ops.where(free, values, -float("inf")), axis=-1, keepdims=True)
        hit = ops.logical_and(free, values >= best)  # all that are free, if nothing is finite
        place = ops.min(ops.where(hit, index, count), axis=-1, keepdims=True)
        place = ops.cast(ops.minimum(place, count - 1), "int32")
        free = ops.logical_and(free, index != place)
        found.append((best, place))
    best, places = zip(*found, strict=True)
    return ops.concatenate(best, axis=-1), ops.concatenate(places, axis=-1)


# === Samples ===


@compiled
def sample(unary, transitions, safe, gumbel):
    """Paths (b, n, t) int32: with Gumbel noise (t + 1, n, b, k) the largest score is a sample."""
    potentials = ops.transpose(unary, (1, 0, 2))
    final, before = _log_sweep(potentials, transitions, safe)
    removed = ops.all(potentials == -float("inf"), axis=-1, keepdims=True)
    before = ops.where(removed, -float("inf"), before)
    last = ops.cast(ops.argmax(final + gumbel[-1], axis=-1), "int32")  # (n, b)
    into = ops.transpose(transitions)  # [j, i]

    def step(tag, scores):
        drawn = ops.argmax(scores + ops.take(into, tag, axis=0), axis=-1)
        nothing_before = ops.all(scores == -float("inf"), axis=-1)
        return ops.where(nothing_before, tag, ops.cast(drawn, "int32")), tag

    paths = ops.scan(step, last, before[:, None] + gumbel[:-1], reverse=True)[1]  # (t, n, b)
    return ops.transpose(paths, (2, 1, 0))
