"""Requests for which a job reads from the device: one of a connection at a time, and none of a closed one."""

import pytest

from tests.rig import Pending, Rig
from tests.unit.broker.requests import begin_fetch, fetched, values_of
from tests.unit.noted_calls import note_calls
from yak.broker import fetches
from yak.core.events import DropJob

API_VERSIONS, LIST_OFFSETS = 18, 2
VALUES = [b"a", b"b", b"c", b"newest"]


@pytest.fixture
def rig() -> Rig:
    rig = Rig()
    rig.create_topic("orders")
    for value in VALUES:
        rig.produce("orders", [value])
    rig.node.disk.cached_bytes = 0
    rig.node.jobs.delays_us = {"read": 50_000}
    return rig


def begin_search(rig: Rig, timestamp: int) -> Pending:
    topics = [{"name": "orders", "partitions": [{"partition_index": 0, "timestamp": timestamp}]}]
    return rig.begin(LIST_OFFSETS, 7, topics=topics)


READS = [lambda rig, offset: begin_fetch(rig, "orders", offset), begin_search]


def reads(rig: Rig) -> int:
    return sum(kind == "read" for kind, _on_done in rig.node.broker.jobs._running.values())


@pytest.mark.parametrize("begin", READS)
def test_connection_has_one_read_from_the_device_under_way(rig, begin):
    waiting = [begin(rig, number) for number in range(3)]
    rig.run_for(40)
    assert reads(rig) == 1
    assert rig.ask(API_VERSIONS, 0, client=rig.new_client()) is not None
    while not waiting[2].is_done:
        rig.run_for(1)
        assert reads(rig) <= 1
    assert not any(each.is_lost for each in waiting)
    if begin is not begin_search:
        assert [values_of(fetched(each)) for each in waiting] == [VALUES, VALUES[1:], VALUES[2:]]


def test_requests_are_read_again_after_a_fetch_whose_read_took_too_long(rig, monkeypatch):
    monkeypatch.setattr(fetches, "_DISK_WAIT_MS", 1000)
    rig.node.jobs.delays_us = {"read": 3_000_000}
    late = begin_fetch(rig, "orders", 0)
    behind = rig.begin(API_VERSIONS, 0)
    rig.run_for(500)
    assert not behind.is_done
    rig.run_for(1000)
    assert late.answer is not None
    assert behind.answer is not None


@pytest.mark.parametrize("begin", READS)
def test_read_for_a_connection_that_was_closed_is_dropped(rig, monkeypatch, begin):
    effects = note_calls(monkeypatch, rig.node, "_carry_out")
    begin(rig, 0)
    rig.run_for(10)
    rig.client.close()
    rig.run_for(10)
    assert [each.kind for (each,) in effects if isinstance(each, DropJob)] == ["read"]
    rig.run_for(100)  # it had begun
    assert reads(rig) == 0
