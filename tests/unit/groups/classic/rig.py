"""A classic group without a coordinator: its port, its clock and its members' requests, all in the test's hands."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from yak.errors import ErrorCode, PeerError
from yak.groups.classic.group import ClassicGroup, ClassicSettings, Join, Sync
from yak.groups.classic.records import group_record, read_group_value

NONE = ErrorCode.none


class Held:
    """A request's answer, when it has come; a second one is a bug."""

    def __init__(self) -> None:
        self.fields: dict[str, Any] | None = None

    def reply(self, fields: dict[str, Any]) -> None:
        assert self.fields is None, f"answered twice: {self.fields} and {fields}"
        self.fields = fields

    @property
    def error(self) -> ErrorCode | None:
        return None if self.fields is None else self.fields["error_code"]

    def __getitem__(self, name: str) -> Any:
        assert self.fields is not None, "not answered yet"
        return self.fields[name]


class Rig:
    """One group. Writes are committed at once unless `holds_writes`; `flush` then ends them."""

    def __init__(self, **settings: int) -> None:
        self.now_ms = 1_000_000
        self.due_ms: int | None = None
        self.ids = 0
        self.said: list[str] = []
        self.holds_writes = False
        self.writes: list[tuple[bytes, Callable[[ErrorCode], None]]] = []
        self.stored: bytes | None = None
        self.settings = ClassicSettings(**({"initial_rebalance_delay_ms": 0} | settings))
        self.group = ClassicGroup("g", self, self.settings)

    # the port

    @property
    def wall_ms(self) -> int:
        return self.now_ms

    def write(
        self, group: ClassicGroup, assignments: Mapping[str, bytes] | None, then: Callable[[ErrorCode], None]
    ) -> None:
        value = group_record(group, assignments, self.now_ms).value
        assert value is not None
        self.writes.append((value, then))
        if not self.holds_writes:
            self.flush()

    def flush(self, error_code: ErrorCode = NONE) -> None:
        writes, self.writes = self.writes, []
        for value, then in writes:
            if error_code == NONE:
                self.stored = value
            then(error_code)

    def schedule(self, group: ClassicGroup, due_ms: int) -> None:
        if self.due_ms is None or due_ms < self.due_ms:
            self.due_ms = due_ms

    def new_member_id(self, prefix: str) -> str:
        self.ids += 1
        return f"{prefix}-{self.ids}"

    def say(self, event: str, **fields: object) -> None:
        self.said.append(event)

    # the clock

    def wait(self, ms: int) -> None:
        """Let time pass, and the group act whenever it asked to."""
        end = self.now_ms + ms
        while self.due_ms is not None and self.due_ms <= end:
            self.now_ms = max(self.now_ms, self.due_ms)
            self.due_ms = None
            self.group.on_time(self.now_ms)
            due_ms = self.group.next_due()
            if due_ms is not None:
                assert due_ms > self.now_ms, "it would be looked at for ever"
                self.schedule(self.group, due_ms)
        self.now_ms = end

    # requests

    def join(
        self,
        member_id: str = "",
        *,
        client: str = "c",
        instance: str | None = None,
        protocols: tuple[tuple[str, bytes], ...] = (("range", b"r"), ("roundrobin", b"rr")),
        session_ms: int = 10_000,
        rebalance_ms: int = 60_000,
        kind: str = "consumer",
        twice: bool = False,
        skips: bool = True,
    ) -> Held:
        held = Held()
        request = Join(member_id, instance, client, "/h", rebalance_ms, session_ms, kind, protocols, twice, skips)
        self.group.join(request, held, self.now_ms)
        return held

    def sync(self, joined: Held, assignments: dict[str, bytes] | None = None, **changes: Any) -> Held:
        held = Held()
        fields: dict[str, Any] = {
            "member_id": joined["member_id"],
            "instance_id": None,
            "generation": joined["generation_id"],
            "protocol_type": joined["protocol_type"],
            "protocol": joined["protocol_name"],
            "assignments": assignments or {},
        }
        self.group.sync(Sync(**(fields | changes)), held, self.now_ms)
        return held

    def heartbeat(self, member_id: str, generation: int, instance: str | None = None) -> ErrorCode:
        try:
            self.group.heartbeat(member_id, instance, generation, self.now_ms)
        except PeerError as refusal:
            return refusal.error_code
        return NONE

    def leave(self, member_id: str, instance: str | None = None) -> ErrorCode:
        answers = self.group.leave_all([(member_id, instance, None)], self.now_ms)
        return ErrorCode(answers[0]["error_code"])

    # short ways

    def stable(self, count: int = 1, **fields: Any) -> list[Held]:
        """That many members, all with an assignment; the first is the leader."""
        joins: list[Held] = []
        for _ in range(count):
            new = self.join(**fields)
            joins = [*(self.join(old["member_id"], **fields) for old in joins), new]
        held = {each["member_id"]: each for each in joins}
        leader = held[joins[0]["leader"]]
        for each in joins:
            if each is not leader:
                self.sync(each)
        self.sync(leader, {member_id: member_id.encode() for member_id in held})
        assert self.group.state.value == "Stable"
        return joins

    def reload(self) -> Rig:
        """Another coordinator that read what this one wrote."""
        other = Rig()
        other.settings = other.group.settings = self.settings
        other.now_ms, other.ids, other.stored = self.now_ms, self.ids, self.stored
        if self.stored is not None:
            other.group.restore(read_group_value(self.stored))
        other.group.arm(self.now_ms)
        return other
