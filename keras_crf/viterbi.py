"""Viterbi decoding in NumPy, without Keras."""

import numpy as np


class ViterbiDecoder:
    """Best label paths from emissions and transition scores.

    It computes in float32, operation by operation like the decoder inside the graph, so that both
    return the same path on every input, ties included.

    Args:
        trans: `(k, k)` transition scores; `[i, j]` scores label i followed by label j. A plain
            attribute that may be replaced at any time, as in bert4keras.
        starts: label ids allowed at the first position; None allows all.
        ends: label ids allowed at the last position; None allows all.
        start_scores: `(k,)` scores of the first label; None for zeros.
        end_scores: `(k,)` scores of the last label; None for zeros.

    Example:
        decoder = crf.decoder()  # or ViterbiDecoder(trans, starts=[0, 1], ends=[0, 3])
        tags = decoder.decode(model.predict(x))
    """

    def __init__(self, trans, starts=None, ends=None, start_scores=None, end_scores=None):
        self.trans = np.asarray(trans)
        if self.trans.ndim != 2 or len(set(self.trans.shape)) != 1:
            raise ValueError(
                f"`trans` must have the shape (labels, labels). Received: {self.trans.shape}"
            )
        self.num_labels = len(self.trans)
        self.start_scores = self._boundary("starts", starts, start_scores)
        self.end_scores = self._boundary("ends", ends, end_scores)

    def _boundary(self, name, labels, scores):
        """(k,) scores, -inf for labels that are not allowed."""
        scores = np.zeros(self.num_labels) if scores is None else np.asarray(scores)
        if scores.shape != (self.num_labels,):
            raise ValueError(
                f"`{name[:-1]}_scores` must have the shape ({self.num_labels},). "
                f"Received: {scores.shape}"
            )
        return scores.astype("float32") + self._allowed(name, labels)

    def _allowed(self, name, labels):
        if labels is None:
            return np.float32(0)
        scores = np.full(self.num_labels, -np.inf, "float32")
        unknown = [label for label in labels if not 0 <= label < self.num_labels]
        if unknown:
            raise ValueError(
                f"`{name}` must hold label ids 0..{self.num_labels - 1}. Received: {unknown}"
            )
        scores[list(labels)] = 0.0
        return scores

    def decode(self, nodes, mask=None, pad_value=-1):
        """Best path of one sequence or of a batch; `nodes` is not modified.

        Args:
            nodes: emissions `(t, k)` or `(b, t, k)`. Rows of minus infinity count as masked.
            mask: `(t,)` or `(b, t)`, true or non-zero = keep. Masked positions are removed from the
                chain.
            pad_value: what stands at masked positions.

        Returns:
            int64 labels `(t,)` or `(b, t)`. Between equal scores the lower label wins.
        """
        nodes = np.asarray(nodes, "float32")
        if nodes.ndim not in (2, 3) or nodes.shape[-1] != self.num_labels:
            raise ValueError(
                f"`nodes` must have the shape (time, {self.num_labels}) or (batch, time, "
                f"{self.num_labels}). Received: {nodes.shape}"
            )
        batch = nodes if nodes.ndim == 3 else nodes[None]
        kept = ~np.all(batch == -np.inf, axis=-1)  # (b, t)
        if mask is not None:
            kept &= self._as_mask(mask, nodes)
        path = np.where(kept, self._best_paths(self._fold(batch, kept)), pad_value)
        return path if nodes.ndim == 3 else path[0]

    @staticmethod
    def _as_mask(mask, nodes):
        mask = np.asarray(mask).astype(bool)
        if mask.shape != nodes.shape[:-1]:
            raise ValueError(
                f"`mask` must have the shape {nodes.shape[:-1]} of the positions in `nodes`. "
                f"Received: {mask.shape}"
            )
        return mask if mask.ndim == 2 else mask[None]

    def _fold(self, nodes, kept):
        """Add start and end scores to the first and last kept position; -inf where removed."""
        rank = np.cumsum(kept, axis=1)
        first, last = kept & (rank == 1), kept & (rank == rank[:, -1:])
        nodes = nodes + np.where(first[..., None], self.start_scores, np.float32(0))
        nodes = nodes + np.where(last[..., None], self.end_scores, np.float32(0))
        return np.where(kept[..., None], nodes, -np.inf)

    def _best_paths(self, unary):
        """(b, t) labels; what stands at removed positions is arbitrary."""
        trans = np.asarray(self.trans, "float32")
        kept = ~np.all(unary == -np.inf, axis=-1)
        state = np.full((len(unary), self.num_labels), -np.inf, "float32")
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
    peak = visited.max(axis=-1, keepdims=True)
    return visited - np.where(peak == -np.inf, np.float32(0), peak)
