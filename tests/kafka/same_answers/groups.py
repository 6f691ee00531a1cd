"""Groups of both protocols, their offsets, and transactions of protocol 1: valid requests, and wrong ones in any order.

Known differences: Kafka answers UNKNOWN_SERVER_ERROR to a static member with a pending member id, and lets such a member
leave; it keeps a group that only a refused JoinGroup or a pending member created; a member of a consumer group that comes
back with JoinGroup makes it a classic group at once in YAK; and an InitProducerId with another epoch aborts an open
transaction in Kafka before it is refused.
"""

from __future__ import annotations

import random
import re
import uuid
from typing import Any, Final

from tests.kafka.same_answers.data import TRANSACTIONAL, create, fetch, produce
from tests.kafka.same_answers.engine import Scenario, Side

ABSENT: Final = "absent"
REBALANCE_MS: Final = 3_000
"""A join waits so long for members that do not rejoin: a scenario has one connection."""
_ID: Final = re.compile(r"(?:sim-)?[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|^[A-Za-z0-9_-]{22}$")
"""A member id that a broker chose: Kafka gives other ones to members of the classic protocol in a consumer group."""


def _subscription(*topics: str) -> bytes:
    named = b"".join(len(topic.encode()).to_bytes(2, "big") + topic.encode() for topic in topics)
    return b"\0\0" + len(topics).to_bytes(4, "big") + named + b"\xff\xff\xff\xff"


class Members:
    """The members of one group as one side knows them. Their ids are recorded as m0, m1, in the order in which they came."""

    def __init__(self, side: Side) -> None:
        self.side, self.ids = side, list[str]()
        self.generation, self.leader = 0, ""
        self._topic_ids: dict[str, uuid.UUID] = {}

    def ask(self, api_key: int, version: int, note: str, **fields: Any) -> Any:
        """Send once, and record the answer with the names of the members."""
        answer = self.side.once(api_key, version, **fields)
        self.side.record(f"{api_key} v{version} {self._named(note)}", self._named(answer))
        return answer

    def place(self, name: str, version: int) -> dict[str, Any]:
        """A topic of OffsetCommit or OffsetFetch, since v10 by its id."""
        if version < 10:
            return {"name": name}
        if name not in self._topic_ids:
            wanted = [{"name": name, "topic_id": None}]
            found = self.side.once(3, 12, topics=wanted, allow_auto_topic_creation=False)["topics"][0]["topic_id"]
            self._topic_ids[name] = found or uuid.uuid5(uuid.NAMESPACE_DNS, name)
        return {"topic_id": self._topic_ids[name]}

    def _named(self, value: Any) -> Any:
        if isinstance(value, dict):
            named = {key: self._named(each) for key, each in value.items()}
            if "members" in named:
                named["members"].sort(key=lambda member: member.get("member_id", ""))
            return named
        if isinstance(value, list):
            return [self._named(each) for each in value]
        if isinstance(value, str):
            return _ID.sub(lambda found: f"m{self._number(found.group())}", value)
        return value

    def _number(self, found: str) -> int:
        if found not in self.ids:
            self.ids.append(found)
        return self.ids.index(found)


