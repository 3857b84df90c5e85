"""Training on two devices: the same loss and the same span F1 as on one."""

import json
import subprocess
import sys

import pytest
from backend import BACKEND

SCRIPT = """
import contextlib, json, sys
import keras, numpy as np, tensorflow as tf
import keras_crf

devices = int(sys.argv[1])
cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * devices)
strategy = tf.distribute.MirroredStrategy([f"CPU:{i}" for i in range(devices)])
scope = strategy.scope() if devices > 1 else contextlib.nullcontext()
rng = np.random.default_rng(0)
x, y = rng.normal(size=(64, 6, 8)), rng.integers(0, 5, (64, 6))
keras.utils.set_random_seed(1)
with scope:
    inputs = keras.Input((6, 8))
    labels = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]
    crf = keras_crf.ConditionalRandomField(labels=labels, scheme="BIO", lr_multiplier=10)
    model = keras.Model(inputs, crf(keras.layers.Dense(5)(inputs)))
    metrics = [crf.span_f1(), crf.viterbi_accuracy]
    model.compile(keras.optimizers.Adam(0.01), loss=crf.sparse_loss, metrics=metrics)
history = model.fit(x, y, epochs=2, batch_size=16, shuffle=False, verbose=0).history
results = model.evaluate(x, y, batch_size=16, verbose=0, return_dict=True)
trans = keras.ops.convert_to_numpy(crf.transitions).tolist()
print(json.dumps({"loss": history["loss"], "results": results, "trans": trans}))
"""


@pytest.mark.skipif(BACKEND != "tensorflow", reason="MirroredStrategy is TensorFlow's")
def test_mirrored_strategy_on_two_devices():
    one, two = (
        json.loads(
            subprocess.run(
                [sys.executable, "-c", SCRIPT, devices], check=True, capture_output=True, text=True
            ).stdout.splitlines()[-1]
        )
        for devices in ("1", "2")
    )
    assert two["loss"] == pytest.approx(one["loss"], rel=1e-4)
    assert two["results"] == pytest.approx(one["results"], rel=1e-4)
    for row, expected in zip(two["trans"], one["trans"], strict=True):
        assert row == pytest.approx(expected, abs=1e-4)
