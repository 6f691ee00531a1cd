"""The store's scripts in Python: each one mirrors `yak/server/redis_scripts/<name>.lua`, check by check.

`tests/integration/test_store_conformance.py` holds both to the same answers. A script checks everything first and
changes afterwards, as in Redis, where nothing is rolled back.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from yak.cluster.payload import IsrMember, format_isr, parse_isr, parse_nodes
from yak.seams.metadata_store import TailedRecord

if TYPE_CHECKING:
    from yak.sim.store import StoreState

MAX_PARTITIONS = 200
PRODUCER_ID_BLOCK = 1000
Value = dict[str, Any]


class Refused(Exception):
    """A script said no."""

    def __init__(self, code: str, **value: Any) -> None:
        super().__init__(code)
        self.code = code
        self.value = value


# ------------------------------------------------------------------------------------------------------ checks


def _check_broker(state: StoreState, a: Mapping[str, Any]) -> dict[str, Any]:
    broker = state.brokers.get(a["node_id"])
    if broker is None or broker["broker_epoch"] != a["broker_epoch"] or broker["state"] == "CLOSED":
        raise Refused("STALE_BROKER_EPOCH")
    return broker


def _check_controller(state: StoreState, a: Mapping[str, Any]) -> None:
    _check_broker(state, a)
    if state.cluster["ctl_id"] != a["node_id"] or state.cluster["ctl_epoch"] != a["controller_epoch"]:
        raise Refused("FENCED_CONTROLLER", controller_id=state.cluster["ctl_id"])


def _target(state: StoreState, a: Mapping[str, Any]) -> dict[str, Any]:
    broker = state.brokers.get(a["target_id"])
    if broker is None or broker["broker_epoch"] != a["target_epoch"]:
        raise Refused("STALE_EPOCH")
    return broker


def _is_current(state: StoreState, member: IsrMember, *states: str) -> bool:
    broker = state.brokers.get(member.node_id)
    return broker is not None and broker["broker_epoch"] == member.broker_epoch and broker["state"] in states


def _min_isr(state: StoreState, topic_id: str) -> int:
    name = "min.insync.replicas"
    topic = state.configs.get("topic:" + state.topics[topic_id]["name"], {})
    return int(topic.get(name) or state.configs.get("broker:", {}).get(name) or 1)


def _next_elr(state: StoreState, partition: dict[str, Any], topic_id: str, isr: list[IsrMember]) -> str:
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


# --------------------------------------------------------------------------------------- cluster and brokers


def bootstrap(state: StoreState, a: Mapping[str, Any], now_ms: int) -> Value:
    """Make the cluster unless there is one."""
    cluster = state.cluster
    if cluster:
        if a.get("cluster_id") and a["cluster_id"] != cluster["cluster_id"]:
            raise Refused("WRONG_CLUSTER", cluster_id=cluster["cluster_id"])
        if cluster["state"] != "LIVE":
            raise Refused("SEEDING")
        return {k: cluster[k] for k in ("cluster_id", "incarnation_id", "incarnation")} | {"created": False}
    cluster |= {
        "cluster_id": a["new_cluster_id"],
        "incarnation": 1,
        "incarnation_id": a["new_incarnation_id"],
        "state": "LIVE",
        "mo": 0,
        "h": "",
        "ctl_id": -1,
        "ctl_epoch": 0,
        "ctl_broker_epoch": 0,
        "next_pid": 0,
        "format": 0,
    }
    ids = {k: cluster[k] for k in ("cluster_id", "incarnation_id", "incarnation")}
    state.append("Cluster", ids | {"format": 0}, now_ms)
    return ids | {"created": True}


def verify(state: StoreState, a: Mapping[str, Any], now_ms: int) -> Value:  # noqa: ARG001
    """Say what the store holds; the history was compared already."""
    cluster = state.cluster
    value: Value = {k: cluster[k] for k in ("cluster_id", "incarnation_id", "incarnation")}
    value |= {"controller_id": cluster["ctl_id"], "controller_epoch": cluster["ctl_epoch"]}
    broker = state.brokers.get(a["node_id"])
    if broker is not None:
        value["broker"] = {k: broker[k] for k in ("broker_epoch", "boot_id", "state", "host", "port")}
    return value


def register(state: StoreState, a: Mapping[str, Any], now_ms: int) -> Value:
    """A boot of a broker gets its epoch, and starts FENCED."""
    old = state.brokers.get(a["node_id"])
    if old is not None and old["state"] != "CLOSED":
        if old["boot_id"] == a["boot_id"]:
            return {"broker_epoch": old["broker_epoch"]}
        counter = state.heartbeats.get(a["node_id"], 0)
        shared = set(old["directories"].split(",")) & set(a["directories"].split(","))
        if not shared and a.get("observed_heartbeat") != counter:
            where = {k: old[k] for k in ("host", "port", "boot_id")}
            raise Refused("NODE_ID_IN_USE", heartbeat=counter, **where)
    epoch = state.cluster["mo"] + 1
    named = {k: a[k] for k in ("boot_id", "directories", "host", "port", "rack", "role")}
    lossy_epoch = epoch if a["lossy"] else (old["lossy_epoch"] if old else 0)
    state.brokers[a["node_id"]] = named | {
        "broker_epoch": epoch,
        "state": "FENCED",
        "lossy_epoch": lossy_epoch,
        "persisted": 0,
    }
    record = named | {"node_id": a["node_id"], "broker_epoch": epoch, "lossy": a["lossy"]}
    state.append("RegisterBroker", record, now_ms)
    return {"broker_epoch": epoch}


def heartbeat(state: StoreState, a: Mapping[str, Any], now_ms: int) -> Value:
    """Count up; the controller gets everyone's counters."""
    broker = _check_broker(state, a)
    state.heartbeats[a["node_id"]] = state.heartbeats.get(a["node_id"], 0) + 1
    broker["persisted"] = a["persisted"]
    cluster = state.cluster
    value: Value = {"state": broker["state"], "controller_id": cluster["ctl_id"]}
    value |= {"controller_epoch": cluster["ctl_epoch"], "lease_ms": _lease_left(state, now_ms)}
    if cluster["ctl_id"] == a["node_id"]:
        value["heartbeats"] = {str(node_id): count for node_id, count in state.heartbeats.items()}
    return value


