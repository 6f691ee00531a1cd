"""Messages for a store that this broker must not use: why it is frozen, or cannot join at all."""

from collections.abc import Mapping

from yak.cluster.image import Image
from yak.cluster.outputs import Refused
from yak.ports.metadata_store import StoreOutcome


def frozen(outcome: StoreOutcome, image: Image, *, is_serving: bool) -> str:
    """The reason for frozen metadata, in one line.

    `is_serving`: the broker became ready before; otherwise it waits for the store's history first.
    """
    known = f"this broker holds metadata up to record {image.offset}"
    reasons = {
        "NO_CLUSTER": f"the metadata store is empty, but {known} of cluster {image.cluster_id or 'known before'}",
        "WRONG_CLUSTER": f"the metadata store holds cluster {outcome.value.get('cluster_id')}, not {image.cluster_id}",
        "WRONG_INCARNATION": "the metadata store holds another incarnation of this cluster",
        "SEEDING": "the metadata store lost its history",
        "MIGRATING": "the metadata are being moved to another store",
        "MOVED": (
            "the metadata of this cluster were moved to the other store: start the broker with --metadata both, or with "
            "the other store alone"
        ),
        "REGRESSED": f"the metadata store was rolled back to record {outcome.offset}; {known}",
        "FORKED": f"the metadata store's history differs from this broker's since record {image.offset}: it was rolled back",
        "TRIMMED": f"the metadata store no longer has record {image.offset}, the newest that this broker holds",
    }
    reason = reasons.get(outcome.code, f"the metadata store refused: {outcome.code} {outcome.value.get('message', '')}")
    if outcome.code == "TRIMMED":
        # not the whole folder: it has the votes of a quorum's voter
        files = "`snapshot` and `*.log` in its __yak_metadata"
        return f"{reason}. Stop the broker, move {files} aside, and start it again: it keeps its logs"
    meanwhile = "Produce and fetch continue" if is_serving else "The broker does not serve before that history is back"
    if outcome.code in ("MIGRATING", "MOVED") and not is_serving:
        meanwhile = "The broker does not serve yet"
    return f"{reason}. {meanwhile}"


def wrong_cluster(ours: str, theirs: object) -> Refused:
    """Refuse a store of another cluster than the data directory's."""
    return Refused(
        code="wrong-cluster",
        message=f"this data directory belongs to cluster {ours}, the metadata store holds cluster {theirs}",
        why="a broker of one cluster must not join another: topics and offsets would be mixed",
        try_=("start with the --redis-url of the cluster that the data belongs to", "or with another --data-dir"),
    )


def node_id_in_use(node_id: int, value: Mapping[str, object]) -> Refused:
    """Refuse to start: another broker with this id is alive."""
    return Refused(
        code="node-id-in-use",
        message=f"node id {node_id} is in use by a broker at {value.get('host')}:{value.get('port')}",
        why="it sends heartbeats, and has another data directory",
        try_=("start this broker with another --node-id", "or stop the other one first"),
    )


def unreadable(reason: str) -> Refused:
    """Refuse to start: a record of the cluster's metadata is of a newer YAK, or damaged."""
    return Refused(
        code="metadata-unreadable",
        message="the cluster's metadata cannot be read",
        why=f"{reason}; this broker did not serve, and changed no topic",
        try_=("start the broker with the version of YAK that the other brokers have", "yak metadata log"),
    )


def replaced(node_id: int, broker: Mapping[str, object]) -> Refused:
    """Refuse to go on: another process registered with this node id during an outage."""
    return Refused(
        code="broker-replaced",
        message=f"another broker registered as node {node_id} (at {broker.get('host')}:{broker.get('port')})",
        why="only one process may serve under a node id; this one stops so that the newer one can",
        try_=("give each broker its own --node-id",),
    )
