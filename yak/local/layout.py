"""The files of a local cluster, and the check whether a directory may hold one.

<data-dir>/cluster.json, cluster.lock    the started processes; the lock of changes
<data-dir>/node-1/                       the broker's own data directory
<data-dir>/cluster.secret                the secret that the brokers of a quorum share; with --metadata raft
<data-dir>/certs/                        the authority and the brokers' certificate; with --tls
<data-dir>/redis/                        the Redis server's append-only file
<data-dir>/logs/node-1.log, redis.log    their output
<data-dir>/run/node-1.json               the broker's ready file
"""

import contextlib
import os
import shutil
from pathlib import Path
from shlex import quote
from typing import Final

from yak.errors import StartRefused
from yak.local import state
from yak.local.state import BrokerState, ClusterState
from yak.private_files import make_directory, open_file
from yak.storage.checkpoints import parse_properties
from yak.storage.names import META_PROPERTIES

METADATA_FOLDER: Final = "__yak_metadata"
"""The folder of the metadata in a broker's first data directory."""
_SECRET_NAME: Final = "cluster.secret"  # noqa: S105 - a name, no secret
_OWN_ENTRIES: Final = ("certs", "logs", "redis", "run", state.STATE_FILE, state.LOCK_FILE, _SECRET_NAME)


def node_dir(data_dir: str, node_id: int) -> str:
    """The data directory of one broker."""
    return os.path.join(data_dir, f"node-{node_id}")


def certs_dir(data_dir: str) -> str:
    """The folder of the cluster's certificates."""
    return os.path.join(data_dir, "certs")


def redis_dir(data_dir: str) -> str:
    """The folder of the Redis server."""
    return os.path.join(data_dir, "redis")


def secret_path(data_dir: str) -> str:
    """The file of the secret that the brokers of a metadata quorum share."""
    return os.path.join(data_dir, _SECRET_NAME)


def log_path(data_dir: str, name: str) -> str:
    """The log file of `redis` or `node-1`."""
    return os.path.join(data_dir, "logs", f"{name}.log")


def ready_file(data_dir: str, node_id: int) -> str:
    """The file that a broker writes once it answers clients."""
    return os.path.join(data_dir, "run", f"node-{node_id}.json")


def prepare(data_dir: str) -> None:
    """Make the data directory, or refuse it. Raises StartRefused; a refused directory stays untouched."""
    if os.path.exists(os.path.join(data_dir, META_PROPERTIES)):
        raise StartRefused(
            "data-dir-of-a-broker",
            f"{data_dir} is the data directory of one broker, not of a local cluster",
            why="it holds meta.properties, as yak serve and Apache Kafka write it",
            try_=("yak up --data-dir ./yak-cluster", f"yak serve --data-dir {quote(data_dir)}"),
        )
    try:
        make_directory(data_dir, is_ours=_are_ours)
        os.close(open_file(os.path.join(data_dir, state.LOCK_FILE), os.O_WRONLY | os.O_CREAT))
    except OSError as error:
        raise StartRefused(
            "data-dir-not-writable",
            f"cannot use {data_dir} for a cluster",
            why=os.strerror(error.errno or 0),
            try_=("yak up --data-dir DIR          a directory you may write to",),
        ) from error


def _are_ours(names: list[str]) -> bool:
    return all(name in _OWN_ENTRIES or name.startswith(("node-", f"{state.STATE_FILE}.")) for name in names)


def purge(known: ClusterState) -> None:
    """Delete the cluster's files in its directory, and the directory if it is then empty.

    Also the data of a broker that began to join, and is in the state no more: it would be refused in the next cluster.
    """
    root = Path(known.data_dir)
    joined = [str(path.parent) for path in root.glob(f"node-*/{META_PROPERTIES}")]
    for folder in (*joined, *(broker.data_dir for broker in known.brokers)):
        shutil.rmtree(folder, ignore_errors=True)
    for path in (*(root / name for name in _OWN_ENTRIES), *root.glob("cluster.*.*tmp")):
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        os.rmdir(known.data_dir)


def forget_node(data_dir: str, broker: BrokerState) -> None:
    """Delete the directory of a removed broker, unless it has data that YAK moved aside for an operator."""
    Path(ready_file(data_dir, broker.node_id)).unlink(missing_ok=True)
    if not any(Path(broker.data_dir).glob("*-stray")):
        shutil.rmtree(broker.data_dir, ignore_errors=True)


def read_cluster_id(broker_data_dir: str) -> str | None:
    """The cluster id in the broker's meta.properties; None when there is none."""
    try:
        data = Path(broker_data_dir, META_PROPERTIES).read_bytes()
    except OSError:
        return None
    return parse_properties(data).get("cluster.id")
