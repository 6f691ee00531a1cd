"""Transactions in all versions of their requests: two producers, whose ids, epochs and states may be mixed up.

Known differences: an InitProducerId with another epoch aborts an open transaction in Kafka before it is refused, so it is
tried only without one; Kafka keeps a group whose only offsets were aborted, so no generation is tried; and a batch with an
old epoch is refused in Kafka before its transaction is verified.
"""

from __future__ import annotations

import random
import uuid
from typing import Any, Final

from tests.kafka.same_answers.admin import ABSENT, _created, _sorted
from tests.kafka.same_answers.data import TRANSACTIONAL, _settle, fetch, list_offsets
from tests.kafka.same_answers.engine import Scenario, Side
from yak.protocol.record_writer import build_batch

_ACTIONS: Final = (
    *["init"] * 3,
    *["add"] * 4,
    "verify",
    *["send"] * 6,
    "offsets",
    *["commit"] * 3,
    *["end"] * 4,
    "marker",
    "describe",
    "producers",
    "listed",
    "read",
)
HIDDEN: Final = frozenset(
    [
        "log_append_time",
        "log_start_offset",
        "transaction_start_time",
        "last_timestamp",
        "coordinator_epoch",
        "base_timestamp",
        "max_timestamp",
    ]
)


class Producer:
    """A transactional producer as its side knows it."""

    def __init__(self, name: str) -> None:
        self.name, self.is_open = name, False
        self.producer_id, self.epoch, self.expected = -1, -1, dict[int, int]()

    def renewed(self, answer: dict[str, Any]) -> None:
        """Take the identity of an answer."""
        self.producer_id, self.epoch, self.expected = answer["producer_id"], answer["producer_epoch"], {}


def transactions(side: Side, rng: random.Random) -> None:
    """Each request in any version; or, which clients do, in those of one protocol (KIP-890)."""
    side.hidden = HIDDEN
    topic, group = _created(side, "orders"), side.topic("group")
    described = side.once(3, 12, topics=[{"name": topic, "topic_id": None}])["topics"]
    ids = {topic: described[0]["topic_id"], ABSENT: uuid.UUID(int=9)}
    producers = [Producer(side.topic(each)) for each in ("one", "two")]
    world = _World(side, rng, topic, group, ids, rng.choice([1, 2, 2, 0]))
    for producer in producers:
        world.init(producer, producer, is_new=True)
    for what in rng.choices(_ACTIONS, k=60):
        producer = rng.choice(producers)
        other = rng.choice([producer] * 15 + producers)
        getattr(world, what)(producer, other)
    for index in (0, 1):
        world.fetch(index)


