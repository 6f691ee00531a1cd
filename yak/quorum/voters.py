"""The voters of the quorum (Kafka's VoterSet.java): node ids, directory ids and addresses."""

from __future__ import annotations

import io
import re
import uuid
from dataclasses import dataclass
from typing import Final

from kio.schema.types import BrokerId
from kio.schema.voters_record.v0.data import Endpoint, KRaftVersionFeature, VotersRecord
from kio.schema.voters_record.v0.data import Voter as VoterData
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import i16, u16

from yak.errors import UsageError
from yak.ids import NodeId

LISTENER: Final = "PLAINTEXT"
KRAFT_VERSION: Final = 1
"""The version with directory ids and changes of the voters (KIP-853)."""
_NODE_ID: Final = re.compile("[0-9]{1,10}")
_PORT: Final = re.compile("[0-9]{1,5}")
_WRITE: Final = entity_writer(VotersRecord)
_READ: Final = entity_reader(VotersRecord)


@dataclass(slots=True, frozen=True)
class Voter:
    """One voter. `directory_id` is None until the voter reported it: then the node id alone identifies the voter."""

    node_id: NodeId
    host: str
    port: int
    directory_id: uuid.UUID | None = None

    def is_same(self, node_id: NodeId, directory_id: uuid.UUID | None) -> bool:
        """Whether this is that replica. A node whose disk was replaced has another directory id (KIP-853)."""
        return self.node_id == node_id and self.directory_id in (None, directory_id)


@dataclass(slots=True, frozen=True)
class VoterSet:
    """The voters, by node id."""

    voters: tuple[Voter, ...] = ()

    @classmethod
    def parse(cls, text: str) -> VoterSet:
        """Voters from `ID@HOST:PORT,...`, as in Kafka's controller.quorum.voters. Raises UsageError."""
        voters = []
        for part in filter(None, (piece.strip() for piece in text.split(","))):
            node_id, at, address = part.partition("@")
            host, colon, port = address.rpartition(":")
            host = host.removeprefix("[").removesuffix("]")
            is_number = _NODE_ID.fullmatch(node_id) and _PORT.fullmatch(port) and 0 < int(port) < 1 << 16
            if not (at and colon and host and is_number):
                raise UsageError(
                    "quorum-voters",
                    f"'{part}' is no voter of the metadata quorum",
                    why="a voter is ID@HOST:PORT",
                    try_=("--voters 1@host1:9092,2@host2:9092,3@host3:9092",),
                )
            voters.append(Voter(int(node_id), host, int(port)))
        if not voters or len({voter.node_id for voter in voters}) < len(voters):
            raise UsageError(
                "quorum-voters",
                f"'{text}' is no set of voters",
                why="it has no voter, or one node id twice",
                try_=("--voters 1@host1:9092,2@host2:9092,3@host3:9092",),
            )
        return cls.of(voters)

    @classmethod
    def of(cls, voters: list[Voter]) -> VoterSet:
        """A set, in the order of the node ids."""
        return cls(tuple(sorted(voters, key=lambda voter: voter.node_id)))

    @classmethod
    def decode(cls, value: bytes) -> VoterSet:
        """Decode a VotersRecord."""
        record, _size = _READ(value, 0)
        return cls.of(
            [
                Voter(each.voter_id, each.endpoints[0].host, each.endpoints[0].port, each.voter_directory_id)
                for each in record.voters
            ]
        )

    def encode(self) -> bytes:
        """The VotersRecord, version 0."""
        out = io.BytesIO()
        _WRITE(out, VotersRecord(version=i16(0), voters=tuple(map(_data_of, self.voters))))
        return out.getvalue()

    def get(self, node_id: NodeId) -> Voter | None:
        """The voter with this node id."""
        return next((voter for voter in self.voters if voter.node_id == node_id), None)

    def has(self, node_id: NodeId, directory_id: uuid.UUID | None) -> bool:
        """Whether this replica is a voter."""
        return any(voter.is_same(node_id, directory_id) for voter in self.voters)

    @property
    def node_ids(self) -> tuple[NodeId, ...]:
        """The node ids, ascending."""
        return tuple(voter.node_id for voter in self.voters)

    @property
    def majority(self) -> int:
        """How many voters decide."""
        return len(self.voters) // 2 + 1

    def with_voter(self, voter: Voter) -> VoterSet:
        """This set with `voter`, in place of the one with its node id."""
        return VoterSet.of([*(each for each in self.voters if each.node_id != voter.node_id), voter])

    def without(self, node_id: NodeId) -> VoterSet:
        """This set without a node."""
        return VoterSet.of([voter for voter in self.voters if voter.node_id != node_id])


def _data_of(voter: Voter) -> VoterData:
    return VoterData(
        voter_id=BrokerId(voter.node_id),
        voter_directory_id=voter.directory_id,
        endpoints=(Endpoint(name=LISTENER, host=voter.host, port=u16(voter.port)),),
        k_raft_version_feature=KRaftVersionFeature(
            min_supported_version=i16(0), max_supported_version=i16(KRAFT_VERSION)
        ),
    )
