"""What the scripts of the store in memory share: who asks, which members count, and how a change is written down."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from yak.cluster.payload import IsrMember, format_isr, parse_isr

if TYPE_CHECKING:
    from yak.sim.store import StoreState

MAX_PARTITIONS = 200
Value = dict[str, Any]


class Refused(Exception):
    """A script said no."""

    def __init__(self, code: str, **value: Any) -> None:
        super().__init__(code)
        self.code = code
        self.value = value


def check_broker(state: StoreState, a: Mapping[str, Any]) -> dict[str, Any]:
    """The caller's registration; refuses a boot that is not the current one."""
    broker = state.brokers.get(a["node_id"])
    if broker is None or broker["broker_epoch"] != a["broker_epoch"] or broker["state"] == "CLOSED":
        raise Refused("STALE_BROKER_EPOCH")
    return broker


def check_controller(state: StoreState, a: Mapping[str, Any]) -> None:
    """Refuses who does not hold the office in the epoch it names."""
    check_broker(state, a)
    if state.cluster["ctl_id"] != a["node_id"] or state.cluster["ctl_epoch"] != a["controller_epoch"]:
        raise Refused("FENCED_CONTROLLER", controller_id=state.cluster["ctl_id"])


def target_broker(state: StoreState, a: Mapping[str, Any]) -> dict[str, Any]:
    """The broker a controller's call is about; refuses when it has booted since."""
    broker = state.brokers.get(a["target_id"])
    if broker is None or broker["broker_epoch"] != a["target_epoch"]:
        raise Refused("STALE_EPOCH")
    return broker


def is_current(state: StoreState, member: IsrMember, *states: str) -> bool:
    """Whether a member of an ISR is that broker's present boot, in one of the states."""
    broker = state.brokers.get(member.node_id)
    return broker is not None and broker["broker_epoch"] == member.broker_epoch and broker["state"] in states


def _min_isr(state: StoreState, topic_id: str) -> int:
    name = "min.insync.replicas"
    topic = state.configs.get("topic:" + state.topics[topic_id]["name"], {})
    return int(topic.get(name) or state.configs.get("broker:", {}).get(name) or 1)


def next_elr(state: StoreState, partition: dict[str, Any], topic_id: str, isr: list[IsrMember]) -> str:
    """The ELR after a change to `isr` (KIP-966): empty once the ISR can commit, else what left it since."""
    if len(isr) >= _min_isr(state, topic_id):
        return ""
    inside = {member.node_id for member in isr}
    kept: dict[int, IsrMember] = {}
    for member in [*parse_isr(partition["elr"]), *parse_isr(partition["isr"])]:
        broker = state.brokers.get(member.node_id)
        if member.node_id not in inside and broker is not None and member.broker_epoch >= broker["lossy_epoch"]:
            kept[member.node_id] = member
    return format_isr(tuple(kept[node_id] for node_id in sorted(kept)))


def change_of(topic_id: str, partition: dict[str, Any], *, unclean: bool = False) -> dict[str, Any]:
    """A partition's entry in a PartitionChange record."""
    names = ("partition", "isr", "elr", "leader", "leader_epoch", "partition_epoch")
    return {"topic_id": topic_id, "unclean": unclean} | {name: partition[name] for name in names}
