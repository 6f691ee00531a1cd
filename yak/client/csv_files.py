"""The text of a CSV file before it is parsed: its encoding, its lines of bounded length, its number of lines.

A file of any size takes little memory: at most one line, and a line is at most `LINE_CHARACTERS_MAX` long.
"""

import codecs
import csv
import io
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import BinaryIO, Final

from yak.errors import UsageError, YakError

SNIFFED_BYTES: Final = 65_536
LINE_CHARACTERS_MAX: Final = 1 << 20
"""A longer line is rejected: no broker accepts such a record by default, and a file may have no line end at all."""
COUNT_CHUNK_BYTES: Final = 1 << 20
ENCODINGS: Final = ("utf-8", "cp1252", "latin-1", "utf-16", "utf-16-le", "utf-16-be")
"""Suggested encodings; any encoding of Python is allowed."""
_MARKS: Final = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))


@contextmanager
def readable_file(path: str) -> Iterator[None]:
    """Raise YakError (`file`) where the body fails to read the records in a file."""
    try:
        yield
    except OSError as error:
        raise YakError(
            "file", f"{path} cannot be read", why=str(error.strerror), try_=("check the path; nothing was sent",)
        ) from None


def sniff_encoding(head: bytes) -> str:
    """Guess the encoding from a file's first bytes: by the BOM, UTF-16 by its zero bytes, valid UTF-8, else cp1252."""
    for mark, name in _MARKS:
        if head.startswith(mark):
            return name
    pairs = len(head) // 2
    if pairs and head[1::2].count(0) > pairs * 0.4:
        return "utf-16-le"
    if pairs and head[0::2].count(0) > pairs * 0.4:
        return "utf-16-be"
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head, final=False)
    except UnicodeDecodeError:
        return "cp1252"
    return "utf-8"


def check_encoding(name: str) -> str:
    """A text encoding's canonical Python name. Raises UsageError (`bad-encoding`)."""
    try:
        io.TextIOWrapper(io.BytesIO(), name)  # unlike codecs.lookup it refuses base64 and others that are no text
        return codecs.lookup(name).name
    except (LookupError, ValueError):
        raise UsageError(
            "bad-encoding", f'"{name}" is not an encoding', why=f"such as {', '.join(ENCODINGS)}", try_=("utf-8",)
        ) from None


class LineTooLong(Exception):
    """A line of more than `LINE_CHARACTERS_MAX`; reading can go on with the next line."""

    def __init__(self) -> None:
        super().__init__(f"a line of more than {LINE_CHARACTERS_MAX} characters")


class TextLines:
    """The lines of an open file, with their ends. Undecodable bytes become surrogates, which the row's check finds.

    `next` raises LineTooLong, and goes on after that line; YakError (`not-text`) ends it.
    """

    def __init__(self, file: BinaryIO, encoding: str, name: str) -> None:
        self._file = file
        self._text = io.TextIOWrapper(file, encoding=encoding, errors="surrogateescape", newline="")
        self._encoding = encoding
        self._name = name

    @property
    def bytes_read(self) -> int:
        """The number of bytes read, up to a block ahead of the lines; 0 of a pipe."""
        return self._file.tell() if self._file.seekable() else 0

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = self._piece()
        if not line:
            raise StopIteration
        if _is_whole(line):
            return line
        while (more := self._piece()) and not _is_whole(more):
            pass
        raise LineTooLong

    def _piece(self) -> str:
        try:
            return self._text.readline(LINE_CHARACTERS_MAX)
        except UnicodeError as error:
            place = f", before byte {self.bytes_read}" if self.bytes_read else ""
            raise YakError(
                "not-text",
                f"{self._name} is not {self._encoding}",
                why=f"{getattr(error, 'reason', error)}{place}",
                try_=("choose another encoding",),
            ) from None


def _is_whole(piece: str) -> bool:
    return len(piece) < LINE_CHARACTERS_MAX or piece.endswith(("\n", "\r"))


def open_binary(path: str) -> BinaryIO:
    """Open a file for reading. Raises YakError (`file`)."""
    try:
        if os.path.isdir(path):
            raise IsADirectoryError(None, "it is a directory")
        return open(path, "rb")
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise YakError("file", f"{path} cannot be read", why=why, try_=("check the path; nothing was sent",)) from None


def count_lines(path: str) -> int:
    """The number of lines, an unterminated last one included. Raises YakError (`file`).

    This is an upper bound of the rows: a cell with a line end in it counts as two lines. For UTF-16 counting newline
    bytes is right too.
    """
    lines, last = 0, b"\n"
    with open_binary(path) as file:
        while chunk := file.read(COUNT_CHUNK_BYTES):
            lines += chunk.count(b"\n")
            last = chunk
    return lines + (0 if last.rstrip(b"\0").endswith(b"\n") else 1)


def csv_row(cells: Sequence[object]) -> str:
    """The row as a line that ends with LF. Cells with CR are quoted too: readers take CR for a line end, and Python
    before 3.13 only quotes the characters of its own line terminator."""
    line = io.StringIO(newline="")
    csv.writer(line, lineterminator="\r\n").writerow(cells)
    return line.getvalue().removesuffix("\r\n") + "\n"
