"""Every Python block of the README and of the pages in docs/ runs as it stands.

Each block runs by itself, in an empty namespace and an empty folder: what a reader copies is all
that is needed.
"""

import re
from pathlib import Path

import pytest

import keras_crf

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
PAGES = sorted((ROOT / "docs").glob("*.md"))
NAV = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")


def blocks_of(page):
    """Python blocks, each behind as many empty lines as make its line numbers those of the page."""
    text = page.read_text(encoding="utf-8")
    found = re.finditer(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return ["\n" * text.count("\n", 0, match.start(1)) + match[1] for match in found]


BLOCKS = [
    pytest.param(page, block, id=f"{page.stem}-{n}")
    for page in [README, *PAGES]
    for n, block in enumerate(blocks_of(page), 1)
]


@pytest.mark.parametrize(("page", "block"), BLOCKS)
def test_block_runs(page, block, tmp_path, monkeypatch):
    if "keras_hub" in block:
        pytest.importorskip("keras_hub")
    monkeypatch.chdir(tmp_path)
    exec(compile(block, str(page), "exec"), {"__name__": "page"})


@pytest.mark.parametrize(("page", "block"), BLOCKS)
def test_block_imports_what_it_uses(page, block):
    """In this process another block may have imported a module before; in a reader's none has."""
    code = re.sub(r"^(from|import) .*$", "", block, flags=re.MULTILINE)
    assert set(re.findall(r"\bkeras_crf\.(\w+)", code)) <= set(keras_crf.__all__)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_page_has_a_title_a_block_and_a_place(page):
    text = page.read_text(encoding="utf-8")
    assert re.match(r"# \S", text)
    assert text.count("```") == 2 * len(blocks_of(page)), "a block that is not run"
    assert blocks_of(page)
    assert f" {page.name}\n" in NAV
    others = [other for other in PAGES if other.stem != "index"]
    if page.stem == "index":
        assert all(f"({other.name})" in text for other in others)


def test_the_first_screen_shows_both_commands():
    first_screen = "\n".join(README.read_text(encoding="utf-8").splitlines()[:50])
    assert "make example" in first_screen
    assert "make test" in first_screen
    assert "```python" in first_screen
