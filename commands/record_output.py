"""Prints records for `yak consume`: values, chosen fields, kcat's format, JSON lines, CSV, YAML or raw bytes."""

import json
import re
import shlex
import struct
import subprocess
from collections.abc import Callable
from typing import TYPE_CHECKING

from yak.commands.output import to_yaml
from yak.commands.units import format_time
from yak.errors import UsageError, YakError
from yak.plain_text import bytes_as_lines, json_text, lines, one_line_with_tabs

if TYPE_CHECKING:
    from yak.client.consumer import ConsumerRecord
    from yak.commands.options import Globals

FIELDS = ("topic", "partition", "offset", "timestamp", "key", "headers")
_TOKEN = re.compile(r"%([tpoTkKvsSRh%])|\\(n|r|t|\\|x[0-9a-fA-F]{2})")
_ESCAPES = {"n": b"\n", "r": b"\r", "t": b"\t", "\\": b"\\"}
FLUSH_BYTES = 1 << 16


class RecordPrinter:
    """Prints records, buffered; call `flush` when idle and at the end. Raises UsageError for a bad format."""

    def __init__(
        self,
        g: "Globals",
        fields: str | None,
        format_: str | None,
        json_value: bool,
        separator: str = "\t",
        *,
        with_value: bool = True,
    ) -> None:
        self._zone = g.zone
        self._stdout = g.out.stdout
        self._json_value = json_value
        self._separator = separator
        self._with_value = with_value
        self._fields = _fields(fields, everything=g.out.format == "wide")
        self._escapes = self._stdout.isatty() and not g.out.unescaped
        """Whether terminal control characters are escaped."""
        self._formulas = g.out.unescaped
        self._pending: list[bytes] = []
        self._pending_bytes = 0
        self._render = self._renderer(g, format_)

    def _renderer(self, g: "Globals", format_: str | None) -> "Callable[[ConsumerRecord], bytes]":
        if format_ is not None:
            return kcat_renderer(format_, self._headers_text, self._printable_bytes)
        if g.out.format == "csv":
            if g.out.headers:
                from yak.client.record_csv import csv_header

                self._stdout.write(csv_header())
            return self._csv
        return {"json": self._json, "yaml": self._yaml, "raw": self._raw}.get(g.out.format, self._text)

    def show(self, record: "ConsumerRecord") -> None:
        data = self._render(record)
        self._pending.append(data)
        self._pending_bytes += len(data)
        if self._pending_bytes >= FLUSH_BYTES:
            self.flush()

    def flush(self) -> None:
        # first removed: a write that Ctrl+C interrupts has printed some of them, and must not be repeated
        pending, self._pending, self._pending_bytes = self._pending, [], 0
        if pending:
            self._stdout.flush()
            self._stdout.buffer.write(b"".join(pending))
            self._stdout.buffer.flush()

    def _when(self, timestamp_ms: int) -> str:
        return format_time(timestamp_ms, self._zone)

    def _json(self, record: "ConsumerRecord") -> bytes:
        from yak.client.record_json import record_document

        document = record_document(record, self._when, json_value=self._json_value)
        return json_text(json.dumps(document, ensure_ascii=False)).encode() + b"\n"

    def _yaml(self, record: "ConsumerRecord") -> bytes:
        from yak.client.record_json import record_document

        document = record_document(record, self._when, json_value=self._json_value)
        return b"---\n" + to_yaml(document).encode()

    def _raw(self, record: "ConsumerRecord") -> bytes:
        return self._printable_bytes(record.value or b"") + b"\n"

    def _printable_bytes(self, data: bytes) -> bytes:
        """The bytes, unchanged for a pipe; on a terminal without control characters."""
        return bytes_as_lines(data).encode() if self._escapes else data

    def _csv(self, record: "ConsumerRecord") -> bytes:
        from yak.client.record_csv import csv_line

        line = csv_line(record, self._when, formulas=self._formulas)
        return (lines(line) if self._escapes else line).encode("utf-8", "surrogatepass")

    def _text(self, record: "ConsumerRecord") -> bytes:
        parts = [self._field(name, record) for name in self._fields]
        if self._with_value:
            parts.append(self._readable(record.value))
        return (self._separator.join(parts) + "\n").encode("utf-8", "surrogateescape")

    def _field(self, name: str, record: "ConsumerRecord") -> str:
        if name == "timestamp":
            return self._when(record.timestamp_ms) if record.timestamp_ms >= 0 else "-"
        if name == "key":
            return self._readable(record.key)
        return self._headers_text(record) if name == "headers" else str(getattr(record, name))

    def _headers_text(self, record: "ConsumerRecord") -> str:
        return ",".join(f"{self._name(name)}={self._readable(data)}" for name, data in record.headers)

    def _name(self, name: str) -> str:
        return one_line_with_tabs(name) if self._escapes else name

    def _readable(self, data: bytes | None) -> str:
        """UTF-8 text (on a terminal without control characters), other bytes as hex, a missing value as `null`."""
        if data is None:
            return "null"
        try:
            text = data.decode()
        except UnicodeDecodeError:
            return "hex:" + data.hex()
        return one_line_with_tabs(text) if self._escapes else text


