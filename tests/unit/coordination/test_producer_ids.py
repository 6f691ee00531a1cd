"""Producer ids come in blocks that are asked for before they are needed."""

import datetime as dt
import gzip
import struct

import pytest
from kio.schema.errors import ErrorCode

from yak.coordination.producer_ids import REFILL_BELOW
from yak.protocol.record_batch import compute_crc
from yak.sim.rig import Rig
from yak.sim.wire import record_batch


def take(rig: Rig):
    return rig.ask(22, 1, transactional_id=None, transaction_timeout=dt.timedelta(seconds=60))


def test_a_producer_starts_while_the_store_is_away():
    rig = Rig()
    rig.run_for(500)
    rig.node.store_line.block()
    rig.run_for(500)
    answer = take(rig)
    assert answer.error_code == ErrorCode.none
    assert answer.producer_id >= 0


def test_ids_are_never_given_twice_and_the_next_block_is_there_in_time():
    rig = Rig()
    given = [take(rig).producer_id for _ in range(1_000 - REFILL_BELOW + 2)]
    rig.run_for(500)
    rig.node.store_line.block()
    given += [take(rig).producer_id for _ in range(1_000)]
    assert len(set(given)) == len(given)
    assert min(given) >= 0


def test_without_the_store_and_without_ids_the_refusal_is_one_that_every_client_repeats():
    """REQUEST_TIMED_OUT ends a Java producer before 3.4 (KAFKA-14417)."""
    rig = Rig()
    rig.run_for(500)
    rig.node.store_line.block()
    rig.run_for(500)
    codes = [take(rig).error_code for _ in range(1_001)]
    assert codes[:1_000] == [ErrorCode.none] * 1_000
    assert codes[1_000] == ErrorCode.coordinator_load_in_progress


def test_a_repeated_offset_delta_is_refused():
    rig = Rig()
    rig.create_topic("orders")
    assert (
        rig.produce_raw("orders", with_records(b"\x0e\0\0\0\x01\x02x\0" * 2, 2)).error_code == ErrorCode.invalid_record
    )


@pytest.mark.parametrize("records", [gzip.compress(b"\xff" * 100), gzip.compress(b"\0" * 100)[:20], b"no gzip"])
def test_records_that_no_client_could_parse_are_refused_for_good_and_not_repacked(records):
    """Clients retry CORRUPT_MESSAGE; Kafka's LogValidator answers INVALID_RECORD, or UNKNOWN_SERVER_ERROR."""
    rig = Rig()
    rig.create_topic("packed", compression_type="lz4")
    refused = rig.produce_raw("packed", with_records(records, 1, codec=1))
    assert (refused.error_code, refused.log_start_offset) == (ErrorCode.invalid_record, 0)


def with_records(records: bytes, count: int, *, codec: int = 0) -> bytes:
    batch = bytearray(record_batch([b"x"] * count, 1_700_000_000_000)[:61] + records)
    struct.pack_into(">i", batch, 8, len(batch) - 12)
    struct.pack_into(">h", batch, 21, codec)
    struct.pack_into(">I", batch, 17, compute_crc(batch))
    return bytes(batch)
