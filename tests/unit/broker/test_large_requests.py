"""Requests of many elements: several turns, the same answer, and room for others between the turns."""

import datetime as dt
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from tests.rig import Rig
from tests.unit.broker.requests import fitted
from yak.core import events
from yak.limits import LARGE_REQUEST_ELEMENTS, REQUEST_ELEMENTS_MAX, SLICE_ELEMENTS
from yak.protocol.codec import decode_response, encode_request
from yak.sim.wire import record_batch

COUNT = LARGE_REQUEST_ELEMENTS + 300
PRODUCE, FETCH, LIST_OFFSETS, METADATA, OFFSET_FETCH = 0, 1, 2, 3, 9
DELETE_RECORDS, DELETE_GROUPS, DESCRIBE_PAGES = 21, 42, 75
DESCRIBE_GROUPS, DELETE_TOPICS, OFFSETS_FOR_EPOCHS, DESCRIBE_CONFIGS = 15, 20, 23, 32


def names(count: int = COUNT) -> list[str]:
    return [("orders" if number == 700 else f"t{number}") for number in range(count)]


Request = tuple[int, int, dict[str, Any]]
Topics = list[tuple[str, int]]
"""The names, and how many partitions of each."""


def ones(topics: list[str]) -> Topics:
    return [(name, 1) for name in topics]


def rows_of(topics: Topics, topic: str, partitions: str, partition: str, row: dict[str, Any]) -> list[dict[str, Any]]:
    """The same row for each partition; requests name the topic, its partitions and a partition's number differently."""
    return [{topic: name, partitions: [row | {partition: number} for number in range(count)]} for name, count in topics]


def fetch(topics: Topics, version: int = 12, **more: object) -> Request:
    row = dict.fromkeys(("current_leader_epoch", "last_fetched_epoch", "log_start_offset"), -1)
    row |= {"fetch_offset": 0, "partition_max_bytes": 100_000}
    rows = rows_of(topics, "topic", "partitions", "partition", row)
    fields = {"replica_id": -1, "max_wait": 0, "min_bytes": 0, "max_bytes": 1_000_000, "isolation_level": 0}
    fields |= {"session_id": 0, "session_epoch": -1, "topics": rows, "forgotten_topics_data": [], "rack_id": ""}
    return FETCH, version, fitted(FETCH, version, **fields | more)


def metadata(topics: list[str], version: int = 8) -> Request:
    fields = dict.fromkeys(("include_cluster_authorized_operations", "include_topic_authorized_operations"), False)
    fields |= {"topics": [{"name": name} for name in topics], "allow_auto_topic_creation": False}
    return METADATA, version, fitted(METADATA, version, **fields)


def list_offsets(topics: Topics) -> Request:
    rows = rows_of(topics, "name", "partitions", "partition_index", {"current_leader_epoch": -1, "timestamp": -1})
    return LIST_OFFSETS, 5, {"replica_id": -1, "isolation_level": 0, "topics": rows}


def epochs(topics: Topics) -> Request:
    rows = rows_of(topics, "topic", "partitions", "partition", {"current_leader_epoch": -1, "leader_epoch": 0})
    return OFFSETS_FOR_EPOCHS, 3, {"replica_id": -1, "topics": rows}


BATCH = record_batch([b"x"], 1_700_000_000_000)


def produce(topics: Topics, version: int = 9, acks: int = 1) -> Request:
    rows = rows_of(topics, "name", "partition_data", "index", {"records": BATCH})
    return PRODUCE, version, {"transactional_id": None, "acks": acks, "timeout": 1000, "topic_data": rows}


def describe_configs(topics: list[str]) -> Request:
    rows = [{"resource_type": 2, "resource_name": name, "configuration_keys": None} for name in topics]
    return DESCRIBE_CONFIGS, 3, {"resources": rows, "include_synonyms": True, "include_documentation": True}


def offset_fetch(topics: Topics) -> Request:
    rows = [{"name": name, "partition_indexes": list(range(count))} for name, count in topics]
    return OFFSET_FETCH, 5, {"group_id": "g", "topics": rows}


