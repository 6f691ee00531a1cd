"""One broker of the rig that is asked what members of groups ask, in few words."""

from __future__ import annotations

from typing import Any

from kio.schema.errors import ErrorCode

from tests.rig import Client, Pending, Rig
from tests.unit.broker import group_requests as requests
from tests.unit.broker.group_requests import (
    COMMIT,
    DELETE,
    DELETE_OFFSETS,
    FETCH,
    FIND,
    HEARTBEAT,
    LEAVE,
    LIST,
    SYNC,
    ms,
)
from tests.unit.broker.requests import fitted
from yak.groups.offsets import OFFSETS_TOPIC

NONE = ErrorCode.none
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1",
    "offsets.topic.num.partitions": "3",
}


def subscription(*topics: str) -> bytes:
    """What a consumer says that it wants: ConsumerProtocolSubscription v0."""
    named = b"".join(len(topic.encode()).to_bytes(2, "big") + topic.encode() for topic in topics)
    return b"\0\0" + len(topics).to_bytes(4, "big") + named + b"\xff\xff\xff\xff"


class GroupsRig(Rig):
    """Has a topic "orders" of four partitions, and serves groups."""

    def __init__(self, **settings: str) -> None:
        named = {name.replace("_", "."): value for name, value in settings.items()}
        super().__init__(settings={**SETTINGS, **named})
        self.create_topic("orders", partitions=4)
        self.begin_groups()

    def begin_groups(self) -> None:
        """Have the topic of offsets made."""
        answer = self.ask(FIND, 0, key="g")
        while answer.error_code != NONE:
            self.run_for(50)
            answer = self.ask(FIND, 0, key="g")
        assert OFFSETS_TOPIC in self.node.broker.image.topics
        while self.node.broker.group_coordinator.runtime.is_loading():
            self.run_for(10)

    def restart_groups(self) -> None:
        self.restart()
        self.begin_groups()

    # ------------------------------------------------------------------------------------------------ members

    def begin_join(
        self, group: str = "g", member: str = "", *, version: int = 5, client: Client | None = None, **named: Any
    ) -> Pending:
        """A JoinGroup on its way."""
        words = {"rebalance_ms": 30_000, "metadata": subscription("orders")} | named
        return requests.begin_join(self, version, group, member, client=client or self.new_client(), **words)

    def done(self, pending: Pending, milliseconds: int = 100) -> Any:
        """The answer, which must come within the time."""
        if not pending.is_done:
            self.run_for(milliseconds)
        assert pending.is_done, "no answer yet"
        return pending.answer

    def join(self, group: str = "g", member: str = "", **fields: Any) -> Any:
        """Join, with a second time where the first only gave an id; the answer must come at once."""
        answer = self.done(self.begin_join(group, member, **fields))
        if answer.error_code == ErrorCode.member_id_required:
            answer = self.done(self.begin_join(group, answer.member_id, **fields))
        return answer

    def begin_sync(
        self, joined: Any, group: str = "g", instance: str | None = None, assignments: dict[str, bytes] | None = None
    ) -> Pending:
        """A SyncGroup on its way."""
        named = [{"member_id": name, "assignment": data} for name, data in (assignments or {}).items()]
        return self.begin(
            SYNC,
            3,
            client=self.new_client(),
            group_id=group,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            group_instance_id=instance,
            assignments=named,
        )

    def member(self, group: str = "g", **fields: Any) -> Any:
        """The only member of a stable group: what its JoinGroup was answered."""
        joined = self.join(group, **fields)
        assert joined.error_code == NONE, joined
        synced = self.done(self.begin_sync(joined, group, fields.get("instance"), {joined.member_id: b"all"}))
        assert (synced.error_code, synced.assignment) == (NONE, b"all")
        return joined

    def heartbeat(self, group: str, member: str, generation: int, instance: str | None = None) -> ErrorCode:
        """The answer's code."""
        answer = self.ask(
            HEARTBEAT, 4, group_id=group, generation_id=generation, member_id=member, group_instance_id=instance
        )
        return ErrorCode(answer.error_code)

    def leave(self, group: str, *members: tuple[str, str | None]) -> Any:
        """LeaveGroup v5."""
        named = [{"member_id": member, "group_instance_id": instance} for member, instance in members]
        return self.ask(LEAVE, 5, group_id=group, members=named)

    # ------------------------------------------------------------------------------------------------ offsets

    def commit(
        self,
        offsets: dict[tuple[str, int], Any],
        group: str = "g",
        *,
        member: str = "",
        generation: int = -1,
        instance: str | None = None,
        version: int = 9,
        retention_ms: int = -1,
    ) -> dict[tuple[str, int], ErrorCode]:
        """OffsetCommit; a value is an offset, or (offset, metadata). The code of each partition."""
        topics: dict[str, list[dict[str, Any]]] = {}
        for (topic, partition), value in offsets.items():
            offset, metadata = value if isinstance(value, tuple) else (value, "")
            one = {"partition_index": partition, "committed_offset": offset, "committed_metadata": metadata}
            topics.setdefault(topic, []).append(one | {"committed_leader_epoch": 5})
        who = {"group_id": group, "generation_id_or_member_epoch": generation, "member_id": member}
        named = [{"name": name, "partitions": each} for name, each in topics.items()]
        more = {"group_instance_id": instance, "retention_time": ms(retention_ms), "topics": named}
        answer = self.ask(COMMIT, version, **fitted(COMMIT, version, **who, **more))
        return {(t.name, p.partition_index): ErrorCode(p.error_code) for t in answer.topics for p in t.partitions}

    def fetch_groups(self, *groups: tuple[str, dict[str, list[int]] | None], version: int = 9) -> Any:
        """OffsetFetch of several groups; None asks for all that a group has."""
        asked = []
        for group, topics in groups:
            named = None if topics is None else [{"name": t, "partition_indexes": p} for t, p in topics.items()]
            asked.append({"group_id": group, "topics": named})
        return self.ask(FETCH, version, groups=asked, require_stable=True).groups

    def committed(self, group: str = "g") -> dict[tuple[str, int], tuple[int, str]]:
        """All that a group has: (offset, metadata) by partition."""
        (found,) = self.fetch_groups((group, None))
        assert found.error_code == NONE, found
        return {
            (topic.name, each.partition_index): (each.committed_offset, each.metadata)
            for topic in found.topics
            for each in topic.partitions
        }

    # ------------------------------------------------------------------------------------------------- groups

    def groups(self, states: tuple[str, ...] = (), types: tuple[str, ...] = ()) -> dict[str, tuple[str, str, str]]:
        """ListGroups: (state, type, protocol type) by group."""
        answer = self.ask(LIST, 5, states_filter=states, types_filter=types)
        assert answer.error_code == NONE
        return {each.group_id: (each.group_state, each.group_type, each.protocol_type) for each in answer.groups}

    def describe(self, group: str) -> Any:
        """DescribeGroups of one."""
        return requests.describe(self, group)

    def delete(self, *groups: str) -> list[ErrorCode]:
        """DeleteGroups."""
        return [ErrorCode(each.error_code) for each in self.ask(DELETE, 2, groups_names=list(groups)).results]

    def delete_offsets(self, group: str, topics: dict[str, list[int]]) -> tuple[ErrorCode, dict[Any, ErrorCode]]:
        """OffsetDelete: the code of all, and each partition's."""
        asked = [{"name": t, "partitions": [{"partition_index": p} for p in each]} for t, each in topics.items()]
        answer = self.ask(DELETE_OFFSETS, 0, group_id=group, topics=asked)
        each = {(t.name, p.partition_index): ErrorCode(p.error_code) for t in answer.topics for p in t.partitions}
        return ErrorCode(answer.error_code), each
