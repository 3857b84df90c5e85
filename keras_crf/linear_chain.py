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
position, and scores are taken relative to their maxima, so that nothing large cancels (`chains`).
What is left is a plain chain, and `sweeps` runs along it. Gradients are closed forms (marginals and
covariances), so no loop is ever differentiated.

Forbidden transitions (minus infinity) send sums into the slower log space, unless `reach` tells in
how many steps every label reaches every other along allowed ones (`constraints.reach`).
"""

import keras
from keras import ops

from keras_crf import chains, expectations, path_scores, sweeps
from keras_crf.compilation import with_closed_form_gradient

# === Scores and probabilities of given paths ===


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
    chain = chains.fold(emissions, transitions, start, end, mask)
    return path_scores.score(chain, path_scores.as_tags(tags, emissions))


def log_partition(emissions, transitions, start=None, end=None, mask=None, reach=None):
    """Logarithm of Z, the sum of exp(score) over all paths.

    Arguments as in `path_score`. The gradients are the expected counts: marginals for `emissions`,
    pairwise marginals summed over time for `transitions`.

    Returns:
        `(b,)` float32 in nats; 0 for a sequence without kept positions.
    """
    chain = chains.shift(chains.fold(emissions, transitions, start, end, mask), reach)
    return _log_z(chain) + chain.offset()


def log_likelihood(emissions, tags, transitions, start=None, end=None, mask=None, reach=None):
    """Logarithm of the probability of given paths.

    Arguments as in `path_score`. Numerator and normaliser are both taken relative to the largest
    scores, so that nothing large cancels: a near-certain path keeps its digits whatever the size of
    the emissions.

    Returns:
        `(b,)` float32 in nats, never positive for integer tags and for weights that sum to 1; minus
        infinity for a forbidden path; 0 for a sequence without kept positions.
    """
    tags = path_scores.as_tags(tags, emissions)
    chain = chains.shift(chains.fold(emissions, transitions, start, end, mask), reach)
    score = path_scores.score(chain, tags)
    # Where the path is forbidden or a label is none, log Z does not matter, and gets no gradient.
    counts = ops.logical_not(ops.logical_or(ops.isnan(score), score == -float("inf")))
    value = ops.where(counts, score - _log_z(chain), score)
    if not path_scores.is_soft(tags):
        return _at_most_zero(value)
    value = value + path_scores.surplus(chain, tags)
    return ops.where(path_scores.are_distributions(chain, tags), _at_most_zero(value), value)


def partial_log_likelihood(
    emissions, allowed, transitions, start=None, end=None, mask=None, reach=None
):
    """Logarithm of the total probability of all paths through sets of allowed labels.

    This is the marginal likelihood of partial annotation (Tsuboi et al., "Training conditional
    random fields using incomplete annotations", COLING 2008).

    Arguments as in `path_score`, with `allowed` `(b, t, k)`: true or non-zero = the label is
    possible at this position. A kept position without any possible label makes the value NaN.

    Returns:
        `(b,)` float32 in nats, never positive; 0 where every label is allowed everywhere, -inf
        where all paths are forbidden.
    """
    allowed = ops.convert_to_tensor(allowed)
    chains.check_axes("allowed", allowed, chains.float32(emissions), rank=3)
    chain = chains.fold(emissions, transitions, start, end, mask)
    allowed = chains.never_empty(ops.cast(allowed, "bool"), chain.length, True)
    empty = ops.logical_and(chain.kept, ops.logical_not(ops.any(allowed, axis=-1)))
    chain = chains.shift(chain, reach)
    # Forbidden labels may break the reach. Both sums run alike, so that equal ones cancel exactly.
    chain = chain._replace(safe=ops.logical_and(chain.safe, _unbroken(transitions)))
    unary = ops.where(allowed, chain.unary, -float("inf"))
    some = chain._replace(unary=unary, impossible=chains.is_impossible(unary, chain.kept))
    total = _log_z(some)
    value = ops.where(total == -float("inf"), total, total - _log_z(chain))
    return path_scores.nan_unless(ops.logical_not(ops.any(empty, axis=1)), _at_most_zero(value))


def _unbroken(transitions):
    return ops.logical_not(ops.any(chains.float32(transitions) == -float("inf")))


# === Distribution over paths ===


def marginals(emissions, transitions, start=None, end=None, mask=None, reach=None):
    """Probability of every label at every position, given the whole sequence.

    Arguments as in `path_score`. Computed by the forward-backward algorithm (Rabiner, "A tutorial
    on hidden Markov models", Proc. IEEE 1989). Differentiable: the gradients are covariances.

    Returns:
        `(b, t, k)` float32; kept positions sum to 1, removed ones are 0. NaN where every path is
        forbidden.
    """
    chain = chains.fold(emissions, transitions, start, end, mask)
    return chains.cut(_marginals(chains.shift(chain, reach)), chain.length)


def entropy(emissions, transitions, start=None, end=None, mask=None, reach=None):
    """Entropy of the distribution over paths.

    Arguments as in `path_score`. Computed in the expectation semiring (Li and Eisner, "First- and
    second-order expectation semirings", EMNLP 2009), as is `kl_divergence`.

    Returns:
        `(b,)` float32 in nats, from 0 (one certain path) to n log k; differentiable. NaN where
        every path is forbidden.
    """
    chain = chains.shift(chains.fold(emissions, transitions, start, end, mask), reach)
    own_score = expectations.expected_score(
        chain.unary,
        chain.transitions,
        chains.finite_part(chain.unary),
        chains.finite_part(chain.transitions),
    )
    log_z = _log_z(chain)
    value = _at_least_zero(log_z - own_score)
    return path_scores.nan_unless(log_z > -float("inf"), value)


def kl_divergence(p, q, mask=None, reach=None):
    """Kullback-Leibler divergence D(p || q) of two chains over the same positions.

    For R-Drop (two passes with different dropout) and distillation (teacher p, student q).

    Args:
        p: scores `(emissions, transitions)` or `(emissions, transitions, start, end)`.
        q: the same.
        mask: as in `path_score`, of both.
        reach: as in `log_partition`, of both.

    Returns:
        `(b,)` float32 in nats, at least 0; infinite where p gives weight to a path that q forbids.
        Differentiable in both.
    """
    # What one of the two removes is removed from both.
    kept = [chains.kept_positions(chains.float32(scores[0]), mask) for scores in (p, q)]
    mask = ops.logical_and(*kept)
    p, q = (chains.shift(chains.fold(*scores, mask=mask), reach) for scores in (p, q))
    difference = expectations.expected_score(
        p.unary,
        p.transitions,
        _difference(p.unary, q.unary),
        _difference(p.transitions, q.transitions),
    )
    return _at_least_zero(difference - _log_z(p) + _log_z(q))


def _difference(p, q):
    """Difference p - q where p allows anything, else 0; infinite where q alone forbids."""
    return ops.where(p == -float("inf"), 0.0, chains.finite_part(p) - q)


# === Paths ===


def viterbi(emissions, transitions, start=None, end=None, mask=None, pad_value=-1):
    """The path of highest score (Viterbi, IEEE Trans. Information Theory 1967).

    Arguments as in `path_score`; `pad_value` is what stands at removed positions. Between paths of
    equal score the lower label wins, from the last position backwards, as in
    `keras_crf.ViterbiDecoder`.

    Returns:
        `(b, t)` int32.
    """
    chain = _without_gradient(chains.fold(emissions, transitions, start, end, mask))
    path = sweeps.viterbi(chain.unary, chain.transitions)
    return chains.cut(ops.where(chain.kept, path, pad_value), chain.length)


def n_best(emissions, transitions, n, start=None, end=None, mask=None, pad_value=-1):
    """The n paths of highest score, all different, best first.

    Arguments as in `viterbi`, with `n`, the number of paths, a Python int. The first path is that
    of `viterbi`, the others follow in the order of their scores, up to rounding. A sequence that
    has fewer than n paths (or fewer that are not forbidden) gets rows of `pad_value` with score
    -inf.

    Returns:
        Paths `(b, n, t)` int32 and their scores `(b, n)` float32 in nats.
    """
    if n < 1:
        raise ValueError(f"`n` must be 1 or more. Received: n={n}")
    chain = _without_gradient(chains.fold(emissions, transitions, start, end, mask))
    paths, exists = sweeps.n_best(chain.unary, chain.transitions, n)
    scores = path_scores.scores_of(chain, paths)
    empty = ops.logical_not(ops.any(chain.kept, axis=1, keepdims=True))  # has one path, of score 0
    exists = ops.where(empty, ops.arange(n) == 0, exists)
    exists = ops.logical_and(exists, scores > -float("inf"))
    scores = ops.where(exists, scores, -float("inf"))
    shown = ops.logical_and(chain.kept[:, None, :], exists[..., None])
    paths = ops.where(shown, paths, pad_value)
    return paths if chain.length else paths[..., :-1], scores


def sample(
    emissions, transitions, n, start=None, end=None, mask=None, seed=None, pad_value=-1, reach=None
):
    """Independent paths from the distribution: forward filtering, backward sampling.

    Arguments as in `viterbi`, with `n`, the number of samples for each sequence, a Python int, and
    `seed`, an integer (the same integer gives the same samples) or a `keras.random.SeedGenerator`.

    Returns:
        `(b, n, t)` int32; `pad_value` throughout where every path is forbidden.
    """
    chain = chains.fold(emissions, transitions, start, end, mask)
    shifted = chains.shift(_without_gradient(chain), reach)
    b, t, k = ops.shape(shifted.unary)
    shape = (t + 1, n, b, k)
    uniform = keras.random.uniform(shape, minval=1e-37, maxval=1.0, dtype="float32", seed=seed)
    gumbel = -ops.log(-ops.log(uniform))
    paths = sweeps.sample(shifted.unary, shifted.transitions, shifted.safe, gumbel)  # (b, n, t)
    exists = (_log_z(shifted) > -float("inf"))[:, None, None]
    paths = ops.where(ops.logical_and(chain.kept[:, None, :], exists), paths, pad_value)
    return paths if chain.length else paths[..., :-1]


def _without_gradient(chain):
    return chain._replace(
        unary=ops.stop_gradient(chain.unary), transitions=ops.stop_gradient(chain.transitions)
    )


def _at_most_zero(value):
    """A log-probability: what lies above 0 is rounding, and the gradient should not notice."""
    return value - ops.stop_gradient(ops.where(value > 0, value, 0.0))


def _at_least_zero(value):
    return value - ops.stop_gradient(ops.where(value < 0, value, 0.0))


# === Sums over all paths, with closed-form gradients ===


def _log_z(chain):
    """Of a shifted chain: (b,)."""
    safe = chain.safe

    @with_closed_form_gradient
    def log_z(unary, transitions):
        value, before = sweeps.forward(unary, transitions, safe)

        def gradient(upstream):
            return sweeps.expected_counts(unary, transitions, safe, before, upstream)

        return value, gradient

    value = log_z(chain.unary, chain.transitions)
    return ops.where(chain.impossible, -float("inf"), value)


def _marginals(chain):
    """Of a shifted chain: (b, t, k). A marginal's gradient is its covariance with all counts."""
    safe = chain.safe

    @with_closed_form_gradient
    def marginals(unary, transitions):
        def gradient(upstream):  # (b, t, k)
            no_steps = ops.zeros_like(transitions)
            return expectations.covariances(unary, transitions, upstream, no_steps)

        return sweeps.marginals(unary, transitions, safe), gradient

    points = marginals(chain.unary, chain.transitions)
    exists = ops.stop_gradient(_log_z(chain)) > -float("inf")
    return path_scores.nan_unless(exists[:, None, None], points)
