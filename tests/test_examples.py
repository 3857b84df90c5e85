"""Every example runs from beginning to end on a little text."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"

TRAIN = (
    """\
老师  在  黑板  上  写  字  ，  学生  们  认真  地  听  。
我  的  朋友  住  在  海边  的  一  座  小  城市  。
下午  三点  ，  火车  从  车站  出发  了  。
奶奶  做  的  饺子  比  饭馆  的  好吃  。
"""
    * 12
)
TEST = "朋友  们  在  火车  上  吃  饺子  。\n\n老师  住  在  城市  。\n"


def local_backbone(folder):
    """A tiny BERT and its tokenizer, saved as a Keras-Hub preset."""
    keras_hub = pytest.importorskip("keras_hub")
    characters = sorted(set(TRAIN) - set(" \n"))
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *characters]
    sizes = {"num_layers": 3, "num_heads": 2, "hidden_dim": 8, "intermediate_dim": 16}
    keras_hub.models.BertBackbone(len(vocabulary), **sizes).save_to_preset(folder)
    keras_hub.models.BertTokenizer(vocabulary).save_to_preset(folder)
    return str(folder)


def run(script, tmp_path, *options, fails=False):
    pytest.importorskip("keras_hub")
    (tmp_path / "train.txt").write_text(TRAIN, encoding="utf-8")
    (tmp_path / "test.txt").write_text(TEST, encoding="utf-8")
    files = ("--train", "train.txt", "--test", "test.txt", "--save", "model.keras")
    command = [sys.executable, str(EXAMPLES / script), *files, *options]
    done = subprocess.run(command, cwd=tmp_path, env=dict(os.environ), capture_output=True)
    output, errors = done.stdout.decode(), done.stderr.decode()
    assert (done.returncode != 0) == fails, errors[-3000:]
    return errors if fails else output


@pytest.mark.parametrize("head", ["crf", "softmax"])
def test_word_segmentation(tmp_path, head):
    options = ("--head", head, "--epochs", "1", "--batch-size", "8", "--max-length", "12")
    output = run("task_sequence_labeling_cws_crf.py", tmp_path, *options)
    assert "F1" in output
    assert ("Transition scores" in output) == (head == "crf")
    assert "火车" in output.split("model loaded from")[1].replace(" / ", "")
    assert (tmp_path / "model.keras").exists()


def test_word_segmentation_on_one_layer_of_a_local_backbone(tmp_path):
    options = (
        "--backbone",
        local_backbone(tmp_path / "bert"),
        "--max-length",
        "12",
        "--limit",
        "8",
    )
    output = run("task_sequence_labeling_cws_crf.py", tmp_path, *options, "--bert-layers", "1")
    assert "8 training" in output
    assert "火车" in output.split("model loaded from")[1].replace(" / ", "")
    errors = run(
        "task_sequence_labeling_cws_crf.py", tmp_path, *options, "--bert-layers", "0", fails=True
    )
    assert "--bert-layers must be 1 to 3" in errors


def test_options_are_checked_before_anything_is_trained(tmp_path):
    script = "task_sequence_labeling_cws_crf.py"
    errors = run(script, tmp_path, "--save", "model", fails=True)
    assert "--save takes a path that ends in .keras" in errors
    (tmp_path / "empty.txt").write_text("\n")
    errors = run(script, tmp_path, "--test", "empty.txt", fails=True)
    assert "There are no test sentences" in errors
