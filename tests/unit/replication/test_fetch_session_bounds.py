"""What fetch sessions and delayed fetches may remember, all clients together."""

import uuid
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from tests.rig import Client, Pending, Rig, fetch_fields
from tests.unit.broker.requests import delete_topic
from yak.replication import fetch_sessions
from yak.replication.fetch_sessions import ConsumerSessions

PARTITIONS = 4


@pytest.fixture
def rig(monkeypatch: pytest.MonkeyPatch) -> Rig:
    """Room for two sessions of all partitions."""
    monkeypatch.setattr(fetch_sessions, "FETCH_PARTITIONS_REMEMBERED_MAX", 2 * PARTITIONS)
    rig = Rig()
    rig.create_topic("orders", partitions=PARTITIONS)
    return rig


def held(rig: Rig) -> ConsumerSessions:
    assert rig.node.broker is not None
    return rig.node.broker.sessions


def fields_of(session_id: int, epoch: int, indexes: list[int], topic: str = "orders", **named: Any) -> dict[str, Any]:
    fields = fetch_fields(topic, 0, **named) | {"session_id": session_id, "session_epoch": epoch}
    (asked,) = fields["topics"]
    (partition,) = asked["partitions"]
    rows = [{**partition, "partition": index} for index in indexes]
    return fields | {"topics": [{**asked, "partitions": rows}] if rows else []}


def opened(rig: Rig, client: Client, indexes: list[int] | None = None) -> int:
    """The id of the session that a full fetch gets, 0 for none."""
    indexes = list(range(PARTITIONS)) if indexes is None else indexes
    return int(rig.ask(1, 12, client=client, **fields_of(0, 0, indexes)).session_id)


def waiting(rig: Rig, client: Client, indexes: list[int]) -> Pending:
    """A fetch without a session that waits 10 s, or is answered at once."""
    pending = rig.begin(1, 12, client=client, **fields_of(0, -1, indexes, max_wait_ms=10_000))
    rig.run_for(100)
    return pending


@pytest.mark.parametrize(("topic", "index"), [("nosuch", 0), ("orders", PARTITIONS), ("orders", -1)])
def test_session_remembers_a_partition_that_does_not_exist(rig: Rig, topic: str, index: int) -> None:
    """As Kafka's FullFetchContext; its error comes again until the partition exists or is forgotten."""
    answer = rig.ask(1, 12, **fields_of(0, 0, [index], topic))
    assert answer.session_id > 0
    for epoch in (1, 2):
        assert answer.error_code == ErrorCode.none
        assert answer.responses[0].partitions[0].error_code == ErrorCode.unknown_topic_or_partition
        answer = rig.ask(1, 12, **fields_of(answer.session_id, epoch, []))
    assert (len(held(rig)), held(rig).partitions_count) == (1, 1)
    forget = {"forgotten_topics_data": [{"topic": topic, "partitions": [index]}]}
    answer = rig.ask(1, 12, **(fields_of(answer.session_id, 3, []) | forget))
    assert (answer.error_code, answer.session_id, answer.responses) == (ErrorCode.none, 0, ())
    assert (len(held(rig)), held(rig).partitions_count) == (0, 0)


def test_session_remembers_a_topic_id_that_does_not_exist(rig: Rig) -> None:
    fields = fields_of(0, 0, [0])
    fields["topics"] = [{"topic_id": uuid.UUID(int=7), "partitions": fields["topics"][0]["partitions"]}]
    answer = rig.ask(1, 13, **fields)
    assert answer.session_id > 0
    for epoch in (1, 2):
        assert answer.responses[0].partitions[0].error_code == ErrorCode.unknown_topic_id
        answer = rig.ask(1, 13, **fields_of(answer.session_id, epoch, []))


def test_session_reads_a_partition_that_is_created_after_the_session(rig: Rig) -> None:
    session_id = opened(rig, rig.client, [0])
    answer = rig.ask(1, 12, **fields_of(session_id, 1, [0], "later"))
    assert [topic.partitions[0].error_code for topic in answer.responses] == [ErrorCode.unknown_topic_or_partition]
    rig.create_topic("later")
    rig.produce("later", [b"a"])
    answer = rig.ask(1, 12, **fields_of(session_id, 2, []))
    assert [(topic.topic, len(topic.partitions[0].records) > 0) for topic in answer.responses] == [("later", True)]
    fields = fields_of(session_id, 3, [0], "later", max_wait_ms=10_000)
    fields["topics"][0]["partitions"][0]["fetch_offset"] = 1
    pending = rig.begin(1, 12, **fields)
    rig.run_for(100)
    assert not pending.is_done
    rig.produce("later", [b"b"])
    rig.run_for(100)
    assert pending.is_done


def test_full_fetch_without_partitions_gets_a_session(rig: Rig) -> None:
    session_id = opened(rig, rig.client, [])
    assert session_id > 0
    answer = rig.ask(1, 12, **fields_of(session_id, 1, [0]))
    assert (answer.session_id, len(answer.responses)) == (session_id, 1)


def test_topic_name_longer_than_a_topic_may_have_counts_as_several_partitions(rig: Rig) -> None:
    long = "x" * 750
    assert rig.ask(1, 12, client=rig.new_client(), **fields_of(0, 0, [0, 1, 2], long)).session_id == 0
    session_id = rig.ask(1, 12, **fields_of(0, 0, [0], long)).session_id
    assert (session_id > 0, held(rig).partitions_count) == (True, 4)
    answer = rig.ask(1, 12, **fields_of(session_id, 1, [1], long))
    assert [each.error_code for each in answer.responses[0].partitions] == [ErrorCode.unknown_topic_or_partition] * 2
    assert held(rig).partitions_count == 8
    forget = {"forgotten_topics_data": [{"topic": long, "partitions": [0]}]}
    rig.ask(1, 12, **(fields_of(session_id, 2, []) | forget))
    assert held(rig).partitions_count == 4
    rig.ask(1, 12, **fields_of(session_id, -1, []))
    assert (len(held(rig)), held(rig).partitions_count) == (0, 0)


