"""A broker's metadata side without a broker: broker lifecycles, one or several, against the store in memory."""

import heapq
import random
import uuid
from collections import Counter, deque

import pytest

from yak.cluster.broker_lifecycle import BrokerLifecycle, LifecycleState
from yak.cluster.hash_chain import HashChainTail
from yak.cluster.image import BrokerInfo, Image, PartitionInfo
from yak.cluster.outputs import BecameReady, CallStore, ChangeDone, Left, Notice, Output, Refused, TailStore
from yak.cluster.payload import IsrMember
from yak.cluster.records import BrokerState
from yak.cluster.registration import Identity
from yak.cluster.settings import ClusterSettings
from yak.cluster.topic_changes import NewTopic, plan_create_topic
from yak.ports.metadata_store import StoreRequest, TailedRecord
from yak.sim.seeded_random import SeededRandom
from yak.sim.store import SimStore

START_MS = 1_000_000


def ignore(*_end) -> None:
    """The end of a change that no test looks at."""


def broker(node_id, state=BrokerState.ACTIVE, *, epoch=0, rack=None, role="leader", lossy=0) -> BrokerInfo:
    return BrokerInfo(node_id, epoch or 10 + node_id, "b", ("d",), "h", 9092, rack, role, state, lossy)


def partition_of(replicas, isr=None, elr=(), leader=1, **more) -> PartitionInfo:
    """Partition 0 with all replicas in sync, unless `isr` has others. Its members are in the epochs that `broker` gives."""
    named = replicas if isr is None else isr, elr
    members = [tuple(IsrMember(n, 10 + n) for n in nodes) for nodes in named]
    return PartitionInfo(0, replicas, *members, leader, 4, 7, **more)


class CountingRandom:
    """Ids in order; no luck in tests."""

    def __init__(self, first: int = 1) -> None:
        self._next = first

    def uuid4(self) -> uuid.UUID:
        self._next += 1
        return uuid.UUID(int=self._next << 64 | 0x4000_8000_0000_0000_0000)

    def below(self, limit: int) -> int:
        return 0

    def secret_bytes(self, count: int) -> bytes:
        self._next += 1
        return self._next.to_bytes(count, "big")


class Driver:
    """Drives one broker lifecycle as the broker core does; calls are answered when `run` is called."""

    def __init__(self, store: SimStore, identity: Identity, image: Image | None = None, **settings) -> None:
        self.store = store
        self.image = image or Image()
        self.now_ms = 1_000_000
        self._nonce = 0
        self.lifecycle = BrokerLifecycle(
            identity,
            self.image,
            next_nonce=self._next_nonce,
            rng=CountingRandom(identity.node_id * 1000),
            hash_chain=HashChainTail,
            settings=ClusterSettings(**settings),
        )
        self.calls: deque[CallStore] = deque()
        self.scripts: list[str] = []
        self.said: list[Notice] = []
        self.done: dict[int, ChangeDone] = {}
        self.ready = 0
        self.refused: Refused | None = None
        self.left = False
        self.tail_after: int | None = None
        self.persisted: list[TailedRecord] = []
        self.connected = False

    def _next_nonce(self) -> int:
        self._nonce += 1
        return self._nonce

    def take(self, outputs: list[Output]) -> None:
        for output in outputs:
            match output:
                case CallStore():
                    self.calls.append(output)
                case TailStore(after):
                    self.tail_after = after
                case Notice():
                    self.said.append(output)
                case BecameReady():
                    self.ready += 1
                case Refused():
                    self.refused = output
                case ChangeDone(done, error, values):
                    done(error, values)
                case Left():
                    self.left = True

    def connect(self, unsafe: tuple[str, ...] = ()) -> "Driver":
        self.connected = True
        self.take(self.lifecycle.on_connected(self.store.process_id, unsafe))
        return self

    def lose(self, reason: str = "connection reset") -> None:
        self.connected = False
        self.calls.clear()
        self.tail_after = None
        self.take(self.lifecycle.on_lost(reason))

    def answer_one(self) -> None:
        call = self.calls.popleft()
        self.scripts.append(call.request.script)
        outcome = self.store.call(call.request, self.now_ms)
        self.take(self.lifecycle.on_replied(call.nonce, outcome, self.now_ms))

    def pump_tail(self) -> bool:
        if self.tail_after is None:
            return False
        records = self.store.records_after(self.tail_after)
        if not records:
            return False
        self.tail_after = records[-1].offset
        good, outputs = self.lifecycle.admit(records, self.now_ms)
        self.take(outputs)
        if good:
            self.persisted += good
            self.image, _delta = self.image.apply_all(good)
            self.take(self.lifecycle.on_image(self.image, self.now_ms))
        return True

    def run(self) -> "Driver":
        """Answer and tail until nothing is under way."""
        for _ in range(10_000):
            if self.connected and self.calls:
                self.answer_one()
            elif not (self.connected and self.pump_tail()):
                return self
        raise AssertionError("the broker lifecycle does not come to rest")

    def pass_time(self, ms: int) -> "Driver":
        """Let time pass, timer by timer."""
        end_ms = self.now_ms + ms
        while (due_ms := self.lifecycle.next_due()) is not None and due_ms <= end_ms:
            self.now_ms = max(self.now_ms, due_ms)
            self.take(self.lifecycle.on_time(self.now_ms))
            self.run()
        self.now_ms = end_ms
        return self.run()

    def begin(self, requests: list[StoreRequest]) -> int:
        def done(*end) -> None:
            self.done[change_id] = ChangeDone(done, *end)

        change_id, outputs = self.lifecycle.begin(requests, done)
        self.take(outputs)
        return change_id

    def change(self, requests: list[StoreRequest]) -> ChangeDone:
        change_id = self.begin(requests)
        self.run()
        return self.done[change_id]


