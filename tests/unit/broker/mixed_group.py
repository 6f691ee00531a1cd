"""A group whose members change between the classic and the consumer protocol, by seed, with the invariants it keeps.

Members behave as clients do. Meanwhile they restart, pause, leave and die, the topic grows, and the coordinator fails
over. A seed makes the same run each time:

    .venv/bin/python -m tests.unit.broker.mixed_group 4711     # prints each answer and what the coordinator has

Known, as in Kafka, and met by few seeds (4917; with 20 operations 6807 and 7321): a static member that restarts between
the two rebalances of the cooperative protocol starts no rebalance, so what it had revoked has no reader until the next
one; and a failover before SyncGroup loses the new id of a static member, which is fenced then.
"""

from __future__ import annotations

import random
import sys
import uuid
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from kio.schema.errors import ErrorCode

from tests.rig import Pending
from tests.unit.broker import group_requests as requests
from tests.unit.broker.group_requests import HEARTBEAT, JOIN, LEAVE, SYNC, ms
from tests.unit.broker.groups_rig import GroupsRig
from yak.protocol.record_fields import FieldReader, FieldWriter

CONSUMER_HEARTBEAT, CREATE_PARTITIONS = 68, 37
NONE = ErrorCode.none
RETRIABLE = {
    ErrorCode.not_coordinator,
    ErrorCode.coordinator_load_in_progress,
    ErrorCode.coordinator_not_available,
}
FENCED = {ErrorCode.unknown_member_id, ErrorCode.illegal_generation, ErrorCode.fenced_member_epoch}
STEP_MS = 10
REBALANCE_MS, SESSION_MS = 6_000, 12_000
PAUSES_MS = (7_000, 15_000, 25_000)
"""Within a session, and beyond it."""
QUIET_MS = 60_000
"""A group without further changes assigns all partitions within this time: sessions and rebalances have ended."""
SETTLED_MS = 3_000
PARTITIONS_MAX, MEMBERS_MAX = 9, 5
OPERATIONS = ("wait", "roll", "roll", "add", "remove", "fail over", "fail over", "die", "grow", "pause")


class Violation(AssertionError):
    """An invariant that does not hold."""


def _partitions(reader: FieldReader) -> list[int]:
    topics = reader.array(lambda: (reader.text(), reader.array(reader.int32)))
    return [index for _topic, indexes in topics for index in indexes]


def _put(out: FieldWriter, partitions: Iterable[int]) -> FieldWriter:
    named = sorted(partitions)
    out.int32(1 if named else 0)
    return out.text("orders").int32s(named) if named else out


def _subscription(owned: Iterable[int]) -> bytes:
    return _put(FieldWriter().int16(1).int32(1).text("orders").int32(-1), owned).done()


def _owned(subscription: bytes) -> list[int]:
    reader = FieldReader(subscription)
    reader.int16()
    reader.array(reader.text)
    reader.nullable_blob()
    return _partitions(reader)


def _assigned(data: bytes) -> set[int]:
    if not data:
        return set()
    reader = FieldReader(bytes(data))
    reader.int16()
    return set(_partitions(reader))


class Member:
    """A client in the group: it has at most one request, and owns the partitions that it reads."""

    protocol = ""

    def __init__(self, group: MixedGroup, instance: str | None) -> None:
        self.group, self.instance = group, instance
        self.client = group.rig.new_client()
        self.member_id, self.epoch = "", -1
        self.owned: set[int] = set()
        self.due_ms = 0
        self.was_paused = False
        self._pending: Pending | None = None
        self._take: Callable[[Any, ErrorCode], None] = lambda answer, code: None

    def __repr__(self) -> str:
        return f"{self.protocol} {self.instance} {self.member_id[-6:]} epoch {self.epoch} owns {sorted(self.owned)}"

    def send(self, take: Callable[[Any, ErrorCode], None], key: int, version: int, fields: dict[str, Any]) -> None:
        self._take = take
        self._pending = self.group.rig.begin(key, version, client=self.client, **fields)

    def act(self) -> None:
        """Take the answer that arrived, or send the next request if it is due."""
        if self._pending is not None and self._pending.is_done:
            answer, self._pending = self._pending.answer, None
            code = ErrorCode.not_coordinator if answer is None else ErrorCode(answer.error_code)
            take = self._take
            take(answer, code)
            # a cooperative member that joins again learns from its assignment what it lost during a pause
            if code not in RETRIABLE and self._pending is None:
                self.was_paused = False
            self.group.say(f"{self.group.now_ms} {take.__name__} {code.name}: {self}; {self.group.view()}")
        if self._pending is None and self.group.now_ms >= self.due_ms:
            self.request()

    def wait(self, milliseconds: int) -> None:
        self.due_ms = self.group.now_ms + milliseconds

    def request(self) -> None:
        raise NotImplementedError

    def leave(self) -> None:
        raise NotImplementedError

    def fail(self, code: ErrorCode) -> None:
        raise Violation(f"a member ended by the fatal error {code.name}: {self}; {self.group.view()}")


