"""The brokers of a restore: which of them answered, and their registrations in the new incarnation."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from yak.cluster.image import BrokerInfo
from yak.cluster.records import BrokerState
from yak.cluster.restore_offer import LogEnd, Offer
from yak.cluster.restore_topics import TopicView
from yak.ids import BrokerEpoch, MetadataOffset, NodeId

JUMP = 1 << 20
"""How far offsets and producer ids jump: more than can be given out between two checks of the store."""

Member: TypeAlias = tuple[NodeId, BrokerEpoch]


@dataclass(slots=True, frozen=True)
class StoreBefore:
    """The store's own state when the restore began: nothing, or an old or another history."""

    offset: MetadataOffset = 0
    incarnation: int = 0
    brokers: Mapping[NodeId, tuple[BrokerEpoch, str]] = field(default_factory=dict)
    """Each broker's last registration and its boot id."""
    acted: Mapping[NodeId, BrokerEpoch] = field(default_factory=dict)
    """Each broker's newest registration that was in use; a broker that is missing may have used its last."""
    parents: tuple[str, ...] = ()
    """The ids of this incarnation and of those that it came from: brokers that know it may be missing."""

    def never_acted(self, offer: Offer) -> BrokerEpoch:
        """The offering broker's last registration if it was never unfenced and the offer knows all before it; else -1.

        A broker that was not unfenced acts on nothing. A broker that went on in a restored incarnation first had it on
        its disk.
        """
        epoch = self.brokers.get(offer.node_id, (-1, ""))[0]
        acted = self.acted.get(offer.node_id, epoch)
        return epoch if acted < epoch and acted <= offer.known_epoch else -1


def position(offer: Offer) -> tuple[int, MetadataOffset, NodeId]:
    """Sort key for offers, from the oldest image to the newest."""
    return offer.image.incarnation, offer.image.offset, -offer.node_id


def missing_brokers(offers: Sequence[Offer], before: StoreBefore) -> dict[NodeId, str]:
    """The known brokers that did not answer, or whose answer does not count, with the reason."""
    known: dict[NodeId, set[tuple[BrokerEpoch, str]]] = {n: {boot} for n, boot in before.brokers.items()}
    gone: dict[NodeId, BrokerEpoch] = {}
    for offer in offers:
        for node_id, broker in offer.image.brokers.items():
            known.setdefault(node_id, set()).add((broker.broker_epoch, broker.boot_id))
        for node_id, epoch in offer.image.unregistered.items():
            gone[node_id] = max(gone.get(node_id, 0), epoch)
    answered = {offer.node_id: offer for offer in offers}
    missing = {}
    for node_id in sorted(known):
        boots = known[node_id]
        epoch = max(boots)[0]
        mine = answered.get(node_id)
        if mine is None:
            if gone.get(node_id, -1) < epoch:
                missing[node_id] = "it did not answer"
            continue
        # Unknown registrations, as new as the newest known one, may have acted on records that it cannot report.
        idle = before.never_acted(mine)
        foreign = [
            each
            for each, boot_id in boots
            if each >= mine.known_epoch and each != idle and not mine.knows_boot(each, boot_id)
        ]
        if foreign:
            missing[node_id] = (
                f"its copy of the metadata goes up to its registration {mine.known_epoch}, but it registered as "
                f"{max(foreign)} in another boot"
            )
    return missing


