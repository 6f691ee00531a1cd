"""The messages of Kafka 4.4 that kio 0.6 does not have, in the form of kio's classes.

A class without changes in 4.4 stands for its new version too. `yak.protocol.schemas` imports this module when it needs
it.
"""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from kio.schema.api_versions.v4 import request as api_versions_request
from kio.schema.api_versions.v4 import response as api_versions_response
from kio.schema.delete_groups.v2 import request as delete_groups_request
from kio.schema.delete_groups.v2 import response as delete_groups_response
from kio.schema.txn_offset_commit.v5 import request as txn_offset_commit_request
from kio.schema.txn_offset_commit.v5 import response as txn_offset_commit_response
from kio.static.constants import EntityType
from kio.static.primitive import i16, i32


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiVersionsRequest(api_versions_request.ApiVersionsRequest):
    """v5: the cluster and the broker that the client wants to reach (KIP-1242)."""

    __version__: ClassVar[i16] = i16(5)
    cluster_id: str | None = field(metadata={"kafka_type": "string"}, default=None)
    node_id: i32 = field(metadata={"kafka_type": "int32"}, default=i32(-1))


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletableGroupResult(delete_groups_response.DeletableGroupResult):
    """v3: with an error message."""

    __version__: ClassVar[i16] = i16(3)
    error_message: str | None = field(metadata={"kafka_type": "string"}, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteGroupsResponse(delete_groups_response.DeleteGroupsResponse):
    """v3."""

    __version__: ClassVar[i16] = i16(3)
    results: tuple[DeletableGroupResult, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TxnOffsetCommitRequestTopic:
    """v6: a topic by its id (KIP-1319)."""

    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[i16] = i16(6)
    __flexible__: ClassVar[bool] = True
    topic_id: uuid.UUID | None = field(metadata={"kafka_type": "uuid"})
    partitions: tuple[txn_offset_commit_request.TxnOffsetCommitRequestPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TxnOffsetCommitRequest(txn_offset_commit_request.TxnOffsetCommitRequest):
    """v6."""

    __version__: ClassVar[i16] = i16(6)
    topics: tuple[TxnOffsetCommitRequestTopic, ...]  # type: ignore[assignment]


@dataclass(frozen=True, slots=True, kw_only=True)
class TxnOffsetCommitResponseTopic:
    """v6: a topic by its id."""

    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[i16] = i16(6)
    __flexible__: ClassVar[bool] = True
    topic_id: uuid.UUID | None = field(metadata={"kafka_type": "uuid"})
    partitions: tuple[txn_offset_commit_response.TxnOffsetCommitResponsePartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TxnOffsetCommitResponse(txn_offset_commit_response.TxnOffsetCommitResponse):
    """v6."""

    __version__: ClassVar[i16] = i16(6)
    topics: tuple[TxnOffsetCommitResponseTopic, ...]  # type: ignore[assignment]


REQUESTS: Final[Mapping[int, Any]] = {
    18: ApiVersionsRequest,
    28: TxnOffsetCommitRequest,
    42: delete_groups_request.DeleteGroupsRequest,
}
"""By API key; the responses likewise."""
RESPONSES: Final[Mapping[int, Any]] = {
    18: api_versions_response.ApiVersionsResponse,
    28: TxnOffsetCommitResponse,
    42: DeleteGroupsResponse,
}