def describe_groups(groups: list[str]) -> Request:
    return DESCRIBE_GROUPS, 4, {"groups": groups, "include_authorized_operations": False}


def delete_groups(groups: list[str]) -> Request:
    return DELETE_GROUPS, 1, {"groups_names": groups}


def delete_records(topics: Topics) -> Request:
    rows = rows_of(topics, "name", "partitions", "partition_index", {"offset": 1})
    return DELETE_RECORDS, 1, {"topics": rows, "timeout": 1000}


def describe_pages(topics: list[str]) -> Request:
    rows = [{"name": name} for name in topics]
    return DESCRIBE_PAGES, 0, {"topics": rows, "response_partition_limit": 2000, "cursor": None}


each = ones(names())
others = [(name, 1) for name, _count in each if name != "orders"]
ANSWERED = {
    "metadata": metadata(names()),
    "metadata, flexible": metadata(names(), 9),
    "metadata, with duplicates": metadata(names() + names()),
    "fetch, topics": fetch(each),
    "fetch, partitions": fetch([("orders", 3), ("nowhere", COUNT)]),
    "fetch, new session": fetch([("orders", 3), ("nowhere", COUNT)], session_epoch=0),
    "list offsets, topics": list_offsets([*each, ("t5", 1)]),
    "list offsets, partitions": list_offsets([("orders", COUNT)]),
    "epochs, topics": epochs(each),
    "epochs, partitions": epochs([("orders", COUNT)]),
    "configs": describe_configs([*names(), "t5"]),
    "configs, one topic": describe_configs(["orders"] * COUNT),
    "offsets": offset_fetch([("orders", COUNT)]),
    "offsets, topics": offset_fetch(each),
    "groups": describe_groups(names()),
    "deletions of groups": delete_groups(names()),
    "deletions of records": delete_records([("orders", COUNT), ("nowhere", 3)]),
    "pages": describe_pages(names()),
    "fetch, old": fetch([*each, ("nowhere", COUNT)], version=11),
    "fetch, partitions with records": fetch([("orders", 3)] * 400),
    "produce, partitions": produce([("nowhere", COUNT)]),
    "produce, old": produce(others, version=7),
    "produce, bad acks": produce(each, acks=7),
    "produce to nowhere": produce(others),
}

SESSION_ID = slice(15, 19)
"""In an answer to Fetch, behind its size, correlation id, tags, throttle time and error code."""


class Broker:
    """One broker, stepped by hand from the time its topics are made."""

    def __init__(self) -> None:
        self.rig = Rig()
        self.rig.create_topic("orders", partitions=3)
        self.rig.produce("orders", [b"a", b"b"])
        self.core = self.rig.node.broker
        self.now_ms = self.rig.world.now_ms
        self.opened = 10_000

    def open(self, *, is_in_process: bool = False) -> int:
        self.opened += 1
        self.core.step(events.ConnectionOpened(self.opened, "c:1", is_in_process=is_in_process), self.now_ms)
        return self.opened

    def close(self, connection_id: int) -> None:
        self.core.step(events.ConnectionClosed(connection_id), self.now_ms)

    def send(self, connection_id: int, request: Request, *, behind: bytes = b"") -> list[bytes]:
        api_key, version, fields = request
        frame = memoryview(encode_request(api_key, version, 1, "c", fields) + behind)
        return self.answers(self.core.step(events.FrameReceived(connection_id, frame), self.now_ms), connection_id)

    def turn(self, connection_id: int) -> list[bytes]:
        """What the next slice answers on this connection."""
        self.now_ms += 1
        return self.answers(self.core.step(events.TimerDue(), self.now_ms), connection_id)

    def answers(self, effects: list, connection_id: int) -> list[bytes]:
        return [
            b"".join(map(bytes, effect.parts))
            for effect in effects
            if type(effect) is events.Reply and effect.connection_id == connection_id and effect.parts
        ]

    def ask(self, connection_id: int, request: Request) -> list[bytes]:
        """The answers to a request, at once or after some turns."""
        return self.send(connection_id, request) or self.finish(connection_id)[0]

    def finish(self, connection_id: int) -> tuple[list[bytes], int]:
        """The answers, and the number of turns until nothing is left to do."""
        answers, turns = [], 0
        while len(self.core.large_requests):
            answers += self.turn(connection_id)
            turns += 1
        return answers, turns


