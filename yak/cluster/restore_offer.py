"""A broker's offer after the metadata store lost the history: all its state, as JSON in bounded chunks.

An offer is made while the metadata are frozen. Its image changes only if the broker joins another history, which makes
a new offer with another digest.
"""

import base64
import hashlib
import json
import uuid
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from yak.cluster.hash_chain import HashChainTail
from yak.cluster.image import Image
from yak.cluster.payload import BadRecord, Fields
from yak.cluster.records import Kind
from yak.cluster.snapshot import read_snapshot, write_snapshot
from yak.ids import BrokerEpoch, LeaderEpoch, NodeId, Offset
from yak.ports.metadata_store import TailedRecord

OFFER_VERSION = 0
CHUNK_CHARACTERS = 128 * 1024
"""Characters of an offer in one call: well under a millisecond of the store's time."""
OFFER_BYTES_MAX = 256 * 1024 * 1024
"""Limit for unpacking an offer: a million partitions take about as much."""


@dataclass(slots=True, frozen=True)
class LogEnd:
    """A broker's log. `last_epoch` is its newest leader epoch, -1 if empty; `leads`: the broker leads it now."""

    last_epoch: LeaderEpoch
    log_end_offset: Offset
    leads: bool = False


class LocalState(NamedTuple):
    """A broker's state besides its image: the logs that it can serve, and the hash chain tail of its newest records."""

    logs: Mapping[tuple[uuid.UUID, int], LogEnd]
    hash_chain: HashChainTail


@dataclass(slots=True, frozen=True)
class Offer:
    """One broker's offer. `logs` has every log that it can serve, by topic id and partition.

    `broker_epoch` is the current registration, 0 when there is none. `lossy` says that acknowledged data may be gone,
    as decided by the broker or by the store.
    """

    node_id: NodeId
    boot_id: str
    broker_epoch: BrokerEpoch
    lossy: bool
    directories: tuple[str, ...]
    host: str
    port: int
    rack: str | None
    role: str
    image: Image
    logs: Mapping[tuple[uuid.UUID, int], LogEnd] = field(default_factory=dict)
    hash_chain: HashChainTail = field(default_factory=HashChainTail)
    http_port: int = 0

    @property
    def known_epoch(self) -> BrokerEpoch:
        """The newest of its own registrations that the broker knows."""
        known = self.image.brokers.get(self.node_id)
        return max(self.broker_epoch, 0 if known is None else known.broker_epoch)

    def knows_registration(self, epoch: BrokerEpoch, boot_id: str) -> bool:
        """Whether a registration of this node is of the offering process, or in its image."""
        known = self.image.brokers.get(self.node_id)
        return boot_id == self.boot_id or (
            known is not None and (known.broker_epoch, known.boot_id) == (epoch, boot_id)
        )


@dataclass(slots=True, frozen=True)
class PackedOffer:
    """An offer in the form for the store: text chunks, their digest, and a header that needs no unpacking."""

    digest: str
    chunks: tuple[str, ...]
    header: dict[str, object]


def pack(offer: Offer) -> PackedOffer:
    """Encode the offer for the script `seed_offer`."""
    snapshot = write_snapshot(offer.image)
    document = {
        "version": OFFER_VERSION,
        "node_id": offer.node_id,
        "boot_id": offer.boot_id,
        "broker_epoch": offer.broker_epoch,
        "lossy": offer.lossy,
        "directories": ",".join(offer.directories),
        "host": offer.host,
        "port": offer.port,
        "rack": offer.rack,
        "role": offer.role,
        "http_port": offer.http_port,
        "offset": snapshot.offset,
        "hash": snapshot.chain_hash,
        "timestamp_ms": snapshot.timestamp_ms,
        "image": snapshot.payload,
        "trail": offer.hash_chain.to_text(),
        "logs": [
            [str(topic_id), partition, end.last_epoch, end.log_end_offset, int(end.leads)]
            for (topic_id, partition), end in sorted(offer.logs.items(), key=lambda item: (item[0][0].int, item[0][1]))
        ],
    }
    text = json.dumps(document, separators=(",", ":"))
    packed = base64.b64encode(zlib.compress(text.encode(), 6)).decode()
    chunks = tuple(packed[start : start + CHUNK_CHARACTERS] for start in range(0, len(packed), CHUNK_CHARACTERS))
    image = offer.image
    header: dict[str, object] = {
        "boot_id": offer.boot_id,
        "incarnation": image.incarnation,
        "offset": image.offset,
        "hash": image.chain_hash,
        "knows": {str(node_id): broker.broker_epoch for node_id, broker in sorted(image.brokers.items())},
        "unregistered": {str(node_id): epoch for node_id, epoch in sorted(image.unregistered.items())},
    }
    return PackedOffer(hashlib.sha1(packed.encode(), usedforsecurity=False).hexdigest(), chunks, header)


def unpack(chunks: Sequence[str]) -> Offer:
    """The reverse of `pack`. Raises BadRecord for a damaged offer, or a newer version."""
    try:
        unzip = zlib.decompressobj()
        text = unzip.decompress(base64.b64decode("".join(chunks), validate=True), OFFER_BYTES_MAX)
        if not unzip.eof:
            raise BadRecord("offer: it is truncated, or too large")
        document = json.loads(text)
    except (ValueError, zlib.error) as error:
        raise BadRecord(f"offer: it is damaged ({error})") from error
    f = Fields(document, "offer")
    if f.integer("version") > OFFER_VERSION:
        raise BadRecord(f"offer: version {f.integer('version')} is newer than {OFFER_VERSION}")
    directories = f.text("directories")
    payload = document.get("image")
    if not isinstance(payload, dict):
        raise BadRecord("offer: it has no image")
    try:
        hash_chain = HashChainTail.from_text(f.text("trail"))
    except ValueError as error:
        raise BadRecord("offer: its hash chain cannot be read") from error
    record = TailedRecord(f.integer("offset"), f.text("hash"), Kind.SNAPSHOT, f.integer("timestamp_ms"), payload)
    return Offer(
        node_id=f.integer("node_id"),
        boot_id=f.text("boot_id"),
        broker_epoch=f.integer("broker_epoch"),
        lossy=f.flag("lossy"),
        directories=tuple(directories.split(",")) if directories else (),
        host=f.text("host"),
        port=f.integer("port"),
        rack=f.optional_text("rack"),
        role=f.text("role"),
        image=read_snapshot(record),
        logs=_logs(document.get("logs")),
        hash_chain=hash_chain,
        http_port=f.integer("http_port") if f.has("http_port") else 0,
    )


def _logs(items: object) -> dict[tuple[uuid.UUID, int], LogEnd]:
    try:
        assert isinstance(items, list)
        return {
            (uuid.UUID(topic_id), int(partition)): LogEnd(int(last_epoch), int(end), bool(leads))
            for topic_id, partition, last_epoch, end, leads in items
        }
    except (AssertionError, ValueError, TypeError, AttributeError) as error:
        raise BadRecord("offer: its list of logs cannot be read") from error
