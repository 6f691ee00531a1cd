"""Several simulated brokers, one store and the network between them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from yak.cluster.settings import ClusterSettings
from yak.ports.metadata_store import StoreRequest
from yak.quorum.voters import Voter, VoterSet
from yak.sim.history import History
from yak.sim.network import Network
from yak.sim.node import DATA_DIRECTORY, PORT, QUORUM_CLUSTER_ID, SimNode
from yak.sim.seeded_random import SeededRandom
from yak.sim.store import CommittedStore, MovingStore, SimStore, committed_part
from yak.sim.world import World

if TYPE_CHECKING:
    from yak.ports.metadata_store import StoreOutcome

CLIENTS = "clients"


def first_voters(brokers: int) -> VoterSet:
    """The first brokers are the voters: 1, 3 or 5 of them, as in `yak up`."""
    count = 1 if brokers < 3 else 3 if brokers < 5 else 5
    return VoterSet(tuple(Voter(node_id, f"node{node_id}", PORT) for node_id in range(1, count + 1)))


def _store_of(metadata: str) -> SimStore | CommittedStore | MovingStore:
    if metadata == "both":
        return MovingStore(QUORUM_CLUSTER_ID)
    return CommittedStore() if metadata == "raft" else SimStore()


class Cluster:
    """Brokers 1 to `size`. `history` is notified of every step and of every script that changed something."""

    def __init__(
        self,
        world: World,
        rng: SeededRandom,
        *,
        size: int,
        settings: dict[str, str],
        cluster_settings: ClusterSettings,
        roles: tuple[str, ...],
        racks: tuple[str | None, ...],
        metadata: str = "redis",
        directories: tuple[str, ...] = (DATA_DIRECTORY,),
    ) -> None:
        """`metadata`: `redis`, `raft`, or `both` (brokers that may move them from one to the other)."""
        self.world = world
        self.store: Any = _store_of(metadata)
        """The simulated Redis, the committed state of the quorum of the brokers, or both."""
        voters = None if metadata == "redis" else first_voters(size)
        self.network = Network(world, rng.fork("network"))
        self.nodes: list[SimNode] = []
        self.calls: Counter[str] = Counter()
        """How many calls were executed, by script and result code."""
        self.reported: Counter[int] = Counter()
        """The newest metadata record that the store ever knew to be on each broker's disk."""
        self.on_call: Callable[[StoreRequest, StoreOutcome], None] = lambda _request, _outcome: None
        for node_id in range(1, size + 1):
            node = SimNode(
                world,
                rng.fork(f"node {node_id}"),
                self.store,
                node_id=node_id,
                settings=settings,
                directories=directories,
                cluster_settings=cluster_settings,
                network=self.network,
                role=roles[node_id - 1],
                rack=racks[node_id - 1],
                voters=voters,
            )
            self.network.add(node)
            self.nodes.append(node)
        self.history = History(self.nodes)
        self.store_back_ms: int | None = None
        """When the store came back from its last outage."""
        self._offset = 0
        for node in self.nodes:
            node.after_step = partial(self.history.observe, node)
            node.store_line.on_call = self._called
        if (committed := committed_part(self.store)) is not None:
            committed.on_call = self._called

    def _called(self, request: StoreRequest, outcome: StoreOutcome) -> None:
        self.calls[f"{request.script} {outcome.code}"] += 1
        self.on_call(request, outcome)
        state, caller = self.store.state, request.arguments.get("node_id")
        if isinstance(caller, int) and caller in state.brokers:
            self.reported[caller] = max(self.reported[caller], state.brokers[caller]["persisted"])
        offset = state.cluster.get("mo", 0)
        if offset != self._offset:
            self._offset = offset
            for node in self.nodes:
                node.store_line.store_moved()
            self.history.store_changed(request, outcome)

    def node(self, node_id: int) -> SimNode:
        return self.nodes[node_id - 1]

    def stop_store(self) -> None:
        """End the store's process. Its data survives."""
        self.world.say("the metadata store goes down")
        self.store.up = False
        for node in self.nodes:
            node.store_line.lose("simulated: the store is gone")

    def start_store(self) -> None:
        """Start the store again, as another process."""
        self.world.say("the metadata store is back")
        if not isinstance(self.store, MovingStore) or not self.store.is_in_quorum:
            self.store_back_ms = self.world.now_ms
        self.store.restart()

    def restore_store(self, incarnation_id: str = "restored") -> bool:
        """Restore the store as an operator does by `yak cluster restore`; False if that is not safe yet."""
        if not self.store.up or not self.store.served.offers:
            return False
        plan = self.store.plan_restore(incarnation_id, self.world.now_ms)
        if not plan.is_safe:
            return False
        request = self.store.restore_request(plan)
        outcome = self.store.call(request, self.world.now_ms)
        assert outcome.code == "OK", outcome
        self.world.say(f"the metadata store is restored from the image of broker {plan.newest.node_id}")
        self._offset = -1  # another history may have as many records
        self._called(request, outcome)
        return True

    def cut(self, one: str, other: str, *, both: bool = True) -> None:
        """Block all traffic between two parties, or from `one` to `other` only."""
        self.world.say(f"cut {one} {'--' if both else '->'} {other}")
        self.network.cut(one, other)
        if both:
            self.network.cut(other, one)

    def reconnect(self, one: str, other: str, *, both: bool = True) -> None:
        """Undo such a block."""
        self.world.say(f"reconnect {one} {'--' if both else '->'} {other}")
        self.network.reconnect(one, other)
        if both:
            self.network.reconnect(other, one)
