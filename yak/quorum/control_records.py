"""Control records of the quorum's log and snapshots (Kafka's ControlRecordType.java): new leaders, voters, snapshot ends."""

from __future__ import annotations

import io
import struct
import uuid
from collections.abc import Iterable
from enum import IntEnum
from typing import Any, Final

from kio.schema.k_raft_version_record.v0.data import KRaftVersionRecord
from kio.schema.leader_change_message.v1.data import LeaderChangeMessage
from kio.schema.leader_change_message.v1.data import Voter as ChangeVoter
from kio.schema.snapshot_footer_record.v0.data import SnapshotFooterRecord
from kio.schema.snapshot_header_record.v0.data import SnapshotHeaderRecord
from kio.schema.types import BrokerId
from kio.serial import entity_writer
from kio.static.primitive import i16, i32, i64

from yak.errors import ProtocolViolation
from yak.ids import NodeId
from yak.protocol.record_batch import CONTROL_BIT, Buffer
from yak.protocol.record_walk import walk_records
from yak.protocol.record_writer import build_batch
from yak.quorum.voters import KRAFT_VERSION, Voter, VoterSet

_KEY: Final = struct.Struct(">hh")


class ControlType(IntEnum):
    """The types of the key."""

    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


def leader_change(leader_id: NodeId, voters: VoterSet, granted: Iterable[NodeId], now_ms: int) -> bytes:
    """The first batch of each epoch: its leader, the voters, and those that voted for it."""
    granting = set(granted)
    message = LeaderChangeMessage(
        version=i16(1),
        leader_id=BrokerId(leader_id),
        voters=tuple(map(_change_voter, voters.voters)),
        granting_voters=tuple(_change_voter(voter) for voter in voters.voters if voter.node_id in granting),
    )
    return _batch([(ControlType.LEADER_CHANGE, _encoded(LeaderChangeMessage, message))], now_ms)


def voters_change(voters: VoterSet, now_ms: int) -> bytes:
    """The batch that changes the voters."""
    return _batch([(ControlType.KRAFT_VOTERS, voters.encode())], now_ms)


def snapshot_header(last_timestamp_ms: int, voters: VoterSet) -> bytes:
    """The first batch of a snapshot, with the voters (KIP-630, KIP-853)."""
    header = SnapshotHeaderRecord(version=i16(0), last_contained_log_timestamp=i64(last_timestamp_ms))
    version = KRaftVersionRecord(version=i16(0), k_raft_version=i16(KRAFT_VERSION))
    records = [
        (ControlType.SNAPSHOT_HEADER, _encoded(SnapshotHeaderRecord, header)),
        (ControlType.KRAFT_VERSION, _encoded(KRaftVersionRecord, version)),
        (ControlType.KRAFT_VOTERS, voters.encode()),
    ]
    return _batch(records, last_timestamp_ms)


def snapshot_footer(last_timestamp_ms: int) -> bytes:
    """The last batch of a snapshot: without it the file is incomplete."""
    footer = _encoded(SnapshotFooterRecord, SnapshotFooterRecord(version=i16(0)))
    return _batch([(ControlType.SNAPSHOT_FOOTER, footer)], last_timestamp_ms)


def read_control(batch: Buffer) -> list[tuple[int, bytes]]:
    """(type, value) of each record of a control batch. Raises ProtocolViolation."""
    found = []
    for record in walk_records(batch):
        if record.key is None or record.value is None or len(record.key) < _KEY.size:
            raise ProtocolViolation("a control record without a key and a value")
        found.append((_KEY.unpack_from(record.key)[1], bytes(record.value)))
    return found


def _batch(records: list[tuple[ControlType, bytes]], now_ms: int) -> bytes:
    return build_batch([(_KEY.pack(0, kind), value) for kind, value in records], now_ms, attributes=CONTROL_BIT)


def _encoded(kind: Any, message: Any) -> bytes:
    out = io.BytesIO()
    entity_writer(kind)(out, message)
    return out.getvalue()


def _change_voter(voter: Voter) -> ChangeVoter:
    return ChangeVoter(voter_id=i32(voter.node_id), voter_directory_id=voter.directory_id or uuid.UUID(int=0))
