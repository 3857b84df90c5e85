"""Probability that exactly this span is on the path: same borders, same type.

The path must spell the span as the scheme does, from its first to its last position; the label in
front must not lead into it, nor the label behind go on with it. The sum over all such paths
factors into the filter at the first position, the steps within the span and the message from
behind, so that forward and backward states give all spans of a batch at once (compare Culotta and
McCallum, "Confidence estimation for information extraction", HLT-NAACL 2004, who run a constrained
forward pass for each).
"""

from keras import ops

from keras_crf import chains, sweeps
from keras_crf.sweeps import log_sum_exp


def span_log_probability(chain, spans, tables):
    """Log-probabilities of spans.

    Args:
        chain: of `chains.shift`.
        spans: `(b, s, 3)` int32: start, end (exclusive) and type index; a negative start is
            padding. Removed positions within a span are passed over, as everywhere.
        tables: `LabelTables` with a spelling.

    Returns:
        `(b, s)` float32 in nats; -inf for padding, for spans that do not fit the axis, for unknown
        types, and where no position is kept.
    """
    unary, kept = chain.unary, chain.kept  # (b, t, k), (b, t)
    messages = sweeps.log_messages(unary, chain.transitions, chain.safe)
    before, arriving, behind, after = (ops.transpose(x, (1, 0, 2)) for x in messages)
    joint = arriving + unary
    growth = chains.finite(log_sum_exp(joint, axis=-1))  # (b, t): log of the scale of each step
    filtered = joint - growth[..., None]  # log p(label | everything up to here)

    start, end, group = (spans[..., i] for i in range(3))  # (b, s)
    known = ops.logical_and(group >= 0, group < len(tables.types))
    group = ops.cast(ops.clip(group, 0, len(tables.types) - 1), "int32")
    first, last, length = _kept_within(kept, start, end)
    labels = ops.take(ops.convert_to_tensor(tables.spelling), group, axis=0)  # (b, s, 4)
    single, opening, _, closing = (labels[..., i] for i in range(4))

    step = (unary - growth[..., None], chain.transitions)
    opening = ops.where(length == 1, single, opening)
    entering = _entering(before, chain.transitions, first, opening, tables)
    beginning = entering + _pick(step[0], first, opening)
    within = _steps(step, kept, first, last, length, labels, tables)
    final = ops.where(length == 1, single, closing)
    every = _at(log_sum_exp(filtered + behind, axis=-1), last)
    leaving = _leaving(every, after, chain.transitions, last, final, tables)
    value = beginning + ops.where(length == 1, 0.0, within) + leaving
    fits = ops.logical_and(ops.logical_and(known, start >= 0), end <= ops.shape(kept)[1])
    exists = ops.logical_and(ops.logical_and(fits, length > 0), start < end)
    exists = ops.logical_and(exists, ops.logical_not(chain.impossible)[:, None])
    return ops.where(exists, ops.minimum(value, 0.0), -float("inf"))


def _kept_within(kept, start, end):
    """First and last kept position in [start, end) and their number: (b, s) each."""
    length = ops.shape(kept)[1]
    count = ops.cumsum(ops.cast(kept, "int32"), axis=1)  # (b, t), this position included
    latest = chains.latest_kept(kept)  # (b, t), this position included
    following = length - 1 - ops.flip(chains.latest_kept(ops.flip(kept, axis=1)), axis=1)
    start, end = ops.clip(start, 0, length - 1), ops.clip(end, 1, length)
    first, last = _at(following, start), _at(latest, end - 1)
    before_start = _at(count, start) - ops.cast(_at(kept, start), "int32")
    number = ops.maximum(_at(count, end - 1) - before_start, 0)
    return ops.clip(first, 0, length - 1), ops.clip(last, 0, length - 1), number


def _at(values, positions):
    """Values (b, t) at positions (b, s)."""
    return ops.take_along_axis(values, ops.cast(positions, "int32"), axis=1)


