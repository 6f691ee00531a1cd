"""Records of the metadata log as sentences, for `yak metadata log` and the terminal UI.

A record's content is the JSON of `GET /metadata/log`, as `yak.views.metadata_records_json` writes it.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias

Json: TypeAlias = Mapping[str, Any]
Severity: TypeAlias = Literal["", "good", "warn", "bad", "dim", "accent"]

PARTITIONS_MAX: Final = 6
CHANGES_MAX: Final = 3
"""Further partitions of one record are counted."""
_BROKER_STATES: Final[dict[str, tuple[str, Severity]]] = {
    "ACTIVE": ("is active", "good"),
    "STOPPING": ("is shutting down", "warn"),
    "FENCED": ("is fenced and leads no partition", "warn"),
    "CLOSED": ("stopped", "warn"),
}


def sentence(kind: str, content: Json, topic_names: Mapping[str, str]) -> tuple[str, Severity]:
    """A record as a sentence, and its severity.

    `topic_names` has names by topic id; without a name the id stands. Records of an unknown kind, and those with unknown
    fields, are printed by their fields: a newer YAK wrote them.
    """
    write = _SENTENCES.get(kind)
    try:
        if write is not None:
            return write(content, topic_names)
    except (KeyError, TypeError, ValueError):
        pass
    return ", ".join(f"{name} {value}" for name, value in content.items()), ""


def _cluster(content: Json, _names: Mapping[str, str]) -> tuple[str, Severity]:
    return f"the cluster is {content['clusterId']}, incarnation {content['incarnation']}", "accent"


def _register(content: Json, _names: Mapping[str, str]) -> tuple[str, Severity]:
    rack = f", rack {content['rackId']}" if content["rackId"] else ""
    address = f"{content['brokerHost']}:{content['brokerPort']}"
    return (
        f"broker {content['brokerId']} registers at {address}, epoch {content['epoch']}, role {content['role']}{rack}",
        "",
    )


def _unregister(content: Json, _names: Mapping[str, str]) -> tuple[str, Severity]:
    return f"broker {content['brokerId']} is unregistered", "warn"


def _broker_change(content: Json, _names: Mapping[str, str]) -> tuple[str, Severity]:
    state, severity = _BROKER_STATES[content["state"]]
    return f"broker {content['brokerId']} {state}", severity


def _controller(content: Json, _names: Mapping[str, str]) -> tuple[str, Severity]:
    if content["controllerId"] < 0:
        return f"no broker is the controller, epoch {content['controllerEpoch']}", "warn"
    return f"broker {content['controllerId']} is the controller, epoch {content['controllerEpoch']}", "accent"


def _topic(content: Json, _names: Mapping[str, str]) -> tuple[str, Severity]:
    count = content["numPartitions"]
    configs = ", ".join(f"{name}={value}" for name, value in (content.get("configs") or {}).items())
    partitions = "1 partition" if count == 1 else f"{count} partitions"
    return f"topic {content['name']} has {partitions}" + (f": {configs}" if configs else ""), "good"


def _remove_topic(content: Json, _names: Mapping[str, str]) -> tuple[str, Severity]:
    return f"topic {content['name']} is deleted", "warn"


def _partitions(content: Json, names: Mapping[str, str]) -> tuple[str, Severity]:
    created = content["partitions"]
    if not created:
        return "no partitions", ""
    topic = names.get(created[0]["topicUUID"], created[0]["topicUUID"])
    leaders = ", ".join(f"{each['partitionId']} led by {each['leader']}" for each in created[:PARTITIONS_MAX])
    more = f" and {len(created) - PARTITIONS_MAX} more" if len(created) > PARTITIONS_MAX else ""
    return f"partitions of {topic}: {leaders}{more}", "good"


def _partition_change(content: Json, names: Mapping[str, str]) -> tuple[str, Severity]:
    changes = content["partitions"]
    first = "; ".join(_one_change(each, names) for each in changes[:CHANGES_MAX])
    more = f"; and {len(changes) - CHANGES_MAX} more" if len(changes) > CHANGES_MAX else ""
    severity: Severity = ""
    if any(each["leader"] < 0 or each["unclean"] for each in changes):
        severity = "bad"
    elif any(each["replicas"] is not None and len(each["ISR"]) < len(each["replicas"]) for each in changes):
        severity = "warn"
    return first + more, severity


def _one_change(change: Json, names: Mapping[str, str]) -> str:
    name = f"{names.get(change['topicUUID'], change['topicUUID'][:8])}-{change['partitionId']}"
    leader = "without a leader" if change["leader"] < 0 else f"led by {change['leader']}"
    text = f"{name} {leader} in epoch {change['leaderEpoch']}, ISR {_node_ids(change['ISR'])}"
    out = [node for node in change["replicas"] or () if node not in change["ISR"]]
    text += f" without {_node_ids(out)}" if out else ""
    text += f", adding {_node_ids(change['addingReplicas'])}" if change["addingReplicas"] else ""
    text += f", removing {_node_ids(change['removingReplicas'])}" if change["removingReplicas"] else ""
    return text + (", UNCLEAN: records may be lost" if change["unclean"] else "")


def _node_ids(nodes: Sequence[int]) -> str:
    """`1,2,3`, or `none`."""
    return ",".join(map(str, nodes)) or "none"


def _config(content: Json, _names: Mapping[str, str]) -> tuple[str, Severity]:
    resource = f"{content['resourceType'].lower()} {content['resourceName']}".strip()
    values = ", ".join(
        f"{name} is reset to its default" if value is None else f"{name}={value}"
        for name, value in content["configs"].items()
    )
    return f"configs of {resource}: {values or 'none'}", ""


def _producer_ids(content: Json, _names: Mapping[str, str]) -> tuple[str, Severity]:
    first, last = content["producerId"], content["nextProducerId"] - 1
    return f"broker {content['brokerId']} assigns producer ids {first} to {last}", "dim"


def _snapshot(content: Json, _names: Mapping[str, str]) -> tuple[str, Severity]:
    return f"a snapshot of cluster {content['clusterId']}; older records are gone", "accent"


_SENTENCES: Final[dict[str, Callable[[Json, Mapping[str, str]], tuple[str, Severity]]]] = {
    "Cluster": _cluster,
    "RegisterBroker": _register,
    "UnregisterBroker": _unregister,
    "BrokerChange": _broker_change,
    "ControllerChange": _controller,
    "Topic": _topic,
    "RemoveTopic": _remove_topic,
    "Partition": _partitions,
    "PartitionChange": _partition_change,
    "Config": _config,
    "ProducerIds": _producer_ids,
    "Snapshot": _snapshot,
}
