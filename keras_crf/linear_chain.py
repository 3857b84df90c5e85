"""The linear-chain conditional random field as pure functions of tensors.

One sequence of n kept positions with emissions `e` (n, k), transitions `T` (k, k), start scores `s`
(k,) and end scores `q` (k,) gives every path y = (y_1, ..., y_n) of labels the score

    score(y) = s[y_1] + sum_t e[t, y_t] + sum_{t > 1} T[y_{t-1}, y_t] + q[y_n]

and the probability p(y) = exp(score(y)) / Z, where Z sums exp(score) over all k^n paths (Lafferty,
McCallum and Pereira, "Conditional Random Fields", ICML 2001). Scores are natural logarithms.

Axes: `b` batch, `t` time, `i`, `j`, `k` labels; `T[i, j]` scores label i FOLLOWED BY label j.

A mask `(b, t)`, true or non-zero = keep, removes positions from the chain: every result equals that
of the sequence with these positions cut out, wherever they stand. A row of emissions that is minus
infinity in all k places is removed as well; a single minus infinity forbids one label there. What
stands at removed positions, NaN included, changes nothing and receives zero gradient. A sequence
without any position has the one empty path, of score 0.

How it is computed. Boundary scores are folded into the emissions of the first and last kept
position, and scores are taken relative to their maxima, so that nothing large cancels. What is left
is a plain chain, and `sweeps` runs along it. Gradients are closed forms (marginals), so no loop is
ever differentiated.
"""

from keras import ops

from keras_crf import sweeps

# === Public functions ===


def path_score(emissions, tags, transitions, start=None, end=None, mask=None):
    """Score of given paths.

    Args:
        emissions: `(b, t, k)` raw scores in nats.
        tags: `(b, t)` integer labels. A label outside `0..k-1` at a kept position makes the
            sequence's score NaN. Or `(b, t, k)` label weights (one-hot or soft), which give the
            expected score under independent labels.
        transitions: `(k, k)`; `[i, j]` scores label i followed by label j.
        start: `(k,)` scores of the first label, or None for zeros.
        end: `(k,)` scores of the last label, or None for zeros.
        mask: `(b, t)`, true or non-zero = keep; None keeps all.

    Returns:
        `(b,)` float32 in nats, differentiable in all scores (and in soft `tags`).
    """
    emissions = _float32(emissions)
    tags = _as_tags(tags, emissions)
    unary, transitions, kept = _fold(emissions, transitions, start, end, mask)
    return _score(unary, tags, transitions, kept)


def log_partition(emissions, transitions, start=None, end=None, mask=None):
    """Logarithm of Z, the sum of exp(score) over all paths.

    Arguments as in `path_score`. The gradients are the expected counts: marginals for `emissions`,
    pairwise marginals summed over time for `transitions`.

    Returns:
        `(b,)` float32 in nats; 0 for a sequence without kept positions.
    """
    unary, transitions, kept = _fold(emissions, transitions, start, end, mask)
    unary, transitions, peaks, peak = _shift(unary, transitions, kept)
    steps = ops.maximum(ops.sum(ops.cast(kept, "float32"), axis=1) - 1.0, 0.0)
    offset = ops.sum(peaks, axis=1) + ops.where(steps > 0, steps * peak, 0.0)
    return _log_partition(unary, transitions) + offset


def log_likelihood(emissions, tags, transitions, start=None, end=None, mask=None):
    """Logarithm of the probability of given paths.

    Arguments as in `path_score`. Numerator and normaliser are both taken relative to the largest
    scores, so that nothing large cancels: a near-certain path keeps its digits whatever the size of
    the emissions.

    Returns:
        `(b,)` float32 in nats, never positive for integer tags; minus infinity for a forbidden
        path; 0 for a sequence without kept positions.
    """
    emissions = _float32(emissions)
    tags = _as_tags(tags, emissions)
    unary, transitions, kept = _fold(emissions, transitions, start, end, mask)
    unary, transitions, peaks, peak = _shift(unary, transitions, kept)
    value = _score(unary, tags, transitions, kept) - _log_partition(unary, transitions)
    if len(tags.shape) == 3:
        return value + _surplus(tags, kept, peaks, peak)
    # A probability is at most 1: what lies above is rounding, and the gradient should not notice.
    return value - ops.stop_gradient(ops.where(value > 0, value, 0.0))


