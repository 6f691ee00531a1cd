"""I14: the metadata log is one hash chain without gaps, every broker's image is on it, and controller epochs rise.

The store's tables say what its log says, and a restore drops no config, quota, user or ACL that a broker knew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from yak.cluster.image import Image, PartitionInfo
from yak.cluster.payload import format_nodes, parse_isr
from yak.sim.deliveries import Violation
from yak.sim.history import Watcher

if TYPE_CHECKING:
    from yak.metadata_store.state import StoreState
    from yak.ports.metadata_store import StoreOutcome, StoreRequest
    from yak.sim.node import SimNode
    from yak.sim.store import SimStore


class MetadataLinear(Watcher):
    """Replays the log into an image of its own."""

    def __init__(self, store: SimStore) -> None:
        self._store = store
        self._hashes: dict[int, str] = {0: ""}
        self._image = Image()
        self._controller_epoch = 0
        self._seen: dict[int, tuple[int, int]] = {}
        self._newest = Image()
        """The newest image of a broker in this history."""

    def store_changed(self, request: StoreRequest, outcome: StoreOutcome) -> None:  # noqa: ARG002
        """Apply the new records, which verifies the chain. A restore begins a new one."""
        if request.script == "seed_commit":
            self._controller_epoch = self._store.state.cluster["ctl_epoch"]
            self._image = Image()
        records = self._store.records_after(self._image.offset)
        self._image = self._image.apply_all(records)[0]
        if request.script == "seed_commit":
            if (restored := _configs_of(self._image)) != (known := _configs_of(self._newest)):
                raise Violation(f"I14: the restored configs are {restored}, a broker had {known}")
            self._newest = self._image
        for record in records:
            self._hashes[record.offset] = record.chain_hash
            if record.kind == "ControllerChange":
                epoch = int(str(record.payload["controller_epoch"]))
                if epoch <= self._controller_epoch:
                    raise Violation(f"I14: controller epoch {epoch} after {self._controller_epoch}")
                self._controller_epoch = epoch

    def stepped(self, node: SimNode) -> None:
        """A broker's image is on this chain, and never goes back within one incarnation."""
        assert node.broker is not None
        image = node.broker.image
        life, offset = self._seen.get(node.node_id, (0, 0))
        if image.offset == offset and life == node.starts_count:
            return
        if life == node.starts_count and image.offset < offset:
            raise Violation(f"I14: broker {node.node_id}: the image went from {offset} to {image.offset}")
        self._seen[node.node_id] = (node.starts_count, image.offset)
        if image.offset > self._newest.offset:
            self._newest = image
        if self._hashes.get(image.offset) != image.chain_hash:
            raise Violation(f"I14: broker {node.node_id}: its image at {image.offset} is of another history")

    def compare_content(self, nodes: list[SimNode]) -> None:
        """At the end of a run, compare the store's tables, and every image that is at the end of the log, with the log."""
        _compare_tables(self._store.state, self._image)
        wanted = self._image.without_position()
        for node in nodes:
            image = None if node.broker is None else node.broker.image
            if image is not None and image.offset == self._image.offset and image.without_position() != wanted:
                raise Violation(f"I14: broker {node.node_id}: same records, another content")


def _configs_of(image: Image) -> dict[str, dict[str, str]]:
    """All configs of an image, under the names that they have in the store."""
    found = {f"topic:{topic.name}": topic.configs for topic in image.pending.values()}
    found |= {f"topic:{topic.name}": topic.configs for topic in image.topics.values()}
    found |= {f"broker:{node_id}": configs for node_id, configs in image.broker_configs.items()}
    found["broker:"] = image.default_broker_configs
    for kind, held in (
        ("group", image.group_configs),
        ("user", image.user_credentials),
        ("token", image.delegation_tokens),
        ("quota", image.quotas),
        ("acl", image.acls),
    ):
        found |= {f"{kind}:{name}": configs for name, configs in held.items()}
    return {name: dict(configs) for name, configs in found.items() if configs}


def _compare_tables(state: StoreState, image: Image) -> None:
    """Raise Violation where the store's tables and the image of its log differ."""
    if state.configs != (configs := _configs_of(image)):
        raise Violation(f"I14: the store has the configs {state.configs}, its log says {configs}")
    brokers = {node_id: (row["broker_epoch"], row["state"], row["boot_id"]) for node_id, row in state.brokers.items()}
    known = {node_id: (each.broker_epoch, each.state.value, each.boot_id) for node_id, each in image.brokers.items()}
    if brokers != known:
        raise Violation(f"I14: the store has the brokers {brokers}, its log says {known}")
    rows = {(topic_id, number): _fields_of(row) for (topic_id, number), row in state.partitions.items()}
    logged = {
        (str(topic.topic_id), each.partition): _fields_in(each)
        for topic in image.topics.values()
        for each in topic.partitions
    }
    logged |= {
        (str(topic_id), number): _fields_in(each)
        for topic_id, topic in image.pending.items()
        for number, each in topic.partitions.items()
    }
    if rows != logged:
        raise Violation(f"I14: the store has the partitions {rows}, its log says {logged}")


def _fields_of(row: dict[str, Any]) -> tuple[Any, ...]:
    """A partition's row, as `_fields_in` has it."""
    members = (tuple((each.node_id, each.broker_epoch) for each in parse_isr(row[name])) for name in ("isr", "elr"))
    names = ("replicas", "adding", "removing", "leader", "leader_epoch", "partition_epoch")
    return (*members, *(row.get(name, "") for name in names))


def _fields_in(info: PartitionInfo) -> tuple[Any, ...]:
    nodes = (info.replicas, info.adding_replicas, info.removing_replicas)
    epochs = (info.leader, info.leader_epoch, info.partition_epoch)
    return (info.isr_members, info.elr_members, *map(format_nodes, nodes), *epochs)
