"""A child process of a demo, such as a `yak` command."""

import contextlib
import subprocess
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from yak.errors import YakError
from yak.local.broker_process import parse_error
from yak.local.spawn import yak_environment

_READ_SECONDS: Final = 5.0
_ERRORS_BYTES_MAX: Final = 8_192


class Child:
    """A running command, in a session of its own; `on_line` gets each line of its output, in a thread of its own.

    Its standard input is closed when this process ends in any way, so that it can end too. `on_end` gets its exit code
    and the end of its standard error.
    """

    def __init__(
        self,
        argv: Sequence[str],
        on_line: Callable[[bytes], None] = lambda _line: None,
        on_end: Callable[[int, str], None] = lambda _code, _errors: None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._on_line, self._on_end = on_line, on_end
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed by the reader
        self._child = subprocess.Popen(  # noqa: S603 - our own commands, no shell
            argv,
            env=yak_environment() if environment is None else environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            start_new_session=True,
        )
        self.pid = self._child.pid
        self._said = ""
        self._reader = threading.Thread(target=self._read, name="child-reader", daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._child.stdout is not None, "a pipe, by the arguments of Popen"
        with self._child.stdout as stdout:
            for line in stdout:
                self._on_line(line)
        code = self._child.wait()
        with self._errors:
            self._errors.seek(0)
            self._said = self._errors.read()[-_ERRORS_BYTES_MAX:].decode("utf-8", "replace")
        self._on_end(code, self._said)

    @property
    def code(self) -> int | None:
        """The exit code; None while it runs."""
        return self._child.poll()

    def write(self, data: bytes) -> None:
        """Write to its standard input; does nothing when it has ended."""
        assert self._child.stdin is not None, "a pipe, by the arguments of Popen"
        with contextlib.suppress(BrokenPipeError, ValueError):
            self._child.stdin.write(data)
            self._child.stdin.flush()

    def close_input(self) -> None:
        assert self._child.stdin is not None, "a pipe, by the arguments of Popen"
        with contextlib.suppress(BrokenPipeError):  # it cannot read the unsent bytes any more
            self._child.stdin.close()

    def end(self, timeout_seconds: float = 0.0) -> int | None:
        """Wait for its end and read the rest of its output; kill it after the timeout, and return None then."""
        try:
            code: int | None = self._child.wait(timeout_seconds)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()
            code = None
        self.close_input()
        self._reader.join(_READ_SECONDS)
        return code

    def failure(self, what: str, slug: str = "demo-client") -> YakError:
        """The YakError that it ended with, or one of this slug with its last line."""
        self._reader.join(_READ_SECONDS)
        code = self._child.returncode
        return parse_error(self._said, code) or YakError(
            slug,
            f"{what} ended with exit code {code}",
            why=self._said.strip().rpartition("\n")[2] or "it said nothing",
        )
