"""Records of the metadata log as rows, and the cluster's image after one of them. Pure.

`things` splits an image once into things with fields, which are then shown, or compared with another image's.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from yak.tui.formatter import Formatter
from yak.tui.rows.cells import Cell, Column, Row, Tone
from yak.tui.rows.topics import TONES
from yak.tui.state.metadata_log import MetadataLog
from yak.tui.state.picture import MIN_ISR
from yak.view.broker_state import SeenState
from yak.view.formats import counted
from yak.view.metadata_sentences import Json, sentence
from yak.view.partition_state import PartitionState, Replication

COLUMNS: Final = (
    Column("OFFSET", 6, is_right=True),
    Column("TIME", 9, most=27),
    Column("KIND", 8, most=16, rank=1),
    Column("CHANGE", 40, most=400, flex=1),
)


class LogRows:
    """Rows of the log, made on demand, also for records that were not read yet."""

    def __init__(self, log: MetadataLog, fmt: Formatter, now_ms: int) -> None:
        self._log, self._fmt, self._now_ms = log, fmt, now_ms

    def __len__(self) -> int:
        return len(self._log)

    def at(self, index: int) -> Row:
        return log_row(self._log, self._log.begin + index, self._fmt, self._now_ms)

    def place_of(self, key: str) -> int | None:
        offset = int(key)
        return offset - self._log.begin if self._log.begin <= offset <= self._log.end else None


def log_row(log: MetadataLog, offset: int, fmt: Formatter, now_ms: int) -> Row:
    """One record."""
    record = log.records.get(offset)
    number = Cell(fmt.number(offset), "dim", offset)
    if record is None:
        return Row(str(offset), number, Cell("..." if fmt.is_ascii else "…", "dim"), Cell(""), Cell(""))
    text, tone = sentence(record["kind"], record["record"], log.topic_names)
    time_ms = record["timestamp"] * 1000
    kind = Cell(record["kind"], tone)
    return Row(
        str(offset),
        number,
        Cell(fmt.moment(time_ms, now_ms), "dim", time_ms),
        kind,
        Cell(text, tone if tone in ("warn", "bad") else ""),
    )


def known_rows(log: MetadataLog, fmt: Formatter, now_ms: int) -> list[Row]:
    """All records that were read, for a filter."""
    return [log_row(log, offset, fmt, now_ms) for offset in sorted(log.records)]


IMAGE_COLUMNS: Final = (Column("", 14, most=40, flex=1), Column("", 24, most=400, flex=4))
CONTROLLER: Final = "controller"


@dataclass(frozen=True, slots=True)
class ImageEntity:
    """A broker, topic, partition, ...: its ordered fields by name.

    A field with an empty name is shown by its value alone.
    """

    name: str
    fields: Mapping[str, str]
    tone: Tone = ""
    is_head: bool = False

    def text(self) -> str:
        return ", ".join(f"{name} {value}".strip() for name, value in self.fields.items() if value)


Things = dict[str, ImageEntity]


def things(image: Json) -> Things:
    """By key: `broker:1`, `topic:orders`, `partition:orders:0`, ..."""
    found: Things = {
        "cluster": ImageEntity(
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
        min_isr = int(topic["configs"].get(MIN_ISR) or image["brokerConfigs"].get("", {}).get(MIN_ISR, 1))
        for each in partitions.get(topic["name"], ()):
            found[f"partition:{topic['name']}:{each['partitionId']}"] = _partition(topic["name"], each, min_isr)
    for node, configs in image["brokerConfigs"].items():
        if configs:
            name = f"configs of broker {node}" if node else "configs of all brokers"
            found[f"configs:{node}"] = ImageEntity(name, {f"{each} =": value for each, value in configs.items()})
    for group, configs in image.get("groupConfigs", {}).items():
        values = {f"{each} =": value for each, value in configs.items()}
        found[f"group configs:{group}"] = ImageEntity(f"configs of group {group}", values)
    for pattern, entries in image.get("acls", {}).items():
        found[f"acls:{pattern}"] = ImageEntity(f"ACLs of {pattern}", dict.fromkeys(entries, ""))
    for entity, quotas in image.get("quotas", {}).items():
        found[f"quotas:{entity}"] = ImageEntity(
            f"quotas of {entity}", {f"{each} =": value for each, value in quotas.items()}
        )
    for each in image["producers"]:
        last = each["nextProducerId"] - 1
        found[f"producers:{each['brokerId']}"] = ImageEntity(
            f"producer ids of {each['brokerId']}", {"": f"{each['producerId']} to {last}"}, "dim"
        )
    return found


def _controller(image: Json) -> ImageEntity:
    who = "none" if image["controllerId"] < 0 else f"broker {image['controllerId']}"
    return ImageEntity("controller", {"": who, "epoch": str(image["controllerEpoch"])}, "warn" if who == "none" else "")


def _broker(said: Json) -> ImageEntity:
    status = said.get("state", said["brokerStatus"])  # brokers of an older version omit the state
    return ImageEntity(
        f"broker {said['brokerId']}",
        {
            "": status,
            "at": f"{said['brokerHost']}:{said['brokerPort']}",
            "broker epoch": str(said["epoch"]),
            "rack": said["rackId"] or "",
            "kind": "external" if said["guest"] else "",
        },
        "good" if status in (SeenState.ACTIVE, "ALIVE") else "warn",
    )


def _topic(said: Json) -> ImageEntity:
    fields = {"": counted(said["numPartitions"], "partition")}
    return ImageEntity(
        said["name"], {**fields, **{f"{name} =": value for name, value in said["configs"].items()}}, is_head=True
    )


def _partition(topic: str, said: Json, min_isr: int) -> ImageEntity:
    isr, replicas = said["ISR"], said["replicas"]
    state = Replication(said["leader"] < 0, len(replicas), len(isr), min_isr).state
    return ImageEntity(
        f"{topic}-{said['partitionId']}",
        {
            "leader": "none" if said["leader"] < 0 else str(said["leader"]),
            "epoch": str(said["leaderEpoch"]),
            "ISR": _ids(isr),
            "of": _ids(replicas),
            "adding": _ids(said["addingReplicas"]),
            "removing": _ids(said["removingReplicas"]),
        },
        "" if state is PartitionState.OK else TONES[state],
    )


def _ids(nodes: list[int]) -> str:
    return ",".join(map(str, nodes))


_SIGNS: Final[dict[Tone, str]] = {"good": "up", "warn": "warn", "bad": "bad"}


def image_rows(found: Things, touched: Collection[str], fmt: Formatter) -> list[Row]:
    """One row per thing; those that the record changed are marked."""
    rows: list[Row] = []
    for key, thing in found.items():
        is_touched = key in touched
        mark = f"{fmt.sign('mark')} " if is_touched else "  "
        indent = "  " if key.startswith("partition:") else ""
        sign = f"{fmt.sign(_SIGNS[thing.tone])} " if thing.tone in _SIGNS else ""
        tone: Tone = "accent" if is_touched else "strong" if thing.is_head else ""
        rows.append(Row(key, Cell(f"{mark}{indent}{thing.name}", tone), Cell(f"{sign}{thing.text()}", thing.tone)))
    return rows


def diff_rows(before: Things, after: Things, fmt: Formatter) -> list[Row]:
    """Things added and removed, and changed fields."""
    rows = []
    for key in [*before, *(key for key in after if key not in before)]:
        old, new = before.get(key), after.get(key)
        if old == new:
            continue
        if old is None and new is not None:
            rows.append(Row(key, Cell(f"+ {new.name}", "good"), Cell(new.text())))
        elif new is None and old is not None:
            rows.append(Row(key, Cell(f"- {old.name}", "bad"), Cell(f"gone; it was: {old.text()}", "dim")))
        elif old is not None and new is not None:
            text = ", ".join(_field(name, old, new, fmt) for name in _changed(old, new))
            if text:
                rows.append(Row(key, Cell(f"~ {new.name}", "warn"), Cell(text)))
    return rows


def _changed(old: ImageEntity, new: ImageEntity) -> list[str]:
    names = [*old.fields, *(name for name in new.fields if name not in old.fields)]
    return [name for name in names if old.fields.get(name, "") != new.fields.get(name, "")]


def _field(name: str, old: ImageEntity, new: ImageEntity, fmt: Formatter) -> str:
    was, is_ = old.fields.get(name, "") or "none", new.fields.get(name, "") or "none"
    return f"{name} {was} {fmt.sign('arrow')} {is_}".strip()


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
