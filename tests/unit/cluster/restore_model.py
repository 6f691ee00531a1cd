"""One partition of three replicas under reordered messages, elections, shrinks and a store that loses its history.

A model of the protocol, not of the brokers: messages arrive late or never, images are adopted late, and the store may
go back to any of its former states, or to nothing, at any moment. A restore is planned by `yak.cluster.restore` itself.
After each step every committed record must be on every replica that may be elected.
"""

import random
import uuid
from dataclasses import dataclass, field, replace

from yak.cluster.hash_chain import HashChainTail
from yak.cluster.image import BrokerInfo, Image, PartitionInfo, TopicInfo
from yak.cluster.payload import IsrMember
from yak.cluster.records import NO_LEADER, BrokerState
from yak.cluster.restore import Offer, RestorePlan, StoreBefore, plan_restore
from yak.ids import NodeId
from yak.ports.metadata_store import TailedRecord

NODES: tuple[NodeId, ...] = (1, 2, 3)
TOPIC_ID = uuid.UUID(int=7)
RECORDS_MAX = 6
EPOCHS_MAX = 8

Record = tuple[int, int]
"""(leader epoch, number of the write)."""


@dataclass
class Replica:
    """A broker with its disk: the image it acts on, its log, and what it knows of its followers while it leads."""

    node_id: NodeId
    image: Image
    log: list[Record] = field(default_factory=list)
    high_watermark: int = 0
    follows: tuple[int, NodeId] = (-1, -1)
    """The (leader epoch, leader) whose log ours was cut to."""
    ends: dict[tuple[NodeId, int], int] = field(default_factory=dict)
    epoch_start: int = 0
    pending: tuple[tuple[NodeId, int], ...] | None = None
    epoch: int = 0
    """This boot's registration; 0 for one that found no store to register with."""
    boot: int = 1
    is_lossy: bool = False

    @property
    def info(self) -> PartitionInfo:
        """The partition as this broker knows it."""
        return self.image.topics["t"].partitions[0]

    @property
    def leads(self) -> bool:
        """Whether it takes itself for the leader, and has taken office."""
        here = (self.node_id, self.epoch) in self.info.isr_members
        return self.info.leader == self.node_id and here and self.follows == (self.info.leader_epoch, self.node_id)


