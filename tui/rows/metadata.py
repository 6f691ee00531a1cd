"""Records of the metadata log as rows and in words, and the cluster's image after one of them. Pure.

`things` splits an image once into things with fields, which are then shown, or compared with another image's.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
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


def _broker_words(said: Json, _names: Mapping[str, str]) -> tuple[str, Tone]:
    status = said["brokerStatus"]
    means = {"ALIVE": "it may lead", "FENCED": "it leads nothing until it is back", "CLOSED": "it stopped"}.get(
        status, ""
    )
    words = f"broker {said['brokerId']} is {status}" + (f": {means}" if means else "")
    return words, "good" if status == "ALIVE" else "warn"


def _controller_words(said: Json, _names: Mapping[str, str]) -> tuple[str, Tone]:
    if said["controllerId"] < 0:
        return f"nobody is the controller, epoch {said['controllerEpoch']}", "warn"
    return f"broker {said['controllerId']} is the controller, epoch {said['controllerEpoch']}", "accent"


def _topic_words(said: Json, _names: Mapping[str, str]) -> tuple[str, Tone]:
    count = said["numPartitions"]
    configs = ", ".join(f"{name}={value}" for name, value in (said.get("configs") or {}).items())
    many = "partition" if count == 1 else "partitions"
    return f"topic {said['name']} has {count} {many}" + (f": {configs}" if configs else ""), "good"


def _remove_topic(said: Json, _names: Mapping[str, str]) -> tuple[str, Tone]:
    return f"topic {said['name']} is deleted", "warn"


def _partition_words(said: Json, names: Mapping[str, str]) -> tuple[str, Tone]:
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
    words = f"{name} {leader} in epoch {said['leaderEpoch']}, in sync {_ids_or_none(said['ISR'])}"
    out = [each for each in said["replicas"] or () if each not in said["ISR"]]
    words += f" without {_ids_or_none(out)}" if out else ""
    words += f", adding {_ids_or_none(said['addingReplicas'])}" if said["addingReplicas"] else ""
    words += f", removing {_ids_or_none(said['removingReplicas'])}" if said["removingReplicas"] else ""
    return words + (", UNCLEAN: records may be lost" if said["unclean"] else "")


def _ids_or_none(nodes: list[int]) -> str:
    return ",".join(map(str, nodes)) or "none"


def _config(said: Json, _names: Mapping[str, str]) -> tuple[str, Tone]:
    who = f"{said['resourceType'].lower()} {said['resourceName']}".strip()
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
    "BrokerChange": _broker_words,
    "ControllerChange": _controller_words,
    "Topic": _topic_words,
    "RemoveTopic": _remove_topic,
    "Partition": _partition_words,
    "PartitionChange": _partition_change,
    "Config": _config,
    "ProducerIds": _producer_ids,
    "Snapshot": _snapshot,
}


IMAGE_COLUMNS: Final = (Column("", 14, most=40), Column("", 24, most=400, flex=1))
CONTROLLER: Final = "controller"


@dataclass(frozen=True, slots=True)
class Thing:
    """A broker, topic, partition, ...: its ordered fields by name.

    A field with an empty name is shown by its value alone.
    """

    name: str
    fields: Mapping[str, str]
    tone: Tone = ""
    is_head: bool = False

    def words(self) -> str:
        """All fields as text."""
        return ", ".join(f"{name} {value}".strip() for name, value in self.fields.items() if value)


Things = dict[str, Thing]


def things(image: Json) -> Things:
    """By key: `broker:1`, `topic:orders`, `partition:orders:0`, ..."""
    found: Things = {
        "cluster": Thing(
            "cluster", {"": image["clusterId"] or "not made yet", "incarnation": str(image["incarnation"])}
        ),
        CONTROLLER: _controller(image),
    }
    for each in image["brokers"]:
        found[f"broker:{each['brokerId']}"] = _broker(each)
    partitions: dict[str, list[Json]] = {}
    for each in image["partitions"]:
        partitions.setdefault(each["topicName"], []).append(each)
    for topic in image["topics"]:
        found[f"topic:{topic['name']}"] = _topic(topic)
        for each in partitions.get(topic["name"], ()):
            found[f"partition:{topic['name']}:{each['partitionId']}"] = _partition(topic["name"], each)
    for node, configs in image["brokerConfigs"].items():
        if configs:
            name = f"configs of broker {node}" if node else "configs of all brokers"
            found[f"configs:{node}"] = Thing(name, {f"{each} =": value for each, value in configs.items()})
    for group, configs in image.get("groupConfigs", {}).items():
        values = {f"{each} =": value for each, value in configs.items()}
        found[f"group configs:{group}"] = Thing(f"configs of group {group}", values)
    for each in image["producers"]:
        last = each["nextProducerId"] - 1
        found[f"producers:{each['brokerId']}"] = Thing(
            f"producer ids of {each['brokerId']}", {"": f"{each['producerId']} to {last}"}, "dim"
        )
    return found


def _controller(image: Json) -> Thing:
    who = "none" if image["controllerId"] < 0 else f"broker {image['controllerId']}"
    return Thing("controller", {"": who, "epoch": str(image["controllerEpoch"])}, "warn" if who == "none" else "")


def _broker(said: Json) -> Thing:
    status = said["brokerStatus"]
    return Thing(
        f"broker {said['brokerId']}",
        {
            "": status,
            "at": f"{said['brokerHost']}:{said['brokerPort']}",
            "broker epoch": str(said["epoch"]),
            "rack": said["rackId"] or "",
            "kind": "external" if said["guest"] else "",
        },
        "good" if status == "ALIVE" else "warn",
    )


def _topic(said: Json) -> Thing:
    count = said["numPartitions"]
    fields = {"": f"{count} partition" + ("" if count == 1 else "s")}
    return Thing(
        said["name"], {**fields, **{f"{name} =": value for name, value in said["configs"].items()}}, is_head=True
    )


def _partition(topic: str, said: Json) -> Thing:
    isr, replicas = said["ISR"], said["replicas"]
    tone: Tone = "bad" if said["leader"] < 0 else "warn" if len(isr) < len(replicas) else ""
    return Thing(
        f"{topic}-{said['partitionId']}",
        {
            "leader": "none" if said["leader"] < 0 else str(said["leader"]),
            "epoch": str(said["leaderEpoch"]),
            "ISR": _ids(isr),
            "of": _ids(replicas),
            "adding": _ids(said["addingReplicas"]),
            "removing": _ids(said["removingReplicas"]),
        },
        tone,
    )


def _ids(nodes: list[int]) -> str:
    return ",".join(map(str, nodes))


_SIGNS: Final[dict[Tone, str]] = {"good": "up", "warn": "warn", "bad": "bad"}


def image_rows(found: Things, touched: Collection[str], look: Look) -> list[Row]:
    """One row per thing; those that the record changed are marked."""
    rows: list[Row] = []
    for key, thing in found.items():
        is_touched = key in touched
        mark = f"{look.sign('mark')} " if is_touched else "  "
        indent = "  " if key.startswith("partition:") else ""
        sign = f"{look.sign(_SIGNS[thing.tone])} " if thing.tone in _SIGNS else ""
        tone: Tone = "accent" if is_touched else "strong" if thing.is_head else ""
        rows.append(Row(key, (Cell(f"{mark}{indent}{thing.name}", tone), Cell(f"{sign}{thing.words()}", thing.tone))))
    return rows


def diff_rows(before: Things, after: Things, look: Look) -> list[Row]:
    """Things added and removed, and changed fields."""
    rows = []
    for key in [*before, *(key for key in after if key not in before)]:
        old, new = before.get(key), after.get(key)
        if old == new:
            continue
        if old is None and new is not None:
            rows.append(Row(key, (Cell(f"+ {new.name}", "good"), Cell(new.words()))))
        elif new is None and old is not None:
            rows.append(Row(key, (Cell(f"- {old.name}", "bad"), Cell(f"gone; it was: {old.words()}", "dim"))))
        elif old is not None and new is not None:
            words = ", ".join(_field(name, old, new, look) for name in _changed(old, new))
            if words:
                rows.append(Row(key, (Cell(f"~ {new.name}", "warn"), Cell(words))))
    return rows


def _changed(old: Thing, new: Thing) -> list[str]:
    names = [*old.fields, *(name for name in new.fields if name not in old.fields)]
    return [name for name in names if old.fields.get(name, "") != new.fields.get(name, "")]


def _field(name: str, old: Thing, new: Thing, look: Look) -> str:
    was, is_ = old.fields.get(name, "") or "none", new.fields.get(name, "") or "none"
    return f"{name} {was} {look.sign('arrow')} {is_}".strip()


def touched_by(record: Json, names: Mapping[str, str]) -> set[str]:
    """Keys of the things that a record concerns."""
    said = record["record"]
    kind = record["kind"]
    if kind in ("Partition", "PartitionChange"):
        return {
            f"partition:{names.get(each['topicUUID'], '')}:{each['partitionId']}" for each in said.get("partitions", ())
        }
    if kind in ("RegisterBroker", "BrokerChange", "UnregisterBroker"):
        return {f"broker:{said.get('brokerId')}"}
    if kind in ("Topic", "RemoveTopic"):
        return {f"topic:{said.get('name')}"}
    if kind == "ProducerIds":
        return {f"producers:{said.get('brokerId')}"}
    if kind == "Config":
        prefixes = {"topic": "topic", "group": "group configs"}
        prefix = prefixes.get(str(said.get("resourceType", "")).lower(), "configs")
        return {f"{prefix}:{said.get('resourceName')}"}
    return {"ControllerChange": {CONTROLLER}, "Cluster": {"cluster"}}.get(kind, set())
