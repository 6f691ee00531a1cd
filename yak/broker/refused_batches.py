"""Deferred sequences: a batch that an idempotent producer must send again is not overtaken by its successors.

A producer has several batches under way. The first may be refused for a moment: the ISR is too small, the disk is full,
or the broker does not know yet that it leads. The second arrives when that is over. Kafka's behaviour then:
- A log that does not know the producer accepts the second batch, since any sequence may be the first (KIP-360). The
  first can never be written any more.
- A log that knows the producer answers OUT_OF_ORDER_SEQUENCE_NUMBER. librdkafka begins a new epoch for all partitions,
  and sends under it again what another leader may have stored already.

Here the successor gets a retriable error too. Nothing was written, and the client sends both again in order. The same
holds when the first batch waits at a fenced leader while its successor reaches the new one (`refusal_of`).

The first batch may be stored after all: by the leader, when a broker that did not lead refused it; or earlier, when its
answer was lost and a retry was refused. Then the log accepts the batch that follows it, and any other one is deferred.
A client may also have dropped the first batch: after `AS_THE_FIRST_MS` it gets OUT_OF_ORDER_SEQUENCE_NUMBER, whether
the log knows the producer or not, and begins a new epoch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from yak.core.events import Notice
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
"""Producers remembered for each partition; beyond it the oldest is dropped."""
AS_THE_FIRST_MS = 5_000
"""How long a successor is deferred; clients retry within a second."""
REMEMBERED_MS = 60_000
"""A deferred sequence expires after this time: its client has retried, and the records may have been deleted since."""
_SAYS_OF_A_SEQUENCE: Final = frozenset(
    {
        ErrorCode.out_of_order_sequence_number,
        ErrorCode.invalid_producer_epoch,
        ErrorCode.not_enough_replicas,
    }
)


def note_refused(partition: Partition, header: BatchHeader, now_ms: int) -> None:
    """Remember a batch that was refused for now. A producer's first one counts while it is retried."""
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
    """Remember a batch that was sent to a replica while it does not lead."""
    if records is not None and len(records) >= HEADER_BYTES:
        note_refused(partition, read_header(records), now_ms)


def check_order(partition: Partition, header: BatchHeader, now_ms: int) -> None:
    """Let a batch pass that is the deferred one, precedes it, or is of another epoch; the log decides about it.

    Also passes the batch that follows the stored ones. Raises PeerError for a batch that would overtake:
    NOT_ENOUGH_REPLICAS at first, OUT_OF_ORDER_SEQUENCE_NUMBER after `AS_THE_FIRST_MS`.
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
    if _is_before(header.base_sequence, sequence):  # a retry, or a late arrival: the log decides
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
        # the batches behind the deferred one are missing
        words = f"sequence {header.base_sequence} came behind {sequence}, which was refused; {missing} is missing"
    if now_ms - refused_ms < AS_THE_FIRST_MS:
        raise PeerError(ErrorCode.not_enough_replicas, f"{words}; nothing was written")
    raise PeerError(ErrorCode.out_of_order_sequence_number, words)


def refusal_of(partition: Partition, header: BatchHeader, error: PeerError, now_ms: int) -> PeerError:
    """The error for a batch that the log refuses: a missing predecessor is final only some time after an election.

    Until then the former leader may have it: it does not know of the election, or its answer is on its way.
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
    """Log a refusal for the sequence or producer epoch; no other refusal, and none for a lack of replicas.

    After `producer-put-off` the client retries by itself. After `producer-refused` it begins a new epoch or fails:
    batches of that epoch are new to the log, even if another leader has them already.
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
    """Sequences wrap to 0 after 2**31 - 1."""
    return (one - other) & SEQUENCE_MAX > SEQUENCE_MAX // 2
