"""The oracle: every path of a chain, scored one by one in float64 NumPy.

Independent of the library: no recursion, no masks (callers cut the sequence), no Keras. For chains
too long to enumerate, `long_log_partition` is the textbook forward recursion in float64, itself
checked against enumeration.
"""

import itertools

import numpy as np


def paths(length, num_labels):
    """All label paths, `(k ** n, n)`, in lexicographic order."""
    return np.array(list(itertools.product(range(num_labels), repeat=length)), dtype=int)


def score(emissions, transitions, start, end, path):
    """Score of one path through one sequence `(n, k)` without masked positions."""
    if len(path) == 0:
        return 0.0
    steps = sum(transitions[i, j] for i, j in itertools.pairwise(path))
    points = sum(row[label] for row, label in zip(emissions, path, strict=True))
    return start[path[0]] + points + steps + end[path[-1]]


class Chain:
    """One sequence, with everything that a CRF says about it, by enumeration."""

    def __init__(self, emissions, transitions, start=None, end=None, keep=None):
        emissions = np.asarray(emissions, "float64")
        self.k = emissions.shape[-1]
        self.keep = np.ones(len(emissions), bool) if keep is None else np.asarray(keep, bool)
        self.emissions = emissions[self.keep]
        self.transitions = np.asarray(transitions, "float64")
        self.start = np.zeros(self.k) if start is None else np.asarray(start, "float64")
        self.end = np.zeros(self.k) if end is None else np.asarray(end, "float64")
        self.paths = paths(len(self.emissions), self.k)
        parts = (self.emissions, self.transitions, self.start, self.end)
        self.scores = np.array([score(*parts, path) for path in self.paths])
        self.log_z = np.logaddexp.reduce(self.scores)
        self.probabilities = np.exp(self.scores - self.log_z)

    def loss(self, tags):
        """Negative log-likelihood of full-length `tags`; those at removed positions are ignored."""
        parts = (self.emissions, self.transitions, self.start, self.end)
        return self.log_z - score(*parts, np.asarray(tags)[self.keep])

    def _full_length(self, rows):
        full = np.zeros((len(self.keep), self.k))
        full[self.keep] = rows
        return full

    def _points(self, path):
        return np.eye(self.k)[path] if len(path) else np.zeros((0, self.k))

    def _pairs(self, path):
        counts = np.zeros((self.k, self.k))
        for i, j in itertools.pairwise(path):
            counts[i, j] += 1
        return counts

    def marginals(self):
        """`(t, k)`, zero at removed positions."""
        weighted = zip(self.probabilities, self.paths, strict=True)
        return self._full_length(sum(p * self._points(path) for p, path in weighted))

    def expected_pairs(self):
        weighted = zip(self.probabilities, self.paths, strict=True)
        return sum(p * self._pairs(path) for p, path in weighted)

    def loss_gradients(self, tags):
        """Of `loss`, with respect to emissions, transitions, start and end."""
        gold = np.asarray(tags)[self.keep]
        points = self.marginals() - self._full_length(self._points(gold))
        pairs = self.expected_pairs() - self._pairs(gold)
        kept = points[self.keep]
        none = np.zeros(self.k)
        return points, pairs, kept[0] if len(kept) else none, kept[-1] if len(kept) else none

    def entropy(self):
        used = self.probabilities > 0
        return -np.sum(self.probabilities[used] * (self.scores - self.log_z)[used])

    def kl_divergence(self, other):
        """D(self || other), infinite where `other` forbids what this chain allows."""
        used = self.probabilities > 0
        ratio = (self.scores - self.log_z)[used] - (other.scores - other.log_z)[used]
        return np.sum(self.probabilities[used] * ratio)

    def partial_loss(self, allowed):
        """Negative log of the total probability of the paths within sets of labels `(t, k)`."""
        sets = np.asarray(allowed, bool)[self.keep]
        possible = [all(row[label] for row, label in zip(sets, path, strict=True))
                    for path in self.paths]  # fmt: skip
        return self.log_z - np.logaddexp.reduce(self.scores[possible])

    def n_best(self, n):
        """The scores of the n best paths that are not forbidden, best first."""
        scores = np.sort(self.scores[self.scores > -np.inf])[::-1][:n]
        return np.concatenate([scores, np.full(n - len(scores), -np.inf)])

    def best_path(self):
        """The best path; among equals the one with the lowest last label, then the one before..."""
        best = self.paths[self.scores == self.scores.max()]
        return min(best.tolist(), key=lambda path: path[::-1])


def long_log_partition(emissions, transitions, start, end):
    """log Z of one long sequence `(n, k)` by the forward recursion in float64."""
    alpha = np.asarray(start, "float64") + emissions[0]
    for row in np.asarray(emissions[1:], "float64"):
        alpha = np.logaddexp.reduce(alpha[:, None] + transitions, axis=0) + row
    return np.logaddexp.reduce(alpha + end)


def long_marginals(emissions, transitions, start, end):
    """Marginals of one long sequence by forward and backward recursions in float64."""
    emissions = np.asarray(emissions, "float64")
    n, k = emissions.shape
    alpha, beta = np.zeros((n, k)), np.zeros((n, k))
    alpha[0], beta[-1] = start + emissions[0], end
    for t in range(1, n):
        alpha[t] = np.logaddexp.reduce(alpha[t - 1][:, None] + transitions, axis=0) + emissions[t]
    for t in reversed(range(n - 1)):
        beta[t] = np.logaddexp.reduce(transitions + emissions[t + 1] + beta[t + 1], axis=1)
    joint = alpha + beta
    return np.exp(joint - np.logaddexp.reduce(joint, axis=1)[:, None])
