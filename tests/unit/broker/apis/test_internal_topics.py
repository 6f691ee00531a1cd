"""Internal topics are written and deleted by the brokers alone; the word of a client that it is an administrator proves nothing."""

from types import SimpleNamespace

import pytest
from kio.schema.errors import ErrorCode

from tests.rig import Rig
from yak.core import events
from yak.groups.offsets import OFFSETS_TOPIC
from yak.sim.request_fields import frame_of, produce_fields
from yak.sim.wire import read_answer, record_batch

ALLOWED = {"yak.internal.topics.admin.enable": "true"}
HERE, ELSEWHERE = "127.0.0.1:50000", "192.0.2.7:50000"
CONNECTION = 900


def ask(rig: Rig, api_key: int, version: int, peer: str, client_id: str, *, is_in_process: bool = False, **fields):
    """The answer to one request of a client with this address and id."""
    answers: list[bytes] = []
    rig.node._lines[CONNECTION] = SimpleNamespace(reply=answers.append)
    rig.node.post(events.ConnectionOpened(CONNECTION, peer, is_in_process=is_in_process))
    rig.node.receive(CONNECTION, [frame_of(api_key, version, 1, fields, client_id)])
    rig.run_for(1_000)
    return read_answer(api_key, version, answers[0])[1]


def started(settings: dict[str, str]) -> Rig:
    rig = Rig(settings=settings)
    rig.create_topic(OFFSETS_TOPIC)
    return rig


def produce(rig: Rig, peer: str, client_id: str, **more: bool) -> ErrorCode:
    records = record_batch([b"value"], rig.world.now_ms, keys=[b"key"])
    answer = ask(rig, 0, 9, peer, client_id, **more, **produce_fields(OFFSETS_TOPIC, records))
    return answer.responses[0].partition_responses[0].error_code


def delete(rig: Rig, peer: str, client_id: str, **more: bool) -> ErrorCode:
    topic = {"name": OFFSETS_TOPIC}
    answer = ask(rig, 20, 6, peer, client_id, **more, topics=[topic])
    return answer.responses[0].error_code


@pytest.mark.parametrize(
    ("settings", "peer", "client_id"),
    [
        ({}, HERE, "__admin_client"),
        ({}, HERE, "rdkafka"),
        (ALLOWED, ELSEWHERE, "__admin_client"),
        (ALLOWED, HERE, "rdkafka"),
    ],
)
def test_internal_topic_is_neither_written_nor_deleted_by_a_client(settings, peer, client_id):
    rig = started(settings)
    assert produce(rig, peer, client_id) == ErrorCode.invalid_topic_exception
    assert delete(rig, peer, client_id) == ErrorCode.topic_authorization_failed
    assert OFFSETS_TOPIC in rig.node.broker.image.topics


def test_internal_topic_is_not_written_over_http_by_an_administrators_client_id():
    rig = started(ALLOWED)
    assert produce(rig, HERE, "__admin_client", is_in_process=True) == ErrorCode.invalid_topic_exception


@pytest.mark.parametrize("peer", [HERE, "[::1]:50000"])
def test_internal_topic_is_written_and_deleted_by_an_administrator_here_where_the_config_allows_it(peer):
    rig = started(ALLOWED)
    assert produce(rig, peer, "__admin_client") == ErrorCode.none
    assert delete(rig, peer, "__admin_client") == ErrorCode.none
    assert OFFSETS_TOPIC not in rig.node.broker.image.topics
