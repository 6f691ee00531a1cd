"""A broker's offer after the metadata store lost the history: its image, as compressed JSON.

An offer is made while the metadata are frozen, so it has every record that the broker acted on.
"""

import base64
import json
import zlib
from dataclasses import dataclass, field

from yak.cluster.hash_chain import HashChainTail
from yak.cluster.image import Image
from yak.cluster.payload import BadRecord, Fields
from yak.cluster.records import Kind
from yak.cluster.snapshot import read_snapshot, write_snapshot
from yak.ids import BrokerEpoch, NodeId
from yak.ports.metadata_store import TailedRecord

OFFER_VERSION = 1
OFFER_BYTES_MAX = 256 * 1024 * 1024
"""Limit for unpacking an offer: a million partitions take about as much."""


@dataclass(slots=True, frozen=True)
class Offer:
    """One broker's offer: its image, and the hash chain tail of its newest records.

    `boot_id` and `broker_epoch` are those of the offering process; empty and 0 when it may have lost data, so that only
    its image tells which registrations it knows.
    """

    node_id: NodeId
    boot_id: str
    broker_epoch: BrokerEpoch
    image: Image
    hash_chain: HashChainTail = field(default_factory=HashChainTail)

    @property
    def known_epoch(self) -> BrokerEpoch:
        """The newest of its own registrations that the broker knows."""
        known = self.image.brokers.get(self.node_id)
        return max(self.broker_epoch, 0 if known is None else known.broker_epoch)

    def knows_registration(self, epoch: BrokerEpoch, boot_id: str) -> bool:
        """Whether a registration of this node is older than a known one, is in the image, or is this process's."""
        known = self.image.brokers.get(self.node_id)
        is_in_image = known is not None and (known.broker_epoch, known.boot_id) == (epoch, boot_id)
        return epoch < self.known_epoch or is_in_image or boot_id == self.boot_id


def pack(offer: Offer) -> str:
    """Encode the offer for the script `seed_offer`."""
    snapshot = write_snapshot(offer.image)
    document = {
        "version": OFFER_VERSION,
        "node_id": offer.node_id,
        "boot_id": offer.boot_id,
        "broker_epoch": offer.broker_epoch,
        "offset": snapshot.offset,
        "hash": snapshot.chain_hash,
        "timestamp_ms": snapshot.timestamp_ms,
        "image": snapshot.payload,
        "trail": offer.hash_chain.to_text(),
    }
    text = json.dumps(document, separators=(",", ":"))
    return base64.b64encode(zlib.compress(text.encode(), 6)).decode()


def unpack(packed: str) -> Offer:
    """The reverse of `pack`. Raises BadRecord for a damaged offer, or a newer version."""
    try:
        unzip = zlib.decompressobj()
        text = unzip.decompress(base64.b64decode(packed, validate=True), OFFER_BYTES_MAX)
        if not unzip.eof:
            raise BadRecord("offer: it is truncated, or too large")
        document = json.loads(text)
    except (ValueError, zlib.error) as error:
        raise BadRecord(f"offer: it is damaged ({error})") from error
    f = Fields(document, "offer")
    if f.integer("version") > OFFER_VERSION:
        raise BadRecord(f"offer: version {f.integer('version')} is newer than {OFFER_VERSION}")
    payload = document.get("image")
    if not isinstance(payload, dict):
        raise BadRecord("offer: it has no image")
    try:
        hash_chain = HashChainTail.from_text(f.text("trail"))
    except ValueError as error:
        raise BadRecord("offer: its hash chain cannot be read") from error
    record = TailedRecord(f.integer("offset"), f.text("hash"), Kind.SNAPSHOT, f.integer("timestamp_ms"), payload)
    return Offer(f.integer("node_id"), f.text("boot_id"), f.integer("broker_epoch"), read_snapshot(record), hash_chain)
