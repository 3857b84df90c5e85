"""Scores of given paths: integer tags, label weights, or many paths of one sequence."""

from keras import ops

from keras_crf import chains
from keras_crf.compilation import with_closed_form_gradient


def as_tags(tags, emissions):
    """Integer tags (b, t) int32, or label weights (b, t, k) float32."""
    tags, emissions = ops.convert_to_tensor(tags), ops.convert_to_tensor(emissions)
    soft = is_soft(tags)
    chains.check_axes("tags", tags, emissions, rank=3 if soft else 2)
    tags = ops.cast(tags, "float32" if soft else "int32")
    return chains.never_empty(tags, emissions.shape[1], 0)


def is_soft(tags):
    """Whether these are label weights."""
    return len(tags.shape) == 3


def score(chain, tags):
    """Scores (b,) of integer tags, or expected scores under label weights."""
    return _soft_score(chain, tags) if is_soft(tags) else _hard_score(chain, tags)


def _hard_score(chain, tags):
    """Gathered forward; the gradient is one-hot products, which are deterministic everywhere."""
    kept, k = chain.kept, chain.unary.shape[-1]
    valid = ops.logical_or(ops.logical_not(kept), ops.logical_and(tags >= 0, tags < k))
    tags = ops.clip(tags, 0, k - 1)
    before = chains.previous_kept(kept)  # (b, t)
    paired = ops.logical_and(kept, before >= 0)
    tags_before = ops.take_along_axis(tags, _index(before), axis=1)

    @with_closed_form_gradient
    def score(unary, transitions):
        points = ops.take_along_axis(unary, tags[..., None], axis=2)[..., 0]  # (b, t)
        steps = ops.take(ops.reshape(transitions, (-1,)), tags_before * k + tags)  # (b, t)
        total = ops.where(kept, points, 0.0) + ops.where(paired, steps, 0.0)

        def gradient(upstream):  # (b,)
            weights = upstream[:, None] * ops.cast(kept, "float32")
            at = ops.one_hot(tags, k, dtype="float32") * weights[..., None]
            of = ops.one_hot(ops.where(paired, tags_before, -1), k, dtype="float32")
            return at, ops.einsum("bti,btj->ij", of, at)

        return ops.sum(total, axis=1), gradient

    return nan_unless(ops.all(valid, axis=1), score(chain.unary, chain.transitions))


def _soft_score(chain, weights):
    kept, transitions = chain.kept, chain.transitions
    weights = ops.where(kept[..., None], weights, 0.0)
    before = chains.previous_kept(kept)  # (b, t)
    rows = ops.take_along_axis(weights, _index(before)[..., None], axis=1)
    rows = ops.where((before >= 0)[..., None], rows, 0.0)  # (b, t, k), weights one step earlier
    points = ops.sum(weights * chains.finite_part(chain.unary), axis=(1, 2))
    steps = ops.einsum("bti,ij,btj->b", rows, chains.finite_part(transitions), weights)
    forbidden = ops.cast(transitions == -float("inf"), "float32")
    illegal = ops.logical_or(
        ops.any(ops.logical_and(weights != 0, chain.unary == -float("inf")), axis=(1, 2)),
        ops.einsum("bti,ij,btj->b", rows, forbidden, weights) > 0,
    )
    return ops.where(illegal, -float("inf"), points + steps)


def surplus(chain, weights):
    """What `chains.shift` took from a weighted score beyond what it took from log Z: (b,).

    It is zero where the weights of each position sum to 1.
    """
    mass = _mass(chain, weights)
    before = chains.previous_kept(chain.kept)
    mass_before = ops.take_along_axis(mass, _index(before), axis=1)
    paired = ops.logical_and(chain.kept, before >= 0)
    steps = ops.sum(ops.where(paired, mass_before * mass - 1.0, 0.0), axis=1)
    points = ops.sum((mass - 1.0) * chains.finite(chain.peaks), axis=1)
    return points + steps * chains.finite(chain.peak)


def _mass(chain, weights):
    """Sum of the label weights at each position (b, t), 1 at removed ones."""
    return ops.where(chain.kept, ops.sum(weights, axis=-1), 1.0)


def are_distributions(chain, weights):
    """(b,): whether the weights of every position are probabilities, up to rounding."""
    proper = ops.logical_and(
        ops.all(weights >= 0, axis=-1), ops.abs(_mass(chain, weights) - 1.0) < 1e-4
    )
    return ops.all(ops.logical_or(proper, ops.logical_not(chain.kept)), axis=1)


def scores_of(chain, paths):
    """Scores (b, n) of n paths each (b, n, t), without gradient."""
    k = chain.unary.shape[-1]
    points = ops.take_along_axis(chain.unary, ops.transpose(paths, (0, 2, 1)), axis=2)  # (b, t, n)
    before = chains.previous_kept(chain.kept)  # (b, t)
    paired = ops.logical_and(chain.kept, before >= 0)
    index = ops.broadcast_to(_index(before)[:, None], ops.shape(paths))
    pairs = ops.take_along_axis(paths, index, axis=2) * k + paths  # (b, n, t)
    steps = ops.take(ops.reshape(chain.transitions, (-1,)), pairs)
    points = ops.where(chain.kept[..., None], points, 0.0)
    steps = ops.where(paired[:, None], steps, 0.0)
    return ops.sum(points, axis=1) + ops.sum(steps, axis=2)


def _index(before):
    """Indices fit for a gather, where there is nothing before as well."""
    return ops.cast(ops.maximum(before, 0), "int32")


def nan_unless(valid, values):
    """NaN where not valid, and no gradient: a bad label shows, and destroys nothing."""
    return ops.where(valid, values, float("nan"))
