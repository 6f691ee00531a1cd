"""A member of the demo's group as a child process: started, monitored, killed, or stopped."""

import contextlib
import queue
import subprocess
import threading
from typing import IO, Final

from yak.errors import YakError
from yak.local import processes
from yak.local.broker_process import parse_error
from yak.local.demo.group_events import Began, Event, from_line
from yak.local.demo.group_member import MemberSettings
from yak.local.processes import ProcessId
from yak.local.spawn import yak_argv, yak_environment

_PATIENCE_SECONDS: Final = 5.0

Told = queue.SimpleQueue[tuple[str, Event]]


class MemberProcess:
    """One member. All its events go to the queue, with its name; `process` is known once it has begun."""

    def __init__(self, settings: MemberSettings, told: Told, errors_path: str) -> None:
        self.name = settings.name
        self.process: ProcessId | None = None
        self.is_ended = False
        """Whether it was killed or asked to end, and need not run any more."""
        self._settings = settings
        self._told = told
        self._errors_path = errors_path
        self._child: subprocess.Popen[bytes] | None = None
        self._reader: threading.Thread | None = None

    def start(self) -> None:
        """Start the process. It ends when this process ends, since its standard input is closed then."""
        found = self._settings
        words = ["demo", "member", "--group", found.group_id, "--topic", found.topic, "--name", found.name]
        words += ["--session-timeout", f"{found.session_timeout_ms}ms", "-b", found.bootstrap]
        with open(self._errors_path, "wb") as errors:
            self._child = subprocess.Popen(  # noqa: S603 - our own command, no shell
                yak_argv(*words),
                env=yak_environment(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
            )
        assert self._child.stdout is not None, "asked for above"
        self._reader = threading.Thread(target=self._read, args=(self._child.stdout,), name=self.name, daemon=True)
        self._reader.start()

    def _read(self, stdout: IO[bytes]) -> None:
        with stdout:
            for line in stdout:
                event = from_line(line.decode("utf-8", "replace"))
                if isinstance(event, Began):
                    self.process = processes.identify(event.pid)
                if event is not None:
                    self._told.put((self.name, event))

    @property
    def pid(self) -> int | None:
        """The member's pid; None before it has begun."""
        return None if self.process is None else self.process.pid

    def join(self) -> None:
        """Make the member, which has begun, join the group."""
        assert self._child is not None, "start it first"
        assert self._child.stdin is not None, "asked for at the start"
        with contextlib.suppress(BrokenPipeError):  # it ended: `check` reports why
            self._child.stdin.write(b"\n")
            self._child.stdin.flush()

    def check(self) -> None:
        """Raise the YakError of a member that ended unexpectedly."""
        assert self._child is not None, "start it first"
        if not self.is_ended and (code := self._child.poll()) is not None:
            raise self._failure(code)

    def _failure(self, code: int) -> YakError:
        with open(self._errors_path, encoding="utf-8", errors="replace") as file:
            errors = file.read()
        return parse_error(errors, code) or YakError(
            "demo-client",
            f"{self.name} of the group ended with exit code {code}",
            why=errors.strip().rpartition("\n")[2] or "it said nothing",
        )

    def kill(self) -> None:
        """`kill -9`, and wait until the process is gone and all its events are in the queue."""
        assert self.process is not None, "it has begun"
        self.is_ended = True
        processes.kill(self.process)
        self._wait()

    def ask_to_end(self) -> None:
        """Make the member commit and leave the group."""
        assert self._child is not None, "start it first"
        self.is_ended = True
        self._close_stdin(self._child)

    def wait_end(self, timeout_seconds: float) -> None:
        """Wait for the end. Raises the YakError of a member that failed; kills one that does not end in time."""
        assert self._child is not None, "start it first"
        try:
            code = self._child.wait(timeout_seconds)
        except subprocess.TimeoutExpired:
            self.abandon()
            raise YakError(
                "demo-client",
                f"{self.name} did not leave the group in {timeout_seconds:.0f} s",
                why="a member that is told to end commits first, and waits for the answer",
            ) from None
        self._wait()
        if code != 0:
            raise self._failure(code)

    def abandon(self) -> None:
        """Kill the member in any state, after an error of the demo."""
        self.is_ended = True
        if self.process is not None:
            processes.kill(self.process)
        if self._child is not None:
            if self._child.poll() is None:
                self._child.kill()
            self._wait()

    def _wait(self) -> None:
        assert self._child is not None, "start it first"
        assert self._reader is not None, "start it first"
        self._child.wait(_PATIENCE_SECONDS)
        self._close_stdin(self._child)
        self._reader.join(_PATIENCE_SECONDS)

    @staticmethod
    def _close_stdin(child: subprocess.Popen[bytes]) -> None:
        assert child.stdin is not None, "asked for at the start"
        with contextlib.suppress(BrokenPipeError):  # a dead child cannot read the unsent bytes
            child.stdin.close()