class ClassicMember(Member):
    """Joins, syncs and sends heartbeats. An eager member revokes all partitions before it joins."""

    def __init__(self, group: MixedGroup, instance: str | None) -> None:
        super().__init__(group, instance)
        self.protocol = group.classic_protocol
        version = group.random.choice([5, 9])
        # before v9, a static leader that restarted is not told that it leads, so it does not see that the topic grew (KIP-814)
        self._version = version if instance is None else 9
        self._is_joined = self._is_leader = False
        self._num_planned = 0

    def request(self) -> None:
        if self._is_joined:
            self._heartbeat()
        else:
            self._join()

    def _identity(self) -> dict[str, Any]:
        return {
            "group_id": "g",
            "generation_id": self.epoch,
            "member_id": self.member_id,
            "group_instance_id": self.instance,
        }

    def _join(self) -> None:
        if self.protocol == "eager":
            self.owned = set()
        fields = requests.join_fields(
            self._version,
            "g",
            self.member_id,
            instance=self.instance,
            session_ms=SESSION_MS,
            rebalance_ms=REBALANCE_MS,
            protocols={self.protocol: _subscription(self.owned)},
        )
        self.send(self._joined, JOIN, self._version, fields)

    def _joined(self, answer: Any, code: ErrorCode) -> None:
        self.wait(20)
        if code == ErrorCode.member_id_required:
            self.member_id = answer.member_id
        elif code in FENCED:
            self.member_id, self.epoch, self.owned = "", -1, set()
        elif code == NONE:
            self.member_id, self.epoch = answer.member_id, answer.generation_id
            self._is_leader = answer.leader == self.member_id
            self._num_planned = self.group.num_planned
            plan = {} if getattr(answer, "skip_assignment", False) else self._plan(answer.members)
            assignments = [{"member_id": name, "assignment": data} for name, data in plan.items()]
            self.send(self._synced, SYNC, 3, {**self._identity(), "assignments": assignments})
        elif code not in RETRIABLE | {ErrorCode.rebalance_in_progress}:
            self.fail(code)

    def _plan(self, members: Iterable[Any]) -> dict[str, bytes]:
        """The leader's assignment. A cooperative one gives away what its owner has revoked only."""
        owners = {index: each.member_id for each in members for index in _owned(each.metadata)}
        names = sorted(each.member_id for each in members)
        plan = {}
        for number, name in enumerate(names):
            share = range(number, self.group.num_partitions, len(names))
            given = [index for index in share if owners.get(index, name) == name]
            plan[name] = _put(FieldWriter().int16(0), given).int32(-1).done()
        if plan:
            self._num_planned = self.group.num_partitions
        return plan

    def _synced(self, answer: Any, code: ErrorCode) -> None:
        self.wait(20)
        if code == NONE:
            if self._is_leader:
                self.group.num_planned = self._num_planned
            assigned = _assigned(answer.assignment)
            revoked, self.owned = self.owned - assigned, assigned
            self._is_joined = self.protocol == "eager" or not revoked
            self.wait(200 if self._is_joined else 10)
        elif code in FENCED:
            self._fenced(code)
        elif code not in RETRIABLE | {ErrorCode.rebalance_in_progress}:
            self.fail(code)

    def _heartbeat(self) -> None:
        if self._is_leader and self.group.num_planned != self.group.num_partitions:
            self._is_joined = False  # a leader joins again when it sees that the topic grew
        else:
            self.send(self._heard, HEARTBEAT, 4, self._identity())

    def _heard(self, _answer: Any, code: ErrorCode) -> None:
        self.wait(200)
        if code in FENCED:
            self._fenced(code)
        elif code == ErrorCode.rebalance_in_progress:
            self._is_joined, self.due_ms = False, 0
        elif code not in RETRIABLE | {NONE}:
            self.fail(code)

    def _fenced(self, code: ErrorCode) -> None:
        self.owned, self._is_joined = set(), False
        if code == ErrorCode.unknown_member_id:
            self.member_id = ""

    def leave(self) -> None:
        """A static member leaves without a request, and comes back or times out."""
        if self.instance is None and self.member_id:
            members = [{"member_id": self.member_id, "group_instance_id": None, "reason": None}]
            self.group.rig.begin(LEAVE, 5, client=self.group.admin, group_id="g", members=members)