def _fields(text: str | None, *, everything: bool) -> tuple[str, ...]:
    if text is None:
        return FIELDS[:5] if everything else ()
    names = tuple(name.strip() for name in text.split(",") if name.strip() and name.strip() != "value")
    for name in names:
        if name not in FIELDS:
            raise UsageError(
                "usage", f'"{name}" is not a field', why=f"fields are {', '.join(FIELDS)}", try_=("--print key,offset",)
            )
    return names


def kcat_renderer(
    format_: str, headers_text: "Callable[[ConsumerRecord], str]", printable: "Callable[[bytes], bytes]"
) -> "Callable[[ConsumerRecord], bytes]":
    r"""Parse kcat's `-f`: %t %p %o %T %k %K %s (or %v) %S %R %h %%, and \n \r \t \\ \xNN.

    `printable` filters keys and values. %K and %S are lengths (-1 for null), %R the value's length as 4 bytes. A `%` before
    another character is refused.
    """
    pieces: list[Callable[[ConsumerRecord], bytes]] = []
    at = 0
    for match in _TOKEN.finditer(format_):
        _refuse_stray(format_[at : match.start()], format_)
        pieces.append(_constant(format_[at : match.start()].encode("utf-8", "surrogateescape")))
        letter, escape = match.groups()
        if escape is not None:
            pieces.append(_constant(_ESCAPES.get(escape) or bytes([int(escape[1:], 16)])))
        elif letter == "%":
            pieces.append(_constant(b"%"))
        elif letter == "h":
            pieces.append(lambda record: headers_text(record).encode("utf-8", "surrogateescape"))
        elif letter in "ksv":
            token = _TOKENS[letter]
            pieces.append(lambda record, token=token: printable(token(record)))  # type: ignore[misc]
        else:
            pieces.append(_TOKENS[letter])
        at = match.end()
    _refuse_stray(format_[at:], format_)
    pieces.append(_constant(format_[at:].encode("utf-8", "surrogateescape")))
    return lambda record: b"".join(piece(record) for piece in pieces)


def _refuse_stray(text: str, whole: str) -> None:
    if "%" in text:
        raise UsageError(
            "usage",
            f'--format "{whole}" has an unknown token',
            why="known are %t %p %o %T %k %K %s %v %S %R %h and %%",
            try_=("--format '%k %v\\n'",),
        )


def _constant(data: bytes) -> "Callable[[ConsumerRecord], bytes]":
    return lambda _record: data


def _length(data: bytes | None) -> int:
    return -1 if data is None else len(data)


_TOKENS: "dict[str, Callable[[ConsumerRecord], bytes]]" = {
    "t": lambda record: record.topic.encode(),
    "p": lambda record: str(record.partition).encode(),
    "o": lambda record: str(record.offset).encode(),
    "T": lambda record: str(record.timestamp_ms).encode(),
    "k": lambda record: record.key or b"",
    "K": lambda record: str(_length(record.key)).encode(),
    "v": lambda record: record.value or b"",
    "s": lambda record: record.value or b"",
    "S": lambda record: str(_length(record.value)).encode(),
    "R": lambda record: struct.pack(">i", _length(record.value)),
}


class Decoder:
    """A program that gets each value on stdin and returns the text to print. It runs without a shell."""

    TIMEOUT_S = 10.0

    def __init__(self, command: str, *, skip_errors: bool) -> None:
        try:
            self._argv = shlex.split(command)
        except ValueError as error:
            raise UsageError("usage", f'--decoder "{command}" cannot be read', why=str(error)) from None
        if not self._argv:
            raise UsageError("usage", "--decoder is empty", try_=("--decoder 'base64 -d'",))
        self._skip_errors = skip_errors
        self.failed = 0

    def decode(self, record: "ConsumerRecord") -> bytes | None:
        """The decoded value; None to skip the record after a failure. Raises YakError (`decoder-failed`)."""
        problem = ""
        try:
            done = subprocess.run(  # noqa: S603  (running the user's own program is what the option is for)
                self._argv, input=record.value, capture_output=True, timeout=self.TIMEOUT_S, check=False
            )
            if done.returncode == 0:
                return done.stdout.removesuffix(b"\n")
            lines = done.stderr.decode(errors="replace").strip().splitlines()
            problem = f"exit code {done.returncode}" + (f": {lines[-1]}" if lines else "")
        except subprocess.TimeoutExpired:
            problem = f"no answer in {self.TIMEOUT_S:.0f} s"
        except OSError as error:
            raise UsageError("decoder-failed", f"{self._argv[0]} cannot be started", why=str(error.strerror)) from None
        self.failed += 1
        if self._skip_errors:
            return None
        raise YakError(
            "decoder-failed",
            f"{self._argv[0]} could not decode {record.topic}-{record.partition}@{record.offset}",
            why=problem,
            try_=("add --skip-message-on-error",),
        )