def classic(side: Side, rng: random.Random) -> None:
    """One classic group, mostly of one member at a time, with static members, commits and administrators."""
    side.hidden = frozenset(["client_host"])
    topic, group = create(side, "orders", 2), side.topic("group")
    members, known = Members(side), [""]
    generation, instance = -1, None
    actions = [
        *["join"] * 6,
        "sync",
        "sync",
        "beat",
        "leave",
        *["commit"] * 3,
        "fetch",
        "fetch",
        "erase",
        "look",
        "delete",
    ]
    for what in rng.choices(actions, k=45):
        member = rng.choice([known[-1], known[-1], known[-1], *known, "stranger", ""])
        given = rng.choice([generation, generation, generation, -1, 0, generation + 1])
        named = rng.choice([instance, instance, instance, None, "i1", "i2"])
        name = rng.choice([group] * 9 + ["", side.topic(ABSENT)])
        base = {"group_id": name, "member_id": member, "group_instance_id": named, "generation_id": given}
        if what == "join":
            answer = _join(members, rng, base, topic)
            if isinstance(answer, dict) and answer["error_code"] in ("none", "member_id_required"):
                known.append(answer["member_id"])
                instance = named
                if answer["error_code"] == "none":
                    generation = answer["generation_id"]
        elif what == "sync":
            assignments = [{"member_id": each, "assignment": b"all"} for each in known[-2:]]
            kinds = {
                "protocol_type": rng.choice(["consumer", "consumer", None, "x"]),
                "protocol_name": rng.choice(["range", "range", None]),
            }
            version = rng.randrange(6)
            members.ask(14, version, f"{base} {kinds}", **base, **kinds, assignments=assignments)
        elif what == "beat":
            members.ask(12, rng.randrange(5), f"{base}", **base)
        elif what == "leave":
            version = rng.randrange(6)
            leaving = [{"member_id": member, "group_instance_id": named, "reason": None}] * rng.choice([0, 1, 1, 1, 2])
            members.ask(13, version, f"{base} {len(leaving)}", **base, members=leaving)
        else:
            _offsets(members, rng, what, base, topic)


def _join(members: Members, rng: random.Random, base: dict[str, Any], topic: str) -> Any:
    version = rng.randrange(10)
    if version < 5:
        base["group_instance_id"] = None
    protocols = rng.choice([["range"], ["range"], ["range"], ["range", "sticky"], ["sticky", "range"], ["x"]])
    kind = rng.choice(["consumer"] * 8 + ["connect", ""])
    session = rng.choice([10_000] * 8 + [1, 3_600_000])
    note = f"{base} {protocols} {kind} {session}"
    listed = [{"name": each, "metadata": _subscription(topic)} for each in protocols]
    more = {"session_timeout": session, "rebalance_timeout": REBALANCE_MS, "protocol_type": kind, "protocols": listed}
    if version == 0:
        more["session_timeout"] = session = min(session, 10_000)
    return members.ask(11, max(version, 1), note, **base, **more, reason=None)


def _offsets(members: Members, rng: random.Random, what: str, base: dict[str, Any], topic: str) -> None:
    partitions = rng.sample([(topic, 0), (topic, 1), (topic, 9), (topic, -1), (ABSENT, 0), ("", 0)], rng.randint(1, 3))
    topics: dict[str, list[int]] = {}
    for name, index in partitions:
        topics.setdefault(name, []).append(index)
    group = base["group_id"]
    if what == "commit":
        offset, metadata = rng.choice([7, 0, -1, 2**62]), rng.choice(["", None, "m", "m" * 4097])
        row = {
            "committed_offset": offset,
            "committed_leader_epoch": rng.choice([-1, 3]),
            "committed_metadata": metadata,
        }
        version = rng.randint(2, 10)
        requested = [
            {**members.place(name, version), "partitions": [{**row, "partition_index": each} for each in indexes]}
            for name, indexes in topics.items()
        ]
        note = f"{base} {topics} {offset} {len(metadata or '')}"
        named = base | {"generation_id_or_member_epoch": base["generation_id"], "retention_time": -1}
        members.ask(8, version, note, **named, topics=requested)
    elif what == "fetch":
        version, stable = rng.randint(2, 10), rng.random() < 0.5
        named = [{**members.place(name, version), "partition_indexes": indexes} for name, indexes in topics.items()]
        requested = rng.choice([None, named])
        one = {"group_id": group, "topics": requested}
        who = rng.choice([(None, -1), (None, -1), (base["member_id"], base["generation_id"])])
        several = [
            one | {"member_id": who[0], "member_epoch": who[1]},
            {"group_id": ABSENT, "topics": None, "member_id": None, "member_epoch": -1},
        ]
        fields = one if version < 8 else {"groups": several}
        members.ask(
            9, version, f"{group} {topics if requested else None} {who} {stable}", **fields, require_stable=stable
        )
    elif what == "erase":
        requested = [
            {"name": name, "partitions": [{"partition_index": each} for each in indexes]}
            for name, indexes in topics.items()
        ]
        members.ask(47, 0, f"{group} {topics}", group_id=group, topics=requested)
    elif what == "delete":
        members.ask(42, rng.randrange(3), group, groups_names=[group])
    else:
        version = rng.randrange(7)
        members.ask(15, version, f"{group}", groups=[group], include_authorized_operations=rng.random() < 0.5)
        listed = members.side.once(16, 5, states_filter=[], types_filter=[])
        own = [each for each in listed["groups"] if each["group_id"] == group]
        members.side.record("ListGroups", own)


