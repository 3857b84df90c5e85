"""Vocabularies from wherever they come: a tokenizer, a list, a dict, a file."""

import os
from collections.abc import Mapping
from typing import Any

from keras_crf.text_files import numbered_lines

Vocabulary = Any  # Keras-Hub tokenizer, list of tokens, dict token -> id, or path of a vocab.txt


def read_vocabulary(vocabulary: Vocabulary) -> dict[str, int]:
    """Read a vocabulary as a dict from token to id.

    Args:
        vocabulary: Keras-Hub tokenizer, list of tokens, dict token -> id, or path of a `vocab.txt`
            (one token a line, `.gz` and `.xz` too).

    Returns:
        Dict from token to id.
    """
    if isinstance(vocabulary, Mapping):
        return dict(vocabulary)
    if isinstance(vocabulary, str | os.PathLike):
        vocabulary = [line.rstrip() for _, line in numbered_lines(vocabulary)]
    elif hasattr(vocabulary, "get_vocabulary"):
        vocabulary = vocabulary.get_vocabulary()
    return {token: i for i, token in enumerate(vocabulary)}
