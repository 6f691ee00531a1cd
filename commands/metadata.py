"""`yak metadata`: the records of the metadata log, and the state that they produce."""

from shutil import get_terminal_size
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from yak.commands.app import CONNECTION, START, STOP, CommandGroup, flag
from yak.commands.options import Globals
from yak.commands.output import layout, to_json
from yak.commands.parameters import option
from yak.commands.units import format_time, parse_time_ms
from yak.errors import UsageError
from yak.view.formats import counted
from yak.view.metadata_sentences import sentence

if TYPE_CHECKING:
    from yak.cluster.image import Image
    from yak.local.metadata_log import RecordSource
    from yak.ports.metadata_store import TailedRecord

COLUMNS = ("offset", "time", "kind", "payload")
CHANGE_CHARACTERS = 100
"""Length of a sentence if the output is not a terminal; a terminal's width decides otherwise."""
_COLOURS = {"good": "32", "warn": "33", "bad": "1;31"}


def print_records(
    g: "Globals", source: "RecordSource", start: dict[str, int], stop: dict[str, int], *, follow: bool
) -> None:
    """Print the records between two bounds, one per line."""
    printer = _Printer(g)

    def take(record: "TailedRecord") -> None:
        printer.learn_names(record)
        if not start or distance(record, start) >= 0:
            printer.show(record)

    base = source.base()
    if base is not None:
        printer.learn_names(base)
    last = 0
    for record in source.records():
        last = record.offset
        if stop and distance(record, stop) > 0:
            break
        take(record)
    if not printer.printed and not follow:
        g.out.note(f"No metadata records there. Read: {source.name}")
    if follow:
        g.out.stdout.flush()
        for newer in source.follow(last):
            if newer is not None:
                take(newer)
            g.out.stdout.flush()
            g.out.require_reader()


def distance(record: "TailedRecord", edge: dict[str, int]) -> int:
    """How far a record is behind an offset or a time; negative before it."""
    ((name, value),) = edge.items()
    return int(getattr(record, name)) - value


class _Printer:
    def __init__(self, g: "Globals") -> None:
        self._g = g
        self._topic_names: dict[str, str] = {}
        self.printed = 0

    def learn_names(self, record: "TailedRecord") -> None:
        """Keep the names of a record's topics; later records have the topics' ids only."""
        from yak.cluster.payload import BadRecord
        from yak.cluster.records import Snapshot, Topic, parse

        try:
            content = parse(record)
        except BadRecord:  # of a newer YAK
            return
        if isinstance(content, Topic):
            self._topic_names[str(content.topic_id)] = content.name
        elif isinstance(content, Snapshot):
            from yak.cluster.image import Image

            image, _ = Image().apply_all([record])
            self._topic_names.update((str(each.topic_id), each.name) for each in image.topics.values())

    def show(self, record: "TailedRecord") -> None:
        from yak.views.metadata_records_json import payload_json

        out = self._g.out
        time = format_time(record.timestamp_ms, self._g.zone)
        document = {
            "offset": record.offset,
            "time": time,
            "kind": str(record.kind),
            "hash": record.chain_hash,
            "payload": payload_json(record),
        }
        if out.format == "json":
            out.line(to_json(document))
        elif out.format == "yaml":
            out.line("---")
            out.object(document)
        elif out.format in ("csv", "raw"):
            headers, out.headers = out.headers, out.headers and not self.printed
            out.table([document], COLUMNS, ("hash",))
            out.headers = headers
        else:
            self._line(record, time)
        self.printed += 1

    def _line(self, record: "TailedRecord", time: str) -> None:
        """Print with fixed widths, because later records are not known yet."""
        from yak.views.metadata_records_json import record_json

        out = self._g.out
        change, severity = sentence(str(record.kind), record_json(record)["record"], self._topic_names)
        line = f"{record.offset:>8}  {time}  {record.kind!s:<16}  "
        room = max(20, get_terminal_size().columns - len(line)) if out.stdout.isatty() else CHANGE_CHARACTERS
        if out.format == "table" and len(change) > room:
            change = change[: room - 1] + "…"
        if severity in _COLOURS:
            change = out.paint(change, _COLOURS[severity])
        if not self.printed and out.headers:
            out.line(f"{'OFFSET':>8}  {'TIME':<{len(time)}}  {'KIND':<16}  CHANGE")
        out.line(line + change)


def print_state(g: "Globals", source: "RecordSource", point: dict[str, int]) -> None:
    """Print the cluster state at that offset or time."""
    from yak.local.metadata_log import fold

    image = fold(source, **point)
    document = state_document(g, image)
    out = g.out
    if not out.for_people:
        out.object(document)
        return
    out.line(f"as of        record {document['offset']}, {document['time']}")
    out.line(f"cluster      {document['cluster_id'] or 'not made yet'}")
    controller = document["controller_id"]
    out.line(f"controller   {'none' if controller is None else controller}, epoch {document['controller_epoch']}")
    out.line(f"topics       {counted(len(document['topics']), 'topic')}")
    if document["brokers"]:
        out.line()
        columns = ["id", "state", "role", "address", "broker_epoch"]
        for line in layout(document["brokers"], columns, headers=out.headers):
            out.line(line)
    rows = [{"topic": topic["name"], **each} for topic in document["topics"] for each in topic["partitions"]]
    if rows:
        out.line()
        columns = ["topic", "partition", "leader", "leader_epoch", "isr", "replicas", "partition_epoch"]
        for line in layout(rows, columns, headers=out.headers):
            out.line(line)


