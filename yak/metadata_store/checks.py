"""The common part of the store's scripts: checks of the caller and of members, and records of changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from yak.cluster.payload import IsrMember, format_isr, parse_isr, parse_nodes
from yak.limits import STORE_CALL_PARTITIONS_MAX

if TYPE_CHECKING:
    from yak.metadata_store.state import StoreState

MIN_ISR = "min.insync.replicas"
Value = dict[str, Any]
ItemResult: TypeAlias = tuple[str, dict[str, Any] | None]
"""The code of one item of a call, and its change to record, if any."""


class RefusedCall(Exception):
    """A script refuses a call."""

    def __init__(self, code: str, **value: Any) -> None:
        super().__init__(code)
        self.code = code
        self.value = value


def caller_of(state: StoreState, a: Mapping[str, Any]) -> Value:
    """The caller's registration, for the answer of a comparison of histories; empty when there is none."""
    broker = state.brokers.get(a["node_id"])
    if broker is None:
        return {}
    return {"broker": {k: broker[k] for k in ("broker_epoch", "boot_id", "acted_epoch", "state", "host", "port")}}


def check_broker(state: StoreState, a: Mapping[str, Any]) -> dict[str, Any]:
    """The caller's registration; refuses a broker epoch that is not the current one."""
    broker = state.brokers.get(a["node_id"])
    if broker is None or broker["broker_epoch"] != a["broker_epoch"] or broker["state"] == "CLOSED":
        raise RefusedCall("STALE_BROKER_EPOCH")
    return broker


def check_controller(state: StoreState, a: Mapping[str, Any]) -> None:
    """Refuses a caller that is not the controller in the epoch that it names."""
    check_broker(state, a)
    if state.cluster["ctl_id"] != a["node_id"] or state.cluster["ctl_epoch"] != a["controller_epoch"]:
        raise RefusedCall("FENCED_CONTROLLER", controller_id=state.cluster["ctl_id"])


def check_size(a: Mapping[str, Any]) -> None:
    """Refuses a call with no partitions, or with more than one script run should handle."""
    if not 0 < len(a["partitions"]) <= STORE_CALL_PARTITIONS_MAX:
        raise RefusedCall("BAD_REQUEST", message="a call takes 1 to 200 partitions")


def target_broker(state: StoreState, a: Mapping[str, Any]) -> dict[str, Any]:
    """The broker that a controller's call is about; refuses if it has registered again since."""
    broker = state.brokers.get(a["target_id"])
    if broker is None or broker["broker_epoch"] != a["target_epoch"]:
        raise RefusedCall("STALE_EPOCH")
    return broker


def change_broker(state: StoreState, node_id: int, new: str, now_ms: int) -> None:
    """Change a broker's state, and append the record."""
    broker = state.brokers[node_id]
    broker["state"] = new
    state.append("BrokerChange", {"node_id": node_id, "broker_epoch": broker["broker_epoch"], "state": new}, now_ms)


def is_current(state: StoreState, member: IsrMember, *states: str) -> bool:
    """Whether an ISR member is the broker's current epoch, in one of the states."""
    broker = state.brokers.get(member.node_id)
    return broker is not None and broker["broker_epoch"] == member.broker_epoch and broker["state"] in states


def has_all_data(state: StoreState, member: IsrMember) -> bool:
    """Whether the broker has all data that it had as this member: no later start lost some (`kept_all` in the scripts)."""
    broker = state.brokers.get(member.node_id)
    return broker is not None and member.broker_epoch >= broker["lossy_epoch"]


def has_node(members: Iterable[IsrMember], node_id: int) -> bool:
    """Whether a node is among the members, in any epoch."""
    return any(member.node_id == node_id for member in members)


def min_isr(state: StoreState, topic_id: str, leader: int, replicas: tuple[int, ...]) -> int:
    """The ISR size that may commit under this leader: from the store's configs, else its own; at most all replicas."""
    names = ("topic:" + state.topics[topic_id]["name"], f"broker:{leader}", "broker:")
    set_values = (state.configs.get(name, {}).get(MIN_ISR) for name in names)
    started_with = state.brokers.get(leader, {}).get("min_isr", 1)
    return min(int(next((value for value in set_values if value), started_with)), len(replicas))


def commits_nothing(state: StoreState, item: Mapping[str, Any], leader: int) -> bool:
    """Whether no leader commits records: then the ELR stays eligible, and the next election computes it by the new minimum.

    A call of an earlier version, without `keeps_elr_without_leader`, has the effect that it had then: a quorum's log has
    such calls.
    """
    return bool(item.get("keeps_elr_without_leader")) and leader not in state.brokers


def minimum_for_elr(state: StoreState, item: Mapping[str, Any], partition: Mapping[str, Any]) -> int:
    """The `minimum` for `next_elr` after a change of this item; more than all replicas where no leader commits records."""
    replicas = parse_nodes(partition["replicas"])
    if commits_nothing(state, item, partition["leader"]):
        return len(replicas) + 1
    return min_isr(state, item["topic_id"], partition["leader"], replicas)


def next_elr(state: StoreState, partition: Mapping[str, Any], isr: Iterable[IsrMember], minimum: int) -> str:
    """The ELR after a change to `isr` (KIP-966): empty once the ISR can commit, else the former members since then.

    `partition` has the ISR and ELR before the change, and the leader and replicas after it. `minimum` must not be above
    the leader's own: a former member is eligible only while nothing could be committed without it.
    """
    isr = list(isr)
    if len(isr) >= minimum:
        return ""
    replicas = parse_nodes(partition["replicas"])
    elr = {
        member.node_id: member
        for member in [*parse_isr(partition["elr"]), *parse_isr(partition["isr"])]
        if member.node_id in replicas and not has_node(isr, member.node_id) and has_all_data(state, member)
    }
    return format_isr(elr[node_id] for node_id in sorted(elr))


def change_of(topic_id: str, partition: Mapping[str, Any], *, unclean: bool = False) -> dict[str, Any]:
    """A partition's entry in a PartitionChange record."""
    names = ("partition", "replicas", "adding", "removing", "isr", "elr", "leader", "leader_epoch", "partition_epoch")
    return {"topic_id": topic_id, "unclean": unclean} | {name: partition[name] for name in names}


def change_each(
    state: StoreState,
    a: Mapping[str, Any],
    now_ms: int,
    change: Callable[[dict[str, Any], dict[str, Any]], ItemResult],
) -> Value:
    """Change the partitions of a call one by one; `codes` has each result. `change` gets an item and its partition."""
    check_size(a)
    codes, changes = [], []
    for item in a["partitions"]:
        partition = state.partitions.get((item["topic_id"], item["partition"]))
        code, changed = ("NO_TOPIC", None) if partition is None else change(item, partition)
        codes.append(code)
        if changed is not None:
            changes.append(changed)
    append_changes(state, changes, now_ms)
    return {"codes": codes}


def append_changes(state: StoreState, changes: list[dict[str, Any]], now_ms: int) -> None:
    """Append PartitionChange records for these changes, if any, of a bounded size each."""
    for start in range(0, len(changes), STORE_CALL_PARTITIONS_MAX):
        state.append("PartitionChange", {"changes": changes[start : start + STORE_CALL_PARTITIONS_MAX]}, now_ms)
