"""Merges the brokers' offers into a new state of the cluster, after the metadata store lost its history.

Pure: offers in, plan out. The rules are those of design C (reliability rules 4.8, ADR 0010):

- Each partition gets the newest state of any image, by (leader epoch, partition epoch). Different content under the
  same epochs is a conflict, which only an operator can settle.
- An ISR or ELR member counts when its broker answered and has lost nothing since; otherwise it is dropped. A broker's
  own report on its disk outranks an older image.
- A partition is LIVE, so that leaders can be elected, when all brokers that may have acted on it answered: its replicas
  in any image. Any other is HELD (quarantined): its current leader goes on and nothing changes. A broker that did not
  answer may have led it alone and acknowledged records that no other broker has.
- A topic is deleted only if an image newer than all that still have it saw its deletion.
- Offsets, epochs and producer ids jump past all that may have been given out.

A broker whose metadata is from before its own newest registration counts as not answering: it cannot know what it acted
on. Its offer counts only if the store knows that the broker was never unfenced under that registration.
"""

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from yak.cluster.image import GuestInfo, Image, PartitionInfo, RemovedTopic
from yak.cluster.records import NO_LEADER
from yak.cluster.restore_brokers import JUMP, Brokers, Member, StoreBefore, missing_brokers, position
from yak.cluster.restore_offer import LogEnd, Offer
from yak.cluster.restore_topics import TopicView, merge_topics
from yak.ids import BrokerEpoch, LeaderEpoch, MetadataOffset, NodeId

LOST_EPOCH_JUMP = 1 << 10
"""How far leader epochs jump after an accepted loss: a broker that did not answer may have led in newer ones."""
MIN_ISR = "min.insync.replicas"


class Fate(StrEnum):
    """The result of a restore for a partition."""

    LIVE = "LIVE"
    HELD = "HELD"


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
    def held(self) -> tuple[PartitionFate, ...]:
        """The quarantined partitions."""
        return tuple(fate for fate in self.fates if fate.fate is Fate.HELD)

    @property
    def lost(self) -> tuple[PartitionFate, ...]:
        """The partitions that go on although records may be missing."""
        return tuple(fate for fate in self.fates if fate.lost)

    @property
    def held_for(self) -> tuple[NodeId, ...]:
        """The brokers whose answers would release quarantined partitions."""
        return tuple(sorted({node_id for fate in self.held for node_id in fate.waits_for}))

    @property
    def is_automatic(self) -> bool:
        """Whether the plan needs no consent: no broker, conflict, quarantined partition or loss is left open."""
        return not self.missing and not self.conflicts and not self.held and not self.lost


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
        guests=_guests(newest.image, brokers),
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
        f"incarnation {number} of the cluster was made {len(found)} times: it was restored on two stores"
        for number, found in sorted(ids.items())
        if len(found) > 1
    ]


def _forks(offers: Sequence[Offer], newest: Offer) -> list[str]:
    """Every image must be a prefix of the newest one's history, else brokers acted on two histories, on two stores.

    A broker that joined late or compacted its copy knows only the newest records; any trail of that history may have
    the rest.
    """
    forks = []
    trails = [newest.trail]
    for offer in sorted(offers, key=lambda each: -each.image.offset):
        image = offer.image
        if image.incarnation_id != newest.image.incarnation_id or offer is newest:
            continue
        same = image.offset == newest.image.offset and image.chain_hash == newest.image.chain_hash
        if same or any(trail.holds(image.offset, image.chain_hash) for trail in trails):
            trails.append(offer.trail)
        else:
            forks.append(
                f"broker {offer.node_id} has metadata up to record {image.offset} that are not known to be the beginning "
                f"of those that broker {newest.node_id} has up to {newest.image.offset}"
            )
    return forks


def _guests(newest: Image, brokers: Brokers) -> dict[NodeId, GuestInfo]:
    """The external brokers of the newest image, which do not answer. An id that a YAK broker has is left out."""
    taken = brokers.infos.keys() | brokers.unregistered.keys()
    return {node_id: guest for node_id, guest in newest.guests.items() if node_id not in taken}


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
        held = replace(info, held=best.rank[0])
        return held, PartitionFate(view.name, number, Fate.HELD, held.leader, held.isr, waits_for, conflict)
    epochs: list[LeaderEpoch] = [info.leader_epoch for _rank, info in states]
    leader_epoch = max([*epochs, *(end.last_epoch for end in logs.values())]) + 1
    if unsure:
        leader_epoch += LOST_EPOCH_JUMP
    info = _release(best.info, view, brokers, newest)
    if accept_loss and not info.isr and not info.elr:
        info = _lead_uncleanly(info, brokers, logs)
    partition_epoch = max(info.partition_epoch for _rank, info in states) + 1
    live = replace(info, leader_epoch=leader_epoch, partition_epoch=partition_epoch, held=0)
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
