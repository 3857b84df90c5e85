"""Expected scores of paths, and how they change with the distribution.

Give every path a second score, from `values` `(b, t, k)` of its labels and `step_values` `(k, k)`
of its steps. Its expectation is an entropy, a divergence or a weighted sum of marginals, depending
on the values. The gradient with respect to the chain's own scores is a covariance: that of the
second score with each label and each step.

Both come from one sweep in the expectation semiring (Li and Eisner, EMNLP 2009): a state holds,
for each label, the logarithm of its weight and the mean of the second score over the paths that
lead there. Everything here takes the log-space form: training does not wait for these functions.

Chains are those of `chains.shift`; removed positions are rows of -inf in `unary`.
"""

from keras import ops

from keras_crf.chains import finite
from keras_crf.compilation import compiled, with_closed_form_gradient
from keras_crf.sweeps import log_sum_exp


def expected_score(unary, transitions, values, step_values):
    """Mean of the second score over all paths.

    Args:
        unary: `(b, t, k)` scores that define the distribution.
        transitions: `(k, k)` likewise.
        values: `(b, t, k)` second score of each label at each position.
        step_values: `(k, k)` second score of each step.

    Returns:
        `(b,)`, differentiable in all four.
    """

    @with_closed_form_gradient
    def mean(*scores):
        return _mean(*scores), lambda upstream: _mean_gradients(*scores, upstream)

    return mean(unary, transitions, values, step_values)


def covariances(unary, transitions, values, step_values):
    """Covariance of the second score with every label `(b, t, k)`, and with every step `(k, k)`.

    The latter is summed over the batch. These are the gradients of the summed expected scores.
    """
    ones = ops.ones_like(unary[:, 0, 0])
    return _mean_gradients(unary, transitions, values, step_values, ones)[:2]


# A state (b, 2, k) holds log weights and means. An empty one has weights of -inf and means of 0.


def _pass_on(state, transitions, step_values):
    """State (..., 2, k) sent through a step: weights add up, means are averaged by weight."""
    ways = state[..., 0, :, None] + transitions  # (..., i, j)
    total = log_sum_exp(ways, axis=-2)  # (..., j)
    shares = ops.exp(ways - finite(total)[..., None, :])
    means = _weighted(shares, state[..., 1, :, None] + step_values)
    return ops.stack([total, ops.sum(means, axis=-2)], axis=-2)


def _weighted(shares, values):
    """Shares times values, 0 where the share is 0 whatever the value."""
    used = shares != 0
    return ops.where(used, shares * ops.where(used, values, 0.0), 0.0)


def _arriving(state, transitions, step_values):
    """What reaches a position from the state on its far side; no weight change if there is none."""
    empty = ops.all(state[..., :1, :] == -float("inf"), axis=-1, keepdims=True)
    return ops.where(empty, 0.0, _pass_on(state, transitions, step_values))


def _sweep(potentials, transitions, step_values, reverse=False):
    """States (t, b, 2, k) in front of each of the potentials (t, b, 2, k), and the final one."""

    def step(state, potential):
        visited = _arriving(state, transitions, step_values) + potential
        centre = _centre(visited)
        visited = visited - ops.where(ops.isinf(centre), 0.0, centre)
        removed = ops.all(potential[:, :1] == -float("inf"), axis=-1, keepdims=True)
        return ops.where(removed, state, visited), state

    empty = ops.zeros_like(ops.sum(potentials[:, :, 1:], axis=0))  # (b, 1, k)
    nothing = ops.concatenate([empty - float("inf"), empty], axis=1)
    return ops.scan(step, nothing, potentials, reverse=reverse)


def _centre(states):
    """Log weight and mean (..., 2, 1) of states (..., 2, k) as a whole; 0 for empty ones."""
    weight = finite(log_sum_exp(states[..., :1, :], axis=-1, keepdims=True))
    shares = ops.exp(states[..., :1, :] - weight)
    mean = ops.sum(_weighted(shares, states[..., 1:, :]), axis=-1, keepdims=True)
    return ops.concatenate([weight, mean], axis=-2)


def _potentials(unary, values):
    """(t, b, 2, k); values of removed positions and forbidden labels do not matter."""
    values = ops.where(unary == -float("inf"), 0.0, values)
    return ops.transpose(ops.stack([unary, values], axis=2), (1, 0, 2, 3))


@compiled
def _mean(unary, transitions, values, step_values):
    potentials = _potentials(unary, values)
    _, before = _sweep(potentials, transitions, step_values)
    growth = _centre(_arriving(before, transitions, step_values) + potentials)  # (t, b, 2, 1)
    return ops.sum(growth[:, :, 1, 0], axis=0)


@compiled
def _mean_gradients(unary, transitions, values, step_values, upstream):
    """Gradients of sum_b upstream_b E[second score] for all four arguments of `_mean`.

    Means are relative throughout: what a position adds to all labels alike cancels.
    """
    potentials = _potentials(unary, values)  # (t, b, 2, k)
    into = ops.transpose(transitions), ops.transpose(step_values)
    _, before = _sweep(potentials, transitions, step_values)
    _, after = _sweep(potentials, *into, reverse=True)
    ahead = potentials + _arriving(after, *into)
    joint = _arriving(before, transitions, step_values) + ahead
    centre = _centre(joint)  # the same for a label and for the steps that lead into it
    centre = ops.where(ops.isinf(centre), 0.0, centre)
    joint, ahead = joint - centre, ahead - centre

    shares = ops.exp(joint[:, :, 0]) * upstream[:, None]  # (t, b, k)
    points = _weighted(shares, joint[:, :, 1])
    pairs = _pairs(before, ahead, transitions, step_values, upstream)
    axes = (1, 0, 2)
    return ops.transpose(points, axes), pairs[0], ops.transpose(shares, axes), pairs[1]


def _pairs(before, ahead, transitions, step_values, upstream):
    """Covariances with, and expected numbers of, each step: (2, k, k), one position at a time."""

    def add(t, sums):
        behind, front = before[t][:, :, :, None], ahead[t][:, :, None, :]
        shares = ops.exp(behind[:, 0] + transitions + front[:, 0]) * upstream[:, None, None]
        means = behind[:, 1] + step_values + front[:, 1]  # (b, i, j), relative to their mean
        means = _weighted(shares, means)
        return sums + ops.stack([ops.sum(means, axis=0), ops.sum(shares, axis=0)])

    zeros = ops.stack([ops.zeros_like(transitions)] * 2)
    return ops.fori_loop(0, ops.shape(before)[0], add, zeros)
