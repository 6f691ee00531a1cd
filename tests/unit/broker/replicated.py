"""One broker of the rig made to believe that there are others: what it tells clients of leaders and replicas."""

from __future__ import annotations

from dataclasses import replace

from tests.cluster_rig import ClusterRig
from tests.rig import Rig
from yak.cluster.image import BrokerInfo
from yak.cluster.payload import IsrMember
from yak.cluster.records import BrokerState
from yak.ids import TopicPartition
from yak.ports.metadata_store import StoreOutcome, StoreRequest
from yak.replication.partition import Partition
from yak.replication.partition_events import PartitionEvent


def add_broker(
    rig: Rig, node_id: int, *, rack: str | None = None, state: BrokerState = BrokerState.ACTIVE, role: str = "leader"
) -> None:
    """One more broker in the image; it does not exist."""
    broker = rig.node.broker
    info = BrokerInfo(
        node_id=node_id,
        broker_epoch=100 + node_id,
        boot_id=f"boot-{node_id}",
        directories=(),
        host=f"host-{node_id}",
        port=9000 + node_id,
        rack=rack,
        role=role,
        state=state,
    )
    broker.context.image = replace(broker.context.image, brokers={**broker.context.image.brokers, node_id: info})


def set_partition(rig: Rig, topic: str, *, leader: int, replicas: tuple[int, ...], isr: tuple[int, ...]) -> Partition:
    """Give partition 0 another leader, replicas and ISR, one leader epoch on: in the image and in the broker."""
    broker = rig.node.broker
    image = broker.context.image
    described = image.topics[topic]
    members = [IsrMember(node, image.brokers[node].broker_epoch if node in image.brokers else 0) for node in isr]
    info = replace(
        described.partitions[0],
        leader=leader,
        leader_epoch=described.partitions[0].leader_epoch + 1,
        partition_epoch=described.partitions[0].partition_epoch + 1,
        replicas=replicas,
        isr_members=tuple(members),
    )
    changed = replace(described, partitions=(info, *described.partitions[1:]))
    broker.context.image = replace(image, topics={**image.topics, topic: changed})
    partition = broker.partitions[TopicPartition(topic, 0)]
    if partition.become(broker.node_id, info, now_ms=rig.world.now_ms):
        broker.replica_fetchers.stop()  # the other brokers do not exist
        broker.partition_changed(partition, PartitionEvent.LEADER_CHANGED)
    return partition


class Silence:
    """The way to brokers that do not exist: nothing ever answers, which is no reason to think them dead."""

    def connect(self, peer_id: int, host: str, port: int) -> None:
        """No answer."""

    def send(self, peer_id: int, frame: bytes) -> None:
        """Lost."""

    def close(self, peer_id: int) -> None:
        """Nothing was open."""

    def end(self) -> None:
        """Nothing was open."""


def join(
    rig: Rig, node_id: int, *, port: int = 9092, role: str = "leader", rack: str | None = None, active: bool = True
) -> None:
    """A broker that only the metadata store knows: registered, and alive until it should have sent a heartbeat."""
    rig.node.peers = Silence()
    who = {"boot_id": f"boot-{node_id}", "directories": f"directory-{node_id}", "lossy": False, "last_epoch": 0}
    where = {"host": f"host-{node_id}", "port": port, "rack": rack, "role": role}
    outcome = call_store(rig, "register", node_id=node_id, broker_epoch=0, **who, **where)
    assert outcome.code == "OK", outcome
    rig.store.state.brokers[node_id]["persisted"] = outcome.value["broker_epoch"]
    if active:
        set_state(rig, node_id, "ACTIVE")
    heard(rig)


def set_state(rig: Rig, node_id: int, state: str) -> None:
    """Fence or unfence a broker as the controller does."""
    _set_state(rig, node_id, state)
    heard(rig)


def fence_alone(rig: Rig) -> None:
    """Fence the only broker, and stop where it knows that: it asks at once to be unfenced."""
    _set_state(rig, 1, "FENCED")
    rig.node.store_line.store_moved()
    rig.world.run(lambda: rig.node.broker.image.brokers[1].state == "FENCED", events_max=1000)


def _set_state(rig: Rig, node_id: int, state: str) -> None:
    script = {"ACTIVE": "unfence", "FENCED": "fence"}[state]
    epoch = rig.store.state.brokers[node_id]["broker_epoch"]
    assert call_store(rig, script, target_id=node_id, target_epoch=epoch).code == "OK"


def heard(rig: Rig) -> None:
    """Let the broker read what is new in the metadata log."""
    rig.node.store_line.store_moved()
    rig.run_for(20)


def call_store(rig: Rig | ClusterRig, script: str, caller: int = 1, **arguments: object) -> StoreOutcome:
    """Call a script of the metadata store as this broker."""
    store = rig.store if isinstance(rig, Rig) else rig.cluster.store
    cluster = store.state.cluster
    envelope = {
        "cluster_id": cluster["cluster_id"],
        "incarnation_id": cluster["incarnation_id"],
        "node_id": caller,
        "broker_epoch": store.state.brokers[caller]["broker_epoch"],
        "controller_epoch": cluster["ctl_epoch"],
    }
    return store.call(StoreRequest(script, envelope | arguments), rig.world.now_ms)