def _lease_left(state: StoreState, now_ms: int) -> int:
    return max(0, state.lease["expires_ms"] - now_ms) if state.lease else 0


def acquire_lease(state: StoreState, a: Mapping[str, Any], now_ms: int) -> Value:
    """Take the controller's office when nobody alive has it; a repeat by its holder changes nothing."""
    _check_broker(state, a)
    cluster = state.cluster
    mine = cluster["ctl_id"] == a["node_id"] and cluster["ctl_broker_epoch"] == a["broker_epoch"]
    left_ms = _lease_left(state, now_ms)
    if left_ms > 0 and not mine:
        holder = state.brokers.get(cluster["ctl_id"])
        alive = holder is not None and holder["broker_epoch"] == cluster["ctl_broker_epoch"]
        if holder is not None and alive and holder["state"] != "CLOSED":
            raise Refused("LEASE_HELD", controller_id=cluster["ctl_id"], ttl_ms=left_ms)
    if not mine:
        cluster["ctl_epoch"] += 1
        cluster |= {"ctl_id": a["node_id"], "ctl_broker_epoch": a["broker_epoch"]}
        record = {"controller_id": a["node_id"], "controller_epoch": cluster["ctl_epoch"]}
        state.append("ControllerChange", record | {"broker_epoch": a["broker_epoch"]}, now_ms)
    state.lease = {"expires_ms": now_ms + a["lease_ms"]}
    return {"controller_epoch": cluster["ctl_epoch"]}


def renew_lease(state: StoreState, a: Mapping[str, Any], now_ms: int) -> Value:
    """Keep the office; a lease that ran out but was not taken is still ours."""
    _check_controller(state, a)
    state.lease = {"expires_ms": now_ms + a["lease_ms"]}
    return {}


