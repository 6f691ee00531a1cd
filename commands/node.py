"""`yak node`: changes single brokers of a cluster of `yak up`, and removes a broker of any cluster."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

from yak.commands.app import STOP, WHAT, CommandGroup, flag
from yak.commands.local_cluster import local_cluster, print_status
from yak.commands.node_remove import NodeId, remove
from yak.commands.options import Globals
from yak.commands.parameters import DataDir, option

if TYPE_CHECKING:
    from yak.local.cluster import LocalCluster

Machine: TypeAlias = Annotated[bool, option("--machine", "All brokers of its machine (yak up --cores).", WHAT)]

node = CommandGroup(
    "node",
    "Add, remove, kill, pause, resume or restart one broker.",
    examples=("yak node kill 1", "yak node restart 1", "yak node add --role follower", "yak node remove 3"),
)


@node.command("add", examples=("yak node add", "yak node add --role leader -c num.io.threads=2"))
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


node.command("remove", examples=("yak node remove 3", "yak node remove 3 -b h1:9092    # a broker of yak serve"))(
    remove
)


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
    g.must_not_be_readonly(command)
    return local_cluster(g, data_dir)


def _change(
    g: Globals, cluster: "LocalCluster", node_id: int, change: Callable[[int], object], *, machine: bool
) -> None:
    for each in cluster.mates(node_id) if machine else (node_id,):
        change(each)
    _show(g, cluster, node_id)


def _show(g: Globals, cluster: "LocalCluster", node_id: int) -> None:
    status = cluster.status()
    print_status(g, status)
    state = next((broker.state for broker in status.brokers if broker.node_id == node_id), "gone")
    g.out.note(f"node {node_id} is {state}")
