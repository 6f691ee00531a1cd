"""Scripts of the metadata store: heartbeats, and the controller's lease, a counter that the controller's heartbeats
increment.

Nothing here expires: a candidate for controller watches the counter on its own clock, and claims with the value that it
saw.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from yak.metadata_store.checks import Refused, Value, change_broker, check_broker, may_fence_fast

if TYPE_CHECKING:
    from yak.metadata_store.state import StoreState


def note_acted(broker: dict[str, Any]) -> None:
    """Note that an unfenced broker with its registration on disk may act: later incarnations must know of this one."""
    if broker["state"] in ("ACTIVE", "STOPPING") and broker["persisted"] >= broker["broker_epoch"]:
        broker["acted_epoch"] = broker["broker_epoch"]


def heartbeat(state: StoreState, a: Mapping[str, Any], now_ms: int) -> Value:  # noqa: ARG001
    """Increment the heartbeat counter. The controller also renews its lease, and gets all brokers' counters."""
    broker = check_broker(state, a)
    state.heartbeats[a["node_id"]] = state.heartbeats.get(a["node_id"], 0) + 1
    broker["persisted"] = a["persisted"]
    state.full.pop(a["node_id"], None)
    if a.get("is_full"):
        state.full[a["node_id"]] = None
    note_acted(broker)
    cluster = state.cluster
    held = _is_holder(state, a)
    if held and a["controller_epoch"] == cluster["ctl_epoch"]:
        cluster["lease_n"] += 1
    value: Value = {"state": broker["state"]} | _holder(state)
    if state.full:
        value["full"] = sorted(state.full)
    if held:
        value["heartbeats"] = {str(node_id): count for node_id, count in state.heartbeats.items()}
    return value


def acquire_lease(state: StoreState, a: Mapping[str, Any], now_ms: int) -> Value:
    """Become controller if there is none or the claim is valid; a repeat by the controller changes nothing."""
    me = check_broker(state, a)
    cluster = state.cluster
    if not _is_holder(state, a):
        if not _is_free(state, a, me):
            _fence_holder(state, a, me, now_ms)
        cluster["ctl_epoch"] += 1
        cluster |= {"ctl_id": a["node_id"], "ctl_broker_epoch": a["broker_epoch"]}
        record = {"controller_id": a["node_id"], "controller_epoch": cluster["ctl_epoch"]}
        state.append("ControllerChange", record | {"broker_epoch": a["broker_epoch"]}, now_ms)
    return {"controller_epoch": cluster["ctl_epoch"]}


def _is_holder(state: StoreState, a: Mapping[str, Any]) -> bool:
    cluster = state.cluster
    return bool(cluster["ctl_id"] == a["node_id"] and cluster["ctl_broker_epoch"] == a["broker_epoch"])


def _holder(state: StoreState) -> Value:
    cluster = state.cluster
    office = {"controller_id": cluster["ctl_id"], "controller_epoch": cluster["ctl_epoch"]}
    return office | {"lease_n": cluster["lease_n"]}


def _is_free(state: StoreState, a: Mapping[str, Any], me: dict[str, Any]) -> bool:
    cluster = state.cluster
    holder = state.brokers.get(cluster["ctl_id"])
    if holder is None or holder["broker_epoch"] != cluster["ctl_broker_epoch"] or cluster["ctl_id"] == a["node_id"]:
        return True
    # a FENCED controller has just started and unfences itself next; if it is dead, its lease stops
    preferred = me["role"] == "leader" and me["state"] == "ACTIVE" and holder["role"] == "follower"
    return bool(preferred or holder["state"] == "CLOSED")


def _fence_holder(state: StoreState, a: Mapping[str, Any], me: dict[str, Any], now_ms: int) -> None:
    """Fence the controller that the caller considers dead; refuses an invalid claim.

    Any broker may claim a lease that stopped: after a failure of all brokers no live one is ACTIVE.
    """
    cluster = state.cluster
    holder_id = cluster["ctl_id"]
    claimed = a.get("claimed_epoch") == cluster["ctl_epoch"]
    stood_still = a.get("claimed_renewals") == cluster["lease_n"]
    fast = a.get("fast") and me["state"] == "ACTIVE" and may_fence_fast(state, holder_id, now_ms)
    if not claimed or not (stood_still or fast):
        raise Refused("LEASE_HELD", **_holder(state))
    if not stood_still:
        state.brokers[holder_id]["fast_fenced_ms"] = now_ms
    if state.brokers[holder_id]["state"] != "FENCED":
        change_broker(state, holder_id, "FENCED", now_ms)