def _change_broker(state: StoreState, node_id: int, new: str, now_ms: int) -> None:
    broker = state.brokers[node_id]
    broker["state"] = new
    state.append("BrokerChange", {"node_id": node_id, "broker_epoch": broker["broker_epoch"], "state": new}, now_ms)


def unfence(state: StoreState, a: Mapping[str, Any], now_ms: int) -> Value:
    """A FENCED broker becomes ACTIVE, once it has its own registration on disk."""
    _check_controller(state, a)
    broker = _target(state, a)
    if a["target_id"] != a["node_id"] and broker["persisted"] < broker["broker_epoch"]:
        raise Refused("NOT_CAUGHT_UP")
    if broker["state"] == "FENCED":
        _change_broker(state, a["target_id"], "ACTIVE", now_ms)
    return {}


def fence(state: StoreState, a: Mapping[str, Any], now_ms: int) -> Value:
    """A broker that is not heard from loses its say."""
    _check_controller(state, a)
    if _target(state, a)["state"] in ("ACTIVE", "STOPPING"):
        _change_broker(state, a["target_id"], "FENCED", now_ms)
    return {}


def begin_stop(state: StoreState, a: Mapping[str, Any], now_ms: int) -> Value:
    """A broker stops in order; CLOSED is its last word."""
    broker = _check_broker(state, a)
    if a["state"] not in ("STOPPING", "CLOSED"):
        raise Refused("BAD_REQUEST", message="state")
    if a["state"] == "CLOSED":
        state.heartbeats.pop(a["node_id"], None)
        if state.cluster["ctl_id"] == a["node_id"]:
            state.lease = {}
    if broker["state"] != a["state"]:
        _change_broker(state, a["node_id"], a["state"], now_ms)
    return {}


def unregister(state: StoreState, a: Mapping[str, Any], now_ms: int) -> Value:
    """Forget a broker that will not come back."""
    _check_broker(state, a)
    broker = state.brokers.get(a["target_id"])
    if broker is None:
        raise Refused("NO_BROKER")
    if broker["state"] in ("ACTIVE", "STOPPING"):
        raise Refused("BROKER_ACTIVE")
    del state.brokers[a["target_id"]]
    state.heartbeats.pop(a["target_id"], None)
    record = {"node_id": a["target_id"], "broker_epoch": broker["broker_epoch"]}
    state.append("UnregisterBroker", record, now_ms)
    return {}


# ---------------------------------------------------------------------------------------------------- topics