def consumers(side: Side, rng: random.Random) -> None:
    """One group of the consumer protocol (KIP-848): heartbeats with any epoch, static members, commits, and descriptions."""
    side.hidden = frozenset(["client_host", "client_id", "subscribed_topic_names"])
    topic, group = create(side, "orders", 2), side.topic("group")
    members, epochs, owned = Members(side), dict[str, int](), dict[str, Any]()
    actions = [*["beat"] * 8, "leave", "commit", "commit", "fetch", "look", "erase", "classic", "delete"]
    for what in rng.choices(actions, k=45):
        member = rng.choice(["m-a", "m-a", "m-a", "m-b", "stranger", ""])
        epoch = epochs.get(member, 0)
        given = rng.choice([epoch] * 6 + [0, epoch + 1, max(0, epoch - 1), -1, -2, -3])
        base = {
            "group_id": rng.choice([group] * 9 + ["", side.topic(ABSENT)]),
            "member_id": member,
            "group_instance_id": None,
            "generation_id": given,
        }
        if what in ("beat", "leave"):
            given = rng.choice([-1, -2]) if what == "leave" else given
            answer = _heartbeat(members, rng, base | {"member_epoch": given}, topic, owned)
            if isinstance(answer, dict) and answer["error_code"] == "none":
                epochs[member] = max(0, answer["member_epoch"])
                if answer["assignment"] is not None:
                    owned[member] = answer["assignment"]["topic_partitions"]
        elif what == "classic":
            _join(members, rng, base | {"member_id": rng.choice(["", member])}, topic)
        elif what == "look":
            members.ask(69, rng.randrange(2), group, group_ids=[group], include_authorized_operations=False)
            members.ask(15, rng.randrange(7), group, groups=[group], include_authorized_operations=False)
        else:
            _offsets(members, rng, what, base, topic)


def _heartbeat(members: Members, rng: random.Random, base: dict[str, Any], topic: str, owned: dict[str, Any]) -> Any:
    is_joining = base["member_epoch"] == 0
    names = rng.choice([[topic], [topic], [topic], [topic, ABSENT], [], None])
    parts = [] if is_joining else rng.choice([None, owned.get(base["member_id"])])
    if rng.random() < 0.05:
        parts = [{"topic_id": None, "partitions": [0]}]
    more = {
        "instance_id": rng.choice([None] * 7 + ["i1", ""]),
        "rack_id": rng.choice([None] * 8 + ["r", ""]),
        "rebalance_timeout": rng.choice([60_000] * 9 + [-1]) if is_joining else rng.choice([-1, -1, 60_000]),
        "subscribed_topic_names": names if is_joining or rng.random() < 0.3 else None,
        "subscribed_topic_regex": rng.choice([None] * 9 + ["["]),
        "server_assignor": rng.choice([None] * 7 + ["range", "uniform", "x"]),
    }
    note = f"{base} {more} {'owns' if parts else parts}"
    return members.ask(68, 1, note, **base, **more, topic_partitions=parts)


