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

from collections import namedtuple

from keras import ops

from keras_crf.compilation import compiled

# float32 underflows 87 nats below 1; the rest is room for products of several factors.
_SAFE_RANGE = 80.0


def largest(scores, axis=None, keepdims=False):
    """Maximum, also of nothing: some backends refuse the maximum of an empty axis or batch."""
    return ops.max(scores, axis=axis, keepdims=keepdims, initial=-float("inf"))


def finite(peak):
    """The value to subtract: -inf minus itself would be NaN."""
    return ops.where(peak == -float("inf"), 0.0, peak)


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


def is_safe(unary, transitions):
    """Whether no entry of a scaled message can underflow.

    Every label reaches every other in one step when all transitions are finite, so the entries of a
    message differ by at most the range of the transitions plus that of one row of unary scores.
    Both have their maximum at zero. A forbidden label is an exact zero and loses nothing.
    """
    depth = largest(ops.where(unary == -float("inf"), 0.0, -unary))
    return depth + largest(-transitions) < _SAFE_RANGE


def _forward(unary, transitions):
    """Log Z (b,) and forward states (t, b, k), in the semiring that `is_safe` selects."""
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

    return ops.cond(is_safe(unary, transitions), scaled, logarithmic)


def _expected_counts(unary, transitions, before, upstream):
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

    points, pairs = ops.cond(is_safe(unary, transitions), scaled, logarithmic)
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


def _marginals(unary, transitions):
    """Gradient of log Z for `unary`: (b, t, k)."""
    value, before = _forward(unary, transitions)
    return _expected_counts(unary, transitions, before, ops.ones_like(value))[0]


forward = compiled(_forward)
expected_counts = compiled(_expected_counts)
marginals = compiled(_marginals)


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