def _pick(scores, positions, labels):
    """Scores (b, t, k) at positions (b, s) of labels (b, s)."""
    rows = ops.take_along_axis(scores, ops.cast(positions, "int32")[..., None], axis=1)
    return ops.take_along_axis(rows, ops.cast(labels, "int32")[..., None], axis=2)[..., 0]


def _steps(step, kept, first, last, length, labels, tables):
    """Log-probability of the labels behind the first one, given that one: (b, s)."""
    scores, transitions = step
    _, opening, inner, closing = (labels[..., i] for i in range(4))
    end_score = _pick(scores, last, closing)
    short = _transition(transitions, opening, closing)
    long = _transition(transitions, opening, inner) + _transition(transitions, inner, closing)
    repeats = ops.cast(ops.maximum(length - 3, 0), "float32")
    within = _transition(transitions, inner, inner)
    long = long + ops.where(repeats > 0, repeats * within, 0.0)
    long = long + _inner_scores(scores, kept, first, last, inner, tables)
    return end_score + ops.where(length == 2, short, long)


def _inner_scores(scores, kept, first, last, inner, tables):
    """Sum of the scores of the inner label strictly between two positions: (b, s)."""
    inside = ops.take(scores, ops.convert_to_tensor(tables.spelling[:, 2]), axis=2)  # (b, t, types)
    inside = ops.where(kept[..., None], inside, 0.0)
    groups = ops.take(ops.convert_to_tensor(tables.type_of), inner, axis=0)  # (b, s)
    return _window_sums(inside, first + 1, ops.maximum(last - first - 1, 0), groups)


def _window_sums(values, start, length, column):
    """Sums of values (b, t, c) in windows (b, s) of one column each.

    Only what is in a window is added up, in blocks of 1, 2, 4... positions: differences of sums
    over the whole axis would lose the digits of a short window behind a long sequence.
    """
    size = values.shape[1]
    steps = (size or 2**20).bit_length()
    total = ops.zeros_like(start, dtype="float32")
    position = ops.arange(ops.shape(values)[1], dtype="int32")
    for step in (2**n for n in range(steps)):
        has_block = (length // step) % 2 == 1
        inside = ops.clip(start, 0, ops.shape(values)[1] - 1)
        total = total + ops.where(has_block, _pick(values, inside, column), 0.0)
        start = ops.where(has_block, start + step, start)
        there = position + step < ops.shape(values)[1]
        index = ops.cast(ops.where(there, position + step, 0), "int32")
        shifted = ops.take(values, index, axis=1)
        values = values + ops.where(there[:, None], shifted, 0.0)
    return total


def _transition(transitions, i, j):
    k = transitions.shape[0]
    return ops.take(ops.reshape(transitions, (-1,)), i * k + j)


def _entering(before, transitions, first, label, tables):
    """Log-probability of all that leads into a label without the span beginning there: (b, s)."""
    rows = ops.take_along_axis(before, ops.cast(first, "int32")[..., None], axis=1)  # (b, s, k)
    columns = ops.take(ops.transpose(transitions), label, axis=0)
    goes_on = ops.take(ops.convert_to_tensor(tables.joins.T.copy()), label, axis=0)
    ways = ops.where(goes_on, -float("inf"), rows + columns)
    at_the_start = ops.all(rows == -float("inf"), axis=-1)
    return ops.where(at_the_start, 0.0, log_sum_exp(ways, axis=-1))


def _leaving(every, after, transitions, last, label, tables):
    """Log-probability that what is behind position `last` does not go on with the span: (b, s)."""
    rows = ops.take_along_axis(after, ops.cast(last, "int32")[..., None], axis=1)  # (b, s, k)
    goes_on = ops.take(ops.convert_to_tensor(tables.joins), label, axis=0)
    ways = ops.where(goes_on, -float("inf"), rows + ops.take(transitions, label, axis=0))
    at_the_end = ops.all(rows == -float("inf"), axis=-1)
    return ops.where(at_the_end, 0.0, log_sum_exp(ways, axis=-1) - chains.finite(every))