def protocol_1(side: Side, rng: random.Random) -> None:
    """A transactional producer before KIP-890: partitions and offsets are added, and any epoch is tried."""
    side.hidden = frozenset(["log_append_time", "log_start_offset", "base_timestamp", "max_timestamp"])
    topic, name, group = create(side, "orders", 2), side.topic("producer"), side.topic("group")
    members = Members(side)
    producer_id, epoch, expected = -1, -1, [0, 0]
    actions = [
        "init",
        *rng.choices(["init", *["add"] * 4, *["send"] * 4, "offsets", "group", "group", "end", "end", "read"], k=50),
    ]
    for what in actions:
        wrong = rng.choice([0] * 8 + [1, -1])
        named: dict[str, Any] = {
            "transactional_id": rng.choice([name] * 12 + [ABSENT, ""]),
            "producer_id": rng.choice([producer_id] * 12 + [producer_id + 1]),
            "producer_epoch": max(0, epoch + wrong),
        }
        note = f"{what} {wrong} {named['transactional_id']} {named['producer_id'] - producer_id}"
        if what == "init" or producer_id < 0:
            is_new = rng.random() < 0.7
            version = rng.randrange(3 if not is_new else 0, 5)
            if is_new:
                named |= {"producer_id": -1, "producer_epoch": -1}
            answer = side.ask(
                22, version, note=note, **named, transaction_timeout=rng.choice([60_000] * 8 + [0, 10**9])
            )
            if answer["error_code"] == "none":
                producer_id, epoch, expected = answer["producer_id"], answer["producer_epoch"], [0, 0]
        elif what == "add":
            place, index = rng.choice(
                [*[(topic, 0), (topic, 1)] * 3, (topic, 9), (ABSENT, 0), ("__consumer_offsets", 0)]
            )
            topics = [{"name": place, "partitions": [index]}]
            old = {f"v3_and_below_{key}": value for key, value in named.items()}
            side.ask(24, rng.randrange(4), note=f"{note} {topics}", **old, v3_and_below_topics=topics)
        elif what == "send":
            index, version = rng.randrange(2), rng.choice([9, 10, 11])
            batch = {
                "producer_id": named["producer_id"],
                "producer_epoch": named["producer_epoch"],
                "attributes": TRANSACTIONAL,
            }
            batch |= {
                "base_sequence": expected[index],
                "index": index,
                "version": version,
                "transactional_id": named["transactional_id"],
            }
            if produce(side, topic, 1, f"{note} {index}", **batch):
                expected[index] += 1
        elif what == "offsets":
            side.ask(25, rng.randrange(4), note=note, **named, group_id=rng.choice([group] * 5 + [""]))
        elif what == "group":
            row = {
                "partition_index": rng.choice([0, 1, 9]),
                "committed_offset": 5,
                "committed_leader_epoch": -1,
                "committed_metadata": "",
            }
            member = {
                "generation_id": rng.choice([-1, -1, 3]),
                "member_id": rng.choice(["", "", "m"]),
                "group_instance_id": None,
            }
            requested = [{"name": rng.choice([topic, topic, ABSENT]), "partitions": [row]}]
            version = rng.randrange(5)
            side.ask(28, version, note=f"{note} {member}", **named, **member, group_id=group, topics=requested)
            members.ask(9, 7, "offsets", group_id=group, topics=None, require_stable=True)
        elif what == "end":
            side.ask(26, rng.randrange(5), note=note, **named, committed=rng.random() < 0.5)
            _settle(side, name)
        else:
            fetch(side, topic, 0, index=rng.randrange(2), isolation=1)


def _settle(side: Side, name: str) -> None:
    for _ in range(100):
        listed = side.once(66, 1, state_filters=["PrepareCommit", "PrepareAbort"], duration_filter=-1)
        if name not in [each["transactional_id"] for each in listed["transaction_states"]]:
            return


SCENARIOS: Final[tuple[Scenario, ...]] = (classic, consumers, protocol_1)
