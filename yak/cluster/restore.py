"""Merges the brokers' offers into a new state of the cluster, after the metadata store lost its history.

Pure: offers in, plan out. The rules are those of design C (reliability rules 4.8, ADR 0010):

- Each partition gets the newest state of any image, by (leader epoch, partition epoch). Different content under the
  same epochs is a conflict, which only an operator can settle.
- An ISR or ELR member counts when its broker answered and has lost nothing since; otherwise it is dropped. A broker's
  own report on its disk outranks an older image.
- A partition is LIVE, so that leaders can be elected, when all brokers that may have acted on it answered: its replicas
  in any image. Any other is QUARANTINED: its current leader goes on and nothing changes. A broker that did not answer
  may have led it alone and acknowledged records that no other broker has.
- A topic is deleted only if an image newer than all that still have it saw its deletion.
- Offsets, epochs and producer ids jump past all that may have been given out.

A broker whose metadata is from before its own newest registration counts as not answering: it cannot know what it acted
on. Its offer counts only if the store knows that the broker was never unfenced under that registration.
"""

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import NamedTuple, TypeAlias

from yak.cluster.image import (
    BrokerInfo,
    Image,
    PartitionInfo,
    PendingTopic,
    RemovedTopic,
    TopicInfo,
)
from yak.cluster.records import NO_LEADER, BrokerState
from yak.cluster.restore_offer import LogEnd, Offer
from yak.ids import BrokerEpoch, LeaderEpoch, MetadataOffset, NodeId

LOST_EPOCH_JUMP = 1 << 10
"""How far leader epochs jump after an accepted loss: a broker that did not answer may have led in newer ones."""
MIN_ISR = "min.insync.replicas"
JUMP = 1 << 20
"""How far offsets and producer ids jump: more than can be given out between two checks of the store."""

Member: TypeAlias = tuple[NodeId, BrokerEpoch]
Rank: TypeAlias = tuple[int, int, int]
"""(incarnation, leader epoch, partition epoch). A quarantined state ranks with the incarnation it is from."""


# ------------------------------------------------------------------------------------------------- topics


class State(NamedTuple):
    """A partition's state in one image."""

    rank: Rank
    info: PartitionInfo


@dataclass(slots=True)
class TopicView:
    """A topic in all images that have it; `name` comes from the first and `configs` from the newest of them."""

    name: str
    topic_id: uuid.UUID
    configs: Mapping[str, str]
    complete: int = 0
    """Its number of partitions when it was last complete, 0 for never."""
    total: int = 0
    """Its target number of partitions."""
    states: dict[int, list[State]] = field(default_factory=dict)
    """The states of each partition, oldest image first."""

    def add(self, image: Image, partitions: Mapping[int, PartitionInfo]) -> None:
        """Add the states of one more image."""
        for number, info in partitions.items():
            rank = (info.quarantined or image.incarnation, info.leader_epoch, info.partition_epoch)
            self.states.setdefault(number, []).append(State(rank, info))

    def best(self, number: int) -> tuple[State, str]:
        """The newest state, and text for a conflict: another state with the same epochs."""
        states = self.states[number]
        best = max(reversed(states), key=lambda state: (state.rank, state.info.quarantined))
        rivals = [state for state in states if state.rank == best.rank and not _agree(best.info, state.info)]
        if not rivals:
            return best, ""
        epochs = f"leader epoch {best.info.leader_epoch}, partition epoch {best.info.partition_epoch}"
        return best, f"brokers know different states of it in {epochs}"

    def built(self, made: Mapping[int, PartitionInfo]) -> tuple[TopicInfo | None, PendingTopic | None]:
        """The complete part of the topic, and its pending part."""
        whole = next(number for number in range(len(made) + 1) if number not in made)
        complete, pending = None, None
        if self.complete or whole >= self.total:
            ready = whole if whole >= self.total else min(self.complete, whole)
            partitions = tuple(made[number] for number in range(ready))
            complete = TopicInfo(self.name, self.topic_id, partitions, self.configs)
        if whole < self.total:
            pending = PendingTopic(self.name, self.topic_id, self.total, dict(made), self.configs)
        return complete, pending


