"""Lines of a text file or stream, each with its place, for errors that say where."""

import gzip
import lzma
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO

Source = str | os.PathLike | IO

_BROKEN_STREAM = (UnicodeDecodeError, EOFError, gzip.BadGzipFile, zlib.error, lzma.LZMAError)


def numbered_lines(source: Source) -> Iterator[tuple[str, str]]:
    """Yield `("file:line", text)` for each line, decoded as strict UTF-8.

    Lines end at LF only: U+2028, U+0085 and the like are characters of the text. The line end (LF
    or CRLF) and a byte order mark in front of the first line are left out.

    Args:
        source: path (`.gz` and `.xz` are decompressed), or an open text or binary stream.

    Raises:
        ValueError: naming file and line, for bytes that are not UTF-8 and for broken archives.
    """
    if not hasattr(source, "read"):
        with _open(source) as stream:
            yield from numbered_lines(stream)
        return
    name = getattr(source, "name", None) or f"<{type(source).__name__}>"
    number = 0
    try:
        for number, line in enumerate(source, start=1):
            where = f"{name}:{number}"
            line = _decode(line, where) if isinstance(line, bytes) else line
            yield where, line.removeprefix("\ufeff" if number == 1 else "").rstrip("\r\n")
    except _BROKEN_STREAM as error:
        raise ValueError(f"{name}: cannot be read after line {number}: {error}") from error


def _open(path):
    opener = {".gz": gzip.open, ".xz": lzma.open}.get(Path(path).suffix, open)
    return opener(path, "rb")


def _decode(line, where):
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{where}: expected UTF-8. Received: byte 0x{line[error.start]:02x} at byte "
            f"{error.start} of the line. Convert the file to UTF-8 first"
        ) from error