class Brokers:
    """The brokers in the new incarnation; those that answered are already registered in it."""

    def __init__(self, offers: Sequence[Offer], missing: Mapping[NodeId, str], offset: MetadataOffset) -> None:
        self.answers = {offer.node_id: offer for offer in offers if offer.node_id not in missing}
        self.infos: dict[NodeId, BrokerInfo] = {}
        self.acted: dict[NodeId, BrokerEpoch] = {}
        self.unregistered: dict[NodeId, BrokerEpoch] = {}
        self.former: dict[NodeId, BrokerInfo] = {}
        known: dict[NodeId, BrokerInfo] = {}
        for offer in sorted(offers, key=position):
            for node_id, broker in offer.image.brokers.items():
                held = known.get(node_id)
                if held is None or broker.broker_epoch >= held.broker_epoch:
                    lossy_epoch = max(broker.lossy_epoch, 0 if held is None else held.lossy_epoch)
                    known[node_id] = replace(broker, lossy_epoch=lossy_epoch)
                else:
                    known[node_id] = replace(held, lossy_epoch=max(broker.lossy_epoch, held.lossy_epoch))
            for node_id, epoch in offer.image.unregistered.items():
                self.unregistered[node_id] = max(self.unregistered.get(node_id, 0), epoch)
            self.former |= offer.image.former
        for index, node_id in enumerate(sorted(known.keys() | self.answers.keys())):
            answer = self.answers.get(node_id)
            if answer is not None:
                # Each gets its own epoch, above all that were given out and below the start of the new history.
                self._register(answer, known.get(node_id), offset - JUMP // 2 + index)
            elif node_id in missing:
                broker = known[node_id]
                state = BrokerState.CLOSED if broker.state is BrokerState.CLOSED else BrokerState.FENCED
                self.infos[node_id] = replace(broker, state=state)
                self.acted[node_id] = broker.broker_epoch
        self.unregistered = {n: epoch for n, epoch in sorted(self.unregistered.items()) if n not in self.infos}
        self.former = {n: info for n, info in sorted(self.former.items()) if n in self.unregistered}

    def _register(self, offer: Offer, known: BrokerInfo | None, epoch: BrokerEpoch) -> None:
        node_id = offer.node_id
        lossy_epoch = 0 if known is None else known.lossy_epoch
        if offer.lossy or (offer.broker_epoch and lossy_epoch == offer.broker_epoch):
            # This very process may have lost data; its memberships since then are renewed with the epoch.
            lossy_epoch = epoch
        if known is not None and not offer.broker_epoch and set(known.directories) - set(offer.directories):
            lossy_epoch = epoch
        alive = known is not None and offer.broker_epoch != 0 and known.broker_epoch == offer.broker_epoch
        self.acted[node_id] = offer.known_epoch
        state = known.state if alive and known is not None else BrokerState.FENCED
        self.infos[node_id] = BrokerInfo(
            node_id=node_id,
            broker_epoch=epoch,
            boot_id=offer.boot_id,
            directories=offer.directories,
            host=offer.host,
            port=offer.port,
            rack=offer.rack,
            role=offer.role,
            state=state,
            lossy_epoch=lossy_epoch,
            was_active=state is not BrokerState.FENCED,
            http_port=offer.http_port,
        )

    def current(self, member: Member) -> Member | None:
        """A member under the offered broker epoch, with its new epoch; None for any other."""
        answer = self.answers.get(member[0])
        if answer is None or not answer.broker_epoch or member[1] != answer.broker_epoch:
            return None
        return member[0], self.infos[member[0]].broker_epoch

    def kept_all(self, member: Member) -> bool:
        """Whether a broker that answered still has all records that it had as this member."""
        return member[0] in self.answers and member[1] >= self.infos[member[0]].lossy_epoch

    def lost_log(self, node_id: NodeId, view: TopicView, number: int) -> bool:
        """Whether a broker that answered knows the partition's topic and has no log of it."""
        offer = self.answers.get(node_id)
        if offer is None or (view.topic_id, number) in offer.logs:
            return False
        image = offer.image
        return (
            view.topic_id in image.topic_names
            or view.topic_id in image.pending
            or view.topic_id in image.removed_topics
        )

    def logs(self, view: TopicView, number: int) -> dict[NodeId, LogEnd]:
        """The logs of a partition that brokers offered."""
        key = (view.topic_id, number)
        return {node_id: offer.logs[key] for node_id, offer in self.answers.items() if key in offer.logs}
