"""Copies and exports of records: a record's parts as text, a command that sends it again, NDJSON or CSV files."""

import json
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal, TextIO

from yak.client.consumer import ConsumerRecord
from yak.client.record_csv import csv_header, csv_line
from yak.client.record_json import encode_bytes, record_document
from yak.client.record_template import RecordTemplate, Template, plain
from yak.client.times import format_time
from yak.errors import YakError
from yak.tui.messages.store import BREATH_S


def record_line(record: ConsumerRecord) -> str:
    """One line of JSON, as `yak consume -o json` prints it and `yak produce --format json` reads it."""
    return json.dumps(record_document(record, format_time), ensure_ascii=False)


def produce_command(record: ConsumerRecord) -> str:
    """A shell command that sends the same key, value and headers to the same topic."""
    from yak.tui.produce import form
    from yak.tui.produce.run import Plan

    def part(data: bytes | None) -> Template | None:
        return None if data is None else plain(data.decode("utf-8", "surrogateescape"))

    headers = tuple((name, part(data)) for name, data in record.headers)
    return form.produce_command(Plan(record.topic), RecordTemplate(part(record.key), part(record.value), headers))


COPIES: Final[Mapping[str, tuple[str, Callable[[ConsumerRecord], str]]]] = {
    "k": ("key", lambda record: encode_bytes(record.key)[0] or ""),
    "v": ("value", lambda record: encode_bytes(record.value)[0] or ""),
    "h": ("headers", lambda record: json.dumps(record_document(record, format_time)["headers"], ensure_ascii=False)),
    "j": ("record as JSON", record_line),
    "p": ("command that sends it again", produce_command),
}
"""The copy menu by letter: the name of a part, and its text. Binary data is base64, a null value is empty."""

Format = Literal["ndjson", "csv"]
FORMATS: Final[tuple[Format, ...]] = ("ndjson", "csv")
FOLDER: Final = "~/yak-exports"
PIECE: Final = 250


@dataclass(slots=True)
class Progress:
    """The progress of an export; `path` is set at its end."""

    written: int = 0
    path: str = ""
    size_bytes: int = 0


def file_name(title: str, ending: str, now_ms: int) -> str:
    """`orders-20261120-120304.ndjson`: from topics, only characters that every file system allows."""
    moment = datetime.fromtimestamp(now_ms / 1000, UTC)
    plain = "".join(character if character.isalnum() or character in "._-" else "-" for character in title)[:60]
    return f"{plain.strip('-.') or 'messages'}-{moment:%Y%m%d-%H%M%S}.{ending}"


def format_of(path: str) -> Format:
    """The format for the file's suffix; NDJSON unless it is CSV."""
    return "csv" if path.lower().endswith(".csv") else "ndjson"


def lines_of(pieces: Iterable[list[ConsumerRecord]], format_: Format) -> Iterator[tuple[int, str]]:
    """The number of records and their text, piece by piece."""
    if format_ == "csv":
        yield 0, csv_header()
    for piece in pieces:
        if format_ == "csv":
            yield len(piece), "".join(csv_line(record, format_time) for record in piece)
        else:
            yield len(piece), "".join(record_line(record) + "\n" for record in piece)


def write(
    file: TextIO,
    pieces: Iterable[list[ConsumerRecord]],
    format_: Format,
    progress: Progress,
    is_cancelled: Callable[[], bool] = lambda: False,
) -> None:
    """Write records to an open file. Raises YakError: `export-cancelled`."""
    for count, text in lines_of(pieces, format_):
        if is_cancelled():
            raise YakError("export-cancelled", "the export was stopped", why="nothing was kept of it")
        file.write(text)
        progress.written += count
        progress.size_bytes += len(text.encode("utf-8", "surrogatepass"))
        time.sleep(BREATH_S)


def export(
    pieces: Iterable[list[ConsumerRecord]],
    path: str,
    format_: Format,
    progress: Progress,
    is_cancelled: Callable[[], bool] = lambda: False,
) -> None:
    """Write a new file atomically, under a temporary name until it is complete. Updates `progress`.

    Raises YakError: `export-exists`, `export-failed`, `export-cancelled`.
    """
    target = Path(os.path.expanduser(path))
    exists = YakError(
        "export-exists", f"{target} is there already", why="nothing is written over", try_=("another name",)
    )
    if os.path.exists(target):  # False for a path that cannot be used, whose reason follows
        raise exists
    partial = target.with_name(f".{target.name}.{os.getpid()}-{threading.get_ident()}.part")
    try:
        os.makedirs(target.parent, exist_ok=True)
        with open(partial, "x", encoding="utf-8", errors="surrogatepass", newline="") as file:
            write(file, pieces, format_, progress, is_cancelled)
        with open(target, "x"):  # taken, as a rename alone would overwrite a file created meanwhile; FAT has no links
            os.replace(partial, target)
        progress.path = str(target)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        if os.path.exists(target):
            raise exists from None
        why = getattr(error, "strerror", None) or str(error)
        raise YakError("export-failed", f"{target} was not written", why=why, try_=("another folder",)) from None
    finally:
        with suppress(OSError, ValueError):
            partial.unlink()
