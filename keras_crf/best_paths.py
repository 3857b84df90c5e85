"""Searches for the best paths of a chain, as pure NumPy functions; `ViterbiDecoder` is their face.

Everywhere `unary` is `(b, t, k)` with start and end scores added and minus infinity at removed
positions, `trans` is `(k, k)`, and `kept` is `(b, t)`, true where a position is not removed. What
stands in a path at a removed position is an arbitrary label.
"""

import numpy as np


def best_path(unary, trans):
    """Viterbi, operation by operation as in the graph: `(b, t)` labels.

    Between equal scores the lower last label wins, then the lower label before it, and so on.
    """
    kept = ~np.all(unary == -np.inf, axis=-1)
    state = np.full((len(unary), len(trans)), -np.inf, "float32")
    before = np.empty((unary.shape[1], *state.shape), "float32")  # (t, b, k)
    for t in range(unary.shape[1]):
        before[t] = np.where(kept[:, t, None], state, -np.inf)
        state = np.where(kept[:, t, None], _step(state, unary[:, t], trans), state)
    tag = state.argmax(axis=-1)  # (b,)
    path = np.empty(kept.shape, "int64")
    for t in reversed(range(unary.shape[1])):
        path[:, t] = tag
        best = (before[t] + trans.T[tag]).argmax(axis=-1)
        tag = np.where(np.all(before[t] == -np.inf, axis=-1), tag, best)
    return path


def _step(state, scores, trans):
    """Best score of a path into each label (b, k), relative to the best of all."""
    arriving = (state[:, :, None] + trans).max(axis=1)
    nothing_before = np.all(state == -np.inf, axis=-1, keepdims=True)
    visited = np.where(nothing_before, np.float32(0), arriving) + scores
    return visited - _peak(visited, axis=-1)


def _peak(scores, axis):
    """Maximum to subtract: 0 where all is -inf, as -inf minus itself would be NaN."""
    peak = scores.max(axis=axis, keepdims=True)
    return np.where(peak == -np.inf, np.float32(0), peak)


def n_best_paths(unary, trans, kept, n):
    """The n best paths, best first, with the sums and the ties of `best_path`.

    Every label keeps a list of the n best ways into it, best first. Those of a step are merged from
    the lists of all labels before it (Huang and Chiang 2005, "Better k-best Parsing").

    Returns:
        Paths `(b, n, t)` and booleans `(b, n)`: which of them exist, that is have a score above
        minus infinity. The path without positions of an empty row exists.
    """
    lists = (len(unary), len(trans), n + 1)  # the last column stays -inf: the end of each list
    state = np.full(lists, -np.inf, "float32")
    back = np.zeros((unary.shape[1], *lists), "int32")  # places in the flat state one step earlier
    first = kept & (np.cumsum(kept, axis=1) == 1)
    for t in range(unary.shape[1]):
        arriving, back[t, ..., :n] = _merge(state, trans, n)
        arriving[first[:, t], :, 0] = 0.0
        visited = arriving + unary[:, t, :, None]
        visited -= _peak(visited, axis=(1, 2))
        state[..., :n] = np.where(kept[:, t, None, None], visited, state[..., :n])
    rows = state.reshape(len(unary), lists[1] * lists[2])
    order = np.argsort(-rows, axis=-1, kind="stable")[:, :n]
    exists = np.take_along_axis(rows, order, axis=-1) > -np.inf
    exists[:, 0] |= ~kept.any(axis=1)
    place = order + np.arange(len(rows))[:, None] * rows.shape[1]  # (b, n), in the flat state
    return _walk_back(back, place, kept), exists


def _merge(state, trans, n):
    """The n best of all `state[i, rank] + trans[i, j]` for each label j, best first.

    Only the heads of the lists compete, so that each of n rounds costs what a Viterbi step costs.

    Returns:
        Scores `(b, k, n)`, and as `(b, k, n)` the place of each in the flat state.
    """
    b, k, width = state.shape
    flat, into = state.ravel(), trans.T.ravel()  # into[j * k + i]: from i into j
    heads = (state[:, None, :, 0] + into.reshape(k, k)).ravel()  # (b * j * i)
    place = np.arange(0, flat.size, width).reshape(b, 1, k).repeat(k, axis=1).ravel()
    best, origin = np.empty((n, b * k), "float32"), np.empty((n, b * k), "int64")
    row = np.arange(b * k)
    for rank in range(n):
        i = heads.reshape(b * k, k).argmax(axis=-1)
        head = row * k + i
        best[rank], origin[rank] = heads[head], place[head]
        place[head] += 1
        heads[head] = flat[place[head]] + into[head % (k * k)]
    return best.T.reshape(b, k, n), origin.T.reshape(b, k, n)


def _walk_back(back, place, kept):
    """Follow the origins from the last position to the first: paths `(b, n, t)`."""
    k, width = back.shape[2:]
    paths = np.empty((*place.shape, len(back)), "int64")
    for t in reversed(range(len(back))):
        paths[:, :, t] = place // width % k
        place = np.where(kept[:, t, None], back[t].ravel()[place], place)
    return paths


def path_scores(unary, trans, kept, paths):
    """Scores of `paths` `(b, n, t)`, in the precision of `unary` and `trans`: `(b, n)`."""
    b, _, t = paths.shape
    positions = np.where(kept, np.arange(t), -1)
    before = np.maximum.accumulate(np.pad(positions, ((0, 0), (1, 0)), constant_values=-1), axis=1)
    before = before[:, :t]  # (b, t): the kept position before each, -1 if there is none
    points = unary[np.arange(b)[:, None, None], np.arange(t), paths]  # (b, n, t)
    previous = np.take_along_axis(paths, np.maximum(before, 0)[:, None], axis=2)
    steps = np.where((kept & (before >= 0))[:, None], trans[previous, paths], 0.0)
    return (np.where(kept[:, None], points, 0.0) + steps).sum(axis=-1)
