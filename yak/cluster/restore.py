"""The plan by which an operator restores a metadata store that lost its history: the newest image that a broker offered.

Pure: offers in, plan out. A broker offers its image while the metadata are frozen, and acts on a record only after
the record is on its disk. So if all brokers offered,
and each image is the beginning of the newest one, the newest image has every record that any broker acted on. A later
record, which only the store had, had no effect. The plan names each broker for which this is not known: it may have
acted on newer records, and acknowledged records of clients that no other broker has.

The restored image is the newest one, as if all brokers had been fenced: no controller, no leaders, the next epochs. Each
broker registers again under a new epoch, and the controller elects leaders from ISR and ELR by the normal rules.
"""

import base64
import json
import uuid
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from yak.cluster.hash_chain import HashChainTail
from yak.cluster.image import BrokerInfo, Image, PartitionInfo, PendingTopic, TopicInfo
from yak.cluster.payload import BadRecord, Fields
from yak.cluster.records import NO_LEADER, BrokerState, Kind
from yak.cluster.snapshot import read_snapshot, write_snapshot
from yak.ids import BrokerEpoch, MetadataOffset, NodeId
from yak.ports.metadata_store import TailedRecord

OFFER_VERSION = 1
OFFER_BYTES_MAX = 256 * 1024 * 1024
"""Limit for unpacking an offer: a million partitions take about as much."""
LOST_EPOCH_JUMP = 1 << 10
"""How far leader epochs jump after an accepted loss: a broker that did not offer may have led in newer ones."""
JUMP = 1 << 20
"""How far offsets and producer ids jump: more than the store can have given out behind the newest image."""


@dataclass(slots=True, frozen=True)
class Offer:
    """One broker's offer: its image, and the hash chain tail of its newest records.

    `boot_id` and `broker_epoch` are those of the offering process; empty and 0 when it may have lost data, so that only
    its image has the registrations that it knows.
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
        """Whether a registration of this node is older than a known one, is in the image, or is this process's.

        One that is `JUMP` ahead of the image was made in an incarnation that an operator restored after this offer. The
        process has acted in it since: a store that went back to before that restore has an offer that no longer holds.
        """
        known = self.image.brokers.get(self.node_id)
        is_in_image = known is not None and (known.broker_epoch, known.boot_id) == (epoch, boot_id)
        is_own = boot_id == self.boot_id and epoch < self.image.offset + JUMP
        return epoch < self.known_epoch or is_in_image or is_own


def pack(offer: Offer) -> str:
    """Encode the offer for the script `seed_offer`, as compressed JSON."""
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


@dataclass(slots=True, frozen=True)
class StoreBefore:
    """The store's own state: nothing, or an old or another history."""

    offset: MetadataOffset = 0
    incarnation: int = 0
    brokers: Mapping[NodeId, tuple[BrokerEpoch, str]] = field(default_factory=dict)
    """Each broker's last registration: its broker epoch and its boot id."""


@dataclass(slots=True, frozen=True)
class RestorePlan:
    """The restored image, with the position (offset and chain hash) at which the new history begins."""

    image: Image
    newest: Offer
    """The offer that the image comes from."""
    unknown: Mapping[NodeId, str]
    """Brokers that may have acted on records which the image lacks, with the reason as text."""
    at_risk: tuple[tuple[str, int], ...]
    """Partitions with a replica on such a broker: acknowledged records may be lost."""
    took_part: Mapping[NodeId, tuple[MetadataOffset, str]]

    @property
    def is_safe(self) -> bool:
        """Whether the image has every record that any broker acted on."""
        return not self.unknown

    def arguments(self, offers_digest: str) -> dict[str, object]:
        """The arguments of the script `seed_commit`. `offers_digest` names the offers that the plan is from."""
        image = self.image
        return {
            "offers_digest": offers_digest,
            "incarnation": image.incarnation,
            "new_incarnation_id": image.incarnation_id,
            "offset": image.offset,
            "hash": image.chain_hash,
            "controller_epoch": image.controller_epoch,
            "next_producer_id": image.next_producer_id,
            "parents": ",".join(image.parents),
            "took_part": {str(node_id): list(position) for node_id, position in self.took_part.items()},
            "lost": len(self.at_risk),
            "snapshot": json.dumps(write_snapshot(image).payload, separators=(",", ":")),
        }


def plan_restore(offers: Sequence[Offer], before: StoreBefore, *, incarnation_id: str, now_ms: int) -> RestorePlan:
    """The plan for these offers (at least one), which does not depend on their order."""
    offers = sorted(offers, key=_position)
    newest = offers[-1]
    unknown = _other_histories(offers) | _missing_brokers(offers, before)
    at_risk = _partitions_on(newest.image, unknown)
    image = _restored(offers, before, incarnation_id, now_ms, epochs=LOST_EPOCH_JUMP if unknown else 1)
    took_part = {offer.node_id: (offer.image.offset, offer.image.chain_hash) for offer in offers}
    return RestorePlan(image, newest, dict(sorted(unknown.items())), at_risk, took_part)


def _position(offer: Offer) -> tuple[int, MetadataOffset, NodeId]:
    """Sort key for offers, from the oldest image to the newest."""
    return offer.image.incarnation, offer.image.offset, -offer.node_id