def test_session_that_is_full_ends_when_partitions_are_added(rig: Rig) -> None:
    others = [opened(rig, rig.new_client()), opened(rig, rig.new_client(), [0, 1, 2])]
    session_id = opened(rig, rig.client, [0])
    answer = rig.ask(1, 12, **fields_of(session_id, 1, [1]))
    assert answer.error_code == ErrorCode.fetch_session_id_not_found
    assert (list(held(rig)._sessions), held(rig).partitions_count) == (others, 7)


def test_partitions_named_twice_or_forgotten_are_not_counted(rig: Rig) -> None:
    session_id = opened(rig, rig.client, [0, 1, 1, 1, 0])
    assert held(rig).partitions_count == 2
    forget = {"forgotten_topics_data": [{"topic": "orders", "partitions": [0, 0, 3]}]}
    rig.ask(1, 12, **(fields_of(session_id, 1, []) | forget))
    assert held(rig).partitions_count == 1
    rig.ask(1, 12, **fields_of(session_id, -1, []))
    assert held(rig).partitions_count == 0


def test_connection_that_opens_many_sessions_evicts_its_own(rig: Rig) -> None:
    healthy = opened(rig, rig.new_client())
    ids = [opened(rig, rig.client) for _ in range(25)]
    assert all(ids)
    assert list(held(rig)._sessions) == [healthy, ids[-1]]
    assert held(rig).partitions_count == 2 * PARTITIONS


def test_session_of_a_closed_connection_is_evicted_and_one_in_use_is_not(rig: Rig) -> None:
    gone = rig.new_client()
    first, second = opened(rig, gone), opened(rig, rig.new_client())
    assert opened(rig, rig.client) == 0, "both are in use"
    gone.close()
    third = opened(rig, rig.client)
    assert list(held(rig)._sessions) == [second, third]
    assert first not in held(rig)._sessions


def test_session_in_use_is_evicted_once_it_is_idle(rig: Rig) -> None:
    first, second = opened(rig, rig.new_client()), opened(rig, rig.new_client())
    rig.run_for(119_000)
    assert opened(rig, rig.client) == 0
    rig.run_for(2_000)
    third = opened(rig, rig.client)
    assert list(held(rig)._sessions) == [second, third]
    assert first != third


def test_fetch_is_answered_at_once_when_too_many_partitions_are_delayed(rig: Rig) -> None:
    greedy, healthy = rig.new_client(), rig.new_client()
    # the share of each of the connections is two partitions or more
    delayed = [waiting(rig, greedy, [0, 1, 2, 3]) for _ in range(2)]
    assert [each.is_done for each in delayed] == [False, False]
    assert held(rig).delayed_count == 2 * PARTITIONS
    assert waiting(rig, rig.new_client(), [0, 1, 2, 3]).is_done
    small = waiting(rig, healthy, [3])
    assert not small.is_done
    rig.produce("orders", [b"a"], partition=3)
    rig.run_for(100)
    assert small.is_done
    assert all(each.is_done for each in delayed)
    assert held(rig).delayed_count == 0


def test_delayed_fetches_of_a_closed_connection_are_not_counted(rig: Rig) -> None:
    greedy = rig.new_client()
    waiting(rig, greedy, [0, 1, 2, 3])
    greedy.close()
    rig.run_for(100)
    assert held(rig).delayed_count == 0


def by_id(
    rig: Rig, client: Client, topic_ids: list[uuid.UUID], session_id: int = 0, epoch: int = 0, **named: Any
) -> Any:
    """The answer to a fetch of partition 0 of these topics, by id."""
    wait_ms = named.pop("wait_ms", 0)
    fields = fetch_fields("", 0, max_wait_ms=wait_ms) | {"session_id": session_id, "session_epoch": epoch}
    partitions = fields["topics"][0]["partitions"]
    topics = [{"topic_id": each, "partitions": partitions} for each in topic_ids]
    asked = rig.begin(1, 13, client=client, **fields | {"topics": topics} | named)
    rig.run_for(wait_ms + 50)
    return asked.answer


@pytest.mark.parametrize("is_forgotten", [False, True])
def test_a_topic_that_is_created_again_wakes_the_session_under_its_new_id(is_forgotten: bool) -> None:
    rig = Rig()
    rig.create_topic("orders")
    rig.create_topic("payments")
    image = rig.node.broker.image
    old, other = (image.topics[name].topic_id for name in ("orders", "payments"))
    client = rig.new_client()
    session = by_id(rig, client, [old, other]).session_id
    assert session
    delete_topic(rig, "orders")
    rig.run_for(500)
    rig.create_topic("orders")
    new = rig.node.broker.image.topics["orders"].topic_id
    assert new != old
    assert by_id(rig, client, [new], session, 1).responses
    forgotten = [{"topic_id": old, "partitions": [0]}] if is_forgotten else []
    assert by_id(rig, client, [], session, 2, forgotten_topics_data=forgotten).error_code == ErrorCode.none
    rig.produce("orders", [b"x"])
    rig.run_for(100)
    answer = by_id(rig, client, [], session, 3, wait_ms=1_000)
    assert [topic.topic_id for topic in answer.responses for each in topic.partitions if each.records] == [new]
