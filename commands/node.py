"""`yak node`: changes single brokers of a cluster of `yak up`, and removes a broker of any cluster."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

from yak.commands.app import STOP, WHAT, CommandGroup, flag
from yak.commands.local_cluster import data_dir_of, find_local, local_cluster, print_status
from yak.commands.options import Globals
from yak.commands.parameters import DataDir, NodeId, option
from yak.errors import UsageError, YakError

if TYPE_CHECKING:
    from yak.client.broker_removal import Removal
    from yak.local.cluster import LocalCluster

Machine: TypeAlias = Annotated[bool, option("--machine", "All brokers of its machine (yak up --cores).", WHAT)]

node = CommandGroup(
    "node",
    examples=("yak node kill 1", "yak node restart 1", "yak node add --role follower", "yak node remove 3"),
)


@node.command("add", examples=("yak node add", "yak node add --role leader -c log.retention.hours=24"))
def add(
    g: Globals,
    role: Literal["leader", "follower"] = flag(
        "--role", "leader or follower.", WHAT, default="follower", metavar="ROLE"
    ),
    configs: list[str] | None = flag("-c", "A broker config; may be repeated.", WHAT, metavar="NAME=VALUE"),
    data_dir: DataDir = None,
) -> None:
    """Add a broker to the running cluster."""
    cluster = _changeable(g, data_dir, "yak node add")
    _show(g, cluster, cluster.add(role, tuple(configs or ()) or None).node_id)


@node.command("remove", examples=("yak node remove 3", "yak node remove 3 -b h1:9092    # a broker of yak serve"))
def remove(g: Globals, node_id: NodeId, data_dir: DataDir = None) -> None:
    """Move all that a broker holds to the others, then stop and unregister it.

    A broker of yak up is stopped, and its directory deleted. Stop another broker when the command says that it holds
    nothing. A voter of the metadata quorum first becomes an observer. If the command was interrupted, run it again.
    """
    from yak.client.broker_removal import Removal
    from yak.local.cluster import LocalCluster

    g.must_not_be_readonly(f"removing broker {node_id}")
    local = find_local(g, data_dir)
    servers = g.bootstrap_servers if local is None else g.servers_of_local(local)
    cluster = None if local is None else LocalCluster(local.data_dir)
    if cluster is not None:
        cluster.check_removal(node_id)
    removal = Removal(servers, node_id, timeout_s=g.timeout_s, say=g.out.note)
    _confirm(g, removal, is_local=cluster is not None)
    try:
        _leave_quorum(g, servers, node_id)
        if cluster is not None:
            cluster.remove(removal)
        else:
            _remove_elsewhere(g, removal)
    except (KeyboardInterrupt, SystemExit):
        where = f" -b {servers}" if cluster is None else ""
        g.out.note(f"broker {node_id} was not removed; yak node remove {node_id}{where} goes on")
        raise
    g.out.document({"node_id": node_id, "moved_partitions": removal.moved, "removed": True})
    g.out.note(f"broker {node_id} is removed")


@node.command("kill", examples=("yak node kill 1",))
def kill(g: Globals, node_id: NodeId, machine: Machine = False, data_dir: DataDir = None) -> None:
    """Kill a broker with SIGKILL, as a crash does."""
    cluster = _changeable(g, data_dir, "yak node kill")
    _change(g, cluster, node_id, cluster.kill, machine=machine)


@node.command("pause", examples=("yak node pause 1",))
def pause(g: Globals, node_id: NodeId, machine: Machine = False, data_dir: DataDir = None) -> None:
    """Stop a broker's process with SIGSTOP: its connections stay open and answer nothing."""
    cluster = _changeable(g, data_dir, "yak node pause")
    _change(g, cluster, node_id, cluster.pause, machine=machine)


@node.command("resume", examples=("yak node resume 1",))
def resume(g: Globals, node_id: NodeId, machine: Machine = False, data_dir: DataDir = None) -> None:
    """Continue a paused broker with SIGCONT."""
    cluster = _changeable(g, data_dir, "yak node resume")
    _change(g, cluster, node_id, cluster.resume, machine=machine)