class World:
    """The store, the brokers, and what is on its way."""

    def __init__(self, rng: random.Random, min_isr: int) -> None:
        self.rng = rng
        self.min_isr = min_isr
        info = PartitionInfo(0, NODES, tuple(IsrMember(n, 10 + n) for n in NODES), (), 1, 0, 0)
        brokers = {
            n: BrokerInfo(n, 10 + n, f"boot-{n}-1", (f"d{n}",), "h", 1, None, "leader", BrokerState.ACTIVE)
            for n in NODES
        }
        topic = TopicInfo("t", TOPIC_ID, (info,), {"min.insync.replicas": str(min_isr)})
        first = Image("c", 1, "inc-1", brokers=brokers, topics={"t": topic}, topic_names={TOPIC_ID: "t"}, offset=20)
        self.history = [first]
        """What the store was after each record; the last one is what it is. Empty: it was wiped."""
        self.replicas = {n: Replica(n, first, epoch=10 + n) for n in NODES}
        self.committed: dict[int, Record] = {}
        self.calls: list[tuple[NodeId, str, PartitionInfo, PartitionInfo]] = []
        self.fetches: list[tuple[NodeId, int, NodeId, int, int]] = []
        self.writes = 0
        self.losses = 0
        self.reboots = 0
        self.restores = 0
        self.is_lost = False
        self.trails: dict[NodeId, dict[int, str]] = {n: {20: ""} for n in NODES}
        for replica in self.replicas.values():
            self.take_office(replica)

    @property
    def now(self) -> Image:
        """The store's state."""
        return self.history[-1]

    # ------------------------------------------------------------------------------------------- what may happen

    def step(self) -> str:
        """One random thing; its name."""
        moves = [self.write, self.fetch, self.fetch, self.learn, self.learn, self.advance, self.advance, self.adopt]
        moves += [self.adopt, self.propose, self.propose, self.apply, self.apply, self.elect, self.fence, self.register]
        if self.losses < 2:
            moves.append(self.lose)
        if self.reboots < 1:
            moves.append(self.reboot)
        if self.is_lost:
            moves += [self.restore] * 3
        move = self.rng.choice(moves)
        move()
        return move.__name__

    def pick(self) -> Replica:
        return self.replicas[self.rng.choice(NODES)]

    def write(self) -> None:
        leader = self.pick()
        if leader.leads and self.writes < RECORDS_MAX:
            leader.log.append((leader.info.leader_epoch, self.writes))
            self.writes += 1

    def fetch(self) -> None:
        """A follower that was cut to its leader's log takes one record, and tells its end with the next fetch."""
        follower = self.pick()
        leader = self.replicas.get(follower.info.leader)
        key = (follower.info.leader_epoch, follower.info.leader)
        if leader is None or leader is follower or not leader.leads or leader.info.leader_epoch != key[0]:
            return
        if follower.follows != key:
            common = 0
            while common < min(len(follower.log), len(leader.log)) and follower.log[common] == leader.log[common]:
                common += 1
            del follower.log[common:]
            follower.high_watermark = min(follower.high_watermark, common)
            follower.follows = key
        elif len(follower.log) < len(leader.log):
            follower.log.append(leader.log[len(follower.log)])
        self.fetches.append((leader.node_id, key[0], follower.node_id, follower.epoch, len(follower.log)))

    def learn(self) -> None:
        """A fetch arrives at the leader, in whatever order."""
        if not self.fetches:
            return
        node_id, leader_epoch, follower, epoch, end = self.rng.choice(self.fetches)
        leader = self.replicas[node_id]
        if leader.leads and leader.info.leader_epoch == leader_epoch:
            leader.ends[follower, epoch] = max(end, leader.ends.get((follower, epoch), 0))

    def advance(self) -> None:
        """The high watermark moves over the maximal ISR."""
        leader = self.pick()
        info = self.info_for(leader)
        if not leader.leads or leader.high_watermark >= len(leader.log) or len(info.isr) < self.min_isr:
            return
        members = {*info.isr_members, *(leader.pending or ())} - {(leader.node_id, leader.epoch)}
        if all(leader.ends.get(member, 0) > leader.high_watermark for member in members):
            record = leader.log[leader.high_watermark]
            assert self.committed.setdefault(leader.high_watermark, record) == record, "two records at one offset"
            leader.high_watermark += 1

    def info_for(self, leader: Replica) -> PartitionInfo:
        """The partition as the leader counts its ISR: only by records on its disk."""
        return leader.info

    def propose(self) -> None:
        """The leader sends a change of its ISR; it counts its members until it knows what became of it."""
        leader = self.pick()
        info = leader.info
        if not leader.leads or leader.pending is not None:
            return
        members = dict(info.isr_members)
        other = self.rng.choice([n for n in NODES if n != leader.node_id])
        if other in members:
            del members[other]
        else:
            epoch = leader.image.brokers[other].broker_epoch
            if leader.ends.get((other, epoch), -1) < max(leader.high_watermark, leader.epoch_start):
                return
            members[other] = epoch
        leader.pending = tuple(members.items())
        self.calls.append((leader.node_id, leader.image.incarnation_id, info, with_isr(info, members)))

    def apply(self) -> None:
        """A proposal arrives at the store, if that still is what it was."""
        if not self.calls:
            return
        node_id, incarnation_id, old, new = self.calls.pop(self.rng.randrange(len(self.calls)))
        if self.is_lost or not self.history or self.now.incarnation_id != incarnation_id:
            return
        info = self.now.topics["t"].partitions[0]
        epochs = (info.leader, info.leader_epoch, info.partition_epoch)
        if epochs != (node_id, old.leader_epoch, old.partition_epoch):
            return
        if any(self.now.brokers[n].broker_epoch != epoch for n, epoch in new.isr_members):
            return
        kept = self.next_elr(info, dict(new.isr_members))
        self.record(replace(with_isr(new, dict(new.isr_members), kept), partition_epoch=info.partition_epoch + 1))

    def elect(self) -> None:
        """The controller takes any live member of the ISR, or of the ELR when the ISR is empty."""
        if self.is_lost:
            return
        info = self.now.topics["t"].partitions[0]
        if info.leader_epoch > EPOCHS_MAX and info.leader != NO_LEADER:
            return
        brokers = {n: broker for n, broker in self.now.brokers.items() if broker.state is BrokerState.ACTIVE}
        members = [m for m in info.isr_members if m[0] in brokers and brokers[m[0]].broker_epoch == m[1]]
        everyone = [m for m in (*info.isr_members, *info.elr_members) if m[0] in brokers]
        former = members or [m for m in everyone if m[1] >= brokers[m[0]].lossy_epoch]
        candidates = [n for n, _epoch in former if n != info.leader]
        if not candidates:
            return
        leader = self.rng.choice(candidates)
        isr = dict(members) or {leader: self.now.brokers[leader].broker_epoch}
        elr = self.next_elr(info, isr)
        epochs = {"leader_epoch": info.leader_epoch + 1, "partition_epoch": info.partition_epoch + 1}
        self.record(replace(with_isr(info, isr, elr), leader=leader, **epochs))

    def fence(self) -> None:
        """A member is taken for dead: it leaves the ISR, for the ELR when that is too small; it may live on for a while."""
        if self.is_lost:
            return
        info = self.now.topics["t"].partitions[0]
        if not info.isr or info.leader_epoch > EPOCHS_MAX:
            return
        node_id = self.rng.choice(info.isr)
        isr = {n: e for n, e in info.isr_members if n != node_id}
        if not isr:
            return
        elr = self.next_elr(info, isr)
        leader = info.leader if info.leader != node_id else self.rng.choice(list(isr))
        epoch = info.leader_epoch + (leader != info.leader)
        new = replace(with_isr(info, isr, elr), leader=leader, leader_epoch=epoch)
        self.record(replace(new, partition_epoch=info.partition_epoch + 1))

    def next_elr(self, info: PartitionInfo, isr: dict[NodeId, int]) -> dict[NodeId, int]:
        """Who left an ISR that is too small to commit anything (KIP-966), but for those that lost something."""
        if len(isr) >= self.min_isr:
            return {}
        everyone = {**dict(info.elr_members), **dict(info.isr_members)}
        brokers = self.now.brokers
        return {n: e for n, e in everyone.items() if n not in isr and e >= brokers[n].lossy_epoch}

    def reboot(self) -> None:
        """A broker's machine goes down, and the last record with it; it registers, if there is a store to do so."""
        replica = self.pick()
        self.reboots += 1
        del replica.log[-1:]
        replica.high_watermark = min(replica.high_watermark, len(replica.log))
        replica.follows, replica.pending, replica.ends = (-1, -1), None, {}
        replica.boot += 1
        replica.is_lossy = True
        replica.epoch = 0
        self.register_as(replica)

    def register(self) -> None:
        """A broker without a registration gets one: after a restart, or in a restored incarnation that it adopted."""
        replica = self.pick()
        if replica.epoch == 0 and not self.is_lost and replica.image.incarnation_id == self.now.incarnation_id:
            self.register_as(replica)

    def register_as(self, replica: Replica) -> None:
        """Register this boot under a new epoch, if there is a store to do so."""
        if self.is_lost or replica.image.incarnation_id != self.now.incarnation_id:
            return
        replica.epoch = epoch = self.now.offset + 1
        old = self.now.brokers[replica.node_id]
        boot_id = f"boot-{replica.node_id}-{replica.boot}"
        # A boot that is known to the store renews its registration, and lost nothing since.
        lossy_epoch = epoch if replica.is_lossy and old.boot_id != boot_id else old.lossy_epoch
        new = replace(old, broker_epoch=epoch, boot_id=boot_id, lossy_epoch=lossy_epoch, state=BrokerState.ACTIVE)
        self.record(self.now.topics["t"].partitions[0], new)

    def record(self, info: PartitionInfo, broker: BrokerInfo | None = None) -> None:
        """One more record in the store."""
        topic = replace(self.now.topics["t"], partitions=(info,))
        offset = self.now.offset + 1
        chain = f"{self.now.chain_hash[:20]}{self.rng.getrandbits(64):016x}"[-16:]
        brokers = self.now.brokers if broker is None else {**self.now.brokers, broker.node_id: broker}
        self.history.append(replace(self.now, brokers=brokers, topics={"t": topic}, offset=offset, chain_hash=chain))

    def adopt(self) -> None:
        """A broker reads the log up to some record, and acts on it."""
        replica = self.pick()
        if self.is_lost:
            return
        for image in self.history:
            if image.incarnation_id == replica.image.incarnation_id and image.offset == replica.image.offset + 1:
                self.act_on(replica, image)
                return
        if self.now.incarnation_id != replica.image.incarnation_id and self.now.incarnation > replica.image.incarnation:
            first = next(image for image in self.history if image.incarnation_id == self.now.incarnation_id)
            replica.epoch = 0
            self.act_on(replica, first)

    def act_on(self, replica: Replica, image: Image) -> None:
        before, replica.image = replica.info, image
        self.trails[replica.node_id][image.offset] = image.chain_hash
        after = replica.info
        if after.partition_epoch != before.partition_epoch or after.leader_epoch != before.leader_epoch:
            replica.pending = None
        self.take_office(replica)

    def take_office(self, replica: Replica) -> None:
        key = (replica.info.leader_epoch, replica.node_id)
        is_member = (replica.node_id, replica.epoch) in replica.info.isr_members
        if replica.info.leader == replica.node_id and is_member and replica.follows != key:
            replica.follows = key
            replica.ends = {}
            replica.epoch_start = len(replica.log)

    # --------------------------------------------------------------------------------------------- loss and restore

    def lose(self) -> None:
        """The store goes back to any of its former states, or to nothing. Somebody notices, and nobody changes anything."""
        self.losses += 1
        self.is_lost = True
        self.history = self.history[: self.rng.randrange(len(self.history)) + 1]

    def offers(self, nodes: tuple[NodeId, ...]) -> list[Offer]:
        """The answers of these brokers."""
        found = []
        for node_id in nodes:
            replica = self.replicas[node_id]
            trail = HashChainTail()
            trail.extend(TailedRecord(o, h, "x", 0) for o, h in sorted(self.trails[node_id].items()))
            boot_id = "" if replica.is_lossy else f"boot-{node_id}-{replica.boot}"
            epoch = 0 if replica.is_lossy else replica.epoch
            found.append(Offer(node_id, boot_id, epoch, replica.image, trail))
        return found

    def restore(self) -> None:
        """Some brokers answer; the operator restores when that is safe."""
        count = self.rng.choice((1, 2, 3, 3, 3))
        plan = self.plan(tuple(sorted(self.rng.sample(NODES, count))))
        if not plan.is_safe:
            return
        self.restores += 1
        self.history = [plan.image]
        self.is_lost = False

    def plan(self, nodes: tuple[NodeId, ...]) -> RestorePlan:
        """The plan of the product."""
        return plan_restore(self.offers(nodes), StoreBefore(), incarnation_id=f"inc-{self.restores + 2}", now_ms=0)

    # ----------------------------------------------------------------------------------------------------- the check

    def check(self) -> None:
        """Every committed record is on every replica that may be elected now."""
        if self.is_lost:
            return
        info = self.now.topics["t"].partitions[0]
        brokers = {n: broker for n, broker in self.now.brokers.items() if broker.state is BrokerState.ACTIVE}
        everyone = [m for m in (*info.isr_members, *info.elr_members) if m[0] in brokers]
        current = [m for m in everyone if m in info.isr_members and brokers[m[0]].broker_epoch == m[1]]
        former = [m for m in everyone if m[1] >= brokers[m[0]].lossy_epoch]
        for node_id, _epoch in current or former:
            log = self.replicas[node_id].log
            for offset, record in self.committed.items():
                assert log[offset : offset + 1] == [record], f"record {record} at {offset} is not on replica {node_id}"


def with_isr(info: PartitionInfo, isr: dict[NodeId, int], elr: dict[NodeId, int] | None = None) -> PartitionInfo:
    """The partition with other members."""
    elr = dict(info.elr_members) if elr is None else elr
    leader = info.leader if info.leader in isr else NO_LEADER
    return replace(
        info,
        isr_members=tuple(map(IsrMember._make, isr.items())),
        elr_members=tuple(map(IsrMember._make, elr.items())),
        leader=leader,
    )


def walk(seed: int, steps: int = 400) -> World:
    """One random history."""
    rng = random.Random(seed)
    world = World(rng, min_isr=1 + seed % 2)
    trace = []
    for _ in range(steps):
        trace.append(world.step())
        try:
            world.check()
        except AssertionError as error:
            raise AssertionError(
                f"seed {seed}, after {len(trace)} steps ({', '.join(trace[-12:])}): {error}"
            ) from error
    return world
