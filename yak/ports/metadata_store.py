"""The port for the metadata store: Redis in `yak.server.redis_store`, in Python in `yak.metadata_store`.

Each mutating request is one atomic script in the store. It checks the caller and the caller's history, compares epochs,
makes the change, and appends one record to the metadata log under a hash chain. `tests/integration/store` runs the same
cases against both implementations.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from yak.ids import MetadataOffset, Nonce


@dataclass(slots=True, frozen=True)
class TailedRecord:
    """One record of the metadata log: its offset, chain hash (hex), kind, time in ms, and JSON payload as a dict.

    `previous_hash` is the chain hash of the record before it: with it a reader checks that a record continues its
    history. A record of kind `Snapshot` stands for all records up to its offset and follows any record.
    """

    offset: MetadataOffset
    chain_hash: str
    kind: str
    timestamp_ms: int
    payload: dict[str, object] = field(default_factory=dict)
    previous_hash: str = ""

    @classmethod
    def from_stream(cls, entry_id: str, fields: Mapping[str, str]) -> "TailedRecord":
        """Decode an entry of the store's stream."""
        return cls(
            offset=int(entry_id.split("-", 1)[0]),
            chain_hash=fields["h"],
            kind=fields["kind"],
            timestamp_ms=int(fields["t"]),
            payload=json.loads(fields["payload"]),
            previous_hash=fields["p"],
        )

    @classmethod
    def from_snapshot(cls, fields: Mapping[str, str]) -> "TailedRecord":
        """Decode the store's snapshot, which replaces the trimmed records."""
        payload = json.loads(fields["payload"])
        return cls(int(fields["offset"]), fields["h"], "Snapshot", int(fields["t"]), payload)


@dataclass(slots=True, frozen=True)
class StoreRequest:
    """One call: the script's name and its arguments by name (JSON values only).

    `arguments` also identify the caller: `cluster_id` and `incarnation_id` (empty when not known yet), `node_id`,
    `broker_epoch`, and for controller scripts `controller_epoch`. `known_offset` and `known_hash` are the newest record
    on the caller's disk: a store without it was rolled back (`REGRESSED`) or forked (`FORKED`).
    """

    script: str
    arguments: dict[str, object] = field(default_factory=dict)
    known_offset: MetadataOffset = 0
    known_hash: str = ""


@dataclass(slots=True, frozen=True)
class StoreOutcome:
    """A script's answer.

    `code` is `OK` or a refusal's name: NO_CLUSTER, WRONG_CLUSTER, WRONG_INCARNATION, SEEDING, MIGRATING (the metadata are
    being moved to another store), MOVED (the other store has them), REGRESSED, FORKED, TRIMMED, STALE_BROKER_EPOCH,
    FENCED_CONTROLLER, BAD_REQUEST, STORE_ERROR (the store itself refused: out of memory, read only), and codes of single
    scripts. `offset` and `chain_hash` are the log's end after the call. `value` is the
    script's own JSON answer.
    """

    code: str
    offset: MetadataOffset = 0
    chain_hash: str = ""
    value: dict[str, object] = field(default_factory=dict)


class MetadataStore(Protocol):
    """The store as the core calls it. Answers come as events: `StoreReplied`, `StoreLost`, `RecordsTailed`."""

    def call(self, nonce: Nonce, request: StoreRequest) -> None:
        """Send one call; exactly one answer follows."""

    def tail(self, after: MetadataOffset) -> None:
        """(Re)start tailing the metadata log after this offset."""
