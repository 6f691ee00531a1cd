"""Batches of idempotent producers that were refused only for now, so that none of their successors overtakes them.

A producer that the log does not know may begin at any sequence (KIP-360). With several batches under way the first could be refused
because the in-sync set is too small, and the third accepted a millisecond later: then the first two can never be written
any more. Kafka has that hole. Here the successor gets OUT_OF_ORDER_SEQUENCE_NUMBER, as from a log that knows the producer,
and the client sends all of them again in order.
"""

from __future__ import annotations

from yak.errors import ErrorCode, PeerError
from yak.protocol.record_batch import NO_PRODUCER_ID, BatchHeader
from yak.replication.partition import Partition

PRODUCERS_MAX = 1_000
"""Remembered for each partition; the oldest is forgotten."""


def note_refused(partition: Partition, header: BatchHeader) -> None:
    """A batch is refused for now; of several of one producer the first counts."""
    if header.producer_id == NO_PRODUCER_ID:
        return
    refused = partition.refused_sequences
    held = refused.get(header.producer_id)
    if held is None or header.producer_epoch > held[0]:
        refused[header.producer_id] = (header.producer_epoch, header.base_sequence)
        if len(refused) > PRODUCERS_MAX:
            del refused[next(iter(refused))]


def check_order(partition: Partition, header: BatchHeader) -> None:
    """Let a batch pass that is the refused one again, or of a later epoch.

    Raises PeerError(OUT_OF_ORDER_SEQUENCE_NUMBER) for one that would overtake it.
    """
    held = partition.refused_sequences.get(header.producer_id)
    if held is None:
        return
    log = partition.log
    if log is not None and log.producers.keeps_order_of(header.producer_id):
        # The log refuses who overtakes by itself, and knows the repeats of what came before the refused one.
        del partition.refused_sequences[header.producer_id]
        return
    epoch, sequence = held
    if header.producer_epoch == epoch and header.base_sequence != sequence:
        raise PeerError(
            ErrorCode.out_of_order_sequence_number,
            f"sequence {header.base_sequence} came before {sequence}, which was refused",
        )
    if header.producer_epoch >= epoch:
        del partition.refused_sequences[header.producer_id]
