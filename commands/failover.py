"""`yak failover`."""

from typing import TYPE_CHECKING, Annotated, Any

from yak.client.numbers import parse_long
from yak.commands.app import CONNECTION, WHAT, command, flag
from yak.commands.local_cluster import data_dir_flag, data_dir_of
from yak.commands.options import Globals
from yak.commands.output import layout
from yak.commands.parameters import argument
from yak.commands.shell_completion import complete_topic
from yak.errors import UsageError, YakError
from yak.view.formats import counted

if TYPE_CHECKING:
    from yak.client.leadership import Plan
    from yak.client.replica_offsets import ClusterReplicas
    from yak.local.cluster import LocalCluster
    from yak.local.failover import Failover, FailoverTimes, LeaderMove, Timeline
    from yak.local.status import ClusterStatus
    from yak.view.partition_replicas import PartitionReplicas

MOVE_COLUMNS = ("topic", "partition", "from", "to", "result")
LONG_MS = 1000.0


def show_end(g: "Globals", result: "Failover", *, hard: bool, data_dir: str) -> None:
    """Print the result of a killed or restarted broker."""
    out = g.out
    document = {"action": "kill" if hard else "restart", **result.as_json()}
    if out.for_programs(document, _steps(result.timeline, "killed" if hard else "stop requested"), ("ms", "step")):
        return
    and_controller = " and was the controller" if result.was_controller else ""
    how = "killed with kill -9" if hard else "stopped and started again"
    led = counted(len(result.led), "partition")
    out.line(f"broker {result.node_id} (pid {result.pid}) {how}; it led {led}{and_controller}")
    for line in timeline_lines(
        result.timeline, "killed" if hard else "stop requested", out="fenced" if hard else "left"
    ):
        out.line(f"  {line}")
    out.stdout.flush()
    for line in probe_lines(result):
        out.note(line)
    if result.offline:
        out.warn(f"{counted(len(result.offline), 'partition')} went offline: no other replica was in sync")
    if len(result.led) > len(result.offline) and result.timeline.elected_ms is None:
        out.warn("not every partition has a new leader yet: yak isr --offline")
    if hard:
        out.note(f"bring it back: yak node restart {result.node_id}{data_dir_flag(data_dir)}")


def probe_lines(result: "Failover") -> list[str]:
    """The result of the probe as text."""
    if result.probed is None:
        return []
    errors = f"{counted(len(result.errors), 'error')}" + (f": {result.errors[0]}" if result.errors else "")
    return [f"test topic with the same leader: {_pause(result)}; {result.acknowledged} records acknowledged, {errors}"]


def _pause(result: "FailoverTimes") -> str:
    if result.is_without_write:
        return "no write was acknowledged"
    return f"writes paused for {_ms(result.pause_ms or 0.0)} at most"


def _warn_without_write(g: Globals, result: "FailoverTimes") -> None:
    from yak.local.failover import WATCH_SECONDS

    if result.is_without_write:
        g.out.warn(f"no test record was acknowledged in {WATCH_SECONDS:.0f} s: yak isr --check")


def timeline_lines(timeline: "Timeline", begin: str, *, out: str = "fenced") -> list[str]:
    """Lines such as ` 31 ms detected`; `out` is the word for a broker that left the cluster."""
    rows = _steps(timeline, begin)
    for row in rows:
        row["step"] = out if row["step"] == "fenced" else row["step"]
    return layout([{"ms": _ms(row["ms"]).rjust(8), "step": row["step"]} for row in rows], ("ms", "step"), headers=False)


def _steps(timeline: "Timeline", begin: str) -> list[dict[str, Any]]:
    return [
        {"ms": 0.0, "step": begin},
        *({"ms": round(at, 1), "step": name} for name, at in timeline.steps()),
    ]


def _ms(value: float) -> str:
    return f"{value:.0f} ms" if value < LONG_MS * 10 else f"{value / 1000:.1f} s"


def show_moves(g: "Globals", plan: "Plan", moved: "LeaderMove") -> None:
    """Print the result of planned leadership moves."""
    out = g.out
    rows = _move_rows(plan, moved)
    if out.document({"action": "move", "moves": rows, **moved.as_json()}):
        return
    out.table(rows, MOVE_COLUMNS)
    if not out.for_people:
        return
    out.stdout.flush()
    count = len(plan.moves) - len(moved.failed)
    if not plan.moves and not plan.refused:
        out.note("nothing to move: every partition is led by the broker it should be led by")
        return
    out.note(f"{counted(count, 'leader')} moved in {_ms(moved.took_ms)}")
    for line in timeline_lines(moved.timeline, "requested") if moved.timeline.steps() else ():
        out.note(f"  {line}")
    if moved.probed is not None:
        out.note(
            f"{moved.probed}: {_pause(moved)}; "
            f"{moved.acknowledged} test records acknowledged, {counted(len(moved.errors), 'error')}"
        )


