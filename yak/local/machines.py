"""The machines of a local cluster, `yak up --cores N`: N brokers each, which share a rack and the bootstrap port.

Node K is on machine (K - 1) // N + 1. So `yak up --brokers 3 --cores 2` has three machines of two brokers each.
"""

from shlex import quote
from typing import TYPE_CHECKING

from yak.cluster.placement import MACHINE
from yak.errors import UsageError
from yak.local import listeners

if TYPE_CHECKING:
    from yak.local.state import BrokerState, ClusterState


def check_cores(known: "ClusterState", wanted: int | None) -> None:
    """Set the brokers of a machine in a new cluster, and refuse another number in one that has brokers.

    Raises UsageError (`cluster-cores`).
    """
    if not known.brokers:
        known.cores = wanted or 1
    elif wanted not in {None, known.cores}:
        raise UsageError(
            "cluster-cores",
            f"the cluster in {known.data_dir} has {known.cores} broker(s) a machine and cannot have {wanted}",
            why="its partitions are placed so that none has two replicas on a machine",
            try_=(
                f"yak up --cores {known.cores} --data-dir {quote(known.data_dir)}",
                "yak up --cores N --data-dir OTHER",
            ),
        )


def machine_number(known: "ClusterState", node_id: int) -> int:
    """The number of a broker's machine, from 1."""
    return (node_id - 1) // known.cores + 1


def machine_of(known: "ClusterState", node_id: int) -> str | None:
    """The machine of a broker, which is its rack; None in a cluster with one core."""
    return f"{MACHINE}{machine_number(known, node_id)}" if known.cores > 1 else None


def machines(known: "ClusterState") -> set[int]:
    """The numbers of the machines that have a broker."""
    return {machine_number(known, broker.node_id) for broker in known.brokers}


def mates(known: "ClusterState", node_id: int) -> tuple[int, ...]:
    """The brokers of a broker's machine, itself among them."""
    number = machine_number(known, node_id)
    return tuple(each.node_id for each in known.brokers if machine_number(known, each.node_id) == number)


def bootstrap(known: "ClusterState") -> str | None:
    """The address that every broker answers; None in a cluster with one core."""
    if not known.shared_port or not known.brokers:
        return None
    return f"{known.brokers[0].address.rpartition(':')[0]}:{known.shared_port}"


def serve_configs(known: "ClusterState", broker: "BrokerState") -> tuple[str, ...]:
    """The configs that make a broker one of several on its machine. Raises UsageError (`up-listeners`)."""
    machine = machine_of(known, broker.node_id)
    if machine is None:
        return ()
    if any(pair.startswith("listeners=") for pair in broker.configs):
        raise UsageError(
            "up-listeners",
            "-c listeners and --cores exclude each other",
            why="the brokers share the port of the cluster's own listener, which -c listeners replaces",
            try_=("yak up --cores 2 --listen EXTERNAL://0.0.0.0:19092",),
        )
    own = listeners.own_listener(known, broker)
    return f"broker.rack={machine}", f"yak.bootstrap.listeners={own.name}://{bootstrap(known)}"
