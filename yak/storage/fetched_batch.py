"""The checks of a batch that a follower fetched, before it is appended with the leader's offsets and epochs."""

from yak.errors import ProtocolViolation
from yak.ids import FilePosition, LeaderEpoch, Offset
from yak.ports.disk import Buffer
from yak.protocol.control_batch import read_marker
from yak.protocol.record_batch import MAGIC_V2, BatchHeader, compute_crc


def check_fetched_batch(
    data: Buffer,
    at: FilePosition,
    header: BatchHeader,
    expected: Offset,
    epoch: LeaderEpoch,
    epoch_max: LeaderEpoch,
    *,
    may_have_gaps: bool,
) -> None:
    """Raise ProtocolViolation unless the batch at `at` follows offset `expected` and leader epoch `epoch`, and is whole.

    `epoch_max` is the epoch of the leader that sent it. A leader that compacts leaves gaps between offsets.
    """
    if header.magic != MAGIC_V2 or header.last_offset_delta < 0:
        raise ProtocolViolation(f"the leader sent a batch of message format {header.magic}")
    if header.base_offset < expected:
        raise ProtocolViolation(f"the leader sent offset {header.base_offset}, the log end offset is {expected}")
    if header.base_offset != expected and not may_have_gaps:
        raise ProtocolViolation(f"the leader skipped offsets {expected} to {header.base_offset - 1}")
    if header.partition_leader_epoch < epoch:
        raise ProtocolViolation(f"leader epoch {header.partition_leader_epoch} comes after {epoch}")
    if header.partition_leader_epoch > epoch_max:
        raise ProtocolViolation(
            f"leader epoch {header.partition_leader_epoch} is above the leader's own epoch {epoch_max}"
        )
    if compute_crc(data, at, header.size_bytes) != header.crc:
        raise ProtocolViolation(f"the CRC-32C of the batch at offset {header.base_offset} does not match its bytes")
    if header.is_control:
        read_marker(memoryview(data)[at : at + header.size_bytes])
