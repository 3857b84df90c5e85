"""Lines and columns of text files and streams, each with its place, for errors that say where."""

import gzip
import lzma
import os
import warnings
import zlib
from collections.abc import Iterator
from typing import IO

Source = str | os.PathLike | IO

_BROKEN_STREAM = (UnicodeDecodeError, EOFError, gzip.BadGzipFile, zlib.error, lzma.LZMAError)
_ARCHIVES = {b"\x1f\x8b": gzip.open, b"\xfd7zXZ\x00": lzma.open}  # by their first bytes


def numbered_lines(source: Source) -> Iterator[tuple[str, str]]:
    """Yield `("file:line", text)` for each line, decoded as strict UTF-8.

    Lines end at LF only: U+2028, U+0085 and the like are characters of the text. The line end (LF
    or CRLF) and a byte order mark in front of the first line are left out.

    Args:
        source: path (gzip and xz are recognised by their content), or an open text or binary
            stream.

    Raises:
        ValueError: naming file and line, for bytes that are not UTF-8, for broken archives, and for
            a CR that ends no line.
    """
    if isinstance(source, str | os.PathLike):
        with open(source, "rb") as file:
            yield from numbered_lines(file)
    elif hasattr(source, "read"):
        name = getattr(source, "name", None) or f"<{type(source).__name__}>"
        yield from _lines(source, name)
    else:
        raise ValueError(
            f"Expected a path or an open stream. Received: {type(source).__name__} "
            f"{str(source)[:40]!r}. Lines at hand are a stream as io.StringIO('\\n'.join(lines))"
        )


def _decompressed(stream):
    head = stream.peek(6) if hasattr(stream, "peek") else b""
    for mark, opener in _ARCHIVES.items():
        if head.startswith(mark):
            return opener(stream)
    return stream


def _lines(stream, name):
    number = 0
    try:
        for number, line in enumerate(_decompressed(stream), start=1):
            where = f"{name}:{number}"
            line = _decode(line, where) if isinstance(line, bytes) else line
            line = line.removeprefix("\ufeff" if number == 1 else "").rstrip("\r\n")
            if "\r" in line:
                _refuse_carriage_return(line, where)
            yield where, line
    except _BROKEN_STREAM as error:
        raise ValueError(f"{name}: cannot be read after line {number}: {error}") from error


def _decode(line, where):
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{where}: expected UTF-8. Received: byte 0x{line[error.start]:02x} at byte "
            f"{error.start} of the line. Convert the file to UTF-8 first"
        ) from error


def _refuse_carriage_return(line, where):
    raise ValueError(
        f"{where}: expected lines that end with LF or CRLF. Received: a CR within the line, after "
        f"{line.partition(chr(13))[0][-20:]!r}. Convert the line ends to LF first"
    )


def column_blocks(source: Source, separator: str | None, comment: str | None):
    """Yield the sentences of a column file as non-empty lists of `("file:line", columns)`.

    Args:
        source: path or open stream.
        separator: string between columns. `None`: tabs in a line that holds one, else runs of
            blanks.
        comment: lines starting with this string are left out; `None` keeps all lines.
    """
    rows, first = [], None
    for where, line in numbered_lines(source):
        line = line.rstrip(" \t")
        if comment is not None and line.startswith(comment):
            continue
        if not line or line.startswith("-DOCSTART-"):
            if rows:
                yield rows
            rows = []
            continue
        row = _columns(line, separator)
        if first is None:
            first = where, line, len(row)
            _warn_of_comment(row, where)
        if len(row) != first[2]:
            _refuse_width(row, where, line, first)
        rows.append((where, row))
    if rows:
        yield rows


def _columns(line, separator):
    if separator is None and "\t" not in line:
        return [cell for cell in line.split(" ") if cell]
    return line.split(separator or "\t")


def cell(row: list[str], column: int, where: str) -> str:
    """The value in a column; refuses an empty one."""
    if not -len(row) <= column < len(row) or not row[column]:
        raise ValueError(
            f"{where}: expected a value in column {column}. Received: {row}, {len(row)} columns"
        )
    return row[column]


def _warn_of_comment(row, where):
    if row[0] == "#":
        warnings.warn(
            f"{where}: the file begins with a token '#' in {row}. If such lines are comments, pass "
            'comment="# ".',
            stacklevel=4,
        )


def _refuse_width(row, where, line, first):
    place, text, width = first
    advice = "Mend the line, or pass the separator of the columns"
    if line.startswith("#") or text.startswith("#"):
        advice = 'If lines that start with # are comments, pass comment="#"'
    raise ValueError(
        f"{where}: expected {width} columns as in the first row. Received: {len(row)} in {line!r}. "
        f"The first row is {text[:40]!r} at {place}. {advice}"
    )