class ConsumerMember(Member):
    """Sends heartbeats of the consumer protocol, and says what it owns when that changed."""

    protocol = "consumer"

    def __init__(self, group: MixedGroup, instance: str | None) -> None:
        super().__init__(group, instance)
        self.member_id, self.epoch = str(uuid.UUID(int=group.random.getrandbits(128))), 0
        self._says_all, self._has_changed = True, False

    def _fields(self, epoch: int, *, says_all: bool, partitions: list[dict[str, Any]] | None) -> dict[str, Any]:
        return {
            "group_id": "g",
            "member_id": self.member_id,
            "member_epoch": epoch,
            "instance_id": self.instance,
            "rack_id": None,
            "rebalance_timeout": ms(REBALANCE_MS if says_all else -1),
            "subscribed_topic_names": ["orders"] if says_all else None,
            "subscribed_topic_regex": None,
            "server_assignor": None,
            "topic_partitions": partitions,
        }

    def request(self) -> None:
        topic_id = self.group.rig.node.broker.image.topics["orders"].topic_id
        owned = [{"topic_id": topic_id, "partitions": sorted(self.owned)}] if self.owned else []
        says_all = self._says_all or self.epoch == 0
        fields = self._fields(
            self.epoch, says_all=says_all, partitions=owned if says_all or self._has_changed else None
        )
        self._has_changed = False
        self.send(self._heard, CONSUMER_HEARTBEAT, 1, fields)

    def _heard(self, answer: Any, code: ErrorCode) -> None:
        self.wait(100)
        if code in RETRIABLE:
            self._says_all = True
        elif code in FENCED:
            self.owned, self.epoch, self._says_all = set(), 0, True
        elif code == ErrorCode.unreleased_instance_id:
            self.wait(500)
        elif code != NONE:
            self.fail(code)
        else:
            self._says_all, self.epoch = False, answer.member_epoch
            if answer.assignment is not None:
                assigned = {index for topic in answer.assignment.topic_partitions for index in topic.partitions}
                if assigned != self.owned:
                    self.owned, self._has_changed = assigned, True
                    self.wait(10)

    def leave(self) -> None:
        if self.epoch > 0:
            fields = self._fields(-1 if self.instance is None else -2, says_all=False, partitions=None)
            self.group.rig.begin(CONSUMER_HEARTBEAT, 1, client=self.group.admin, **fields)


