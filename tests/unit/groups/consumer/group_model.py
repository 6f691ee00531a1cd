"""A consumer group with a log, topics that can change, and heartbeats that are written like those of real clients."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Iterable
from typing import Any

from kio.index import load_response_schema
from kio.schema.consumer_group_heartbeat.v0 import request as v0
from kio.schema.consumer_group_heartbeat.v1 import request as v1
from kio.serial import entity_reader

from tests.unit.response_bodies import encode_response_body
from yak.groups.consumer.checks import parse_heartbeat
from yak.groups.consumer.group import ConsumerGroup
from yak.groups.consumer.heartbeat import Decision
from yak.groups.consumer.member import Member
from yak.groups.consumer.partitions import Partitions, by_topic, flattened
from yak.groups.consumer.records import decode, encode
from yak.groups.consumer.settings import ConsumerGroupSettings
from yak.groups.consumer.subscriptions import DecisionInputs
from yak.groups.record import Record

HEARTBEAT, DESCRIBE = 68, 69


def topic_id(name: str) -> uuid.UUID:
    return uuid.uuid5(uuid.NAMESPACE_DNS, name)


class Topics:
    """What a TopicsView shows, which tests change."""

    def __init__(self, **sizes: int) -> None:
        self.version = 1
        self.ids = {name: topic_id(name) for name in sizes}
        self.sizes = {self.ids[name]: size for name, size in sizes.items()}
        self.removed = 0

    def topic_id(self, name: str) -> uuid.UUID | None:
        return self.ids.get(name)

    def name(self, topic_id: uuid.UUID) -> str | None:
        return next((name for name, known in self.ids.items() if known == topic_id), None)

    def num_partitions(self, topic_id: uuid.UUID) -> int:
        return self.sizes.get(topic_id, 0)

    def names(self) -> Iterable[str]:
        return list(self.ids)

    def put(self, name: str, size: int) -> None:
        self.ids.setdefault(name, topic_id(f"{name}#{self.removed}" if self.removed else name))
        self.sizes[self.ids[name]] = size
        self.version += 1

    def remove(self, name: str) -> None:
        """What is made again under its name is another topic."""
        del self.sizes[self.ids.pop(name)]
        self.version += 1
        self.removed += 1


def parts(name: str, *partitions: int) -> Partitions:
    return frozenset((topic_id(name), partition) for partition in partitions)


def request(
    member_id: str,
    epoch: int,
    *,
    topics: Iterable[str] | None = None,
    regex: str | None = None,
    owned: Partitions | None = None,
    instance_id: str | None = None,
    rack_id: str | None = None,
    rebalance_timeout_ms: int = -1,
    assignor: str | None = None,
    group_id: str = "g",
    version: int = 1,
) -> Any:
    module: Any = v1 if version == 1 else v0
    fields = {
        "group_id": group_id,
        "member_id": member_id,
        "member_epoch": epoch,
        "instance_id": instance_id,
        "rack_id": rack_id,
        "rebalance_timeout": dt.timedelta(milliseconds=rebalance_timeout_ms),
        "subscribed_topic_names": None if topics is None else tuple(topics),
        "server_assignor": assignor,
        "topic_partitions": None
        if owned is None
        else tuple(module.TopicPartitions(topic_id=one, partitions=tuple(numbers)) for one, numbers in by_topic(owned)),
    }
    if version == 1:
        fields["subscribed_topic_regex"] = regex
    return module.ConsumerGroupHeartbeatRequest(**fields)


class Coordinator:
    """One group, its log, and a clock. Every decision is appended, replayed and accepted, as a broker does."""

    def __init__(self, topics: Topics, settings: ConsumerGroupSettings | None = None) -> None:
        self.topics = topics
        self.settings = settings or ConsumerGroupSettings()
        self.group = ConsumerGroup("g")
        self.log: list[Record] = []
        self.now_ms = 1_000_000

    @property
    def world(self) -> DecisionInputs:
        return DecisionInputs(self.topics, self.settings, self.now_ms)

    def heartbeat(self, member_id: str, epoch: int, *, version: int = 1, **said: Any) -> Any:
        """A heartbeat; the answer as a client decodes it. PeerError goes through, and then nothing changed."""
        decision = self.decide(member_id, epoch, version=version, **said)
        self.take(decision)
        return decoded(HEARTBEAT, version, decision.answer)

    def decide(
        self,
        member_id: str,
        epoch: int,
        *,
        version: int = 1,
        client_id: str = "client",
        host: str = "/10.0.0.1",
        **said: Any,
    ) -> Decision:
        before = self.group.state.copy()
        try:
            heartbeat = parse_heartbeat(
                request(member_id, epoch, version=version, **said),
                version,
                self.settings,
                client_id=client_id,
                client_host=host,
                new_member_id="made-by-the-coordinator",
            )
            return self.group.heartbeat(heartbeat, self.world)
        finally:
            assert self.group.state == before, "a decision changes nothing"

    def join(self, member_id: str, *topics: str, **said: Any) -> Any:
        said.setdefault("rebalance_timeout_ms", 60_000)
        return self.heartbeat(member_id, 0, topics=topics, owned=frozenset(), **said)

    def take(self, decision: Decision) -> None:
        for change in decision.changes:
            self.log.append(encode(change))
            self.group.replay(change)
        self.group.accepted(decision, self.world)
        check_owners(self.group)

    def pass_time(self, ms: int) -> list[str]:
        """Let time pass, deadlines fire; who was fenced."""
        end_ms, fenced = self.now_ms + ms, []
        while (due_ms := self.group.next_due()) is not None and due_ms <= end_ms:
            self.now_ms = max(self.now_ms, due_ms)
            before = set(self.group.state.members)
            self.take(self.group.on_time(self.world))
            fenced += sorted(before - set(self.group.state.members))
        self.now_ms = end_ms
        return fenced

    def fail_over(self) -> None:
        """Another coordinator loads the log."""
        group = ConsumerGroup("g")
        for record in self.log:
            group.replay(decode(record))
        group.loaded(self.world)
        assert group.state == self.group.state
        self.group = group

    def compact(self) -> None:
        """Keep the last record of each key, tombstones too."""
        last = {record.key: place for place, record in enumerate(self.log)}
        self.log = [record for place, record in enumerate(self.log) if last[record.key] == place]

    def member(self, member_id: str) -> Member:
        return self.group.state.members[member_id]


def check_owners(group: ConsumerGroup) -> None:
    """No partition is held by two, and the map of owners says what the members say."""
    held = [(one, member.member_id) for member in group.state.members.values() for one in member.held]
    assert len({partition for partition, _ in held}) == len(held)
    assert dict(held) == group.state.owners


def decoded(api_key: int, version: int, answer: dict[str, Any]) -> Any:
    """An answer through YAK's encoder and kio's reader."""
    entity, _ = entity_reader(load_response_schema(api_key, version))(encode_response_body(api_key, version, answer), 0)
    return entity


def assigned(answer: Any) -> Partitions | None:
    """What an answer gives; None when it says nothing of it."""
    if answer.assignment is None:
        return None
    return flattened((one.topic_id, one.partitions) for one in answer.assignment.topic_partitions)
