"""Fixtures and settings of the whole suite; the backend comes from KERAS_BACKEND."""

import os

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import hypothesis
import keras
import numpy as np
import pytest

hypothesis.settings.register_profile(
    "default", deadline=None, derandomize=True, max_examples=60, print_blob=False
)
hypothesis.settings.load_profile("default")


def pytest_report_header():
    return f"keras {keras.__version__}, backend {keras.backend.backend()}"


@pytest.fixture(autouse=True)
def _seeded():
    """Every test starts from the same seed and policy, whatever ran before it."""
    keras.utils.set_random_seed(7)
    keras.config.set_dtype_policy("float32")
    yield
    keras.config.set_dtype_policy("float32")


@pytest.fixture
def rng():
    return np.random.default_rng(11)