class MixedGroup:
    """The members of group "g", which read the topic "orders", and their coordinator."""

    def __init__(self, seed: int, say: Callable[[str], None] = lambda line: None) -> None:
        self.random, self.say = random.Random(seed), say
        self.rig = GroupsRig(group_min_session_timeout_ms="6000", group_consumer_session_timeout_ms=str(SESSION_MS))
        self.admin = self.rig.new_client()
        self.num_partitions = self.num_planned = 4
        self.now_ms = 0
        self.members: list[Member] = []
        self.counts: Counter[str] = Counter()
        self.classic_protocol = self.random.choice(["eager", "cooperative"])
        self._goal = self.random.choice(["consumer", "classic", "mixed"])

    def view(self) -> str:
        """The group as the coordinator has it."""
        found = []
        for coordinated in self.rig.node.broker.group_coordinator.runtime.coordinated.values():
            group = coordinated.shard.groups.get("g")
            if group is not None and group.consumer is not None:
                for each in group.consumer.state.members.values():
                    owned = sorted(index for _topic, index in each.assigned)
                    found.append(f"{each.member_id[-6:]} {each.epoch} {each.state.name} {owned}")
            elif group is not None:
                names = [name[-6:] for name in group.members.members]
                found.append(f"{group.members.state.value} {group.members.generation} {names}")
        return f"coordinator: {found}"

    def run(self, operations: int) -> None:
        """Change the group so many times, and then wait until all is read. Raises Violation."""
        for instance in self.random.sample([None, None, "i1", "i2"], self.random.choice([1, 2, 3])):
            self.members.append(ClassicMember(self, instance))
        self._pass(self.random.choice([5, 100, 200]) * STEP_MS)
        for _ in range(operations):
            operation = self.random.choice(OPERATIONS)
            self.say(f"-- {self.now_ms} {operation}: {self.members}")
            self._change(operation)
            self._pass(self.random.choice([1, 5, 20, 60, 150]) * STEP_MS)
        self._become_quiet()
        self.counts += Counter(notice.event for notice in self.rig.node.notices)

    def _become_quiet(self) -> None:
        end_ms, settled_ms = self.now_ms + QUIET_MS, 0
        while settled_ms < SETTLED_MS:
            self._pass(100)
            owned = {index for each in self.members for index in each.owned}
            is_settled = len(owned) == self.num_partitions and not any(each.was_paused for each in self.members)
            settled_ms = settled_ms + 100 if is_settled else 0
            if self.now_ms > end_ms:
                raise Violation(f"a partition without a reader: {owned} of {self.num_partitions}; {self._all()}")

    def _all(self) -> str:
        return f"{self.members}; {self.view()}"

    def _pass(self, milliseconds: int) -> None:
        for _ in range(milliseconds // STEP_MS):
            self.rig.run_for(STEP_MS)
            self.now_ms += STEP_MS
            for each in self.random.sample(self.members, len(self.members)):
                each.act()
            # a member does not know during a pause that its session ended
            owners = Counter(index for each in self.members if not each.was_paused for index in each.owned)
            twice = [index for index, count in owners.items() if count > 1]
            if twice:
                raise Violation(f"partitions {twice} with two owners: {self._all()}")

    def _new_member(self, instance: str | None) -> Member:
        goal = self._goal if self._goal != "mixed" and self.random.random() < 0.6 else "mixed"
        protocol = self.random.choice(["consumer", "classic"]) if goal == "mixed" else goal
        return (ConsumerMember if protocol == "consumer" else ClassicMember)(self, instance)

    def _end(self, member: Member, *, leaves: bool) -> None:
        self.members.remove(member)
        if leaves:
            member.leave()
        member.client.close()

    def _change(self, operation: str) -> None:
        chosen = self.random.choice(self.members)
        if operation == "roll":
            self._end(chosen, leaves=True)
            self._pass(self.random.choice([1, 3, 30]) * STEP_MS)
            self.members.append(self._new_member(chosen.instance))
        elif operation == "add" and len(self.members) < MEMBERS_MAX:
            used = {each.instance for each in self.members} - {None}
            self.members.append(self._new_member(self.random.choice([i for i in (None, "i1", "i2") if i not in used])))
        elif operation in ("remove", "die") and len(self.members) > 1:
            self._end(chosen, leaves=operation == "remove")
        elif operation == "pause":
            chosen.was_paused = True
            chosen.wait(self.random.choice(PAUSES_MS))
            self._pass(self.random.choice([1, 300, 700, 1300]) * STEP_MS)
        elif operation == "grow" and self.num_partitions < PARTITIONS_MAX:
            self.num_partitions += 1
            topics = [{"name": "orders", "count": self.num_partitions, "assignments": None}]
            grown = self.rig.ask(CREATE_PARTITIONS, 1, topics=topics, timeout=ms(1000), validate_only=False)
            assert grown.results[0].error_code == NONE, grown
        elif operation == "fail over":
            self.rig.restart()
            runtime = self.rig.node.broker.group_coordinator.runtime
            while runtime.is_loading() or not runtime.coordinated:
                self.rig.run_for(1)


if __name__ == "__main__":
    MixedGroup(int(sys.argv[1]), print).run(int(sys.argv[2]) if len(sys.argv) > 2 else 12)
