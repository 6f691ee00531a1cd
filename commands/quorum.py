"""`yak quorum`: the metadata quorum of a cluster without Redis."""

from typing import TYPE_CHECKING, Any

from yak.commands.app import OUTPUT, WHAT, CommandGroup, flag
from yak.commands.options import Globals
from yak.commands.parameters import NodeId
from yak.errors import YakError
from yak.view.formats import counted

if TYPE_CHECKING:
    from yak.client.admin import Admin
    from yak.client.metadata import ClusterMetadata
    from yak.client.quorum import QuorumReplica, QuorumState

quorum = CommandGroup(
    "quorum",
    examples=("yak quorum describe", "yak quorum add 4", "yak quorum secret > cluster.secret"),
)

_COLUMNS = ("node", "status", "address", "log_end", "lag", "fetched", "caught_up", "directory_id")
_FLAT = ("node_id", "status", "address", "log_end_offset", "lag", "fetched_ms_ago", "caught_up_ms_ago", "directory_id")


@quorum.command(
    "describe", examples=("yak quorum describe", "yak quorum describe --replication", "yak quorum describe -o json")
)
def describe(
    g: Globals,
    replication: bool = flag("--replication", "Show each node's log end, lag and last fetch.", OUTPUT, default=False),
) -> None:
    """Show the quorum's leader, epoch, voters and observers.

    A voter takes part in elections and commits; an observer only copies the metadata log.
    """
    _admin, metadata, state = _read(g)
    rows = _rows(state, metadata)
    if g.out.for_programs(_document(state, metadata, rows), rows, _FLAT):
        return
    if replication:
        g.out.table([_for_people(row) for row in rows], _COLUMNS)
    else:
        _print(g, state, metadata)


@quorum.command("add", examples=("yak quorum add 4",))
def add(g: Globals, node_id: NodeId) -> None:
    """Make a broker a voter of the quorum.

    The broker must run and have caught up. Its directory id and address are those that it reports to the cluster.
    """
    from yak.client.quorum import add_voter

    g.must_not_be_readonly(f"adding voter {node_id}")
    admin, metadata, state = _read(g)
    observer = _observer_to_add(state, metadata, node_id)
    broker = metadata.brokers[node_id]
    assert observer.directory_id is not None, "an observer reports its directory id with each fetch"
    add_voter(
        admin.answered,
        metadata.cluster_id,
        node_id,
        observer.directory_id,
        (broker.host, broker.port),
        timeout_s=admin.timeout_s,
    )
    _say_voters(g, admin, f"node {node_id} is a voter")


@quorum.command("remove", examples=("yak quorum remove 4", "yak quorum remove 4 --yes"))
def remove(g: Globals, node_id: NodeId) -> None:
    """Make a voter an observer, also one whose machine or disk is lost.

    A running broker continues as an observer.
    """
    from yak.client.quorum import remove_voter

    g.must_not_be_readonly(f"removing voter {node_id}")
    admin, metadata, state = _read(g)
    voter = voter_to_remove(state, node_id)
    left = ", ".join(str(each) for each in state.voter_ids if each != node_id)
    g.confirm(f"Remove voter {node_id}, and leave {left}?")
    remove_voter(admin.answered, metadata.cluster_id, node_id, voter.directory_id, timeout_s=admin.timeout_s)
    _say_voters(g, admin, f"node {node_id} is no longer a voter")


@quorum.command(
    "secret",
    examples=("yak quorum secret > cluster.secret", "yak quorum secret --data-dir ./yak-data > cluster.secret"),
)
def secret(
    g: Globals,
    data_dir: str | None = flag("--data-dir", "The secret of the cluster of this broker's data.", WHAT, metavar="DIR"),
) -> None:
    """Print a new secret for yak serve --cluster-secret-file.

    Every broker of a quorum needs the same file. It also decides the cluster id. With --data-dir it is the secret of
    an existing cluster, with its id behind it: for new brokers of a cluster that moves, or was moved, from Redis.
    """
    from yak.local.quorum import new_secret, shared_secret

    g.out.line(new_secret() if data_dir is None else shared_secret(data_dir))


def _read(g: Globals) -> "tuple[Admin, ClusterMetadata, QuorumState]":
    from yak.client.quorum import describe_quorum

    admin = g.admin()
    metadata = admin.metadata()
    return admin, metadata, describe_quorum(admin.answered, timeout_s=admin.timeout_s)


def _observer_to_add(state: "QuorumState", metadata: "ClusterMetadata", node_id: int) -> "QuorumReplica":
    """Raises YakError (`quorum-voter-exists`, `unknown-node`)."""
    observer = next((each for each in state.observers if each.node_id == node_id), None)
    if node_id in state.voter_ids:
        why, try_ = f"voters are {_ids(state.voters)}", ("yak quorum describe --replication",)
        if observer is not None:
            why = "the broker has another data directory now than the voter had"
            try_ = (f"yak quorum remove {node_id}          the lost one; then yak quorum add {node_id}",)
        raise YakError("quorum-voter-exists", f"node {node_id} is a voter already", why=why, try_=try_)
    if observer is None or node_id not in metadata.brokers:
        raise _unknown_node(state, node_id, "it is no running broker that copies the metadata log")
    return observer


