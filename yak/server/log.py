"""The broker's log: one line per event on stderr, as text or JSON; events that peers can provoke have rate limits."""

import json
import logging
import os
import select
import sys
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Literal, TextIO, get_args

from yak.errors import UsageError
from yak.plain_text import is_plain

LogFormat = Literal["text", "json"]
LOGGER = logging.getLogger("yak")
_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
_FIELDS = "yak_fields"
_PIECE_CHARACTERS = 1024
"""Of up to four bytes."""
_PATIENCE_MS = 200
"""The event loop waits that long for a slow reader, once until a line is written again: a pipe takes 64 KiB of a burst."""


class LastingStream:
    """stderr for as long as a broker runs: what cannot be written is dropped, since the end of a log's reader, a reader
    that hangs, or a full disk below it, must not stop a broker. `log-lines-dropped` has the number of lines."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._dropped = 0
        self._is_cut = False
        """The last piece that was written is not the end of a line."""

    def write(self, text: str) -> None:
        """Write a text in pieces that a pipe takes at once if it takes any (PIPE_BUF)."""
        if self._dropped and self._takes_more():
            dropped, self._dropped = self._dropped, 0
            write("warning", "log-lines-dropped", {"lines": dropped})
            if self._dropped:  # that line too
                self._dropped += dropped
        for start in range(0, len(text), _PIECE_CHARACTERS):
            if not self._takes_more():
                self._dropped += 1
                return
            piece = text[start : start + _PIECE_CHARACTERS]
            self._attempt(f"\n{piece}" if self._is_cut and not start else piece)
            self._is_cut = not piece.endswith("\n")

    def _takes_more(self) -> bool:
        """Whether a piece can be written now, or soon; after a loss only now."""
        try:
            poll = select.poll()
            poll.register(self._stream, select.POLLOUT)
            return bool(poll.poll(0 if self._dropped else _PATIENCE_MS))
        except (OSError, ValueError):  # it has no descriptor: nothing hangs
            return True

    def _attempt(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except BrokenPipeError:
            # the buffered rest would fail again when the process ends, and become its exit code
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, self._stream.fileno())
            os.close(null)
        except OSError:
            return


def set_up(
    log_format: str = "text",
    level: str = "info",
    stream: TextIO | LastingStream | None = None,
    fields: Mapping[str, object] | None = None,
) -> None:
    """Send the `yak` logger to stderr, each line with `fields`. Raises UsageError for an unknown format or level."""
    if log_format not in get_args(LogFormat):
        raise UsageError(
            "log-format",
            f"no such log format: {log_format}",
            why="formats are text and json",
            try_=("yak serve --log-format json",),
        )
    if level.lower() not in _LEVELS:
        raise UsageError(
            "log-level",
            f"no such log level: {level}",
            why=f"levels are {', '.join(_LEVELS)}",
            try_=("yak serve --log-level debug",),
        )
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter(fields) if log_format == "json" else TextFormatter(fields))
    LOGGER.handlers[:] = [handler]
    LOGGER.setLevel(_LEVELS[level.lower()])
    LOGGER.propagate = False
    logging.raiseExceptions = False  # a closed stderr must not stop a broker


def write(
    level: str, event: str, fields: dict[str, object] | None = None, *, error: BaseException | None = None
) -> None:
    """Write one line: a stable event name and its fields; with `error`, its traceback too."""
    number = _LEVELS[level]
    if LOGGER.isEnabledFor(number):
        LOGGER.log(number, "%s", event, extra={_FIELDS: fields or {}}, exc_info=error)


class _Formatter(logging.Formatter):
    """A formatter of events, with the fields that every line has."""

    def __init__(self, fields: Mapping[str, object] | None = None) -> None:
        super().__init__()
        self._every_line = fields or {}

    def fields(self, record: logging.LogRecord) -> dict[str, object]:
        """The fields of one line."""
        return {**self._every_line, **getattr(record, _FIELDS, {})}


class TextFormatter(_Formatter):
    """`2026-01-31T12:00:00.123Z INFO  event key=value`; values with blanks or control characters are quoted."""

    def format(self, record: logging.LogRecord) -> str:
        """One line, with the traceback below it."""
        fields = self.fields(record)
        parts = [_time(record), f"{record.levelname:<7}", record.getMessage()]
        parts += [f"{name}={_quoted(value)}" for name, value in fields.items()]
        line = " ".join(parts)
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class JsonFormatter(_Formatter):
    """One JSON object per line: time, level, event, and the fields."""

    def format(self, record: logging.LogRecord) -> str:
        """One line; a traceback is the field `traceback`."""
        line: dict[str, object] = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            **self.fields(record),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


class RateLimit:
    """Allows `burst` lines of each key in `per_seconds`; the next line has the number of suppressed ones."""

    def __init__(self, burst: int = 5, per_seconds: float = 10.0, keys_max: int = 1000) -> None:
        self._burst = burst
        self._per_seconds = per_seconds
        self._keys_max = keys_max
        self._windows: dict[str, tuple[float, int]] = {}

    def held_back(self, key: str) -> int | None:
        """None if this line is suppressed, else the number of lines of this key suppressed before it."""
        now = time.monotonic()
        started, count = self._windows.get(key, (now, 0))
        if now - started >= self._per_seconds:
            self._windows.pop(key, None)
            self._windows[key] = (now, 1)
            return max(0, count - self._burst)
        if key not in self._windows and len(self._windows) >= self._keys_max:
            del self._windows[next(iter(self._windows))]
        self._windows[key] = (started, count + 1)
        return 0 if count < self._burst else None

    def write(self, level: str, event: str, fields: dict[str, object], *, error: BaseException | None = None) -> None:
        """Write the line unless its event is over its limit."""
        held_back = self.held_back(event)
        if held_back is None:
            return
        if held_back:
            fields = {**fields, "held_back": held_back}
        write(level, event, fields, error=error)


def _time(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{int(record.msecs):03d}Z"


def _quoted(value: object) -> str:
    text = str(value)
    if text and is_plain(text) and not any(mark in text for mark in ' "=\t\n'):
        return text
    return json.dumps(text)