def marginals(emissions, transitions, start=None, end=None, mask=None):
    """Probability of every label at every position, given the whole sequence.

    Arguments as in `path_score`. Computed by the forward-backward algorithm (Rabiner, "A tutorial
    on hidden Markov models", Proc. IEEE 1989). Not differentiable: gradients stop here.

    Returns:
        `(b, t, k)` float32; kept positions sum to 1, removed ones are 0.
    """
    emissions = _float32(emissions)
    unary, transitions, kept = _fold(emissions, transitions, start, end, mask)
    unary, transitions = ops.stop_gradient(unary), ops.stop_gradient(transitions)
    unary, transitions, _, _ = _shift(unary, transitions, kept)
    return _cut(sweeps.marginals(unary, transitions), emissions)


def viterbi(emissions, transitions, start=None, end=None, mask=None, pad_value=-1):
    """The path of highest score (Viterbi, IEEE Trans. Information Theory 1967).

    Arguments as in `path_score`; `pad_value` is what stands at removed positions. Between paths of
    equal score the lower label wins, from the last position backwards, as in
    `keras_crf.ViterbiDecoder`.

    Returns:
        `(b, t)` int32.
    """
    emissions = _float32(emissions)
    unary, transitions, kept = _fold(emissions, transitions, start, end, mask)
    path = sweeps.viterbi(ops.stop_gradient(unary), ops.stop_gradient(transitions))
    return _cut(ops.where(kept, path, pad_value), emissions)


# === From arguments to a chain without boundaries ===


def _fold(emissions, transitions, start, end, mask):
    """Check shapes; return unary scores (b, t, k), transitions (k, k) and kept positions (b, t).

    Rows of removed positions are -inf, and the recursions know them by that.
    """
    emissions, transitions = _float32(emissions), _float32(transitions)
    start, end = (scores if scores is None else _float32(scores) for scores in (start, end))
    mask = mask if mask is None else ops.convert_to_tensor(mask)
    _check_shapes(emissions, transitions, start, end, mask)
    if mask is not None:
        mask = _never_empty(ops.cast(mask, "bool"), emissions, False)
    emissions = _never_empty(emissions, emissions, -float("inf"))
    kept = _kept(emissions)
    if mask is not None:
        kept = ops.logical_and(kept, mask)
    unary = emissions
    rank = ops.cumsum(ops.cast(kept, "int32"), axis=1)  # (b, t), 1 at the first kept position
    if start is not None:
        unary = unary + ops.where((rank == 1)[..., None], start, 0.0)
    if end is not None:
        unary = unary + ops.where((rank == rank[:, -1:])[..., None], end, 0.0)
    return ops.where(kept[..., None], unary, -float("inf")), transitions, kept


def _never_empty(values, emissions, removed):
    """Append a removed position to a time axis that is empty, or unknown and perhaps empty.

    Loops and gathers fail on an empty axis. `_cut` takes the position away again.
    """
    if emissions.shape[1]:
        return values
    padding = [[0, 0] for _ in values.shape]
    padding[1] = [0, 1]
    return ops.pad(values, padding, constant_values=removed)


def _cut(values, emissions):
    """Undo `_never_empty` on a result (b, t, ...)."""
    return values if emissions.shape[1] else values[:, :-1]


def _float32(scores):
    return ops.cast(ops.convert_to_tensor(scores), "float32")


def _kept(emissions):
    """(b, t): False where a row is -inf in all k places. Any NaN keeps the row, and shows."""
    return ops.logical_not(ops.all(emissions == -float("inf"), axis=-1))


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
        _check_batch_and_time("mask", mask, emissions)


def _check_batch_and_time(name, value, emissions, rank=2):
    axes = zip(value.shape, emissions.shape[:rank], strict=False)
    agree = all(a == b or None in (a, b) for a, b in axes)
    if len(value.shape) != rank or not agree:
        raise ValueError(
            f"`{name}` must have the shape {tuple(emissions.shape[:rank])}, as `emissions` has "
            f"{tuple(emissions.shape)}. Received: {tuple(value.shape)}"
        )


def _as_tags(tags, emissions):
    """Integer tags (b, t) int32, or label weights (b, t, k) float32."""
    tags = ops.convert_to_tensor(tags)
    soft = len(tags.shape) == 3
    _check_batch_and_time("tags", tags, emissions, rank=3 if soft else 2)
    return _never_empty(ops.cast(tags, "float32" if soft else "int32"), emissions, 0)


def _shift(unary, transitions, kept):
    """Make the largest score of every row, and of the transitions, zero.

    Returns unary, transitions and what they lost: peaks of the rows (b, t), peak of transitions.
    """
    peaks = ops.stop_gradient(ops.where(kept, sweeps.largest(unary, axis=-1), 0.0))  # (b, t)
    peak = ops.stop_gradient(sweeps.largest(transitions))
    unary = unary - sweeps.finite(peaks)[..., None]
    return unary, transitions - sweeps.finite(peak), peaks, peak


