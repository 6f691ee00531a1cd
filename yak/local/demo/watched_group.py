"""The demo's consumers while they run: started, monitored, killed, and stopped."""

import os
import queue
import time
from collections.abc import Callable, Sequence
from typing import Final

from yak.errors import NothingInTime
from yak.ids import Offset
from yak.local.demo.group_events import Committed, Event, Given
from yak.local.demo.group_ledger import GroupLedger, Hold
from yak.local.demo.group_member import MemberSettings
from yak.local.demo.group_state import committed_offsets, coordinator_of
from yak.local.demo.groups_result import GROUP_ID, MEMBERS, TOPIC, MemberRow
from yak.local.demo.member_process import MemberProcess, Told

PATIENCE_SECONDS: Final = 30.0
REQUEST_SECONDS: Final = 10.0
_UNCOMMITTED_WANTED: Final = 5
_UNCOMMITTED_SECONDS: Final = 1.0
_POLL_SECONDS: Final = 0.02
_THE_COORDINATOR: Final = "the coordinator"


class WatchedGroup:
    """The members by name, and their events.

    `while_waiting` gets the number of read records about fifty times a second.
    """

    def __init__(
        self, bootstrap: str, session_timeout_ms: int, work: str, while_waiting: Callable[[int], None]
    ) -> None:
        self.members: dict[str, MemberProcess] = {}
        self.ledger = GroupLedger()
        self.all_told: list[tuple[str, Event]] = []
        self._told: Told = queue.SimpleQueue()
        self._bootstrap = bootstrap
        self._while_waiting = while_waiting
        self._patience_seconds = PATIENCE_SECONDS + session_timeout_ms / 1000.0
        for number in range(1, MEMBERS + 1):
            settings = MemberSettings(bootstrap, GROUP_ID, TOPIC, f"member-{number}", session_timeout_ms)
            errors_path = os.path.join(work, f"{settings.name}.log")
            self.members[settings.name] = MemberProcess(settings, self._told, errors_path)

    @property
    def living(self) -> list[MemberProcess]:
        """Members that were neither killed nor asked to leave."""
        return [member for member in self.members.values() if not member.is_ended]

    def start(self) -> None:
        """Start all members, and let them join once the last one is ready. Raises YakError."""
        for member in self.members.values():
            member.start()
        # The first FindCoordinator waits for the creation of the offsets topic; no member should have to wait.
        coordinator_of(self._bootstrap, GROUP_ID, timeout_seconds=PATIENCE_SECONDS)
        self.wait("the members start", lambda: all(member.pid is not None for member in self.members.values()))
        for member in self.members.values():
            member.join()

    def hear(self) -> None:
        """Process the members' events. Raises the YakError of a member that ended unexpectedly."""
        while True:
            try:
                name, event = self._told.get_nowait()
            except queue.Empty:
                break
            self.all_told.append((name, event))
            self.ledger.note(name, event)
        for member in self.members.values():
            member.check()

    def go_on(self, seconds: float) -> None:
        """Process events for so long."""
        until = time.monotonic() + seconds
        while True:
            self.hear()
            self._while_waiting(sum(self.ledger.read_by_member.values()))
            left = until - time.monotonic()
            if left <= 0:
                return
            time.sleep(min(_POLL_SECONDS, left))

    def wait(self, what: str, done: Callable[[], bool]) -> None:
        """Process events until `done`. Raises NothingInTime."""
        deadline = time.monotonic() + self._patience_seconds
        while not done():
            if time.monotonic() > deadline:
                has = "; ".join(f"{row.name}: {row.partitions}" for row in self.rows())
                raise NothingInTime(
                    "demo-group", f"not in {self._patience_seconds:.0f} s: {what}", why=f"who reads what: {has}"
                )
            self.go_on(_POLL_SECONDS)

    def wait_for_uncommitted(self, name: str) -> None:
        """Wait for a moment between two commits of a member, so that its death leaves records to be read again.

        The wait is short: without such a moment no record is read again, which is also fine.
        """
        deadline = time.monotonic() + _UNCOMMITTED_SECONDS
        while time.monotonic() < deadline:
            if sum(hold.uncommitted for hold in self.ledger.holds_of(name)) >= _UNCOMMITTED_WANTED:
                return
            self.go_on(_POLL_SECONDS / 4)

    def kill(self, name: str) -> tuple[Hold, ...]:
        """`kill -9` a member; return its assignments."""
        self.members[name].kill()
        self.hear()
        return self.ledger.note_dead(name)

    def ask_committed(self, partitions: Sequence[int]) -> dict[int, Offset]:
        """The coordinator's committed offsets. They are also recorded: from now on no record below them may be read.

        Raises YakError.
        """
        asked_at = time.monotonic()
        found = committed_offsets(self._bootstrap, GROUP_ID, TOPIC, partitions, timeout_seconds=REQUEST_SECONDS)
        told = Committed(time.monotonic(), asked_at, tuple(sorted(found.items())))
        self.all_told.append((_THE_COORDINATOR, told))
        self.ledger.note_committed(told.offsets)
        return found

    def rejoined_since(self, moment: float) -> int:
        """The rebalances that members completed after a moment: each one assigns partitions, possibly none."""
        return sum(1 for _, event in self.all_told if isinstance(event, Given) and event.at > moment)

    def leave(self) -> None:
        """Make the living members commit and leave. Raises the YakError of a member that failed to."""
        leaving = self.living
        for member in leaving:
            member.ask_to_end()
        for member in leaving:
            member.wait_end(PATIENCE_SECONDS)
        self.hear()

    def abandon(self) -> None:
        """Kill the members that still run."""
        for member in self.members.values():
            member.abandon()

    def rows(self) -> list[MemberRow]:
        """The present state of the members."""
        return [
            MemberRow(
                name,
                member.pid,
                self.ledger.partitions_of(name),
                self.ledger.read_by_member[name],
                member.is_ended,
            )
            for name, member in self.members.items()
        ]
