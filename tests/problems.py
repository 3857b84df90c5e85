"""Random chains with their oracle, for the tests of the mathematics."""

import enumeration
import numpy as np
from hypothesis import strategies as st

INF = np.inf


class Problem:
    """A batch with masks, boundaries and gold tags, and its oracle for each row."""

    def __init__(self, emissions, transitions, start, end, mask, tags):
        self.scores = (emissions, transitions, start, end)
        self.mask, self.tags = mask, tags

    @classmethod
    def random(cls, rng, b, t, k, scale=1.5, mask=None, boundary=True):
        mask = rng.random((b, t)) < 0.7 if mask is None else np.asarray(mask, bool)
        start, end = rng.normal(size=(2, k)) if boundary else np.zeros((2, k))
        emissions, transitions = rng.normal(size=(b, t, k)) * scale, rng.normal(size=(k, k))
        parts = (emissions, transitions, start, end)
        parts = [np.asarray(part, "float32") for part in parts]
        return cls(*parts, mask, rng.integers(0, k, (b, t)))

    def chains(self):
        emissions, *rest = self.scores
        return [
            enumeration.Chain(row, *rest, keep=keep)
            for row, keep in zip(emissions, self.mask, strict=True)
        ]

    def losses(self):
        pairs = zip(self.chains(), self.tags, strict=True)
        return np.array([chain.loss(tags) for chain, tags in pairs])

    def gradients(self):
        """Of the summed loss, with respect to emissions, transitions, start and end."""
        rows = [c.loss_gradients(t) for c, t in zip(self.chains(), self.tags, strict=True)]
        points, *sums = zip(*rows, strict=True)
        return [np.stack(points), *(sum(part) for part in sums)]

    def best_paths(self):
        paths = np.full(self.mask.shape, -1)
        for path, chain in zip(paths, self.chains(), strict=True):
            path[chain.keep] = chain.best_path()
        return paths

    def forbid(self, rng, share=0.3):
        """Forbid labels and transitions at random, but none that the gold path needs."""
        emissions, transitions, start, end = (part.copy() for part in self.scores)
        keep = np.eye(emissions.shape[-1], dtype=bool)[self.tags]
        emissions[(rng.random(emissions.shape) < share) & ~keep] = -INF
        used = np.zeros(transitions.shape, bool)
        for tags, mask in zip(self.tags, self.mask, strict=True):
            gold = tags[mask]
            used[gold[:-1], gold[1:]] = True
        transitions[(rng.random(transitions.shape) < share) & ~used] = -INF
        return Problem(emissions, transitions, start, end, self.mask, self.tags)


@st.composite
def problems(draw):
    """Shapes 1 to 4, any mask, both boundaries, forbidden entries."""
    t, k = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    b = 3  # rows are independent, and each new shape costs a compilation
    mask = draw(st.lists(st.lists(st.booleans(), min_size=t, max_size=t), min_size=b, max_size=b))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    scale = draw(st.sampled_from([0.1, 1.5, 30.0]))
    problem = Problem.random(rng, b, t, k, scale, mask, boundary=draw(st.booleans()))
    return problem.forbid(rng) if draw(st.booleans()) else problem
