"""A coordinator whose group also has members that speak the classic protocol, and what such members send."""

from __future__ import annotations

import struct
from io import BytesIO
from typing import Any

from kio.schema.consumer_protocol_assignment.v3.data import ConsumerProtocolAssignment
from kio.schema.consumer_protocol_subscription.v3.data import ConsumerProtocolSubscription as SubscriptionV3
from kio.schema.consumer_protocol_subscription.v3.data import TopicPartition
from kio.serial import entity_reader, entity_writer

from tests.unit.groups.consumer.group_model import Coordinator, Topics, check_owners
from yak.errors import ErrorCode
from yak.groups.classic.group import Join, Sync
from yak.groups.classic.members import Member as ClassicMember
from yak.groups.consumer.consumer_protocol import assignment_bytes
from yak.groups.consumer.heartbeat import Decision
from yak.groups.consumer.partitions import Partitions
from yak.groups.consumer.records import decode
from yak.groups.consumer.settings import ConsumerGroupSettings
from yak.groups.consumer.upgrade import ClassicGroup, upgraded


def subscription(*topics: str, owned: dict[str, list[int]] | None = None, rack: str | None = None) -> bytes:
    entity = SubscriptionV3(
        topics=topics,
        owned_partitions=tuple(
            TopicPartition(topic=name, partitions=tuple(numbers))  # type: ignore[arg-type]
            for name, numbers in (owned or {}).items()
        ),
        rack_id=rack,
    )
    return written(3, entity)


def written(version: int, entity: Any) -> bytes:
    out = BytesIO()
    entity_writer(type(entity))(out, entity)
    return struct.pack(">h", version) + out.getvalue()


def given_to(data: bytes) -> dict[str, list[int]]:
    """An assignment as kio reads it."""
    entity, size = entity_reader(ConsumerProtocolAssignment)(data[2:], 0)
    assert size == len(data) - 2
    return {str(one.topic): list(one.partitions) for one in entity.assigned_partitions}


def classic_member(member_id: str, held: Partitions, topics: Topics, **fields: Any) -> ClassicMember:
    return ClassicMember(
        **{
            "member_id": member_id,
            "instance_id": None,
            "client_id": "client",
            "client_host": "/10.0.0.2",
            "rebalance_timeout_ms": 60_000,
            "session_timeout_ms": 10_000,
            "protocols": (("range", subscription("t")), ("cooperative-sticky", subscription("t"))),
            "assignment": assignment_bytes(held, 3, topics),
            **fields,
        }
    )


class Migrating(Coordinator):
    """A coordinator of a consumer group that may come from, and end as, a classic one."""

    def __init__(self, topics: Topics, settings: ConsumerGroupSettings | None = None) -> None:
        super().__init__(topics, settings)
        self.classic: Decision | None = None

    def upgrade(self, *members: ClassicMember, generation: int = 7) -> None:
        plan = ClassicGroup("g", generation, "consumer", "range", members)
        for record in upgraded(plan, self.topics, self.settings):
            self.log.append(record)
            self.group.replay(decode(record))
        self.group.loaded(self.world)
        check_owners(self.group)

    def take(self, decision: Decision) -> None:
        super().take(decision)
        if decision.downgrade is not None:
            assert self.group.state.is_deleted
            self.classic = decision

    def join_classic(
        self,
        member_id: str,
        *topics: str,
        owned: dict[str, list[int]] | None = None,
        new_member_id: str = "made",
        **said: Any,
    ) -> Any:
        request = Join(
            **{
                "member_id": member_id,
                "instance_id": None,
                "client_id": "client",
                "client_host": "/10.0.0.2",
                "rebalance_timeout_ms": 60_000,
                "session_timeout_ms": 10_000,
                "protocol_type": "consumer",
                "protocols": (("range", subscription(*topics, owned=owned)),),
                "requires_known_member_id": False,
                **said,
            }
        )
        before = self.group.state.copy()
        decision = self.group.join_classic(request, "made", self.world)
        assert self.group.state == before
        self.take(decision)
        return decision.answer

    def sync_classic(self, member_id: str, generation: int, **said: Any) -> dict[str, list[int]]:
        request = Sync(
            member_id,
            said.get("instance_id"),
            generation,
            said.get("protocol_type", "consumer"),
            said.get("protocol_name", "range"),
        )
        answer = self.group.sync_classic(request, self.world)
        return given_to(answer["assignment"])

    def heartbeat_classic(self, member_id: str, generation: int, instance_id: str | None = None) -> ErrorCode:
        return self.group.heartbeat_classic(member_id, instance_id, generation, self.world)

    def leave_classic(self, *identities: tuple[str, str | None]) -> list[dict[str, Any]]:
        decision = self.group.leave_classic(identities, self.world)
        self.take(decision)
        members = decision.answer["members"]
        assert isinstance(members, list)
        return members
