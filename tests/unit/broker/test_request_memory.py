"""What a request holds after its step: no view of its receive buffer, and no cycle that only a garbage collection breaks."""

import gc
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.rig import Rig, produce_fields
from tests.unit.broker import group_requests as ask
from tests.unit.broker.raw_connection import RawConnection
from tests.unit.broker.requests import list_offset
from yak.protocol.record_batch import compute_crc
from yak.sim.request_fields import frame_of
from yak.sim.wire import record_batch

PRODUCE = 0


@pytest.fixture
def rig() -> Iterator[Rig]:
    rig = Rig()
    rig.create_topic("plain")
    rig.create_topic("flushed", flush_messages="1")
    rig.create_topic("lz4", compression_type="lz4")
    gc.disable()
    yield rig
    gc.enable()


def batch(rig: Rig) -> bytes:
    return record_batch([b"x" * 1000], rig.world.now_ms)


def produce(topic: str, partition: int = 0, **changed: Any) -> Callable[[Rig], dict[str, Any]]:
    return lambda rig: produce_fields(topic, batch(rig), partition=partition) | changed


REQUESTS: dict[str, Callable[[Rig], dict[str, Any]]] = {
    "appended": produce("plain"),
    "waits for a flush": produce("flushed"),
    "waits to be recompressed": produce("lz4"),
    "recompressed without an answer": produce("lz4", acks=0),
    "wrong acks": produce("plain", acks=7),
    "transactional": produce("plain", transactional_id="t"),
    "unknown topic": produce("nosuch"),
    "unknown partition": produce("plain", partition=9),
    "internal topic": produce("__consumer_offsets"),
    "wrong checksum": lambda rig: produce_fields("plain", batch(rig)[:-1] + b"y"),
    "too short": lambda rig: produce_fields("plain", batch(rig)[:30]),
    "wrong and without an answer": lambda rig: produce_fields("plain", batch(rig)[:30], acks=0),
}


@pytest.mark.parametrize("name", REQUESTS)
def test_produce_after_its_step_keeps_no_view_of_the_receive_buffer(rig: Rig, name: str) -> None:
    frame = bytearray(frame_of(PRODUCE, 9, 1, REQUESTS[name](rig)))
    RawConnection(rig).send(frame)
    # a bytearray that is exported to a view cannot be resized
    frame.clear()


def test_create_topics_refused_is_freed_without_a_garbage_collection(rig: Rig) -> None:
    topics: list[dict[str, Any]] = [
        {"name": name, "num_partitions": 1, "replication_factor": 1} for name in ("plain", "a b", "..")
    ]
    assert {each.error_code for each in rig.ask(19, 5, topics=topics).topics} == {36, 17}
    assert garbage_of(lambda: rig.ask(19, 5, topics=topics)) == []


@pytest.mark.parametrize("names", [None, ["plain"], ["nosuch"], ["a b"]])
def test_metadata_answered_is_freed_without_a_garbage_collection(rig: Rig, names: list[str] | None) -> None:
    topics = None if names is None else [{"name": name} for name in names]
    assert garbage_of(lambda: rig.ask(3, 8, topics=topics, allow_auto_topic_creation=False)) == []


def test_find_coordinator_answered_is_freed_without_a_garbage_collection(rig: Rig) -> None:
    rig.create_topic("__consumer_offsets")
    assert garbage_of(lambda: rig.ask(10, 2, key="group")) == []


def test_requests_of_a_group_answered_are_freed_without_a_garbage_collection(rig: Rig) -> None:
    """Each may have megabytes of metadata of a member."""
    rig.create_topic("__consumer_offsets")

    def live() -> None:
        joined = ask.stable(rig)
        assert ask.commit(rig, {0: 1}, topic="plain", member_id=joined.member_id, generation=1) == [0]
        assert ask.leave(rig, joined.member_id).error_code == 0
        assert rig.ask(42, 2, groups_names=["g"]).results[0].error_code == 0

    assert garbage_of(live) == []


def test_search_of_offsets_answered_is_freed_without_a_garbage_collection(rig: Rig) -> None:
    assert rig.produce_raw("plain", batch(rig)).error_code == 0
    assert garbage_of(lambda: list_offset(rig, 1, topic="plain")) == []


def garbage_of(act: Callable[[], object]) -> list[str]:
    """Requests that were left in cycles. What was there before is frozen: no collection visits it."""
    act()
    gc.collect()
    gc.freeze()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        for _ in range(3):
            act()
        gc.collect()
        return [type(each).__name__ for each in gc.garbage if type(each).__name__ in ("Call", "DelayedMetadataChanges")]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()


def test_batches_that_wait_to_be_recompressed_are_counted_until_they_are_appended_or_refused(rig: Rig) -> None:
    broker = rig.node.broker
    assert broker is not None
    good, bad = batch(rig), recoded(batch(rig), 1)
    pending = [
        rig.begin(PRODUCE, 9, client=rig.new_client(), **produce_fields("lz4", each)) for each in (good, bad, good)
    ]
    counted = []
    while not all(each.is_done for each in pending):
        rig.run_for(1)
        counted.append(broker.held_bytes)
    assert [each.answer.responses[0].partition_responses[0].error_code for each in pending] == [0, 87, 0]
    assert max(counted) > len(good)
    assert broker.held_bytes == 0


def test_batches_that_wait_to_be_recompressed_are_not_counted_after_their_topic_is_deleted(rig: Rig) -> None:
    broker = rig.node.broker
    assert broker is not None
    names = [{"name": "lz4"}]
    deleting = rig.begin(20, 6, client=rig.new_client(), topics=names)
    while not deleting.is_done:
        rig.begin(PRODUCE, 9, client=rig.new_client(), **produce_fields("lz4", batch(rig)))
        rig.run_for(1)
    rig.run_for(1_000)
    assert broker.held_bytes == 0


def recoded(whole: bytes, codec: int) -> bytes:
    """The batch, whose attributes name a codec that its records do not have."""
    changed = bytearray(whole)
    changed[22] = changed[22] & ~7 | codec
    changed[17:21] = compute_crc(changed).to_bytes(4, "big")
    return bytes(changed)
