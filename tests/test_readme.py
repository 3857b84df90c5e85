"""Every Python block of the README runs as it stands."""

import re
from pathlib import Path

import pytest

README = Path(__file__).parents[1] / "README.md"
BLOCKS = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.parametrize("block", BLOCKS, ids=range(1, len(BLOCKS) + 1))
def test_block_runs(block, tmp_path, monkeypatch):
    if "keras_hub" in block:
        pytest.importorskip("keras_hub")
    monkeypatch.chdir(tmp_path)
    exec(compile(block, str(README), "exec"), {})


def test_the_first_screen_shows_both_commands():
    first_screen = "\n".join(README.read_text(encoding="utf-8").splitlines()[:50])
    assert "make example" in first_screen
    assert "make test" in first_screen
    assert "```python" in first_screen