def identity(node_id: int = 1, boot: str = "boot-1", directory: str = "", **more) -> Identity:
    return Identity(node_id, boot, (directory or f"dir-{node_id}",), "127.0.0.1", 9092 + node_id, **more)


class Node:
    """One broker's lifecycle: what it is told waits while it is paused, and is lost when it is killed."""

    def __init__(self, fleet: "Fleet", node_id: int, role: str) -> None:
        self.fleet = fleet
        self.node_id = node_id
        self.role = role
        self.image = Image()
        self.lifecycle: BrokerLifecycle | None = None
        self.life = 0
        self.line = 0
        self.is_paused = False
        self.inbox: deque = deque()
        self.said: list[Notice] = []
        self.tail_after: int | None = None
        self.call_ms = 0

    def start(self, *, lossy: bool = False) -> None:
        self.life += 1
        identity = Identity(
            self.node_id, f"boot-{self.life}", (f"d{self.node_id}",), "h", 9092, role=self.role, lossy=lossy
        )
        count = iter(range(1, 10**9))
        self.lifecycle = BrokerLifecycle(
            identity,
            self.image,
            next_nonce=lambda: next(count),
            rng=SeededRandom(self.node_id),
            hash_chain=HashChainTail,
            settings=ClusterSettings(),
        )
        self.inbox.clear()
        self.is_paused = False
        self.call_ms = 0
        if self.fleet.store.up:
            self.connect()

    def kill(self) -> None:
        self.life += 1
        self.line += 1
        self.lifecycle = None

    def connect(self) -> None:
        self.line += 1
        self.tail_after = None
        self.deliver(lambda m, now_ms: m.on_connected(self.fleet.store.process_id, ()))

    def lose(self) -> None:
        self.line += 1
        self.deliver(lambda m, now_ms: m.on_lost("the store is away"))

    def deliver(self, act) -> None:
        """Let the broker lifecycle do something, now or when it goes on."""
        if self.lifecycle is None:
            return
        if self.is_paused:
            self.inbox.append(act)
            return
        self.carry_out(act(self.lifecycle, self.fleet.now_ms))
        due_ms = self.lifecycle.next_due()
        if due_ms is not None:
            self.later(due_ms - self.fleet.now_ms, self.on_time)

    def on_time(self) -> None:
        due_ms = None if self.lifecycle is None else self.lifecycle.next_due()
        if due_ms is not None and due_ms <= self.fleet.now_ms and not self.is_paused:
            self.deliver(lambda m, now_ms: m.on_time(now_ms))

    def resume(self) -> None:
        self.is_paused = False
        while self.inbox:
            self.deliver(self.inbox.popleft())
        self.deliver(lambda m, now_ms: m.on_time(now_ms))

    def later(self, ms: int, act) -> None:
        life = self.life
        self.fleet.at(self.fleet.now_ms + max(ms, 0), lambda: act() if self.life == life else None)

    def carry_out(self, outputs: list[Output]) -> None:
        for output in outputs:
            match output:
                case CallStore(nonce, request):
                    # In order, as on one connection.
                    self.call_ms = max(self.call_ms, self.fleet.now_ms + self.fleet.delay())
                    self.fleet.at(self.call_ms, lambda n=nonce, r=request, at=self.line: self.call(n, r, at))
                case TailStore(after):
                    self.tail_after = after
                    self.pump()
                case Notice():
                    self.said.append(output)
                case Refused():
                    raise AssertionError(output)

    def call(self, nonce, request, line) -> None:
        fleet = self.fleet
        if fleet.now_ms < fleet.hangs_until_ms:
            fleet.at(fleet.hangs_until_ms, lambda: self.call(nonce, request, line))
            return
        if not fleet.store.up:
            return
        outcome = fleet.store.call(request, fleet.now_ms)
        fleet.check(request, outcome)

        def answer() -> None:
            if line == self.line:
                self.deliver(lambda m, now_ms: m.on_replied(nonce, outcome, now_ms))

        self.later(fleet.delay(), answer)
        for node in fleet.nodes.values():
            node.later(fleet.delay(), node.pump)

    def pump(self) -> None:
        if self.tail_after is None or not self.fleet.store.up or self.lifecycle is None:
            return
        records = self.fleet.store.records_after(self.tail_after)
        if not records:
            return
        self.tail_after = records[-1].offset
        line = self.line

        def take(member, now_ms):
            if line != self.line:
                return []
            good, outputs = member.admit(records, now_ms)
            self.later(self.fleet.delay(), lambda: self.deliver(lambda m, at_ms: self.persisted(m, good, at_ms)))
            return outputs

        self.deliver(take)

    def persisted(self, member, records, now_ms):
        if not records:
            return []
        if records[0].offset != self.image.offset + 1 and records[0].kind != "Snapshot":
            # Jobs of the broker run in order; here a later one may come first.
            self.later(1, lambda: self.deliver(lambda m, at_ms: self.persisted(m, records, at_ms)))
            return []
        self.image, _delta = self.image.apply_all(records)
        return member.on_image(self.image, now_ms)


