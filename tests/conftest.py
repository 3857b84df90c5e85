"""Fixtures and settings of the whole suite; the backend comes from KERAS_BACKEND."""

import os

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import hypothesis
import keras
import numpy as np
import pytest
import real_corpora

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


@pytest.fixture(scope="session")
def data():
    """Path of a file in the folder of real corpora; skips where that is absent."""

    def path_of(name):
        path = real_corpora.FOLDER / name
        if not path.exists():
            pytest.skip(f"{name} is not here; set KERAS_CRF_DATA to the folder of corpora")
        return path

    return path_of


@pytest.fixture(scope="session")
def bert_vocabulary():
    """Tokens of one of the published BERT vocabularies."""

    def tokens_of(name):
        path = f"bert_vocabs/bert-base-{name}-vocab.txt.gz"
        if not (real_corpora.FOLDER / path).exists():
            pytest.skip(f"{path} is not here; set KERAS_CRF_DATA to the folder of corpora")
        return [line.rstrip() for line in real_corpora.read_lines(path)]

    return tokens_of