@pytest.fixture(scope="module")
def broker() -> Broker:
    return Broker()


@pytest.mark.parametrize("request_", ANSWERED.values(), ids=ANSWERED)
def test_large_request_takes_several_turns_and_has_the_answer_of_one(broker, request_):
    errors = broker.core.counters.errors
    errors.clear()
    (at_once,) = broker.ask(broker.open(is_in_process=True), request_)
    expected = dict(errors)
    errors.clear()
    client = broker.open()
    assert broker.send(client, request_) == []
    (answer,), turns = broker.finish(client)
    if request_[0] == FETCH:  # each new session has an id of its own
        answer, at_once = (each[: SESSION_ID.start] + each[SESSION_ID.stop :] for each in (answer, at_once))
    assert answer == at_once
    assert errors == expected
    assert turns > 3
    assert broker.core.held_bytes == 0
    assert broker.core.backlog(client) == 0
    assert broker.core.next_due() > broker.now_ms


def test_request_of_few_elements_is_answered_in_its_own_turn(broker):
    client = broker.open()
    for request_ in (metadata(["orders"]), fetch([("orders", 1)]), metadata(names(SLICE_ELEMENTS - 1))):
        assert len(broker.send(client, request_)) == 1


def test_other_connection_is_answered_between_the_slices(broker):
    client, other = broker.open(), broker.open()
    broker.send(client, metadata(names()))
    answered = 0
    while len(broker.core.large_requests):
        answered += len(broker.send(other, metadata(["orders"])))
        broker.turn(client)
    assert answered > 3


def test_requests_behind_a_large_one_are_served_after_it_in_order(broker):
    client = broker.open()
    requests = [metadata(topics) for topics in (names(), ["orders"], names(COUNT + 1), ["t1", "t2"])]
    assert [broker.send(client, request_) for request_ in requests] == [[]] * 4
    assert len(broker.core.large_requests) == 1
    answers, _turns = broker.finish(client)
    whole = broker.open(is_in_process=True)
    assert answers == [broker.ask(whole, request_)[0] for request_ in requests]
    assert broker.core.held_bytes == 0


def test_produce_behind_a_large_one_is_appended_after_it(broker):
    client = broker.open()
    before = broker.core.partitions["orders", 0].log_end_offset
    broker.send(client, produce(each))
    broker.send(client, produce([("orders", 1)]))
    assert broker.core.partitions["orders", 0].log_end_offset == before
    answers, _turns = broker.finish(client)
    assert len(answers) == 2
    assert broker.core.partitions["orders", 0].log_end_offset == before + 2


def test_large_produce_appends_every_batch_and_names_each_partition_once(broker):
    client = broker.open()
    before = broker.core.partitions["orders", 1].log_end_offset
    broker.send(client, produce([("orders", COUNT)]))
    (answer,), _turns = broker.finish(client)
    assert broker.core.partitions["orders", 1].log_end_offset == before + 1
    rows = decode_response(PRODUCE, 9, answer[4:]).responses
    assert [len(row.partition_responses) for row in rows] == [COUNT]
    taken = [row.error_code == ErrorCode.none for row in rows[0].partition_responses]
    assert taken == [True] * 3 + [False] * (COUNT - 3)


def test_large_produce_without_acks_is_appended_and_not_answered(broker):
    client = broker.open()
    before = broker.core.partitions["orders", 1].log_end_offset
    broker.send(client, produce([("orders", 1)] * COUNT, acks=0))
    assert broker.finish(client)[0] == []
    broker.core.step(events.TurnEnd(), broker.now_ms)
    assert broker.core.connections[client].is_open
    assert broker.core.partitions["orders", 0].log_end_offset >= before + COUNT
    assert len(broker.send(client, metadata(["orders"]))) == 1