def _missing_brokers(offers: Sequence[Offer], before: StoreBefore) -> dict[NodeId, str]:
    """The registered brokers that did not offer, and those whose disk is older than their last registration.

    CLOSED ones are among them: such a broker may have been started again, and have led alone. Only an unregistered
    broker is not waited for.
    """
    known: dict[NodeId, set[tuple[BrokerEpoch, str]]] = {node_id: {last} for node_id, last in before.brokers.items()}
    gone: dict[NodeId, BrokerEpoch] = {}
    for offer in offers:
        for node_id, broker in offer.image.brokers.items():
            known.setdefault(node_id, set()).add((broker.broker_epoch, broker.boot_id))
        for node_id, epoch in offer.image.unregistered.items():
            gone[node_id] = max(gone.get(node_id, 0), epoch)
    answered = {offer.node_id: offer for offer in offers}
    missing = {}
    for node_id, registrations in known.items():
        mine = answered.get(node_id)
        if mine is None:
            if gone.get(node_id, -1) < max(registrations)[0]:
                missing[node_id] = "it did not answer"
            continue
        foreign = [epoch for epoch, boot_id in registrations if not mine.knows_registration(epoch, boot_id)]
        if foreign:
            since = "a later restore" if max(foreign) >= mine.image.offset + JUMP else "another start"
            missing[node_id] = (
                f"its copy of the metadata goes up to its registration {mine.known_epoch}, but it registered as "
                f"{max(foreign)} after {since}"
            )
    return missing


def _other_histories(offers: Sequence[Offer]) -> dict[NodeId, str]:
    """The brokers whose image is not the beginning of the newest one: they acted on another history, on another store.

    A broker that joined late or compacted its copy knows only the newest hashes; any tail of that history may have the
    rest. An image of an earlier incarnation counts as part of the history that was restored from it.
    """
    newest = offers[-1]
    others = {}
    tails = [newest.hash_chain]
    for offer in reversed(offers):
        image = offer.image
        if image.incarnation_id in newest.image.parents:
            continue
        is_same = image.offset == newest.image.offset and image.chain_hash == newest.image.chain_hash
        is_ours = image.incarnation_id == newest.image.incarnation_id
        if is_ours and (is_same or any(tail.holds(image.offset, image.chain_hash) for tail in tails)):
            tails.append(offer.hash_chain)
        else:
            others[offer.node_id] = (
                f"its metadata up to record {image.offset} of incarnation {image.incarnation} are not known to be the "
                f"beginning of those that broker {newest.node_id} has up to {newest.image.offset}"
            )
    return others


def _partitions_on(image: Image, nodes: Mapping[NodeId, str]) -> tuple[tuple[str, int], ...]:
    return tuple(
        (topic.name, info.partition)
        for topic in image.topics.values()
        for info in topic.partitions
        if nodes.keys() & set(info.replicas)
    )


def _restored(offers: Sequence[Offer], before: StoreBefore, incarnation_id: str, now_ms: int, *, epochs: int) -> Image:
    """The newest image at the start of a new incarnation."""
    newest = offers[-1].image
    topics = {name: _without_leaders(topic, epochs, now_ms) for name, topic in newest.topics.items()}
    pending: dict[uuid.UUID, PendingTopic] = {}
    for topic_id, growing in newest.pending.items():
        partitions = {number: _without_leader(info, epochs, now_ms) for number, info in growing.partitions.items()}
        pending[topic_id] = replace(growing, partitions=partitions)
    # in the order of the offers: the incarnations whose brokers belong to the new one, also those that come back later
    parents = dict.fromkeys(each for offer in offers for each in (*offer.image.parents, offer.image.incarnation_id))
    return replace(
        newest,
        incarnation=max(before.incarnation, newest.incarnation) + 1,
        incarnation_id=incarnation_id,
        controller_id=-1,
        controller_epoch=max(offer.image.controller_epoch for offer in offers) + 1,
        controller_broker_epoch=0,
        brokers={node_id: _fenced(broker, now_ms) for node_id, broker in newest.brokers.items()},
        topics=topics,
        pending=pending,
        next_producer_id=max(offer.image.next_producer_id for offer in offers) + JUMP,
        parents=tuple(parents),
        incarnation_ms=now_ms,
        offset=max(before.offset, *(offer.image.offset for offer in offers), 0) + JUMP,
        chain_hash=incarnation_id,
        timestamp_ms=now_ms,
    )


def _fenced(broker: BrokerInfo, now_ms: int) -> BrokerInfo:
    if broker.state in (BrokerState.CLOSED, BrokerState.FENCED):
        return broker
    return replace(broker, state=BrokerState.FENCED, was_active=True, changed_ms=now_ms)


def _without_leaders(topic: TopicInfo, epochs: int, now_ms: int) -> TopicInfo:
    return replace(topic, partitions=tuple(_without_leader(info, epochs, now_ms) for info in topic.partitions))


def _without_leader(info: PartitionInfo, epochs: int, now_ms: int) -> PartitionInfo:
    return replace(
        info,
        leader=NO_LEADER,
        leader_epoch=info.leader_epoch + epochs,
        partition_epoch=info.partition_epoch + epochs,
        changed_ms=now_ms,
    )