class _World:
    """What the requests of one run have in common."""

    def __init__(
        self, side: Side, rng: random.Random, topic: str, group: str, ids: dict[str, uuid.UUID], protocol: int
    ) -> None:
        self.side, self.rng, self.topic, self.group, self.ids, self.protocol = side, rng, topic, group, ids, protocol

    def version(self, old: range, new: range) -> int:
        """A version of the scenario's protocol; 0 is for both."""
        return self.rng.choice([*(old if self.protocol != 2 else ()), *(new if self.protocol != 1 else ())])

    def named(self, producer: Producer, other: Producer) -> dict[str, Any]:
        """An identity, usually the right one."""
        name = self.rng.choice([producer.name] * 20 + [ABSENT, ""])
        wrong = self.rng.choice([0] * 12 + [1, -1]) if name == producer.name else 0
        return {
            "transactional_id": name,
            "producer_id": other.producer_id + self.rng.choice([0] * 20 + [10**6]),
            "producer_epoch": max(0, other.epoch + wrong),
        }

    def note(self, producer: Producer, named: dict[str, Any], more: Any = "") -> str:
        differs = named["producer_id"] - producer.producer_id, named["producer_epoch"] - producer.epoch
        same_id = "own id" if not differs[0] else "other id"
        return f"{producer.name} as {named['transactional_id']} {same_id} epoch {differs[1]:+} {more}"

    def init(self, producer: Producer, other: Producer, *, is_new: bool = False) -> None:
        version = self.rng.randrange(6)
        timeout = self.rng.choice([60_000] * 9 + [0, -1, 10**9])
        if is_new or producer.is_open or self.rng.random() < 0.5:
            named = {"transactional_id": producer.name, "producer_id": -1, "producer_epoch": -1}
            timeout = 60_000 if is_new else timeout
        else:
            named, version = self.named(producer, other), max(3, version)
        note = "new" if named["producer_id"] < 0 else self.note(producer, named)
        answer = self.side.ask(22, version, note=f"{note} timeout {timeout}", **named, transaction_timeout=timeout)
        if answer["error_code"] == "none" and named["transactional_id"] == producer.name:
            producer.renewed(answer)
            producer.is_open = False
        _settle(self.side, producer.name)

    def places(self) -> list[dict[str, Any]]:
        one = [(self.topic, [0]), (self.topic, [1]), (self.topic, [0, 1])]
        name, indexes = self.rng.choice(one * 4 + [(self.topic, [0, 9]), (ABSENT, [0]), ("__consumer_offsets", [0])])
        return [{"name": name, "partitions": indexes}]

    def add(self, producer: Producer, other: Producer) -> None:
        version, named, topics = self.rng.choice([0, 1, 2, 3, 3, 4, 5]), self.named(producer, other), self.places()
        fields: dict[str, Any] = {f"v3_and_below_{key}": value for key, value in named.items()}
        several = [{**named, "verify_only": False, "topics": topics}]
        note = self.note(producer, named, topics)
        answer = _sorted(self.side.once(24, version, **fields, v3_and_below_topics=topics, transactions=several))
        self.side.record(f"AddPartitionsToTxn v{version} {note}", answer)
        producer.is_open |= ": 'none'" in repr(answer) and other is producer

    def verify(self, producer: Producer, other: Producer) -> None:
        named, topics = self.named(producer, other), self.places()
        several = [{**named, "verify_only": True, "topics": topics}]
        version = self.rng.choice([4, 5])
        answer = _sorted(self.side.once(24, version, transactions=several))
        self.side.record(f"AddPartitionsToTxn v{version} verify {self.note(producer, named, topics)}", answer)

    def send(self, producer: Producer, other: Producer) -> None:
        del other
        named, index = self.named(producer, producer), self.rng.randrange(2)
        version, gap = self.version(range(3, 12), range(12, 14)), self.rng.choice([0] * 12 + [1])
        expected = producer.expected.get(index, 0)
        gap = gap if index in producer.expected else 0  # Kafka remembers the sequence of a batch that it did not verify
        batch = build_batch(
            [(None, b"v")],
            1_700_000_000_000,
            attributes=TRANSACTIONAL,
            base_sequence=expected + gap,
            producer_id=named["producer_id"],
            producer_epoch=named["producer_epoch"],
        )
        place = {"topic_id": self.ids[self.topic]} if version >= 13 else {"name": self.topic}
        data = [{**place, "partition_data": [{"index": index, "records": batch}]}]
        note = self.note(producer, named, f"{index} sequence {expected} gap {gap}")
        name = named["transactional_id"]
        answer = self.side.ask(0, version, note=note, transactional_id=name, acks=-1, topic_data=data)
        producer.is_open = True  # a refused batch may have begun the transaction
        if "'error_code': 'none'" in repr(answer) and not gap and named["producer_epoch"] == producer.epoch:
            producer.expected[index] = expected + 1

    def offsets(self, producer: Producer, other: Producer) -> None:
        named, group = self.named(producer, other), self.rng.choice([self.group] * 5 + [""])
        answer = self.side.ask(
            25, self.rng.randrange(5), note=self.note(producer, named, group), **named, group_id=group
        )
        other.is_open |= answer["error_code"] == "none"

    def commit(self, producer: Producer, other: Producer) -> None:
        """Commit offsets in the transaction, and fetch them."""
        version, named = self.version(range(5), range(5, 7)), self.named(producer, other)
        row = {
            "partition_index": self.rng.choice([0, 1, 9]),
            "committed_offset": self.rng.choice([5, 0, -1]),
            "committed_leader_epoch": -1,
            "committed_metadata": self.rng.choice(["", None, "m" * 5000]),
        }
        member = {
            "generation_id": self.rng.choice([-1, -1, -2]),
            "member_id": self.rng.choice(["", "", "m"]),
            "group_instance_id": self.rng.choice([None, None, "i"]),
        }
        name = self.rng.choice([self.topic, self.topic, ABSENT])
        place = {"topic_id": self.ids[name]} if version >= 6 else {"name": name}
        requested = [{**place, "partitions": [row]}]
        note = self.note(producer, named, f"{member} {name} {row['partition_index']}")
        group = self.rng.choice([self.group] * 9 + [""])
        self.side.ask(28, version, note=note, **named, **member, group_id=group, topics=requested)
        other.is_open = True
        stable = self.rng.random() < 0.5
        several = [{"group_id": self.group, "topics": None, "member_id": None, "member_epoch": -1}]
        by_id = self.rng.choice([9, 10])
        fetched = self.side.once(9, by_id, groups=several, require_stable=stable)
        self.side.record(f"OffsetFetch v{by_id} stable {stable}", _sorted(fetched))

    def end(self, producer: Producer, other: Producer) -> None:
        version, named = self.version(range(5), range(5, 6)), self.named(producer, other)
        commits = self.rng.random() < 0.5
        answer = self.side.ask(26, version, note=self.note(producer, named, commits), **named, committed=commits)
        if answer["error_code"] == "none" and named["transactional_id"] == producer.name:
            producer.is_open = False
            if version >= 5:
                producer.renewed(answer)
        _settle(self.side, producer.name)

    def marker(self, producer: Producer, other: Producer) -> None:
        """A marker that its coordinator has not sent, also in partitions that do not exist."""
        places = [[(self.topic, [9, -1])], [(ABSENT, [0]), ("", [0])], [(self.topic, [0])], [(self.topic, [0, 1])]]
        marker = {
            "producer_id": self.rng.choice([other.producer_id, other.producer_id, 999_999]),
            "producer_epoch": max(0, other.epoch + self.rng.choice([0, 0, -1])),
            "transaction_result": self.rng.random() < 0.5,
            "coordinator_epoch": self.rng.choice([0, -1]),
            "transaction_version": self.rng.choice([0, 1, 2, 9]),
            "topics": [{"name": name, "partition_indexes": indexes} for name, indexes in self.rng.choice(places)],
        }
        version = self.rng.choice([1, 2])
        note = {**marker, "producer_id": marker["producer_id"] - other.producer_id}
        answer = _sorted(self.side.once(27, version, markers=[marker]))
        self.side.record(f"WriteTxnMarkers v{version} {note} {producer.name}", answer)

    def describe(self, producer: Producer, other: Producer) -> None:
        del other
        self.side.record(f"DescribeTransactions {producer.name}", _sorted(self._described(producer.name)))

    def _described(self, name: str) -> Any:
        answer = self.side.once(65, 0, transactional_ids=[name, ABSENT])
        if isinstance(answer, dict):
            answer["transaction_states"].sort(key=lambda each: each["transactional_id"])
        return answer

    def producers(self, producer: Producer, other: Producer) -> None:
        del producer, other
        answer = self.side.once(61, 0, topics=[{"name": self.topic, "partition_indexes": [0, 1]}])
        self.side.record("DescribeProducers", _sorted(answer))

    def listed(self, producer: Producer, other: Producer) -> None:
        del other
        answer = self.side.once(66, 2, transactional_id_pattern=producer.name, duration_filter=-1)
        self.side.record(f"ListTransactions {producer.name}", answer)

    def read(self, producer: Producer, other: Producer) -> None:
        del producer, other
        index = self.rng.randrange(2)
        self.fetch(index)
        list_offsets(self.side, self.topic, -1, index=index, isolation=1)

    def fetch(self, index: int) -> None:
        """Read what is committed. Kafka also names aborted transactions behind the last stable offset."""
        fetch(self.side, self.topic, 0, index=index, isolation=1)
        for topic in self.side.trace[-1][1]["responses"]:
            for row in topic["partitions"]:
                row["aborted_transactions"] = [
                    each
                    for each in row["aborted_transactions"] or ()
                    if each["first_offset"] < row["last_stable_offset"]
                ]


SCENARIOS: Final[tuple[Scenario, ...]] = (transactions,)
