"""The metadata quorum of a local cluster: its first voters and the secret that its brokers share.

The first nodes are its voters: one in a cluster of one or two brokers, three of three or four, five of five and more.
Brokers that are added later are observers, until `yak quorum add` makes them voters. Voters are named by address, so a
broker of a quorum keeps its port.
"""

import contextlib
import os
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Final

from yak.errors import StartRefused, UsageError
from yak.local import layout
from yak.private_files import replace_file

if TYPE_CHECKING:
    from yak.local.state import ClusterState

REDIS: Final = "redis"
RAFT: Final = "raft"
BOTH: Final = "both"
_SIZES: Final = (5, 3, 1)
_SECRET_BYTES: Final = 32


@dataclass(frozen=True, slots=True)
class QuorumSpec:
    """What `yak serve` needs to join: `voters` as ID@HOST:PORT,... and the path of the secret's file.

    `metadata` is raft, or both while the metadata move from or to Redis.
    """

    voters: str
    secret_file: str
    metadata: str = RAFT

    def serve_arguments(self) -> list[str]:
        return ["--metadata", self.metadata, "--voters", self.voters, "--cluster-secret-file", self.secret_file]


def voters_of(brokers: int) -> int:
    """How many voters a new cluster of so many brokers has: an odd number, since an even one tolerates no more losses."""
    return next(size for size in _SIZES if size <= brokers)


def new_secret() -> str:
    """A new secret, as the file of --cluster-secret-file holds it."""
    return secrets.token_hex(_SECRET_BYTES)


def shared_secret(broker_data_dir: str) -> str:
    """The line of a secret's file with which a new broker joins the cluster of an existing broker: secret, cluster id.

    Raises UsageError (`cluster-secret`).
    """
    secret, cluster_id = _secret_of(broker_data_dir), layout.read_cluster_id(broker_data_dir)
    if secret and cluster_id:
        return f"{secret} {cluster_id}"
    raise UsageError(
        "cluster-secret",
        f"{broker_data_dir} has no secret of a cluster",
        why="no broker has joined a cluster on it" if not cluster_id else "the file cluster-secret cannot be read",
        try_=("yak quorum secret --data-dir DIR   the data directory of a broker that runs", "yak quorum secret"),
    )


def has_begun(known: "ClusterState") -> bool:
    """Whether a broker of a quorum has opened its data directory: its log may name the voters by their addresses."""
    return known.has_quorum and any(layout.read_cluster_id(broker.data_dir) for broker in known.brokers)


def prepare(known: "ClusterState") -> QuorumSpec | None:
    """What the brokers of this cluster need; None with Redis alone. Makes the secret of a new cluster.

    Raises StartRefused (`cluster-secret`) when an existing cluster lost its secret.
    """
    if known.serves_with == REDIS:
        return None
    path = layout.secret_path(known.data_dir)
    if not os.path.exists(path):
        line = stored_secret(broker.data_dir for broker in known.brokers)
        if line is None and has_begun(known):
            raise StartRefused(
                "cluster-secret",
                f"the secret of the cluster in {known.data_dir} is gone",
                why=f"{path} is missing, and no broker's directory has it; the brokers know each other by it",
                try_=("restore the file from a backup", f"yak down --purge --data-dir {quote(known.data_dir)}"),
            )
        replace_file(path, f"{line or new_secret()}\n".encode())
    brokers = {broker.node_id: broker for broker in known.brokers}
    # others were removed since, or are not of `yak up`: the brokers' logs name them
    voters = ",".join(f"{node_id}@{brokers[node_id].address}" for node_id in known.voters if node_id in brokers)
    return QuorumSpec(voters, path, known.serves_with)


def stored_secret(data_dirs: Iterable[str]) -> str | None:
    """The line of a secret's file as one of these data directories has it; None if no broker has joined on them."""
    for each in data_dirs:
        with contextlib.suppress(UsageError):
            return shared_secret(each)
    return None


def _secret_of(broker_data_dir: str) -> str | None:
    try:
        return Path(broker_data_dir, layout.METADATA_FOLDER, "cluster-secret").read_text("ascii").strip()
    except (OSError, UnicodeDecodeError):
        return None


def metadata_elsewhere(known: "ClusterState") -> UsageError:
    """The error for the other metadata store than the one that an existing cluster has."""
    has, other = (
        ("a quorum of its brokers", "in Redis") if known.metadata == RAFT else ("Redis", "in a quorum of its brokers")
    )
    return UsageError(
        "metadata-elsewhere",
        f"the metadata of the cluster in {known.data_dir} are in {has}, not {other}",
        why="yak up does not move them; nothing was changed",
        try_=(
            f"yak up --metadata {known.metadata} --data-dir {quote(known.data_dir)}",
            f"yak cluster migrate --to {RAFT if known.metadata == REDIS else REDIS} --data-dir {quote(known.data_dir)}",
            "yak up --data-dir OTHER          make another cluster",
        ),
    )