@node.command("restart", examples=("yak node restart 1", "yak node restart 1 --hard", "yak node restart 1 --machine"))
def restart(
    g: Globals,
    node_id: NodeId,
    hard: bool = flag("--hard", "SIGKILL instead of SIGTERM first.", STOP, default=False),
    machine: Machine = False,
    data_dir: DataDir = None,
) -> None:
    """Restart a broker; start it if it is dead. With --machine those of its machine, one by one."""
    cluster = _changeable(g, data_dir, "yak node restart")
    _change(g, cluster, node_id, lambda each: cluster.restart(each, hard=hard), machine=machine)


def _changeable(g: Globals, data_dir: str | None, command: str) -> "LocalCluster":
    """The cluster of `yak up`. Raises UsageError (`not-a-local-cluster`) when -b or --context names brokers of another one."""
    g.must_not_be_readonly(command)
    cluster = local_cluster(g, data_dir)
    is_named = g.flags.bootstrap_server is not None or g.flags.context is not None
    if data_dir is None and is_named and cluster.status().brokers and find_local(g, None) is None:
        raise UsageError(
            "not-a-local-cluster",
            f"{command} changes only brokers that yak up started on this machine",
            why=f"{data_dir_of(g, None)} holds no cluster with a broker at {g.bootstrap_servers}",
            try_=(f"{command} NODE          without -b and --context", f"{command} NODE --data-dir DIR"),
        )
    return cluster


def _change(
    g: Globals, cluster: "LocalCluster", node_id: int, change: Callable[[int], object], *, machine: bool
) -> None:
    nodes = cluster.mates(node_id) if machine else (node_id,)
    changed = len(nodes)
    for each in nodes:
        try:
            change(each)
        except YakError as error:
            changed -= 1
            if not changed or error.code not in ("node-not-running", "node-paused", "node-not-paused"):
                raise
    _show(g, cluster, node_id)


def _show(g: Globals, cluster: "LocalCluster", node_id: int) -> None:
    status = cluster.status()
    print_status(g, status)
    state = next((broker.state for broker in status.brokers if broker.node_id == node_id), "gone")
    g.out.note(f"node {node_id} is {state}")


def _confirm(g: Globals, removal: "Removal", *, is_local: bool) -> None:
    """Check what can be checked before the first change, and ask. Raises YakError."""
    from yak.view.formats import counted

    holdings = removal.holdings()
    plan = removal.plan(holdings)
    known = holdings.is_live or holdings.partitions or is_local
    what = f"move {counted(len(plan.targets), 'partition')} away from it, " if plan.targets else ""
    state = "" if known else ", which the cluster does not list,"
    g.confirm(f"Remove broker {removal.node_id}{state}: {what}stop it and unregister it?")


def _leave_quorum(g: Globals, servers: str, node_id: int) -> None:
    """Make a voter an observer. Raises YakError (`quorum-last-voter`, `quorum-would-stop`)."""
    from yak.client.quorum import describe_quorum, remove_voter
    from yak.client.replica_offsets import read_metadata
    from yak.commands.quorum import voter_to_remove, voters_sentence

    timeout_s = g.timeout_s
    found = read_metadata(servers, timeout_s=timeout_s)
    address = next(each.address for node, each in found.brokers.items() if node != node_id)
    try:
        state = describe_quorum(address, timeout_s=timeout_s)
    except YakError as error:
        if error.code != "no-quorum":
            raise
        return
    if node_id not in state.voter_ids:
        return
    voter = voter_to_remove(state, node_id)
    remove_voter(address, found.cluster_id, node_id, voter.directory_id, timeout_s=timeout_s)
    state = describe_quorum(address, timeout_s=timeout_s)
    g.out.note(f"node {node_id} is no longer a voter; {voters_sentence(state)}")


def _remove_elsewhere(g: Globals, removal: "Removal") -> None:
    """A broker that this machine did not start: the operator stops it."""
    removal.drain()
    if removal.is_live():
        node_id = removal.node_id
        how = f"with SIGTERM or systemctl stop yak@{node_id}; of yak serve --cores stop the whole machine"
        g.out.note(f"stop broker {node_id} now, {how}; this command waits")
    removal.finish()
