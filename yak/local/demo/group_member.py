"""One member of the demo's group, in a process of its own (`yak demo member`), so that it can be killed like any consumer.

It reports in lines: its process id, then the events of its history. All times are `time.monotonic()`, which the
processes of one machine share.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import BinaryIO, Final

from yak.errors import YakError
from yak.local import processes
from yak.local.chaos.members import COOPERATIVE, Member
from yak.local.chaos.recorder import Recorder
from yak.local.demo.child import Child
from yak.local.demo.load import record_id
from yak.local.processes import ProcessId
from yak.local.spawn import yak_argv
from yak.sim.history_checker.history import Event
from yak.sim.history_checker.json_lines import from_line, to_line

HEARTBEAT_MS: Final = 200
"""Below the commit interval: librdkafka's main thread checks for due heartbeats mostly when a commit wakes it."""
COMMIT_SECONDS: Final = 0.25
_POLL_SECONDS: Final = 0.05


@dataclass(frozen=True, slots=True)
class MemberSettings:
    """The group to join. `name` is the client id, which the group's coordinator knows too."""

    bootstrap: str
    group_id: str
    topic: str
    name: str
    session_timeout_ms: int


class LineRecorder(Recorder):
    """Writes each event as a line, and keeps none."""

    def __init__(self, stdout: BinaryIO) -> None:
        super().__init__(record_id, began=0.0)
        self._stdout = stdout

    def add(self, event: Event) -> None:
        self.write(to_line(event))

    def write(self, line: str) -> None:
        self._stdout.write(line.encode() + b"\n")
        self._stdout.flush()


def run_member(settings: MemberSettings, *, stdin: int, stdout: BinaryIO) -> None:
    """Join when a byte arrives on `stdin`, and stay a member until it is closed; report to `stdout`.

    So members that start together can join together, however long each takes to start. The parent holds the other end
    of `stdin`: when the parent ends in any way, so does the member.
    """
    config = {
        "session.timeout.ms": settings.session_timeout_ms,
        "heartbeat.interval.ms": HEARTBEAT_MS,
        "partition.assignment.strategy": COOPERATIVE,
        "allow.auto.create.topics": False,
    }
    recorder = LineRecorder(stdout)
    member = Member(
        settings.name, settings.bootstrap, [settings.topic], settings.group_id, recorder,
        poll_seconds=_POLL_SECONDS, commit_seconds=COMMIT_SECONDS, config=config,
    )  # fmt: skip
    recorder.write(str(os.getpid()))
    if os.read(stdin, 1):
        member.start()
        while os.read(stdin, 4096):
            pass
        member.stop()


class MemberProcess:
    """A member as a child process. All its events go to `on_event`; `process` is known once it is ready to join."""

    def __init__(self, settings: MemberSettings, on_event: Callable[[Event], None]) -> None:
        self.name = settings.name
        self.process: ProcessId | None = None
        self.is_ended = False
        """Whether it was killed or stopped, and need not run any more."""
        self._settings = settings
        self._on_event = on_event
        self._child: Child

    def start(self) -> None:
        found = self._settings
        arguments = ["demo", "member", "--group", found.group_id, "--topic", found.topic, "--name", found.name]
        arguments += ["--session-timeout", f"{found.session_timeout_ms}ms", "-b", found.bootstrap]
        self._child = Child(yak_argv(*arguments), self._on_line)

    def _on_line(self, line: bytes) -> None:
        text = line.decode("utf-8", "replace").strip()
        if self.process is None and text.isdigit():
            # Its own pid: in the one-file executable it differs from the started process's.
            self.process = processes.identify(int(text))
        elif (event := from_line(text)) is not None:
            self._on_event(event)

    @property
    def pid(self) -> int | None:
        """The member's pid; None before it is ready."""
        return None if self.process is None else self.process.pid

    def join(self) -> None:
        """Make the member, which is ready, join the group."""
        self._child.write(b"\n")

    def check(self) -> None:
        if not self.is_ended and self._child.code is not None:
            raise self._child.failure(f"{self.name} of the group")

    def kill(self) -> None:
        """`kill -9` it, and wait until it is gone and all its events were reported."""
        self.is_ended = True
        if self.process is not None:
            processes.kill(self.process)
        self._child.end(0.0 if self.process is None else 5.0)

    def abandon(self) -> None:
        self.kill()

    def ask_to_end(self) -> None:
        """Make the member commit and leave the group."""
        self.is_ended = True
        self._child.close_input()

    def wait_end(self, timeout_seconds: float) -> None:
        """Wait for the end. Raises the YakError of a member that failed; kills one that does not end in time."""
        code = self._child.end(timeout_seconds)
        if code is None:
            raise YakError(
                "demo-client",
                f"{self.name} did not leave the group in {timeout_seconds:.0f} s",
                why="a member commits before it leaves, and waits for the response",
            )
        if code != 0:
            raise self._child.failure(f"{self.name} of the group")