def test_short_fetch_of_a_session_with_many_partitions_to_read_takes_several_turns(broker):
    client = broker.open()
    (first,) = broker.ask(client, fetch([("orders", 3), ("nowhere", COUNT)], session_epoch=0))
    session_id = int.from_bytes(first[SESSION_ID], "big")
    assert broker.send(client, fetch([], session_id=session_id, session_epoch=1)) == []
    (answer,), turns = broker.finish(client)
    rows = {row.topic: row.partitions for row in decode_response(FETCH, 12, answer[4:]).responses}
    assert len(rows["nowhere"]) == COUNT
    assert turns > 3


def test_fetch_reads_some_of_its_partitions_and_others_come_with_the_next(monkeypatch):
    monkeypatch.setattr("yak.broker.fetches.FETCH_PARTITIONS_READ_MAX", 2)
    broker = Broker()
    broker.rig.create_topic("many", partitions=6)
    for number in range(6):
        broker.rig.produce("many", [b"a"], partition=number)
    client, seen = broker.open(), set()
    for _ in range(12):
        (answer,) = broker.ask(client, fetch([("many", 6)]))
        (topic,) = decode_response(FETCH, 12, answer[4:]).responses
        found = {row.partition_index for row in topic.partitions if row.records}
        assert len(found) == 2
        seen |= found
    assert seen == set(range(6))


def test_large_fetch_waits_for_records_and_is_woken_by_them(broker):
    client, producer = broker.open(), broker.open()
    request_ = fetch([("orders", 3)] * 400, max_wait=1000, min_bytes=1)
    ends = [broker.core.partitions["orders", number].log_end_offset for number in range(3)]
    for topic in request_[2]["topics"]:
        topic["partitions"] = [row | {"fetch_offset": ends[row["partition"]]} for row in topic["partitions"]]
    broker.send(client, request_)
    assert broker.finish(client)[0] == []
    assert broker.core.backlog(client) == 1
    api_key, version, fields = produce([("orders", 1)])
    frame = memoryview(encode_request(api_key, version, 1, "c", fields))
    effects = broker.core.step(events.FrameReceived(producer, frame), broker.now_ms)
    effects += broker.core.step(events.TurnEnd(), broker.now_ms)
    assert len(broker.answers(effects, client)) == 1
    assert broker.core.backlog(client) == 0


@pytest.mark.parametrize("turns", [0, 1, 4])
def test_closed_connection_drops_the_rest(broker, turns):
    client, next_client = broker.open(), broker.open()
    broker.send(client, metadata(names()))
    broker.send(client, metadata(["orders"]))
    broker.send(next_client, metadata(names()))
    for _ in range(turns):
        assert broker.turn(client) == []
    broker.close(client)
    assert len(broker.core.large_requests) == 1
    answers, _turns = broker.finish(next_client)
    assert len(answers) == 1
    assert broker.core.held_bytes == 0


def test_bytes_behind_a_large_request_are_ignored(broker):
    answers = []
    for behind in (b"", b"!"):
        client = broker.open()
        broker.send(client, metadata(names()), behind=behind)
        answers.append(broker.finish(client)[0])
    assert len(answers[0]) == 1
    assert answers[0] == answers[1]
    assert broker.core.held_bytes == 0


def test_backlog_of_a_large_request_stops_the_reading(broker):
    client = broker.open()
    broker.send(client, metadata(names()))
    assert broker.core.backlog(client) >= 1000
    broker.finish(client)
    assert broker.core.backlog(client) == 0


def test_topic_deleted_between_slices_is_answered_as_unknown():
    rig = Rig()
    rig.create_topic("orders")
    timeout = dt.timedelta(seconds=5)
    absent = [f"t{number}" for number in range(REQUEST_ELEMENTS_MAX - 1)]
    pending = rig.begin(DELETE_TOPICS, 4, topic_names=["orders", *absent], timeout=timeout)
    rig.run_for(REQUEST_ELEMENTS_MAX // SLICE_ELEMENTS + 10)  # decoded, and the first of them looked up
    deleted = rig.ask(DELETE_TOPICS, 4, client=rig.new_client(), topic_names=["orders"], timeout=timeout)
    assert deleted.responses[0].error_code == ErrorCode.none
    assert not pending.is_done
    rig.run_for(1_000)
    assert {row.error_code for row in pending.answer.responses} == {ErrorCode.unknown_topic_or_partition}