def _move_rows(plan: "Plan", moved: "LeaderMove") -> list[dict[str, Any]]:
    rows = [
        {
            **each.partition._asdict(),
            "from": each.leader,
            "to": each.to,
            "result": f"failed: {moved.failed[each.partition]}" if each.partition in moved.failed else "moved",
        }
        for each in plan.moves
    ]
    for others, word in ((plan.refused, "not moved"), (plan.stays, "stays")):
        rows += [
            {"topic": key.topic, "partition": key.partition, "from": None, "to": None, "result": f"{word}: {reason}"}
            for key, reason in others.items()
        ]
    return sorted(rows, key=lambda row: (str(row["topic"]), int(str(row["partition"]))))


@command(
    examples=(
        "yak failover orders:0",
        "yak failover orders --to 2",
        "yak failover --from 1",
        "yak failover --all                        # back to the preferred leaders",
        "yak failover --controller --kill --yes    # kill -9, on this machine",
    )
)
def failover(
    g: Globals,
    topic: Annotated[
        str | None,
        argument("TOPIC[:P]", "A topic, or one partition.", autocompletion=complete_topic, show_default=False),
    ] = None,
    to: int | None = flag("--to", "The new leader.", WHAT, metavar="NODE"),
    from_: int | None = flag("--from", "Only partitions led by this broker.", WHAT, metavar="NODE"),
    all_: bool = flag("--all", "All topics; without --to and --from: preferred leader election.", WHAT, default=False),
    controller: bool = flag("--controller", "Restart the controller; another broker is elected.", WHAT, default=False),
    kill: bool = flag(
        "--kill", "Kill the leader (or the controller) with kill -9, on this machine.", WHAT, default=False
    ),
    probe: bool | None = flag(
        "--probe/--no-probe",
        "Write test records to time the first acknowledged write: with --kill and "
        "--controller, the default, to a topic of their own; else to the first moved partition.",
        WHAT,
        show_default=False,
    ),
    data_dir: str | None = flag("--data-dir", "Use the cluster of this yak up directory.", CONNECTION, metavar="DIR"),
) -> int | None:
    """Move partitions to other leaders, or kill a leader.

    The preferred leader (the first replica) takes over, or if it leads already, another replica in the ISR. The new
    leader becomes the first replica, so that --all does not undo a move: move back with --to.
    """
    from yak.client.metadata import unknown_broker
    from yak.client.replica_offsets import read_metadata
    from yak.commands.local_cluster import find_local

    _check_together(topic, to, from_, all_=all_, controller=controller, kill=kill)
    g.must_not_be_readonly("killing a broker" if kill else "moving leaders")
    local = find_local(g, data_dir)
    servers = g.servers_of_local(local) if local is not None else g.bootstrap_servers
    if kill or controller:
        if local is None:
            raise _not_local(g, data_dir, "kill" if kill else "restart")
        from yak.local.cluster import LocalCluster

        found = read_metadata(servers, timeout_s=g.timeout_s)
        node = _node_to_end(found, _selected(found, topic, from_), topic, from_, controller=controller)
        _check_another_runs(found, node, data_dir_flag(local.data_dir))
        return _end(g, LocalCluster(local.data_dir), found, node, hard=kill, probe=probe is not False)
    found = read_metadata(servers, timeout_s=g.timeout_s)
    selected = _selected(found, topic, from_)
    if to is not None and to not in found.brokers:
        raise unknown_broker(to, found.brokers)
    only_preferred = all_ and to is None and from_ is None
    return _move(g, servers, selected, to=to, only_preferred=only_preferred, probe=bool(probe),
                 local=local)  # fmt: skip


def _check_together(
    topic: str | None, to: int | None, from_: int | None, *, all_: bool, controller: bool, kill: bool
) -> None:
    def refuse(what: str, why: str) -> UsageError:
        return UsageError("usage", what, why=why, try_=("yak failover --help",))

    if topic and ":" in topic and parse_long(topic.partition(":")[2]) is None:
        raise refuse(f'"{topic}" names no partition', "a number follows the colon, such as orders:0")
    if controller and (topic or all_ or to is not None or from_ is not None):
        raise refuse(
            "--controller goes alone or with --kill", "it moves no partition, and the brokers elect the next controller"
        )
    if topic and all_:
        raise refuse(f"{topic} and --all exclude each other", "both say which partitions")
    if kill and (to is not None or all_):
        raise refuse("--kill excludes --to and --all", "after a kill the controller chooses the leader")
    if not (topic or all_ or controller or from_ is not None):
        raise UsageError(
            "usage",
            "say what to move: a topic, --from NODE, --controller, or --all",
            try_=("yak failover TOPIC", "yak failover --from 1", "yak failover --all"),
        )