def _new_partitions(state: StoreState, a: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The slice's partitions that are not there yet, checked."""
    if not 0 < len(a["partitions"]) <= MAX_PARTITIONS:
        raise Refused("BAD_REQUEST", message="a call takes 1 to 200 partitions")
    new = []
    for item in a["partitions"]:
        if not 0 <= item["partition"] < a["total"]:
            raise Refused("BAD_REQUEST", message="partition number")
        if (a["topic_id"], item["partition"]) in state.partitions:
            continue
        replicas = parse_nodes(item["replicas"])
        unknown = [node_id for node_id in replicas if node_id not in state.brokers]
        if unknown:
            raise Refused("INELIGIBLE_BROKER", message=f"broker {unknown[0]} is not registered")
        isr = [n for n in replicas if state.brokers[n]["state"] == "ACTIVE"]
        if not isr:
            raise Refused("INELIGIBLE_BROKER", message=f"no replica of partition {item['partition']} is active")
        members = tuple(IsrMember(n, state.brokers[n]["broker_epoch"]) for n in isr)
        new.append(
            {
                "partition": item["partition"],
                "replicas": item["replicas"],
                "isr": format_isr(members),
                "leader": isr[0],
                "leader_epoch": 0,
                "partition_epoch": 0,
            }
        )
    return new


def _add_partitions(state: StoreState, topic_id: str, new: list[dict[str, Any]], now_ms: int) -> None:
    if new:
        for item in new:
            state.partitions[topic_id, item["partition"]] = dict(item) | {"elr": "", "nonce": ""}
        state.topics[topic_id]["made"] += len(new)
        state.append("Partition", {"topic_id": topic_id, "partitions": new}, now_ms)


def create_topic(state: StoreState, a: Mapping[str, Any], now_ms: int) -> Value:
    """Create a topic with its first partitions; the same id again is a repeat."""
    _check_broker(state, a)
    held = state.topic_ids.get(a["name"])
    half_made = None
    if held is not None and held != a["topic_id"]:
        topic = state.topics[held]
        creator = IsrMember(topic["creator_id"], topic["creator_epoch"])
        if topic["made"] >= topic["total"] or _is_current(state, creator, "ACTIVE", "FENCED", "STOPPING"):
            raise Refused("TOPIC_EXISTS", message=f"topic {a['name']} exists")
        half_made = held
    new = _new_partitions(state, a)
    if half_made is not None:
        # Its creator died between two slices; nobody has seen it.
        _remove(state, half_made, now_ms)
    created = held != a["topic_id"]
    if created:
        state.topic_ids[a["name"]] = a["topic_id"]
        state.topics[a["topic_id"]] = {
            "name": a["name"],
            "total": a["total"],
            "made": 0,
            "creator_id": a["node_id"],
            "creator_epoch": a["broker_epoch"],
        }
        record = {"name": a["name"], "topic_id": a["topic_id"], "partitions": a["total"], "configs": a["configs"]}
        if a["configs"]:
            state.configs["topic:" + a["name"]] = dict(a["configs"])
        state.append("Topic", record, now_ms)
    _add_partitions(state, a["topic_id"], new, now_ms)
    return {"created": created}


def create_partitions(state: StoreState, a: Mapping[str, Any], now_ms: int) -> Value:
    """More partitions of a topic: further slices of a new one, or growth."""
    _check_broker(state, a)
    topic = state.topics.get(a["topic_id"])
    if topic is None:
        raise Refused("NO_TOPIC")
    if a["total"] < topic["total"]:
        raise Refused("INVALID_PARTITIONS", message=f"the topic has {topic['total']} partitions")
    new = _new_partitions(state, a)
    if a["total"] > topic["total"]:
        topic["total"] = a["total"]
        record = {"name": topic["name"], "topic_id": a["topic_id"], "partitions": a["total"]}
        state.append("Topic", record, now_ms)
    _add_partitions(state, a["topic_id"], new, now_ms)
    return {}


def _remove(state: StoreState, topic_id: str, now_ms: int) -> None:
    topic = state.topics.pop(topic_id)
    for number in range(topic["total"]):
        state.partitions.pop((topic_id, number), None)
        state.high_watermarks.pop((topic_id, number), None)
    state.topic_ids.pop(topic["name"])
    state.configs.pop("topic:" + topic["name"], None)
    state.append("RemoveTopic", {"name": topic["name"], "topic_id": topic_id}, now_ms)


def delete_topic(state: StoreState, a: Mapping[str, Any], now_ms: int) -> Value:
    """Delete a topic by id; one that is gone already is a repeat."""
    _check_broker(state, a)
    removed = a["topic_id"] in state.topics
    if removed:
        _remove(state, a["topic_id"], now_ms)
    return {"removed": removed}


def alter_configs(state: StoreState, a: Mapping[str, Any], now_ms: int) -> Value:
    """Set and remove configs of a topic, a broker, or all brokers."""
    _check_broker(state, a)
    if a["resource_type"] == "topic" and a["resource_name"] not in state.topic_ids:
        raise Refused("NO_TOPIC")
    key = f"{a['resource_type']}:{a['resource_name']}"
    old = state.configs.get(key, {})
    new = {} if a["replace"] else dict(old)
    for name, value in a["changes"]:
        if value is None:
            new.pop(name, None)
        else:
            new[name] = value
    if new == old:
        return {}
    if new:
        state.configs[key] = new
    else:
        state.configs.pop(key, None)
    names = {"resource_type": a["resource_type"], "resource_name": a["resource_name"]}
    state.append("Config", names | {"configs": new}, now_ms)
    min_isr = "min.insync.replicas"
    if a["resource_type"] == "topic" and old.get(min_isr) != new.get(min_isr):
        _clear_elr(state, state.topic_ids[a["resource_name"]], now_ms)
    return {}


def _clear_elr(state: StoreState, topic_id: str, now_ms: int) -> None:
    """The minimum ISR is part of the commit rule: whoever knows the old one must fail its next change."""
    changes = []
    for number in range(state.topics[topic_id]["total"]):
        partition = state.partitions.get((topic_id, number))
        if partition is not None:
            partition["elr"] = ""
            partition["partition_epoch"] += 1
            changes.append(_change(topic_id, partition))
    for start in range(0, len(changes), MAX_PARTITIONS):
        state.append("PartitionChange", {"changes": changes[start : start + MAX_PARTITIONS]}, now_ms)


# ------------------------------------------------------------------------------------------------ partitions


def _change(topic_id: str, partition: dict[str, Any], *, unclean: bool = False) -> dict[str, Any]:
    names = ("partition", "isr", "elr", "leader", "leader_epoch", "partition_epoch")
    return {"topic_id": topic_id, "unclean": unclean} | {name: partition[name] for name in names}


def elect(state: StoreState, a: Mapping[str, Any], now_ms: int) -> Value:
    """New leaders, each by compare and set; what cannot be done has its code in `codes`."""
    _check_controller(state, a)
    if not 0 < len(a["partitions"]) <= MAX_PARTITIONS:
        raise Refused("BAD_REQUEST", message="a call takes 1 to 200 partitions")
    codes, changes = [], []
    for item in a["partitions"]:
        partition = state.partitions.get((item["topic_id"], item["partition"]))
        code = "NO_TOPIC" if partition is None else _elect(state, item, partition)
        codes.append(code)
        if partition is not None and code == "OK":
            changes.append(_change(item["topic_id"], partition, unclean=item["unclean"]))
    if changes:
        state.append("PartitionChange", {"changes": changes}, now_ms)
    return {"codes": codes}


def _elect(state: StoreState, item: dict[str, Any], partition: dict[str, Any]) -> str:
    if partition["partition_epoch"] != item["partition_epoch"]:
        return "INVALID_UPDATE_VERSION"
    leader = item["leader"]
    members = list(parse_isr(partition["isr"]))
    live = [member for member in members if _is_current(state, member, "ACTIVE", "STOPPING")]
    if leader == -1:
        if any(member.node_id == partition["leader"] for member in live):
            return "INELIGIBLE_REPLICA"
        isr, elr = members, partition["elr"]
    else:
        broker = state.brokers.get(leader)
        replicas = parse_nodes(partition["replicas"])
        if broker is None or broker["state"] != "ACTIVE" or leader not in replicas:
            return "INELIGIBLE_REPLICA"
        former = [*members, *parse_isr(partition["elr"])]
        kept_all = any(m.node_id == leader and m.broker_epoch >= broker["lossy_epoch"] for m in former)
        if any(member.node_id == leader for member in live):
            isr = live
        elif (not live and kept_all) or (item["unclean"] and len(replicas) == 1):
            isr = [IsrMember(leader, broker["broker_epoch"])]
        else:
            return "INELIGIBLE_REPLICA"
        elr = _next_elr(state, partition, item["topic_id"], isr)
    partition |= {"leader": leader, "isr": format_isr(tuple(isr)), "elr": elr, "nonce": ""}
    partition["leader_epoch"] += 1
    partition["partition_epoch"] += 1
    return "OK"


def _led(state: StoreState, a: Mapping[str, Any]) -> tuple[dict[str, Any], bool]:
    """The partition that the caller leads, and whether this very call was done before."""
    _check_broker(state, a)
    partition = state.partitions.get((a["topic_id"], a["partition"]))
    if partition is None:
        raise Refused("NO_TOPIC")
    if partition["leader"] != a["node_id"] or partition["leader_epoch"] != a["leader_epoch"]:
        raise Refused("FENCED_LEADER_EPOCH", **_change(a["topic_id"], partition))
    if partition["partition_epoch"] == a["partition_epoch"] + 1 and partition["nonce"] == a["nonce"]:
        return partition, True
    if partition["partition_epoch"] != a["partition_epoch"]:
        raise Refused("INVALID_UPDATE_VERSION", **_change(a["topic_id"], partition))
    return partition, False


def alter_isr(state: StoreState, a: Mapping[str, Any], now_ms: int) -> Value:
    """The leader changes the ISR."""
    partition, repeated = _led(state, a)
    if not repeated:
        isr = list(parse_isr(a["isr"]))
        replicas = parse_nodes(partition["replicas"])
        if not any(member.node_id == a["node_id"] for member in isr):
            raise Refused("INELIGIBLE_REPLICA", message="the leader is not in the new ISR")
        for member in isr:
            if member.node_id not in replicas or not _is_current(state, member, "ACTIVE"):
                raise Refused("INELIGIBLE_REPLICA", message=f"replica {member.node_id}@{member.broker_epoch}")
        elr = _next_elr(state, partition, a["topic_id"], isr)
        partition |= {"isr": a["isr"], "elr": elr, "nonce": a["nonce"]}
        partition["partition_epoch"] += 1
        state.append("PartitionChange", {"changes": [_change(a["topic_id"], partition)]}, now_ms)
    return _change(a["topic_id"], partition)


def barrier(state: StoreState, a: Mapping[str, Any], now_ms: int) -> Value:
    """Raise the partition epoch, so that an older change still under way must fail."""
    partition, repeated = _led(state, a)
    if not repeated:
        partition["partition_epoch"] += 1
        partition["nonce"] = a["nonce"]
        state.append("PartitionChange", {"changes": [_change(a["topic_id"], partition)]}, now_ms)
    return _change(a["topic_id"], partition)


def report_hw(state: StoreState, a: Mapping[str, Any], now_ms: int) -> Value:  # noqa: ARG001
    """Take high watermarks; they never go back."""
    _check_broker(state, a)
    for topic_id, partition, leader_epoch, high_watermark in a["partitions"]:
        held = state.high_watermarks.get((topic_id, partition), (0, 0))
        if topic_id in state.topics and leader_epoch >= held[0] and high_watermark >= held[1]:
            state.high_watermarks[topic_id, partition] = (leader_epoch, high_watermark)
    return {}


def alloc_pid(state: StoreState, a: Mapping[str, Any], now_ms: int) -> Value:
    """Give away a block of producer ids."""
    _check_broker(state, a)
    first = state.cluster["next_pid"]
    state.cluster["next_pid"] = first + PRODUCER_ID_BLOCK
    block = {"first": first, "next": first + PRODUCER_ID_BLOCK}
    state.append("ProducerIds", block | {"node_id": a["node_id"], "broker_epoch": a["broker_epoch"]}, now_ms)
    return block


def trim(state: StoreState, a: Mapping[str, Any], now_ms: int) -> Value:
    """Keep a snapshot, and drop records that everyone has on disk."""
    _check_controller(state, a)
    entry = state.entry(a["snapshot_offset"])
    if entry is None or entry.chain_hash != a["snapshot_hash"]:
        raise Refused("BAD_REQUEST", message="the snapshot is not of this history")
    upto = a["snapshot_offset"] - a["keep"]
    upto = min([upto, *(b["persisted"] for b in state.brokers.values() if b["state"] != "CLOSED")])
    first = state.log[0].offset
    state.snapshot = TailedRecord(
        a["snapshot_offset"], a["snapshot_hash"], "Snapshot", now_ms, json.loads(a["snapshot"])
    )
    trimmed = max(0, upto - first)
    del state.log[:trimmed]
    return {"trimmed": trimmed}


SCRIPTS: dict[str, Callable[[StoreState, Mapping[str, Any], int], Value]] = {
    script.__name__: script
    for script in (
        bootstrap,
        verify,
        register,
        heartbeat,
        acquire_lease,
        renew_lease,
        unfence,
        fence,
        begin_stop,
        unregister,
        create_topic,
        create_partitions,
        delete_topic,
        alter_configs,
        elect,
        alter_isr,
        barrier,
        report_hw,
        alloc_pid,
        trim,
    )
}
