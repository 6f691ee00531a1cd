"""Scripts of the store in memory: external brokers (static registrations), which are no YAK brokers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from yak.sim.store_checks import Refused, Value, check_broker

if TYPE_CHECKING:
    from yak.sim.store import StoreState

_WHERE = ("host", "port", "rack", "security_protocol")


def register_guest(state: StoreState, a: Mapping[str, Any], now_ms: int) -> Value:
    """Register an external broker. Each registration has its own id: the same id again is a repeat, or too late."""
    check_broker(state, a)
    node_id = a["target_id"]
    if node_id in state.brokers or node_id in state.unregistered:
        raise Refused("BROKER_ID_TAKEN", message=f"broker {node_id} is or was a broker of this cluster")
    old = state.guests.get(node_id)
    where = {name: a[name] for name in _WHERE}
    if old is not None and (old["boot_id"], old["state"]) == (a["boot_id"], "ACTIVE") and where.items() <= old.items():
        return {"broker_epoch": old["broker_epoch"], "created": False}
    if old is not None and (old["state"] == "ACTIVE" or old["boot_id"] == a["boot_id"]):
        raise Refused("GUEST_EXISTS", message=f"broker {node_id} is registered")
    forgets = None
    if old is None and len(state.guests) >= a["guests_max"]:
        closed = [(guest["changed"], n) for n, guest in state.guests.items() if guest["state"] == "CLOSED"]
        if not closed:
            raise Refused("TOO_MANY_GUESTS", message=f"there are {a['guests_max']} such brokers")
        forgets = min(closed)[1]
        del state.guests[forgets]
    epoch = 1 if old is None else old["broker_epoch"] + 1
    guest = where | {"broker_epoch": epoch, "boot_id": a["boot_id"], "state": "ACTIVE", "nonce": ""}
    record = _told(node_id, guest) | {"boot_id": a["boot_id"], "forgets": forgets}
    state.guests[node_id] = guest | {"changed": state.append("RegisterBroker", record, now_ms)}
    return {"broker_epoch": epoch, "created": True}


def change_guest(state: StoreState, a: Mapping[str, Any], now_ms: int) -> Value:
    """Change or close an external broker: compare and increment its epoch. The same nonce again is a repeat."""
    check_broker(state, a)
    node_id = a["target_id"]
    guest = state.guests.get(node_id)
    if guest is None:
        raise Refused("NO_BROKER")
    if (guest["broker_epoch"], guest["nonce"]) == (a["target_epoch"] + 1, a["nonce"]):
        return {"broker_epoch": guest["broker_epoch"]}
    if guest["broker_epoch"] != a["target_epoch"]:
        raise Refused("STALE_EPOCH", message=f"broker {node_id} is at epoch {guest['broker_epoch']}")
    if a["state"] not in ("ACTIVE", "CLOSED"):
        raise Refused("BAD_REQUEST", message="state")
    guest |= {name: a[name] for name in (*_WHERE, "state", "nonce")}
    guest["broker_epoch"] += 1
    record = _told(node_id, guest) | {"state": guest["state"]}
    guest["changed"] = state.append("BrokerChange", record, now_ms)
    return {"broker_epoch": guest["broker_epoch"]}


def _told(node_id: int, guest: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of an external broker in its records."""
    named = {name: guest[name] for name in ("broker_epoch", *_WHERE)}
    return named | {"version": 1, "guest": True, "node_id": node_id}
