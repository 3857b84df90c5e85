"""A saved model that every later version, on every backend, must load.

    KERAS_BACKEND=tensorflow python tests/golden.py

writes it and what it computes into tests/data/. Do so only for a new format, under a new name: the
old files stay and go on being tested.
"""

import json
import os
from pathlib import Path

os.environ.setdefault("KERAS_BACKEND", "tensorflow")

import keras
import numpy as np

from keras_crf import ConditionalRandomField

DATA = Path(__file__).parent / "data"
LABELS = ["O", "B-X", "I-X"]
IDS = [[1, 2, 3, 0, 0], [4, 5, 6, 7, 1], [2, 2, 0, 0, 0]]
TAGS = [[0, 1, 2, 0, 0], [1, 2, 2, 0, 1], [1, 2, 0, 0, 0]]


def main():
    """Train for a moment, save, and record the results."""
    keras.utils.set_random_seed(1)
    inputs = keras.Input((None,), dtype="int32")
    features = keras.layers.Embedding(8, 4, mask_zero=True)(inputs)
    crf = ConditionalRandomField(lr_multiplier=100, labels=LABELS, scheme="BIO", name="crf")
    model = keras.Model(inputs, crf(keras.layers.Dense(3)(features)))
    metrics = [crf.sparse_accuracy, crf.viterbi_accuracy, crf.span_f1()]
    model.compile(keras.optimizers.Adam(0.01), loss=crf.sparse_loss, metrics=metrics)
    x, y = np.array(IDS), np.array(TAGS)
    model.fit(x, y, epochs=5, verbose=0)
    model.save(DATA / "golden-0.1.keras")
    emissions = model.predict(x, verbose=0)
    results = {
        "evaluation": model.evaluate(x, y, verbose=0, return_dict=True),
        "tags": keras.ops.convert_to_numpy(crf.decode(emissions)).tolist(),
        "transitions": keras.ops.convert_to_numpy(crf.transitions).tolist(),
    }
    (DATA / "golden-0.1.json").write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
