"""What a broker counts: against what a client did, and what the world did to it."""

import pytest
from kio.schema.errors import ErrorCode

from tests.cluster_rig import ClusterRig
from tests.rig import Rig, fetch_fields, produce_fields
from tests.unit.broker.requests import delete_topic
from yak.broker.counters import Counters
from yak.protocol.record_batch import iterate_headers
from yak.sim.wire import record_batch

PRODUCE, FETCH, METADATA, HEARTBEAT = 0, 1, 3, 12
VALUE = b"x" * 20_000


def counters_of(rig: Rig) -> Counters:
    return rig.node.broker.counters


def given(partition) -> tuple[int, int]:
    """(bytes, records) of a fetched partition."""
    data = bytes(partition.records or b"")
    return len(data), sum(header.records_count for _place, header in iterate_headers(data))


def test_records_and_bytes_written_are_counted_by_topic(rig):
    rig.produce("orders", [b"a", b"b"])
    rig.produce("orders", [b"c"], partition=1)
    traffic = counters_of(rig).topics["orders"]
    logs = [partition.log for place, partition in rig.node.broker.partitions.items() if place.topic == "orders"]
    assert traffic.messages_in == 3
    assert traffic.bytes_in == sum(log.size_bytes for log in logs) > 0
    assert (traffic.bytes_out, traffic.messages_out) == (0, 0)


@pytest.mark.parametrize("is_cold", [False, True])
@pytest.mark.parametrize("max_bytes", [1, 50_000, 300_000, 1 << 20])
def test_records_and_bytes_read_are_counted_for_every_read_path(rig, is_cold, max_bytes):
    """Whole tails, parts cut at an index entry or a batch, and bytes from the device."""
    for count in (1, 2, 3) * 7:
        rig.produce("orders", [VALUE] * count)
    if is_cold:
        rig.node.disk.cached_bytes = 0
    traffic, offset, size_bytes = counters_of(rig).topics["orders"], 0, 0
    while offset < 42:
        size, records = given(rig.fetch("orders", offset, max_bytes=max_bytes))
        assert records
        offset += records
        size_bytes += size
        assert (traffic.messages_out, traffic.bytes_out) == (offset, size_bytes)


def test_records_read_across_segments_are_counted():
    rig = Rig()
    rig.create_topic("orders", segment_bytes="100000")
    for _ in range(12):
        rig.produce("orders", [VALUE] * 2)
    assert len(next(iter(rig.node.broker.partitions.values())).log.segments) > 2
    offset = 0
    while offset < 24:
        offset += given(rig.fetch("orders", offset))[1]
        assert counters_of(rig).topics["orders"].messages_out == offset


def test_slices_that_the_kernel_sends_are_counted():
    rig = Rig()
    rig.create_topic("large", partitions=3)
    for partition in range(3):
        for _ in range(9):
            rig.produce("large", [VALUE * 5], partition=partition)
    fields = fetch_fields("large", 0, max_bytes=50 << 20)
    (one,) = fields["topics"][0]["partitions"]
    fields["topics"][0]["partitions"] = [one | {"partition": index} for index in range(3)]
    found = [given(each) for each in rig.ask(FETCH, 12, **fields).responses[0].partitions]
    assert sum(size for size, _ in found) > 1 << 20, "nothing was sliced"
    traffic = counters_of(rig).topics["large"]
    assert (traffic.bytes_out, traffic.messages_out) == tuple(map(sum, zip(*found, strict=True)))


def test_a_fetch_that_waits_for_more_counts_what_it_gives_only_once(rig):
    waiting = rig.begin(FETCH, 12, client=rig.new_client(), **fetch_fields("orders", 0, max_wait_ms=900, min_bytes=500))
    for _ in range(3):
        rig.produce("orders", [b"x" * 100])
    rig.run_for(1_000)
    size, records = given(waiting.answer.responses[0].partitions[0])
    traffic = counters_of(rig).topics["orders"]
    assert (traffic.bytes_out, traffic.messages_out) == (size, records)
    assert records == 3


def test_the_totals_outlive_the_topic(rig):
    rig.produce("orders", [b"a", b"b"])
    rig.fetch("orders", 0)
    before = counters_of(rig).total()
    assert before.messages_in == before.messages_out == 2
    delete_topic(rig, "orders")
    rig.run_for(100)
    assert "orders" not in counters_of(rig).topics
    rig.create_topic("orders", partitions=2)
    rig.produce("orders", [b"c"])
    assert counters_of(rig).topics["orders"].messages_in == 1
    total = counters_of(rig).total()
    assert (total.messages_in, total.messages_out) == (3, 2)
    assert total.bytes_in == before.bytes_in + counters_of(rig).topics["orders"].bytes_in


