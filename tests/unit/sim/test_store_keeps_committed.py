"""A random walk over the store's scripts with brokers boiled down to a list of records: nobody who lacks a committed
record may ever be elected. The brokers follow the rules of replication; whom to elect, to fence, to take in or to put
elsewhere is left to chance, so the scripts alone must say no.
"""

import random
import uuid

import pytest

from yak.cluster.image import Image, PartitionInfo
from yak.cluster.payload import IsrMember, format_isr, parse_isr
from yak.ports.metadata_store import StoreOutcome, StoreRequest
from yak.sim.store import SimStore

TOPIC_ID = str(uuid.UUID(int=7))
MIN_ISR = "min.insync.replicas"


class Node:
    """A broker: its log as (leader epoch, value), what it knows of the metadata, and as a leader of its followers."""

    def __init__(self, node_id: int) -> None:
        self.node_id = node_id
        self.epoch = 0
        self.boots = 0
        self.directory = f"dir-{node_id}"
        self.log: list[tuple[int, int]] = []
        self.image = Image()
        self.forget()

    def forget(self) -> None:
        self.followed_epoch = self.led_epoch = -1
        self.ends: dict[int, tuple[int, int]] = {}
        self.pending: dict[str, object] | None = None
        self.high_watermark = self.start = 0

    @property
    def member(self) -> IsrMember:
        return IsrMember(self.node_id, self.epoch)

    def partition(self) -> PartitionInfo | None:
        topic = self.image.topics.get("a")
        return topic.partitions[0] if topic else None

    def leads(self) -> PartitionInfo | None:
        p = self.partition()
        return p if p is not None and p.leader == self.node_id and self.member in members(p) else None

    def min_isr(self) -> int:
        configs = (self.image.topics["a"].configs, self.image.broker_configs.get(self.node_id, {}))
        values = (c.get(MIN_ISR) for c in (*configs, self.image.default_broker_configs))
        p = self.partition()
        assert p is not None
        return min(int(next((value for value in values if value), 1)), len(p.replicas))


def members(p: PartitionInfo) -> list[IsrMember]:
    return list(p.isr_members)


