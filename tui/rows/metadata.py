"""Records of the metadata log as rows and in words. Pure."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from yak.tui.look import Look
from yak.tui.rows.cells import Cell, Column, Row, Tone
from yak.tui.state.metadata_log import MetadataLog

COLUMNS: Final = (
    Column("OFFSET", 6, is_right=True),
    Column("TIME", 9, most=27),
    Column("KIND", 8, most=16, rank=1),
    Column("WHAT IT SAYS", 40, most=400, flex=1),
)
_DAY_MS: Final = 86_400_000
Json = Mapping[str, Any]


class LogRows:
    """Rows of the log, made on demand, also for records that were not read yet."""

    def __init__(self, log: MetadataLog, look: Look, now_ms: int) -> None:
        self._log, self._look, self._now_ms = log, look, now_ms

    def __len__(self) -> int:
        return len(self._log)

    def at(self, index: int) -> Row:
        """The row at an index."""
        return log_row(self._log, self._log.begin + index, self._look, self._now_ms)

    def place_of(self, key: str) -> int | None:
        """The index of a record."""
        offset = int(key)
        return offset - self._log.begin if self._log.begin <= offset <= self._log.end else None


def log_row(log: MetadataLog, offset: int, look: Look, now_ms: int) -> Row:
    """One record."""
    record = log.records.get(offset)
    number = Cell(look.number(offset), "dim", offset)
    if record is None:
        return Row(str(offset), (number, Cell("..." if look.is_ascii else "…", "dim"), Cell(""), Cell("")))
    words, tone = record_words(record, log.topic_names)
    time_ms = record["timestamp"] * 1000
    kind = Cell(record["kind"], tone)
    return Row(
        str(offset),
        (
            number,
            Cell(moment(time_ms, look, now_ms), "dim", time_ms),
            kind,
            Cell(words, tone if tone in ("warn", "bad") else ""),
        ),
    )


def known_rows(log: MetadataLog, look: Look, now_ms: int) -> list[Row]:
    """All records that were read, for a filter."""
    return [log_row(log, offset, look, now_ms) for offset in sorted(log.records)]


def moment(time_ms: float | None, look: Look, now_ms: int) -> str:
    """The time of day within the last day; else with its date."""
    if time_ms is None or look.zone == "relative" or abs(now_ms - time_ms) < _DAY_MS:
        return look.time(time_ms, now_ms, millis=True)
    return look.day_and_time(time_ms, now_ms)


def record_words(record: Json, names: Mapping[str, str]) -> tuple[str, Tone]:
    """A record in words, and its severity. Records of an unknown kind are shown by their fields."""
    teller = _WORDS.get(record["kind"])
    try:
        if teller is not None:
            return teller(record["record"], names)
    except (KeyError, TypeError, ValueError):
        pass  # written by a newer YAK
    return ", ".join(f"{name} {value}" for name, value in record["record"].items()), ""


def _cluster(said: Json, _names: Mapping[str, str]) -> tuple[str, Tone]:
    return f"the cluster is {said['clusterId']}, incarnation {said['incarnation']}", "accent"


def _register(said: Json, _names: Mapping[str, str]) -> tuple[str, Tone]:
    rack = f", rack {said['rackId']}" if said["rackId"] else ""
    where = f"{said['brokerHost']}:{said['brokerPort']}"
    return f"broker {said['brokerId']} registers at {where}, epoch {said['epoch']}, role {said['role']}{rack}", ""


def _unregister(said: Json, _names: Mapping[str, str]) -> tuple[str, Tone]:
    return f"broker {said['brokerId']} is unregistered: it is no part of the cluster any more", "warn"


def _broker(said: Json, _names: Mapping[str, str]) -> tuple[str, Tone]:
    status = said["brokerStatus"]
    means = {"ALIVE": "it may lead", "FENCED": "it leads nothing until it is back", "CLOSED": "it stopped"}.get(
        status, ""
    )
    words = f"broker {said['brokerId']} is {status}" + (f": {means}" if means else "")
    return words, "good" if status == "ALIVE" else "warn"


def _controller(said: Json, _names: Mapping[str, str]) -> tuple[str, Tone]:
    if said["controllerId"] < 0:
        return f"nobody is the controller, epoch {said['controllerEpoch']}", "warn"
    return f"broker {said['controllerId']} is the controller, epoch {said['controllerEpoch']}", "accent"


def _topic(said: Json, _names: Mapping[str, str]) -> tuple[str, Tone]:
    count = said["numPartitions"]
    configs = ", ".join(f"{name}={value}" for name, value in (said.get("configs") or {}).items())
    many = "partition" if count == 1 else "partitions"
    return f"topic {said['name']} has {count} {many}" + (f": {configs}" if configs else ""), "good"


def _remove_topic(said: Json, _names: Mapping[str, str]) -> tuple[str, Tone]:
    return f"topic {said['name']} is deleted", "warn"


def _partitions(said: Json, names: Mapping[str, str]) -> tuple[str, Tone]:
    made = said["partitions"]
    if not made:
        return "no partitions", ""
    topic = names.get(made[0]["topicUUID"], made[0]["topicUUID"])
    leads = ", ".join(f"{each['partitionId']} by {each['leader']}" for each in made[:6])
    more = f" and {len(made) - 6} more" if len(made) > 6 else ""
    return f"partitions of {topic}: {leads}{more}", "good"


def _partition_change(said: Json, names: Mapping[str, str]) -> tuple[str, Tone]:
    changes = said["partitions"]
    shown = "; ".join(_one_change(each, names) for each in changes[:3])
    more = f"; and {len(changes) - 3} more" if len(changes) > 3 else ""
    tone: Tone = ""
    if any(each["leader"] < 0 or each["unclean"] for each in changes):
        tone = "bad"
    elif any(each["replicas"] is not None and len(each["ISR"]) < len(each["replicas"]) for each in changes):
        tone = "warn"
    return shown + more, tone


def _one_change(said: Json, names: Mapping[str, str]) -> str:
    name = f"{names.get(said['topicUUID'], said['topicUUID'][:8])}-{said['partitionId']}"
    leader = "no leader" if said["leader"] < 0 else f"led by {said['leader']}"
    words = f"{name} {leader} in epoch {said['leaderEpoch']}, in sync {_ids(said['ISR'])}"
    out = [each for each in said["replicas"] or () if each not in said["ISR"]]
    words += f" without {_ids(out)}" if out else ""
    words += f", adding {_ids(said['addingReplicas'])}" if said["addingReplicas"] else ""
    words += f", removing {_ids(said['removingReplicas'])}" if said["removingReplicas"] else ""
    return words + (", UNCLEAN: records may be lost" if said["unclean"] else "")


def _ids(nodes: list[int]) -> str:
    return ",".join(map(str, nodes)) or "none"


def _config(said: Json, _names: Mapping[str, str]) -> tuple[str, Tone]:
    who = f"{said['resourceType']} {said['resourceName']}".strip().lower()
    what = ", ".join(
        f"{name} is the default again" if value is None else f"{name}={value}"
        for name, value in said["configs"].items()
    )
    return f"configs of {who}: {what or 'none'}", ""


def _producer_ids(said: Json, _names: Mapping[str, str]) -> tuple[str, Tone]:
    return (
        f"broker {said['brokerId']} gives out producer ids {said['producerId']} to {said['nextProducerId'] - 1}",
        "dim",
    )


def _snapshot(said: Json, _names: Mapping[str, str]) -> tuple[str, Tone]:
    return f"all of the cluster {said['clusterId']} as it was: what came before is not kept", "accent"


_WORDS: Final[dict[str, Callable[[Json, Mapping[str, str]], tuple[str, Tone]]]] = {
    "Cluster": _cluster,
    "RegisterBroker": _register,
    "UnregisterBroker": _unregister,
    "BrokerChange": _broker,
    "ControllerChange": _controller,
    "Topic": _topic,
    "RemoveTopic": _remove_topic,
    "Partition": _partitions,
    "PartitionChange": _partition_change,
    "Config": _config,
    "ProducerIds": _producer_ids,
    "Snapshot": _snapshot,
}