def merge_topics(images: Sequence[Image]) -> tuple[list[TopicView], list[str]]:
    """The remaining topics by name, and text for each name that two topics share.

    `images` go from the oldest to the newest. A topic that an image saw deleted is gone, unless a newer image has it.
    """
    views: dict[uuid.UUID, TopicView] = {}
    seen_in: dict[uuid.UUID, int] = {}
    removed_in: dict[uuid.UUID, int] = {}
    for index, image in enumerate(images):
        for topic in image.topics.values():
            view = _view(views, topic)
            view.complete = max(view.complete, len(topic.partitions))
            view.total = max(view.total, len(topic.partitions))
            pending = image.pending.get(topic.topic_id)
            more = {} if pending is None else dict(pending.partitions)
            view.add(image, more | {info.partition: info for info in topic.partitions})
            seen_in[topic.topic_id] = index
        for growing in image.pending.values():
            view = _view(views, growing)
            view.total = max(view.total, growing.total)
            if growing.topic_id not in image.topic_names:
                view.add(image, growing.partitions)
            seen_in[growing.topic_id] = index
        removed_in |= dict.fromkeys(image.removed_topics, index)
    left = [view for topic_id, view in views.items() if removed_in.get(topic_id, -1) < seen_in[topic_id]]
    by_name: dict[str, TopicView] = {}
    clashes = []
    for view in sorted(left, key=lambda view: seen_in[view.topic_id]):
        other = by_name.get(view.name)
        if other is not None:
            clashes.append(
                f"two topics are called {view.name}: {other.topic_id} and, in a newer image, {view.topic_id}"
            )
        by_name[view.name] = view
    return [by_name[name] for name in sorted(by_name)], clashes


def _view(views: dict[uuid.UUID, TopicView], topic: TopicInfo | PendingTopic) -> TopicView:
    view = views.get(topic.topic_id)
    if view is None:
        view = views[topic.topic_id] = TopicView(topic.name, topic.topic_id, topic.configs)
    view.configs = topic.configs
    return view


def _agree(best: PartitionInfo, other: PartitionInfo) -> bool:
    """Whether two states with the same epochs agree.

    A quarantined state has newer broker epochs, lacks members that lost data, and lacks a leader that did not report to
    lead.
    """
    if not _same(best, other, "replicas", "adding_replicas", "removing_replicas"):
        return False
    if best.quarantined:
        return set(best.isr) <= set(other.isr) and set(best.elr) <= set(other.elr)
    members = sorted(best.isr_members) == sorted(other.isr_members)
    return members and sorted(best.elr_members) == sorted(other.elr_members) and best.leader == other.leader


def _same(one: PartitionInfo, other: PartitionInfo, *names: str) -> bool:
    return all(getattr(one, name) == getattr(other, name) for name in names)


# ------------------------------------------------------------------------------------------------ brokers


