"""The package as a whole: imports, the name clash, the rules of the house."""

import importlib.metadata
import re
import subprocess
import sys
from pathlib import Path

import pytest

import keras_crf

PACKAGE = Path(keras_crf.__file__).parent
SOURCES = sorted(PACKAGE.rglob("*.py"))


def test_no_private_keras_and_no_star_imports():
    for path in SOURCES:
        text = path.read_text(encoding="utf-8")
        assert "keras.src" not in text, path
        assert not re.search(r"^from \S+ import \*", text, re.MULTILINE), path


def test_rooms_that_need_no_keras_import_none():
    rooms = [
        "viterbi",
        "tag_schemes",
        "scoring",
        "corpora",
        "alignment",
        "dictionary",
        "segmentation",
    ]
    code = f"""
import importlib.util, pathlib, sys, types
package = types.ModuleType("keras_crf")
package.__path__ = [{str(PACKAGE)!r}]
sys.modules["keras_crf"] = package
for room in {rooms}:
    importlib.import_module(f"keras_crf.{{room}}")
assert not {{"keras", "tensorflow", "jax", "torch"}} & set(sys.modules), "Keras was imported"
"""
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_every_public_name_is_documented():
    for name in keras_crf.__all__:
        assert getattr(keras_crf, name).__doc__, name


def test_the_other_package_of_this_name_is_pointed_out(monkeypatch):
    def version(name):
        if name != "keras-crf":
            raise importlib.metadata.PackageNotFoundError(name)
        return "0.3.0"

    monkeypatch.setattr(importlib.metadata, "version", version)
    with pytest.warns(UserWarning, match="pip uninstall keras-crf"):
        keras_crf._warn_of_the_other_package()


def test_nothing_is_said_without_it(recwarn):
    keras_crf._warn_of_the_other_package()
    assert not recwarn.list