# === Scores of given paths ===


def _score(unary, tags, transitions, kept):
    score = _hard_score if len(tags.shape) == 2 else _soft_score
    return score(unary, tags, transitions, kept)


def _hard_score(unary, tags, transitions, kept):
    """Gathered forward; the gradient is one-hot products, which are deterministic everywhere."""
    k = unary.shape[-1]
    valid = ops.logical_or(ops.logical_not(kept), ops.logical_and(tags >= 0, tags < k))
    known = ops.where(ops.all(valid, axis=1), 0.0, float("nan"))  # (b,)
    tags = ops.clip(tags, 0, k - 1)
    before = _previous_kept(kept)  # (b, t)
    paired = ops.logical_and(kept, before >= 0)
    tags_before = ops.take_along_axis(tags, ops.maximum(before, 0), axis=1)

    @ops.custom_gradient
    def score(unary, transitions):
        points = ops.take_along_axis(unary, tags[..., None], axis=2)[..., 0]  # (b, t)
        steps = ops.take(ops.reshape(transitions, (-1,)), tags_before * k + tags)  # (b, t)
        total = ops.where(kept, points, 0.0) + ops.where(paired, steps, 0.0)

        def gradient(*args, upstream=None):
            upstream = args[-1] if upstream is None else upstream  # (b,)
            weights = upstream[:, None] * ops.cast(kept, "float32")
            at = ops.one_hot(tags, k, dtype="float32") * weights[..., None]
            of = ops.one_hot(ops.where(paired, tags_before, -1), k, dtype="float32")
            return at, ops.einsum("bti,btj->ij", of, at)

        return ops.sum(total, axis=1), gradient

    return score(unary, transitions) + known


def _soft_score(unary, weights, transitions, kept):
    weights = ops.where(kept[..., None], weights, 0.0)
    before = _previous_kept(kept)  # (b, t)
    rows = ops.take_along_axis(weights, ops.maximum(before, 0)[..., None], axis=1)
    rows = ops.where((before >= 0)[..., None], rows, 0.0)  # (b, t, k), weights one step earlier
    points = ops.sum(_weighted(weights, unary), axis=(1, 2))
    steps = _finite_part(transitions)
    forbidden = ops.cast(transitions == -float("inf"), "float32")
    illegal = ops.einsum("bti,ij,btj->b", rows, forbidden, weights) > 0
    steps = ops.einsum("bti,ij,btj->b", rows, steps, weights)
    return points + ops.where(illegal, -float("inf"), steps)


def _surplus(weights, kept, peaks, peak):
    """What `_shift` took from a weighted score beyond what it took from log Z: (b,).

    It is zero where the weights of each position sum to 1.
    """
    mass = ops.where(kept, ops.sum(weights, axis=-1), 1.0)  # (b, t)
    before = _previous_kept(kept)
    mass_before = ops.take_along_axis(mass, ops.maximum(before, 0), axis=1)
    paired = ops.logical_and(kept, before >= 0)
    steps = ops.sum(ops.where(paired, mass_before * mass - 1.0, 0.0), axis=1)
    points = ops.sum(_weighted(mass - 1.0, peaks), axis=1)
    return points + _weighted(steps, sweeps.finite(peak))


def _weighted(weights, scores):
    """Weights * scores where a weight of zero is worth nothing, even against -inf."""
    used = weights != 0
    return ops.where(used, weights * ops.where(used, scores, 0.0), 0.0)


def _finite_part(scores):
    return ops.where(scores == -float("inf"), 0.0, scores)


def _previous_kept(kept):
    """(b, t) index of the kept position before each position, -1 where there is none."""
    indices = ops.where(kept, ops.arange(ops.shape(kept)[1], dtype="int32"), -1)
    if kept.shape[1] is None:
        return _running_maximum_before(indices)
    return _running_maximum_before_by_doubling(indices, kept.shape[1])


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


# === Sums over all paths ===


def _log_partition(unary, transitions):
    """Of shifted scores: (b,), with the closed-form gradient."""

    @ops.custom_gradient
    def log_z(unary, transitions):
        value, before = sweeps.forward(unary, transitions)

        def gradient(*args, upstream=None):
            upstream = args[-1] if upstream is None else upstream
            return sweeps.expected_counts(unary, transitions, before, upstream)

        return value, gradient

    return log_z(unary, transitions)