def state_document(g: "Globals", image: "Image") -> dict[str, Any]:
    """An image as a document."""
    return {
        "offset": image.offset,
        "time": format_time(image.timestamp_ms, g.zone),
        "hash": image.chain_hash,
        "cluster_id": image.cluster_id,
        "controller_id": image.controller_id if image.controller_id >= 0 else None,
        "controller_epoch": image.controller_epoch,
        "brokers": [
            {
                "id": each.node_id,
                "state": str(each.state),
                "role": each.role,
                "address": f"{each.host}:{each.port}",
                "rack": each.rack,
                "broker_epoch": each.broker_epoch,
            }
            for _, each in sorted(image.brokers.items())
        ],
        "topics": [
            {
                "name": topic.name,
                "topic_id": str(topic.topic_id),
                "configs": dict(topic.configs),
                "partitions": [
                    {
                        "partition": each.partition,
                        "leader": each.leader if each.leader >= 0 else None,
                        "leader_epoch": each.leader_epoch,
                        "isr": list(each.isr),
                        "elr": list(each.elr),
                        "replicas": list(each.replicas),
                        "partition_epoch": each.partition_epoch,
                    }
                    for each in topic.partitions
                ],
            }
            for _, topic in sorted(image.topics.items())
        ],
    }


OFFSET_DIGITS_MAX = 9
"""Numbers with at most so many digits are offsets of the metadata log; longer ones are times."""

metadata = CommandGroup(
    "metadata",
    examples=("yak metadata log --follow", "yak metadata snapshot --at 2026-11-20T12:03:04Z"),
)

RedisUrl: TypeAlias = Annotated[
    str | None, option("--redis-url", "Read from this metadata store.", CONNECTION, metavar="URL")
]
DataDir: TypeAlias = Annotated[
    str | None,
    option("--data-dir", "Read the store of a yak up directory, or a broker's copy.", CONNECTION, metavar="DIR"),
]


@metadata.command(
    "log",
    examples=("yak metadata log", "yak metadata log --follow -o json", "yak metadata log --data-dir ./yak-data"),
)
def log(
    g: Globals,
    from_: str | None = flag("--from", "From this record or time on.", START, metavar="OFFSET|TIME"),
    to: str | None = flag("--to", "Up to this record or time, included.", STOP, metavar="OFFSET|TIME"),
    follow: bool = flag("--follow, -f", "Wait for new records.", STOP, default=False),
    redis_url: RedisUrl = None,
    data_dir: DataDir = None,
) -> None:
    """Print the records of the cluster's metadata log.

    Reads the metadata store of --redis-url, else that of the yak up cluster in --data-dir, else that of the settings. Of
    a stopped cluster of yak up it reads the brokers' newest copy. Each record is a sentence, cut to the terminal's width
    except with -o wide. -o json prints the records' fields.
    """
    if follow and to:
        raise UsageError("usage", "--follow and --to exclude each other", why="both say when to stop")
    source = find_source(g, redis_url, data_dir)
    g.out.detail(f"reading {source.name}")
    print_records(g, source, _point(g, from_), _point(g, to), follow=follow)


@metadata.command(
    "snapshot",
    examples=(
        "yak metadata snapshot",
        "yak metadata snapshot --at 2026-11-20T12:03:04Z",
        "yak metadata snapshot --data-dir ./yak-data --at 42 -o json",
    ),
)
def snapshot(
    g: Globals,
    at: str | None = flag("--at", "As of this record or time.  [now]", START, metavar="OFFSET|TIME"),
    redis_url: RedisUrl = None,
    data_dir: DataDir = None,
) -> None:
    """Show the state of the cluster that its metadata records produce, now or as of a time.

    Reads the metadata store of --redis-url, else that of the yak up cluster in --data-dir, else that of the settings.
    """

    source = find_source(g, redis_url, data_dir)
    g.out.detail(f"reading {source.name}")
    print_state(g, source, _point(g, at))


def find_source(g: Globals, redis_url: str | None, data_dir: str | None) -> "RecordSource":
    """The source of metadata records. Raises UsageError when both flags are given."""
    import os

    from yak.local.cluster import LocalCluster
    from yak.local.layout import METADATA_FOLDER, node_dir
    from yak.local.metadata_log import CopySource, RedisSource, newest_copy

    if redis_url is not None and data_dir is not None:
        raise UsageError("usage", "--redis-url and --data-dir exclude each other", why="both say where to read")
    directory = g.settings.value("data_dir", flag=data_dir)
    url = g.settings.get("redis_url", flag=redis_url)
    g.out.warn_once(g.settings.warnings)
    timeout_s = min(3.0, g.timeout_s)
    if data_dir is None and url.origin != "default":
        return RedisSource(url.value, timeout_s)
    cluster = LocalCluster(directory).status()
    if cluster.brokers and (cluster.metadata == "raft" or cluster.moving_to or cluster.redis_running is False):
        return newest_copy([node_dir(cluster.data_dir, broker.node_id) for broker in cluster.brokers])
    if cluster.redis_url is not None:
        return RedisSource(cluster.redis_url, timeout_s)
    if data_dir is not None or os.path.isdir(os.path.join(directory, METADATA_FOLDER)):
        return CopySource(directory)
    return RedisSource(url.value, timeout_s)


def _point(g: Globals, text: str | None) -> dict[str, int]:
    """`offset` or `timestamp_ms` of a bound, as keyword arguments."""
    if text is None:
        return {}
    if text.isascii() and text.isdigit() and len(text) <= OFFSET_DIGITS_MAX:
        return {"offset": int(text)}
    return {"timestamp_ms": parse_time_ms(text, now_ms=g.now_ms(), zone=g.zone)}