def _selected(found: "ClusterReplicas", topic: str | None, from_: int | None) -> "list[PartitionReplicas]":
    """The selected partitions. Raises YakError for an unknown topic, partition or broker."""
    from yak.client.metadata import unknown_broker, unknown_partition, unknown_topic

    if from_ is not None and from_ not in found.brokers:
        raise unknown_broker(from_, found.brokers)
    chosen = list(found.partitions)
    if topic is not None:
        name, colon, number = topic.partition(":")
        if name not in found.topics:
            raise unknown_topic(name, found.topics)
        chosen = [each for each in found.of_topic(name) if not colon or str(each.partition) == number]
        if not chosen:
            raise unknown_partition(name, number, len(found.of_topic(name)))
    return [each for each in chosen if from_ is None or each.leader == from_]


def _not_local(g: Globals, data_dir: str | None, verb: str) -> UsageError:
    where = data_dir_of(g, data_dir)
    return UsageError(
        "not-a-local-cluster",
        f"yak failover can only {verb} brokers that yak up started on this machine",
        why=f"{where} holds no cluster with a broker at {g.bootstrap_servers}",
        try_=(
            "yak failover --controller --kill --data-dir DIR",
            "yak failover --from NODE        moves without a kill",
        ),
    )


def _node_to_end(
    found: "ClusterReplicas",
    selected: "list[PartitionReplicas]",
    topic: str | None,
    from_: int | None,
    *,
    controller: bool,
) -> int:
    if controller:
        if found.controller_id not in found.brokers:
            raise YakError("no-controller", "the cluster has no controller now", try_=("yak cluster",))
        return found.controller_id
    if from_ is not None:
        return from_
    leaders = sorted({each.leader for each in selected if each.leader >= 0})
    if len(leaders) == 1:
        return leaders[0]
    if not leaders:
        raise UsageError("usage", f"{topic} has no leader to kill", try_=("yak isr --offline",))
    raise UsageError(
        "usage",
        f"{topic} is led by {', '.join(map(str, leaders))}: name the broker to kill",
        try_=(f"yak failover {topic}:0 --kill", "yak failover --from NODE --kill"),
    )


def _check_another_runs(found: "ClusterReplicas", node: int, of_cluster: str) -> None:
    if len(found.brokers) == 1:
        raise YakError(
            "last-broker",
            f"broker {node} cannot fail over",
            why="it is the only broker that runs, so no other broker can take over",
            try_=(
                f"yak node add{of_cluster}",
                f"yak node kill {node}{of_cluster}          stops the cluster's only broker",
            ),
        )


def _end(
    g: Globals,
    cluster: "LocalCluster",
    found: "ClusterReplicas",
    node: int,
    *,
    hard: bool,
    probe: bool,
) -> int:
    """Kill or restart a broker of the local cluster, and print the timeline; return the exit code."""
    from yak.local.failover import end_and_watch, led_by

    movable, offline = led_by(found.partitions, node)
    probe = probe and bool(movable)
    what = "kill -9" if hard else "stop and start"
    and_controller = ", the controller" if found.controller_id == node else ""
    records = " (and write test records to a topic of their own)" if probe else ""
    led = counted(len(movable) + len(offline), "partition")
    go_offline = f", {len(offline)} of them with no other in-sync replica, which go offline" if offline else ""
    g.confirm(f"{what} broker {node}{and_controller}, which leads {led}{go_offline}{records}?")

    def on_topic_left(name: str) -> None:
        g.out.warn(f"the topic of the test records could not be deleted: yak topics delete {name}")

    result = end_and_watch(cluster, node, hard=hard, probe=probe, on_topic_left=on_topic_left)
    show_end(g, result, hard=hard, data_dir=cluster.data_dir)
    _warn_without_write(g, result)
    return 1 if result.is_without_write or (movable and result.timeline.elected_ms is None) else 0


def _move(
    g: Globals,
    servers: str,
    selected: "list[PartitionReplicas]",
    *,
    to: int | None,
    only_preferred: bool,
    probe: bool,
    local: "ClusterStatus | None",
) -> int | None:
    from yak.client.admin import Admin
    from yak.client.leadership import plan_moves
    from yak.local.failover import move_and_watch

    plan = plan_moves(selected, to=to, only_preferred=only_preferred)
    admin = Admin(servers, timeout_ms=g.timeout_ms, verbose=g.out.verbose)
    done = move_and_watch(admin, plan.moves, local=local, probe=probe)
    show_moves(g, plan, done)
    _warn_without_write(g, done)
    return 1 if plan.refused or done.failed or done.is_without_write else None