class Walk:
    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.store = SimStore()
        self.nodes = {node_id: Node(node_id) for node_id in range(1, 5)}
        self.committed: list[tuple[int, int]] = []
        self.values = self.elections = self.nonces = 0
        self.call(self.nodes[1], "bootstrap", new_cluster_id="c", new_incarnation_id="i")
        for node in self.nodes.values():
            self.register(node)
            self.let_in(node)
        items = [{"partition": 0, "replicas": "1,2,3"}]
        self.call(self.nodes[1], "create_topic", name="a", topic_id=TOPIC_ID, total=1, configs={}, partitions=items)
        for node in self.nodes.values():
            self.catch_up(node, whole=True)

    def call(self, node: Node, script: str, **arguments: object) -> StoreOutcome:
        who = {"cluster_id": "", "incarnation_id": "", "node_id": node.node_id, "broker_epoch": node.epoch}
        cluster = self.store.state.cluster
        return self.store.call(
            StoreRequest(script, who | {"controller_epoch": cluster.get("ctl_epoch", 0)} | arguments), 1
        )

    def as_controller(self, script: str, **arguments: object) -> StoreOutcome:
        """Call as whoever has the controller's office; when that is nobody alive, somebody takes it, if anybody can."""
        for node in self.nodes.values():
            cluster = self.store.state.cluster
            claims = {"claimed_epoch": cluster["ctl_epoch"], "claimed_renewals": cluster["lease_n"]}
            if cluster["ctl_id"] == node.node_id or self.call(node, "acquire_lease", **claims).code == "OK":
                outcome = self.call(node, script, **arguments)
                if outcome.code not in ("STALE_BROKER_EPOCH", "FENCED_CONTROLLER"):
                    return outcome
        return StoreOutcome("STALE_BROKER_EPOCH")

    def register(self, node: Node, *, lossy: bool = False, last_epoch: int | None = None) -> None:
        node.boots += 1
        boot = {"boot_id": f"{node.node_id}-{node.boots}", "directories": node.directory, "host": "h", "port": 1}
        heartbeat = self.store.state.heartbeats.get(node.node_id, 0)
        last_epoch = node.epoch if last_epoch is None else last_epoch
        boot |= {"rack": None, "role": "leader", "lossy": lossy, "last_epoch": last_epoch}
        outcome = self.call(node, "register", **boot, observed_heartbeat=heartbeat)
        assert outcome.code == "OK", outcome
        node.epoch = outcome.value["broker_epoch"]
        node.forget()

    def let_in(self, node: Node) -> None:
        self.catch_up(node, whole=True)
        self.call(node, "heartbeat", persisted=node.image.offset)
        self.as_controller("unfence", target_id=node.node_id, target_epoch=node.epoch)

    def catch_up(self, node: Node, *, whole: bool = False) -> None:
        records = self.store.records_after(node.image.offset, 10_000)
        if not whole:
            records = records[: self.rng.randint(0, len(records))]
        node.image = node.image.apply_all(records)[0]
        p = node.leads()
        if p is not None and p.leader_epoch != node.led_epoch:
            node.led_epoch, node.start, node.ends, node.pending = p.leader_epoch, len(node.log), {}, None

    # ------------------------------------------------------------------------------------ the data's side

    def append(self, node: Node) -> None:
        p = node.leads()
        if p is not None:
            self.values += 1
            node.log.append((p.leader_epoch, self.values))

    def fetch(self, node: Node) -> None:
        """Find where the logs part, then tell one's end and get more, all in the leader's epoch."""
        p = node.partition()
        leader = self.nodes.get(p.leader) if p is not None else None
        if p is None or leader is None or leader is node or node.node_id not in p.replicas:
            return
        led = leader.leads()
        if led is None or led.leader_epoch != p.leader_epoch:
            return
        if node.followed_epoch != p.leader_epoch:
            same = 0
            while same < min(len(node.log), len(leader.log)) and node.log[same] == leader.log[same]:
                same += 1
            del node.log[same:]
            node.followed_epoch = p.leader_epoch
        leader.ends[node.node_id] = (node.epoch, len(node.log))
        node.log += leader.log[len(node.log) :][: self.rng.randint(0, 3)]

    def commit(self, node: Node) -> None:
        p = node.leads()
        if p is None or len(p.isr) < node.min_isr():
            return
        end = len(node.log)
        proposed = node.pending["members"] if node.pending else []
        for member in [*members(p), *proposed]:
            if member.node_id != node.node_id:
                epoch, reached = node.ends.get(member.node_id, (-1, 0))
                end = min(end, reached if epoch == member.broker_epoch else 0)
        if end > node.high_watermark:
            node.high_watermark = end
            shared = min(end, len(self.committed))
            assert node.log[:shared] == self.committed[:shared], "two histories were committed"
            self.committed += node.log[len(self.committed) : end]

    def alter_isr(self, node: Node) -> None:
        p = node.leads()
        if p is None:
            return
        if node.pending is None:
            chosen = [node.member, *(m for m in members(p) if m.node_id != node.node_id and self.rng.random() < 0.7)]
            for node_id, (epoch, end) in node.ends.items():
                present = any(member.node_id == node_id for member in chosen)
                if not present and end >= max(node.high_watermark, node.start) and self.rng.random() < 0.7:
                    chosen.append(IsrMember(node_id, epoch))
            self.nonces += 1
            item = {"topic_id": TOPIC_ID, "partition": 0, "isr": format_isr(tuple(chosen)), "nonce": str(self.nonces)}
            item |= {"leader_epoch": p.leader_epoch, "partition_epoch": p.partition_epoch, "min_isr": node.min_isr()}
            node.pending = {"members": chosen, "item": item}
        if self.rng.random() < 0.8:
            self.checked(node, "alter_isr", node.pending["item"])
            if self.rng.random() < 0.7:
                # The answer came, and what it says is known before the proposal is forgotten.
                self.catch_up(node, whole=True)
                node.pending = None

    # -------------------------------------------------------------------------------- everybody else's side

    def checked(self, node: Node | None, script: str, item: object) -> None:
        """Call a script that may change the leader: whoever leads afterwards has all that was committed."""
        before = dict(self.store.state.partitions[TOPIC_ID, 0])
        if node is None:
            self.as_controller(script, partitions=[item])
        else:
            self.call(node, script, partitions=[item])
        after = self.store.state.partitions[TOPIC_ID, 0]
        if after["leader"] not in (before["leader"], -1) or after["leader_epoch"] > before["leader_epoch"] != -1:
            leader = self.nodes.get(after["leader"])
            # One that booted since it was elected does not lead, though its name stays until somebody else is elected.
            if leader is not None and leader.member in parse_isr(after["isr"]):
                self.elections += 1
                assert leader.log[: len(self.committed)] == self.committed, (script, item, before, after)

    def elect(self, node: Node) -> None:
        p = self.store.state.partitions[TOPIC_ID, 0]
        leader = -1 if self.rng.random() < 0.2 else node.node_id
        item = {"topic_id": TOPIC_ID, "partition": 0, "leader": leader, "unclean": False}
        self.checked(None, "elect", item | {"partition_epoch": p["partition_epoch"]})

    def reassign(self, node: Node) -> None:
        p = self.store.state.partitions[TOPIC_ID, 0]
        nodes = self.rng.sample(sorted(self.nodes), self.rng.randint(1, 3))
        replicas = None if self.rng.random() < 0.3 else ",".join(map(str, nodes))
        item = {"topic_id": TOPIC_ID, "partition": 0, "replicas": replicas, "partition_epoch": p["partition_epoch"]}
        self.checked(node, "alter_replicas", item)

    def fence(self, node: Node) -> None:
        self.as_controller("fence", target_id=node.node_id, target_epoch=node.epoch)

    def stop(self, node: Node) -> None:
        self.call(node, "begin_stop", state=self.rng.choice(("STOPPING", "CLOSED")))

    def restart(self, node: Node) -> None:
        self.register(node)

    def lose_power(self, node: Node) -> None:
        del node.log[self.rng.randint(0, len(node.log)) :]
        self.register(node, lossy=True)

    def come_back_empty(self, node: Node) -> None:
        """With another disk that says nothing, after it was unregistered or not."""
        if self.rng.random() < 0.5:
            self.fence(node)
            self.as_controller("unregister", target_id=node.node_id)
        node.log.clear()
        node.directory = self.rng.choice((node.directory, f"dir-{node.node_id}-{self.rng.random()}"))
        node.image = Image()
        self.register(node, last_epoch=0)

    def configure(self, node: Node) -> None:
        kind, name = self.rng.choice((("topic", "a"), ("broker", ""), ("broker", str(node.node_id))))
        changes = [[MIN_ISR, self.rng.choice((None, "1", "2", "3"))]]
        self.call(node, "alter_configs", resource_type=kind, resource_name=name, changes=changes, replace=False)

    def run(self, steps: int) -> None:
        for _ in range(steps):
            step = self.rng.choices(list(STEPS), list(STEPS.values()))[0]
            step(self, self.nodes[self.rng.randint(1, 4)])


STEPS = {
    Walk.append: 20,
    Walk.fetch: 70,
    Walk.commit: 30,
    Walk.catch_up: 45,
    Walk.alter_isr: 16,
    Walk.let_in: 14,
    Walk.elect: 10,
    Walk.reassign: 1.5,
    Walk.fence: 2.5,
    Walk.stop: 0.5,
    Walk.restart: 1.5,
    Walk.lose_power: 0.7,
    Walk.come_back_empty: 0.4,
    Walk.configure: 1,
}


@pytest.mark.parametrize("seed", range(80))
def test_replica_without_committed_records_is_never_elected(seed):
    Walk(seed).run(600)


def test_random_walks_commit_records_and_elect_leaders():
    walks = [Walk(seed) for seed in range(20)]
    for walk in walks:
        walk.run(600)
    assert sum(len(walk.committed) for walk in walks) > 50
    assert sum(walk.elections for walk in walks) > 50
