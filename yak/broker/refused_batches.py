"""Batches of idempotent producers that were refused only for now, so that none of their successors overtakes them.

With several batches under way the first could be refused because the in-sync set is too small, because the disk is full, or
because the broker does not know yet that it leads; and the second come a moment later, when that is over. In Kafka a log that does not know the
producer takes it (any sequence may be the first, KIP-360), and the first can never be written any more; one that knows the
producer says OUT_OF_ORDER_SEQUENCE_NUMBER, on which librdkafka begins a new epoch for all partitions, and sends again under
it what another leader may have stored already. Here the successor is refused for now as its predecessor was: nothing was
written, and the client sends both again in order.

It is the same with a first batch that waits at a leader that was deposed and does not know it yet, while its successor
comes to the new one (`refusal_of`).

Where the first was refused by a broker that did not lead, it may have been taken by the one that did; or it was stored
before, its answer was lost, and it was refused when it was sent again with its successors. Then the log has it, and takes the
one that follows; another one is refused for now too. A client may also have given the first one up: after `AS_THE_FIRST_MS` it
hears OUT_OF_ORDER_SEQUENCE_NUMBER, whether the log knows the producer or not, and begins anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from yak.broker.events import Notice
from yak.errors import ErrorCode, PeerError
from yak.protocol.record_batch import (
    HEADER_BYTES,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    SEQUENCE_MAX,
    BatchHeader,
    Buffer,
    read_header,
)
from yak.replication.partition import Partition

if TYPE_CHECKING:
    from yak.broker.broker import Broker

PRODUCERS_MAX = 1_000
"""Remembered for each partition; the oldest is forgotten."""
AS_THE_FIRST_MS = 5_000
"""So long a successor is refused for now; clients send again within a second."""
REMEMBERED_MS = 60_000
"""Who hears of nothing for so long asks again anyway; what is older may be about batches that were deleted since."""
_SAYS_OF_A_SEQUENCE: Final = frozenset(
    {
        ErrorCode.out_of_order_sequence_number,
        ErrorCode.invalid_producer_epoch,
        ErrorCode.not_enough_replicas,
    }
)


def note_refused(partition: Partition, header: BatchHeader, now_ms: int) -> None:
    """A batch is refused for now; of several of one producer the first counts, as long as it keeps coming."""
    if header.producer_id == NO_PRODUCER_ID:
        return
    refused = partition.refused_sequences
    held = refused.get(header.producer_id)
    if (
        held is None
        or header.producer_epoch > held[0]
        or header.base_sequence == held[1]
        or now_ms - held[2] >= AS_THE_FIRST_MS
    ):
        refused[header.producer_id] = (header.producer_epoch, header.base_sequence, now_ms)
        if len(refused) > PRODUCERS_MAX:
            del refused[next(iter(refused))]


def note_not_led(partition: Partition, records: Buffer | None, now_ms: int) -> None:
    """A replica here was sent a batch that another broker should have got, or this one in a moment."""
    if records is not None and len(records) >= HEADER_BYTES:
        note_refused(partition, read_header(records), now_ms)


def check_order(partition: Partition, header: BatchHeader, now_ms: int) -> None:
    """Let a batch pass that is the refused one again, comes before it, or is of a later epoch.

    Raises PeerError for one that would overtake it: NOT_ENOUGH_REPLICAS at first, then OUT_OF_ORDER_SEQUENCE_NUMBER.
    """
    held = partition.refused_sequences.get(header.producer_id)
    if held is None:
        return
    epoch, sequence, refused_ms = held
    if now_ms - refused_ms >= REMEMBERED_MS:
        del partition.refused_sequences[header.producer_id]
        return
    if header.producer_epoch != epoch or header.base_sequence == sequence:
        if header.producer_epoch >= epoch:
            del partition.refused_sequences[header.producer_id]
        return
    if _is_before(header.base_sequence, sequence):  # sent again, or on its way for longer: the log decides
        if not _is_before(header.last_sequence, sequence):
            del partition.refused_sequences[header.producer_id]
        return
    assert partition.log is not None
    last = partition.log.producers.last_sequence(header.producer_id, epoch)
    is_stored = last != NO_SEQUENCE and not _is_before(last, sequence)  # by another leader, or before it was sent again
    missing = (last + 1) & SEQUENCE_MAX
    if is_stored and not _is_before(missing, header.base_sequence):
        del partition.refused_sequences[header.producer_id]
        return
    words = f"sequence {header.base_sequence} came before {sequence}, which was refused"
    if is_stored:
        # what was refused behind it is missing
        words = f"sequence {header.base_sequence} came behind {sequence}, which was refused; {missing} is missing"
    if now_ms - refused_ms < AS_THE_FIRST_MS:
        raise PeerError(ErrorCode.not_enough_replicas, f"{words}; nothing was written")
    raise PeerError(ErrorCode.out_of_order_sequence_number, words)


def refusal_of(partition: Partition, header: BatchHeader, error: PeerError, now_ms: int) -> PeerError:
    """What is said of a batch that the log refuses: that a predecessor is missing only counts some time after an election.

    Until then it may be with the leader before, which does not know of the election or whose answer is on its way.
    """
    if error.error_code != ErrorCode.out_of_order_sequence_number:
        return error
    had_another = partition.leader_epoch > 0 and len(partition.replicas) > 1
    if not had_another or now_ms - partition.leads_since_ms >= AS_THE_FIRST_MS:
        return error
    assert partition.log is not None
    last = partition.log.producers.last_sequence(header.producer_id, header.producer_epoch)
    if last == NO_SEQUENCE or not _is_before(last, header.base_sequence):
        return error
    return PeerError(
        ErrorCode.not_enough_replicas, f"{error.message}, which the leader before may have; nothing was written"
    )


def tell_refused(broker: Broker, partition: Partition, records: Buffer | None, error: PeerError) -> None:
    """Write to the log whose sequence did not fit, and what it was told; for every other refusal nothing, nor for want of replicas.

    `producer-put-off` is sent again by the client itself. `producer-refused` makes it begin a new epoch, or give up: what
    it sends under that epoch is new to the log, also where another leader has it already.
    """
    if records is None or len(records) < HEADER_BYTES or error.error_code not in _SAYS_OF_A_SEQUENCE:
        return
    header = read_header(records)
    if header.producer_id == NO_PRODUCER_ID:
        return
    is_put_off = error.error_code == ErrorCode.not_enough_replicas
    if is_put_off and partition.is_under_min_isr:
        return
    fields: dict[str, object] = {
        "partition": str(partition.topic_partition),
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "sequence": header.base_sequence,
        "code": error.error_code.name,
        "reason": str(error),
    }
    event = "producer-put-off" if is_put_off else "producer-refused"
    broker.emit(Notice("info", event, fields, is_provoked=True))


def _is_before(one: int, other: int) -> bool:
    """Sequences begin again at 0 after 2**31 - 1."""
    return (one - other) & SEQUENCE_MAX > SEQUENCE_MAX // 2