def voter_to_remove(state: "QuorumState", node_id: int) -> "QuorumReplica":
    """The voter. Raises YakError (`quorum-unknown-node`, `quorum-last-voter`, `quorum-would-stop`)."""
    voter = next((each for each in state.voters if each.node_id == node_id), None)
    if voter is None:
        raise _unknown_node(state, node_id, "it is no voter")
    left = set(state.voter_ids) - {node_id}
    if not left:
        raise YakError(
            "quorum-last-voter",
            f"node {node_id} is the only voter",
            why="without a voter no change of the metadata can be committed",
            try_=("yak node add", "yak quorum add NODE          first add another voter"),
        )
    running = left & state.running_voters()
    majority = len(left) // 2 + 1
    if len(running) < majority:
        raise YakError(
            "quorum-would-stop",
            f"node {node_id} was not removed: the voters left would have no majority",
            why=f"of {', '.join(map(str, sorted(left)))} only {', '.join(map(str, sorted(running))) or 'none'} run, "
            f"and {majority} are needed",
            try_=("start a voter that does not run", "yak quorum remove NODE          remove that one instead"),
        )
    return voter


def _unknown_node(state: "QuorumState", node_id: int, why: str) -> "YakError":
    observers = f"; observers {_ids(state.observers)}" if state.observers else "; there is no observer"
    return YakError(
        "quorum-unknown-node",
        f"node {node_id} was not found",
        why=f"{why}: voters {_ids(state.voters)}{observers}",
        try_=("yak quorum describe --replication",),
    )


def _ids(replicas: "tuple[QuorumReplica, ...]") -> str:
    return ", ".join(str(each.node_id) for each in replicas) or "none"


def _say_voters(g: Globals, admin: "Admin", done: str) -> None:
    """Say what was done, and what the voters tolerate now."""
    from yak.client.quorum import describe_quorum

    state = describe_quorum(admin.answered, timeout_s=admin.timeout_s)
    g.out.document({"leader_id": state.leader_id, "leader_epoch": state.epoch, "voters": state.voter_ids})
    g.out.note(f"{done}; {voters_sentence(state)}")


def voters_sentence(state: "QuorumState") -> str:
    """Who the voters are, and what they tolerate."""
    return f"voters are {_ids(state.voters)}, {_tolerance(state)}"


def _tolerance(state: "QuorumState") -> str:
    lost = (len(state.voters) - 1) // 2
    return f"and the quorum tolerates the loss of {lost or 'none'} of them"


def _rows(state: "QuorumState", metadata: "ClusterMetadata") -> list[dict[str, Any]]:
    from yak.storage.checkpoints import id_to_text

    brokers = metadata.brokers
    return [
        {
            "node_id": each.node_id,
            "status": state.status_of(each),
            "directory_id": None if each.directory_id is None else id_to_text(each.directory_id),
            "address": each.address or (brokers[each.node_id].address if each.node_id in brokers else None),
            "log_end_offset": each.log_end_offset,
            "lag": each.lag,
            "fetched_ms_ago": each.fetched_ms_ago,
            "caught_up_ms_ago": each.caught_up_ms_ago,
        }
        for each in (*state.voters, *state.observers)
    ]


def _for_people(row: dict[str, Any]) -> dict[str, Any]:
    ages = {name: row[f"{name}_ms_ago"] for name in ("fetched", "caught_up")}
    times = {name: None if age is None else f"{age} ms ago" for name, age in ages.items()}
    return {**row, "node": row["node_id"], "log_end": row["log_end_offset"], **times}


def _document(state: "QuorumState", metadata: "ClusterMetadata", rows: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "cluster_id": metadata.cluster_id,
        "leader_id": state.leader_id,
        "leader_epoch": state.epoch,
        "high_watermark": state.high_watermark,
        "voters": [each for each in rows if each["status"] != "observer"],
        "observers": [each for each in rows if each["status"] == "observer"],
    }


def _print(g: Globals, state: "QuorumState", metadata: "ClusterMetadata") -> None:
    away = sorted(set(state.voter_ids) - state.running_voters())
    lags = [each.lag for each in state.voters if each.lag is not None]
    out = g.out
    out.line(f"cluster         {metadata.cluster_id}")
    out.line(f"leader          {state.leader_id}, epoch {state.epoch}")
    out.line(
        f"high watermark  {state.high_watermark}; the slowest voter lags {counted(max(lags, default=0), 'record')}"
    )
    out.line(f"voters          {_ids(state.voters)}; {_tolerance(state).removeprefix('and ')}")
    out.line(f"observers       {_ids(state.observers)}")
    if away:
        out.line(f"not running     {', '.join(map(str, away))}")