def test_errors_are_counted_by_api_and_code(rig):
    rig.produce("nowhere", [b"x"])
    rig.ask(FETCH, 12, **fetch_fields("nowhere", 0))
    rig.fetch("orders", 77)
    rig.ask(HEARTBEAT, 4, group_id="g", generation_id=1, member_id="m")
    rig.ask(METADATA, 12, topics=[{"name": "nowhere"}], allow_auto_topic_creation=False)
    unknown = int(ErrorCode.unknown_topic_or_partition)
    assert counters_of(rig).errors == {
        (PRODUCE, unknown): 1,
        (FETCH, unknown): 1,
        (FETCH, int(ErrorCode.offset_out_of_range)): 1,
        (HEARTBEAT, int(ErrorCode.not_coordinator)): 1,
        (METADATA, unknown): 1,
    }


def test_acks_0_that_fails_is_counted_too(rig):
    batch = record_batch([b"x"], rig.world.now_ms)
    rig.begin(PRODUCE, 9, client=rig.new_client(), **produce_fields("nowhere", batch, acks=0))
    rig.run_for(50)
    assert counters_of(rig).errors == {(PRODUCE, int(ErrorCode.unknown_topic_or_partition)): 1}


def test_answers_are_recorded_for_the_counters(rig):
    counters = counters_of(rig)
    counters.answered.clear()
    counters.waited.clear()
    counters.turn_ns = 5
    waiting = rig.begin(FETCH, 12, client=rig.new_client(), **fetch_fields("orders", 0, max_wait_ms=900))
    rig.run_for(50)
    counters.turn_ns = 9
    rig.produce("orders", [b"x"])
    rig.run_for(50)
    assert waiting.is_done
    assert list(counters.answered) == [PRODUCE]
    assert list(counters.waited) == [(FETCH, 5)], "a fetch that waited began in an earlier turn"


def test_isr_changes_elections_and_replication_are_counted_where_they_are_made():
    rig = ClusterRig(settings={"replica.lag.time.max.ms": "2000"})
    rig.create_topic("pairs", min_insync_replicas="2")
    leader = rig.leader("pairs")
    slow = next(node for node in rig.info("pairs").replicas if node != leader)
    counts, changes = rig.nodes[leader - 1].broker.counters, rig.nodes[leader - 1].broker.isr_changes
    batch_bytes = len(record_batch([b"a"], rig.world.now_ms))
    rig.produce("pairs", [b"a"])
    rig.run_for(300)
    assert counts.replicated.bytes_out == 2 * batch_bytes
    copies = [node.broker.counters.replicated.bytes_in for node in rig.nodes]
    assert sorted(copies) == [0, batch_bytes, batch_bytes]
    before = (changes.shrinks, changes.expands)

    rig.nodes[slow - 1].pause()
    rig.begin_produce("pairs", [b"a"])
    rig.run_until(lambda: slow not in rig.info("pairs").isr)
    rig.run_until(lambda: changes.shrinks == before[0] + 1)
    rig.nodes[slow - 1].resume()
    rig.run_until(lambda: rig.is_in_sync("pairs"))
    rig.run_until(lambda: changes.expands == before[1] + 1)

    elected = [sum(node.broker.counters.elections.by_cause.values()) for node in rig.nodes]
    rig.nodes[leader - 1].kill()
    rig.run_until(lambda: rig.leader("pairs") not in (leader, -1))
    rig.run_for(300)
    alive = [node.broker.counters.elections for node in rig.nodes if node.broker is not None]
    assert sum(each.by_cause.get("lost", 0) for each in alive) >= 1
    assert sum(sum(each.by_cause.values()) for each in alive) > sum(elected) - elected[leader - 1]
    assert all(sum(each.rounds_by_duration) >= bool(each.by_cause) for each in alive)
    assert any(each.rounds_ms > 0 for each in alive)


def test_an_outage_of_the_store_is_counted_and_timed(rig):
    outage = rig.node.broker.store_outage
    assert outage.count == 0
    rig.node.store_line.block()
    rig.run_for(3_000)
    assert (outage.count, outage.past_ms) == (1, 0)
    rig.node.store_line.unblock()
    rig.run_for(3_000)
    assert outage.count == 1
    assert 3_000 <= outage.past_ms <= 6_000
