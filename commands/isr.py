"""`yak isr`."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from yak.commands.app import CONNECTION, OUTPUT, STOP, WHAT, command
from yak.commands.completing import complete_topic
from yak.commands.options import Globals

if TYPE_CHECKING:
    from yak.client.replica_offsets import ClusterReplicas
    from yak.view.partition_replicas import PartitionReplicas

_FROM_REDIS = "yak isr --from-redis" + " " * 11 + "read the metadata store instead"


@command(
    examples=(
        "yak isr",
        "yak isr orders --watch",
        "yak isr --check --max-lag 1000",
        "yak isr --under-replicated -o json",
        "yak isr --from-redis",
    )
)
def isr(
    g: Globals,
    topic: Annotated[
        str | None,
        typer.Argument(help="Only this topic.", metavar="TOPIC", autocompletion=complete_topic, show_default=False),
    ] = None,
    under_replicated: Annotated[
        bool,
        typer.Option(
            "--under-replicated",
            help="Only under-replicated partitions.",
            rich_help_panel=WHAT,
        ),
    ] = False,
    under_min_isr: Annotated[
        bool, typer.Option("--under-min-isr", help="Only partitions that refuse acks=all.", rich_help_panel=WHAT)
    ] = False,
    at_min_isr: Annotated[
        bool,
        typer.Option("--at-min-isr", help="Only partitions with just min.insync.replicas in sync.", rich_help_panel=WHAT),
    ] = False,
    offline: Annotated[
        bool, typer.Option("--offline", help="Only partitions without a leader.", rich_help_panel=WHAT)
    ] = False,
    internal: Annotated[
        bool,
        typer.Option("--internal", help="Also healthy partitions of internal topics.", rich_help_panel=WHAT),
    ] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Return 4 if a partition is under-replicated.", rich_help_panel=WHAT)
    ] = False,
    max_lag: Annotated[
        int | None,
        typer.Option(
            "--max-lag", help="A larger lag in records counts as out of sync too.", metavar="N", min=0,
            rich_help_panel=WHAT,
        ),
    ] = None,
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Update continuously; without a terminal print changes.",
                           rich_help_panel=OUTPUT)
    ] = False,
    interval: Annotated[
        str, typer.Option("--interval", help="Time between updates.", metavar="DURATION", rich_help_panel=OUTPUT)
    ] = "1s",
    count: Annotated[
        int | None, typer.Option("--count", help="Stop after N updates.", metavar="N", rich_help_panel=STOP, min=1)
    ] = None,
    from_redis: Annotated[
        bool, typer.Option("--from-redis", help="Read from the metadata store, not the brokers.", rich_help_panel=CONNECTION)
    ] = False,
    redis_url: Annotated[
        str | None,
        typer.Option("--redis-url", help="The metadata store for --from-redis.", metavar="URL", rich_help_panel=CONNECTION),
    ] = None,
    data_dir: Annotated[
        str | None,
        typer.Option("--data-dir", help="Use the cluster of this yak up directory.", metavar="DIR",
                     rich_help_panel=CONNECTION),
    ] = None,
) -> int | None:  # fmt: skip
    """Show leader, in-sync replicas and lag of each partition.

    Read from the brokers, or from the metadata store with --from-redis. Healthy partitions of internal topics are
    counted but not shown, except with --internal or by name.
    """
    from yak.commands.isr_view import problems, show, summary
    from yak.protocol.topic_names import INTERNAL_TOPICS
    from yak.view.partition_state import Conditions

    conditions = Conditions(offline, under_min_isr, at_min_isr, under_replicated)
    is_complete = internal or topic is not None or any(conditions)
    reader = _reader(g, topic, from_redis=from_redis, redis_url=redis_url, data_dir=data_dir)

    def chosen(found: "ClusterReplicas") -> "tuple[PartitionReplicas, ...]":
        return tuple(
            each
            for each in found.partitions
            if (is_complete or each.topic not in INTERNAL_TOPICS or problems(each, max_lag=max_lag))
            and (conditions.match(each.replication) or (under_replicated and problems(each, max_lag=max_lag)))
        )

    if watch:
        from yak.commands.isr_watch import Watch
        from yak.commands.units import parse_duration_ms

        return Watch(g, reader, chosen, max_lag).run(parse_duration_ms(interval, bare_unit="s"), count)
    found = reader()
    shown = chosen(found)
    show(g, shown, max_lag=max_lag)
    lines, colour = summary(found.partitions, max_lag=max_lag)
    hidden = 0 if is_complete else _internal(found.partitions) - _internal(shown)
    _say(g, found, shown, lines, colour, from_redis=from_redis, hidden=hidden)
    return 4 if check and len(lines) > 1 else None


def _internal(partitions: "tuple[PartitionReplicas, ...]") -> int:
    from yak.protocol.topic_names import INTERNAL_TOPICS

    return sum(each.topic in INTERNAL_TOPICS for each in partitions)


def _say(
    g: Globals,
    found: "ClusterReplicas",
    shown: "tuple[PartitionReplicas, ...]",
    lines: list[str],
    colour: str,
    *,
    from_redis: bool,
    hidden: int,
) -> None:
    """Print on stderr which partitions are out of sync, which brokers did not answer, and the source of the offsets."""
    from yak.view.formats import counted

    if not found.partitions:
        g.out.note("No topics. yak topics create NAME makes one.")
        return
    if not shown:
        g.out.note("No topics but internal ones." if hidden == len(found.partitions) else "No such partitions.")
    g.out.stdout.flush()
    for line in lines:
        g.out.note(g.out.paint(line, colour) if colour else line)
    if hidden:
        g.out.note(f"{counted(hidden, 'partition')} of internal topics not shown; --internal shows them")
    if from_redis:
        g.out.note("offsets as the leaders last reported them to the metadata store")
        return
    for node, reason in found.silent.items():
        g.out.note(f"broker {node} at {found.brokers[node].address} did not answer: {reason}")


def _reader(
    g: Globals, topic: str | None, *, from_redis: bool, redis_url: str | None, data_dir: str | None
) -> "Callable[[], ClusterReplicas]":
    """A function that reads the cluster once; it raises YakError."""
    from yak.commands.local_cluster import find_local, known_redis
    from yak.errors import Unreachable, UsageError

    local = find_local(g, data_dir)
    if from_redis:
        url = known_redis(g, redis_url, local) or str(g.settings.value("redis_url"))
        return lambda: _known_topic(_from_redis(g, url, topic), topic)
    if data_dir is not None and local is None:
        raise UsageError("no-cluster", f"no cluster was started in {data_dir}", try_=(f"yak up --data-dir {data_dir}",))
    servers = g.servers_of_local(local) if local is not None and local.bootstrap else g.bootstrap_servers
    latest = [servers]

    def read() -> "ClusterReplicas":
        from yak.client.replica_offsets import read_cluster

        try:
            found = read_cluster(latest[0], timeout_s=g.timeout_ms / 1000, topic=topic)
        except Unreachable as error:
            raise Unreachable(error.code, error.message, why=error.why, try_=(_FROM_REDIS, *error.try_)) from None
        latest[0] = _all_addresses(latest[0], found.bootstrap)
        return _known_topic(found, topic)

    return read


def _all_addresses(asked: str, found: str) -> str:
    """The given bootstrap servers and those of the answer: a later read needs any one of them."""
    return ",".join(dict.fromkeys([*asked.split(","), *found.split(",")]).keys()).strip(",")


def _from_redis(g: Globals, url: str, topic: str | None) -> "ClusterReplicas":
    from yak.local.replicas_in_redis import read_cluster

    return read_cluster(url, timeout_s=min(3.0, g.timeout_ms / 1000), topic=topic)


def _known_topic(found: "ClusterReplicas", topic: str | None) -> "ClusterReplicas":
    """Return `found`. Raises YakError (`unknown-topic`) when the requested topic does not exist."""
    from yak.client.metadata import unknown_topic

    if topic is not None and not found.partitions:
        raise unknown_topic(topic, found.topics)
    return found