@dataclass(slots=True, frozen=True)
class StoreBefore:
    """The store's own state when the restore began: nothing, or an old or another history."""

    offset: MetadataOffset = 0
    incarnation: int = 0
    brokers: Mapping[NodeId, tuple[BrokerEpoch, str]] = field(default_factory=dict)
    """Each broker's last registration: its broker epoch and its boot id."""
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
    known: dict[NodeId, set[tuple[BrokerEpoch, str]]] = {n: {last} for n, last in before.brokers.items()}
    gone: dict[NodeId, BrokerEpoch] = {}
    for offer in offers:
        for node_id, broker in offer.image.brokers.items():
            known.setdefault(node_id, set()).add((broker.broker_epoch, broker.boot_id))
        for node_id, epoch in offer.image.unregistered.items():
            gone[node_id] = max(gone.get(node_id, 0), epoch)
    answered = {offer.node_id: offer for offer in offers}
    missing = {}
    for node_id in sorted(known):
        registrations = known[node_id]
        epoch = max(registrations)[0]
        mine = answered.get(node_id)
        if mine is None:
            if gone.get(node_id, -1) < epoch:
                missing[node_id] = "it did not answer"
            continue
        # Unknown registrations, as new as the newest known one, may have acted on records that it cannot report.
        idle = before.never_acted(mine)
        foreign = [
            each
            for each, boot_id in registrations
            if each >= mine.known_epoch and each != idle and not mine.knows_registration(each, boot_id)
        ]
        if foreign:
            missing[node_id] = (
                f"its copy of the metadata goes up to its registration {mine.known_epoch}, but it registered as "
                f"{max(foreign)} after another start"
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
                present = known.get(node_id)
                if present is None or broker.broker_epoch >= present.broker_epoch:
                    lossy_epoch = max(broker.lossy_epoch, 0 if present is None else present.lossy_epoch)
                    known[node_id] = replace(broker, lossy_epoch=lossy_epoch)
                else:
                    known[node_id] = replace(present, lossy_epoch=max(broker.lossy_epoch, present.lossy_epoch))
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
            # This very process may have lost data; its ISR memberships since then are renewed with the epoch.
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


# --------------------------------------------------------------------------------------------------- plan


class Fate(StrEnum):
    """The result of a restore for a partition."""

    LIVE = "LIVE"
    QUARANTINED = "HELD"


@dataclass(slots=True, frozen=True)
class PartitionFate:
    """One partition's result. `waits_for` are brokers that may know more; `lost` says that a loss is accepted."""

    topic: str
    partition: int
    fate: Fate
    leader: NodeId
    isr: tuple[NodeId, ...]
    waits_for: tuple[NodeId, ...] = ()
    conflict: str = ""
    lost: bool = False

    @property
    def reason(self) -> str:
        """The reasons that block LIVE, as text; empty without any."""
        parts = []
        if self.waits_for:
            nodes = ", ".join(map(str, self.waits_for))
            parts.append(f"broker {nodes} may have acted on it and did not answer")
        if self.conflict:
            parts.append(self.conflict)
        return "; ".join(parts)


@dataclass(slots=True, frozen=True)
class Plan:
    """The result of a restore. `image` has the position (offset and chain hash) at which the new history begins."""

    image: Image
    fates: tuple[PartitionFate, ...]
    missing: Mapping[NodeId, str]
    """Known brokers that did not answer, with the reason as text."""
    conflicts: tuple[str, ...]
    """Conflicts that concern more than one partition."""
    acted: Mapping[NodeId, BrokerEpoch]
    """The newest registration that each broker must know to have kept its disk."""
    took_part: Mapping[NodeId, tuple[MetadataOffset, str]]
    accepts_loss: bool = False

    @property
    def quarantined(self) -> tuple[PartitionFate, ...]:
        """The quarantined partitions."""
        return tuple(fate for fate in self.fates if fate.fate is Fate.QUARANTINED)

    @property
    def lost(self) -> tuple[PartitionFate, ...]:
        """The partitions that go on although records may be missing."""
        return tuple(fate for fate in self.fates if fate.lost)

    @property
    def quarantined_for(self) -> tuple[NodeId, ...]:
        """The brokers whose answers would release quarantined partitions."""
        return tuple(sorted({node_id for fate in self.quarantined for node_id in fate.waits_for}))

    @property
    def is_automatic(self) -> bool:
        """Whether the plan needs no consent: no broker, conflict, quarantined partition or loss is left open."""
        return not self.missing and not self.conflicts and not self.quarantined and not self.lost


def merge(
    offers: Sequence[Offer], before: StoreBefore, *, incarnation_id: str, now_ms: int, accept_loss: bool = False
) -> Plan:
    """The plan for these offers (at least one), which does not depend on their order."""
    offers = sorted(offers, key=lambda offer: offer.node_id)
    newest = max(offers, key=position)
    incarnation = max(before.incarnation, newest.image.incarnation) + 1
    offset = max(before.offset, newest.image.offset, *(offer.image.offset for offer in offers)) + JUMP
    missing = missing_brokers(offers, before)
    brokers = Brokers(offers, missing, offset)
    topics, clashes = merge_topics([offer.image for offer in sorted(offers, key=position)])
    fates, names, pending = [], {}, {}
    for view in topics:
        made = {}
        for number in sorted(view.states):
            info, fate = _partition(view, number, brokers, newest.image, accept_loss=accept_loss)
            made[number] = replace(info, changed_ms=now_ms)
            fates.append(fate)
        complete, rest = view.built(made)
        if complete is not None:
            names[view.name] = complete
        if rest is not None:
            pending[view.topic_id] = rest
    image = replace(
        newest.image,
        incarnation=incarnation,
        incarnation_id=incarnation_id,
        controller_id=-1,
        controller_epoch=max(offer.image.controller_epoch for offer in offers) + 1,
        controller_broker_epoch=0,
        brokers={node_id: replace(info, changed_ms=now_ms) for node_id, info in brokers.infos.items()},
        topics=names,
        topic_names={topic.topic_id: name for name, topic in names.items()},
        pending=pending,
        next_producer_id=max(offer.image.next_producer_id for offer in offers) + JUMP,
        parents=_parents(offers, before),
        removed_topics=_removed(offers, [view.topic_id for view in topics]),
        unregistered=brokers.unregistered,
        former=brokers.former,
        incarnation_ms=now_ms,
        offset=offset,
        chain_hash=incarnation_id,
        timestamp_ms=now_ms,
    )
    took_part = {o.node_id: (o.image.offset, o.image.chain_hash) for o in offers}
    conflicts = (*_rival_incarnations(offers), *_forks(offers, newest), *clashes)
    return Plan(image, tuple(fates), missing, conflicts, brokers.acted, took_part, accept_loss)


def _parents(offers: Sequence[Offer], before: StoreBefore) -> tuple[str, ...]:
    """The incarnations whose brokers belong to the new one, also those that are missing and come back later."""
    parents = dict.fromkeys(before.parents)
    for offer in sorted(offers, key=position):
        parents |= dict.fromkeys((*offer.image.parents, offer.image.incarnation_id))
    return tuple(parents)


def _rival_incarnations(offers: Sequence[Offer]) -> list[str]:
    """One incarnation number must have one id, else two restores took place."""
    ids: dict[int, set[str]] = {}
    for offer in offers:
        ids.setdefault(offer.image.incarnation, set()).add(offer.image.incarnation_id)
    return [
        f"incarnation {number} of the cluster began {len(found)} times: it was restored on two stores"
        for number, found in sorted(ids.items())
        if len(found) > 1
    ]


def _forks(offers: Sequence[Offer], newest: Offer) -> list[str]:
    """Every image must be a prefix of the newest one's history, else brokers acted on two histories, on two stores.

    A broker that joined late or compacted its copy knows only the newest records; any tail of that history may have
    the rest.
    """
    forks = []
    tails = [newest.hash_chain]
    for offer in sorted(offers, key=lambda each: -each.image.offset):
        image = offer.image
        if image.incarnation_id != newest.image.incarnation_id or offer is newest:
            continue
        same = image.offset == newest.image.offset and image.chain_hash == newest.image.chain_hash
        if same or any(tail.holds(image.offset, image.chain_hash) for tail in tails):
            tails.append(offer.hash_chain)
        else:
            forks.append(
                f"broker {offer.node_id} has metadata up to record {image.offset} that are not known to be the beginning "
                f"of those that broker {newest.node_id} has up to {newest.image.offset}"
            )
    return forks


def _removed(offers: Sequence[Offer], kept: Iterable[uuid.UUID]) -> dict[uuid.UUID, RemovedTopic]:
    removed: dict[uuid.UUID, RemovedTopic] = {}
    for offer in sorted(offers, key=position):
        removed |= offer.image.removed_topics
    for topic_id in kept:
        removed.pop(topic_id, None)
    return removed


def _partition(
    view: TopicView, number: int, brokers: Brokers, newest: Image, *, accept_loss: bool
) -> tuple[PartitionInfo, PartitionFate]:
    """One partition's state in the new incarnation, and its fate."""
    states = view.states[number]
    best, conflict = view.best(number)
    logs = brokers.logs(view, number)
    replicas = {node_id for _rank, info in states for node_id in info.replicas}
    waits_for = tuple(sorted(replicas - brokers.answers.keys()))
    unsure = bool(waits_for or conflict)
    if unsure and not accept_loss:
        info = _hold(best.info, brokers, logs, has_conflict=bool(conflict))
        # Its epochs stay: newer ones would outrank the state of a broker that has yet to answer.
        quarantined = replace(info, quarantined=best.rank[0])
        return quarantined, PartitionFate(
            view.name, number, Fate.QUARANTINED, quarantined.leader, quarantined.isr, waits_for, conflict
        )
    epochs: list[LeaderEpoch] = [info.leader_epoch for _rank, info in states]
    leader_epoch = max([*epochs, *(end.last_epoch for end in logs.values())]) + 1
    if unsure:
        leader_epoch += LOST_EPOCH_JUMP
    info = _release(best.info, view, brokers, newest)
    if accept_loss and not info.isr and not info.elr:
        info = _lead_uncleanly(info, brokers, logs)
    partition_epoch = max(info.partition_epoch for _rank, info in states) + 1
    live = replace(info, leader_epoch=leader_epoch, partition_epoch=partition_epoch, quarantined=0)
    fate = PartitionFate(view.name, number, Fate.LIVE, live.leader, live.isr, waits_for, conflict, lost=unsure)
    return live, fate


def _hold(info: PartitionInfo, brokers: Brokers, logs: Mapping[NodeId, LogEnd], *, has_conflict: bool) -> PartitionInfo:
    """The old state with the new epochs of brokers that answered; the leader stays if its broker reports to lead."""

    def renewed(members: Iterable[Member]) -> list[Member]:
        return [
            brokers.current(member) or member
            for member in members
            if member[0] not in brokers.answers or brokers.current(member) or brokers.kept_all(member)
        ]

    isr = renewed(info.isr_members)
    sitting = [
        node_id for node_id, end in logs.items() if end.leads and (node_id, brokers.infos[node_id].broker_epoch) in isr
    ]
    leader = sitting[0] if len(sitting) == 1 and (has_conflict or sitting == [info.leader]) else NO_LEADER
    return _with(info, leader, isr, renewed(info.elr_members))


def _release(info: PartitionInfo, view: TopicView, brokers: Brokers, newest: Image) -> PartitionInfo:
    """Only members that answered and lost nothing count; former members only if no current one is left."""
    number = info.partition
    everyone = [*info.isr_members, *info.elr_members]
    sound = {m for m in everyone if brokers.current(m) or brokers.kept_all(m)}
    if any(not brokers.lost_log(m[0], view, number) for m in sound):
        # The last one stays a member, log or no log: it is offline until its directory is back.
        sound = {m for m in sound if not brokers.lost_log(m[0], view, number)}
    current = [now for m in info.isr_members if m in sound and (now := brokers.current(m))]
    former = [m for m in info.isr_members if m in sound and not brokers.current(m)]
    isr = current or former
    elr: list[Member] = []
    if len(isr) < _min_isr(info, view, newest):
        inside = {node_id for node_id, _epoch in isr}
        kept = {m[0]: brokers.current(m) or m for m in info.elr_members if m in sound}
        kept |= {m[0]: m for m in former}
        elr = [kept[node_id] for node_id in sorted(kept) if node_id not in inside]
    led_by = [node_id for node_id, _epoch in current if node_id == info.leader]
    return _with(info, led_by[0] if led_by else NO_LEADER, isr, elr)


def _lead_uncleanly(info: PartitionInfo, brokers: Brokers, logs: Mapping[NodeId, LogEnd]) -> PartitionInfo:
    """Make the replica with the most records the ISR: none is known to have all, and the loss was accepted."""
    there = [node_id for node_id in info.replicas if node_id in logs]
    if not there:
        return info
    node_id = max(there, key=lambda n: (logs[n].last_epoch, logs[n].log_end_offset, -n))
    return _with(info, NO_LEADER, [(node_id, brokers.infos[node_id].broker_epoch)], [])


def _with(info: PartitionInfo, leader: NodeId, isr: Sequence[Member], elr: Sequence[Member]) -> PartitionInfo:
    return replace(
        info,
        leader=leader,
        isr=tuple(node_id for node_id, _epoch in isr),
        isr_epochs=tuple(epoch for _node_id, epoch in isr),
        elr=tuple(node_id for node_id, _epoch in elr),
        elr_epochs=tuple(epoch for _node_id, epoch in elr),
    )


def _min_isr(info: PartitionInfo, view: TopicView, newest: Image) -> int:
    """The effective min ISR as in the store's scripts: the configs that are set, at most the number of replicas."""
    by_leader = newest.broker_configs.get(info.leader, {})
    value = view.configs.get(MIN_ISR) or by_leader.get(MIN_ISR) or newest.default_broker_configs.get(MIN_ISR) or "1"
    return min(int(value), len(info.replicas))