class Fleet:
    """The brokers, the store and the clock."""

    def __init__(self, roles: list[str], seed: int) -> None:
        self.rng = random.Random(seed)
        self.store = SimStore()
        self.now_ms = START_MS
        self.hangs_until_ms = 0
        self.queue: list = []
        self.order = 0
        self.controllers: dict[int, int] = {}
        self.fast_fences: list[tuple[int, int]] = []
        self.nodes = {n: Node(self, n, role) for n, role in enumerate(roles, 1)}

    def delay(self) -> int:
        return self.rng.randint(0, 4)

    def at(self, due_ms: int, act) -> None:
        self.order += 1
        heapq.heappush(self.queue, (due_ms, self.order, act))

    def run(self, ms: int) -> "Fleet":
        end_ms = self.now_ms + ms
        while self.queue and self.queue[0][0] <= end_ms:
            self.now_ms, _, act = heapq.heappop(self.queue)
            act()
            self.check_controllers()
        self.now_ms = end_ms
        return self

    def start(self) -> "Fleet":
        for node in self.nodes.values():
            node.start()
        return self.run(3_000)

    def check_controllers(self) -> None:
        for node in self.nodes.values():
            epoch = node.lifecycle._session.controller_epoch if node.lifecycle is not None else 0
            if epoch:
                assert self.controllers.setdefault(epoch, node.node_id) == node.node_id, (
                    "two brokers are controller in one epoch"
                )

    def check(self, request, outcome) -> None:
        fast = request.arguments.get("fast") and outcome.code == "OK"
        if not fast:
            return
        lately = [b for b in self.store.state.brokers.values() if self.now_ms - b["fast_fenced_ms"] < 10_000]
        registered = [b for b in self.store.state.brokers.values() if b["state"] != "CLOSED"]
        assert len(lately) * 2 <= len(registered) or len(registered) == 1

    def kinds(self, kind: str) -> list[dict]:
        return [record.payload for record in self.store.records_after(0, 10**6) if record.kind == kind]

    def controller(self) -> Node:
        [controller] = [n for n in self.nodes.values() if n.lifecycle is not None and n.lifecycle.is_controller]
        return controller

    def create(self, name: str, partitions: int) -> None:
        image = self.controller().image
        plan = plan_create_topic(
            image, NewTopic(name, partitions, len(image.active_brokers())), uuid.UUID(int=self.rng.getrandbits(60))
        )
        self.controller().deliver(lambda m, now_ms: m.begin(plan.requests, ignore)[1])
        self.run(50)

    def outage(self, ms: int, *, restart: bool) -> None:
        self.store.up = False
        for node in self.nodes.values():
            node.lose()
        self.run(ms)
        self.store.up = True
        if restart:
            self.store.restart()
        for node in self.nodes.values():
            node.later(self.rng.randint(0, 400), node.connect)

    def kill(self, node: Node, *, noticed: bool = True) -> None:
        epoch = node.lifecycle.broker_epoch if node.lifecycle is not None else 0
        node.kill()
        if noticed:
            self.suspect_everywhere(node.node_id, epoch)

    def suspect_everywhere(self, node_id: int, epoch: int) -> None:
        for other in self.nodes.values():
            if other.node_id != node_id:
                other.later(
                    self.rng.randint(20, 60),
                    lambda o=other: o.deliver(lambda m, now_ms: m.on_peer_dead(node_id, epoch, now_ms)),
                )

    def heal(self) -> None:
        if not self.store.up:
            self.store.up = True
        for node in self.nodes.values():
            if node.lifecycle is None:
                node.start()
            elif node.is_paused:
                node.resume()
        self.run(40_000)

    def assert_healthy(self) -> None:
        let_in = Counter(
            (c["node_id"], c["broker_epoch"]) for c in self.kinds("BrokerChange") if c["state"] == "ACTIVE"
        )
        assert max(let_in.values()) == 1, "a broker that was fenced came back in the same epoch"
        controller = self.controller()
        state = self.store.state
        assert state.cluster["ctl_id"] == controller.node_id
        assert {b["state"] for b in state.brokers.values()} == {"ACTIVE"}
        for node in self.nodes.values():
            assert node.lifecycle.state is LifecycleState.ACTIVE, node.lifecycle.describe()
            assert node.image == controller.image
        roles = {node.role for node in self.nodes.values()}
        if "leader" in roles:
            assert controller.role == "leader"
        for topic in controller.image.topics.values():
            assert all(p.leader in self.nodes for p in topic.partitions)


@pytest.fixture
def store() -> SimStore:
    return SimStore()
