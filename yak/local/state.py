"""The stored state of a local cluster: `<data-dir>/cluster.json`, replaced as a whole by a rename.

The file lists the started processes; `yak.local.processes` finds out which still run. `cluster.lock` lets one `yak up`
command at a time change a cluster.
"""

import contextlib
import errno
import fcntl
import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from shlex import quote
from typing import Any, Final, TypeVar

from yak.config.listeners import SecurityProtocol, bracketed
from yak.errors import StartRefused, YakError
from yak.local.processes import ProcessId
from yak.private_files import distrust, open_file, replace_file
from yak.storage.names import LOCAL_CLUSTER_STATE

STATE_FILE: Final = LOCAL_CLUSTER_STATE
LOCK_FILE: Final = "cluster.lock"
BUSY: Final = "cluster-busy"
"""The error of a command while another one changes the cluster."""
_VERSION: Final = 1
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ListenerOptions:
    """The listener options of `yak up`: `--listen` and `--advertise` as typed, for broker 1."""

    listen: tuple[str, ...] = ()
    advertise: tuple[str, ...] = ()
    tls: bool = False
    users_file: str | None = None

    @property
    def protocol(self) -> SecurityProtocol:
        parts = ["SASL"] * bool(self.users_file) + (["SSL"] if self.tls else ["PLAINTEXT"] * bool(self.users_file))
        return SecurityProtocol("_".join(parts) or "PLAINTEXT")

    @property
    def is_plain(self) -> bool:
        """Whether the cluster has its own plain listener only."""
        return self == ListenerOptions()


@dataclass(slots=True)
class RedisState:
    """The metadata store: the cluster's own Redis server with its process, or the address of an external one.

    `is_ours`: this cluster started the server itself, and so stops it.
    """

    url: str
    process: ProcessId | None = None
    is_ours: bool = False


@dataclass(slots=True)
class BrokerState:
    """One broker as it was last started. `wanted` is False once it was stopped on purpose."""

    node_id: int
    role: str
    host: str
    port: int
    data_dir: str
    configs: tuple[str, ...] = ()
    process: ProcessId | None = None
    epoch: int | None = None
    is_ready: bool = False
    wanted: bool = True
    http_port: int | None = 0
    """The HTTP port; 0: any free port, None: no HTTP."""
    http_tls: bool = False
    """Whether it speaks HTTPS."""

    @property
    def address(self) -> str:
        return f"{bracketed(self.host)}:{self.port}"

    @property
    def http_address(self) -> str | None:
        """http://host:port, or https; None without an HTTP port."""
        scheme = "https" if self.http_tls else "http"
        return f"{scheme}://{self.address.rpartition(':')[0]}:{self.http_port}" if self.http_port else None


@dataclass(slots=True)
class ClusterState:
    """One local cluster. `supervisor` is the foreground `yak up` that stops it on Ctrl+C, if there is one.

    `metadata` is redis, or raft. `voters` are the node ids of the quorum's voters, first or at its last move; they stay
    after a move to Redis, also those that are removed then, since the brokers' logs name them. `moving_to` is the store
    that `yak cluster migrate` moves the metadata to, until it is done; `has_moved`: they are there, and brokers are
    started with that store alone.
    """

    data_dir: str
    redis: RedisState
    cluster_id: str | None = None
    ephemeral: bool = False
    brokers: list[BrokerState] = field(default_factory=list)
    supervisor: ProcessId | None = None
    metadata: str = "redis"
    voters: tuple[int, ...] = ()
    moving_to: str | None = None
    has_moved: bool = False
    exposed: ListenerOptions = field(default_factory=ListenerOptions)
    """The further listeners, TLS and the users file."""
    cores: int = 1
    """How many brokers a machine has."""
    shared_port: int = 0
    """The bootstrap port of all brokers; 0 with one core."""

    @property
    def serves_with(self) -> str:
        """What `yak serve --metadata` gets: both while the metadata move."""
        return "both" if self.moving_to is not None and not self.has_moved else self.metadata

    @property
    def has_quorum(self) -> bool:
        """Whether its brokers are, or become, nodes of a quorum."""
        return self.metadata == "raft" or self.moving_to is not None

    @property
    def has_redis(self) -> bool:
        """Whether its metadata are in Redis, or a move to or from Redis is not finished."""
        return self.metadata == "redis" or self.moving_to is not None


def state_path(data_dir: str) -> Path:
    """The path of the stored state of a data directory's cluster."""
    return Path(data_dir) / STATE_FILE


def load(data_dir: str) -> ClusterState | None:
    """Read a cluster's state; None when no cluster was ever started there.

    Raises StartRefused when the file cannot be parsed, or does not belong to this user.
    """
    path = state_path(data_dir)
    try:
        problem = distrust(str(path))
        text = b"" if problem else path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise StartRefused("cluster-state", f"cannot read {path}", why=os.strerror(error.errno or 0)) from error
    if problem:
        raise StartRefused(
            "cluster-state-foreign",
            f"{path} is not used",
            why=f"{problem}; it says where commands go, and what they start and delete",
            try_=("yak … -b HOST:PORT          name the brokers", "yak up -d --data-dir OTHER"),
        )
    try:
        raw = json.loads(text)
        version = int(raw["version"])
        if version > _VERSION:
            raise StartRefused(
                "cluster-state",
                f"{path} is of a newer yak",
                why=f"it has version {version}, and this yak reads {_VERSION}; nothing was changed",
                try_=("use the yak that started the cluster", "yak up -d --data-dir OTHER"),
            )
        return _decode(raw)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise StartRefused(
            "cluster-state",
            f"{path} does not describe a cluster",
            why=f"{type(error).__name__}: {error}",
            try_=(f"rm {path}          forget the started processes; the data stays",),
        ) from error


def save(state: ClusterState) -> None:
    """Write the state atomically: a reader sees the old file or the new one. Raises OSError, which names the file."""
    path = state_path(state.data_dir)
    try:
        replace_file(str(path), (json.dumps({"version": _VERSION, **asdict(state)}, indent=2) + "\n").encode())
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error


def save_if_possible(state: ClusterState) -> None:
    """Write the state of a stopping cluster. On a full or read-only disk the old file stays; its processes have ended."""
    try:
        save(state)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EROFS):
            raise


@contextlib.contextmanager
def locked(data_dir: str) -> Iterator[None]:
    """Hold the cluster's lock. Raises YakError at once when another command holds it."""
    path = Path(data_dir) / LOCK_FILE
    try:
        descriptor = open_file(str(path), os.O_RDWR | os.O_CREAT)
    except OSError as error:
        if error.errno != errno.EROFS:
            raise
        descriptor = open_file(str(path), os.O_RDONLY)  # what runs on it can still be stopped
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise YakError(
                BUSY,
                f"another yak command is changing the cluster in {data_dir}",
                why=f"it holds {path}",
                try_=(f"yak up --status --data-dir {quote(data_dir)}          look without changing",),
            ) from error
        yield
    finally:
        os.close(descriptor)


def _decode(raw: dict[str, Any]) -> ClusterState:
    redis, exposed = raw["redis"], raw.get("exposed", {})
    return _made(
        ClusterState,
        raw,
        redis=_made(RedisState, redis, process=_process(redis["process"]), is_ours=_is_our_server(redis)),
        brokers=[
            _made(
                BrokerState,
                each,
                node_id=int(each["node_id"]),
                configs=tuple(each["configs"]),
                process=_process(each["process"]),
            )
            for each in raw["brokers"]
        ],
        supervisor=_process(raw["supervisor"]),
        voters=tuple(raw.get("voters", ())),
        exposed=_made(
            ListenerOptions,
            exposed,
            listen=tuple(exposed.get("listen", ())),
            advertise=tuple(exposed.get("advertise", ())),
        ),
    )


def _made(kind: type[T], raw: dict[str, Any], **decoded: Any) -> T:
    """A dataclass from its JSON; fields that a file of an earlier version lacks have their defaults."""
    names = {each.name for each in fields(kind)}  # type: ignore[arg-type]
    return kind(**{name: value for name, value in raw.items() if name in names} | decoded)


def _is_our_server(redis: dict[str, Any]) -> bool:
    """Whether the cluster started the server; data directories of 2026-11-21 and before have its TCP port instead."""
    return bool(redis["is_ours"]) if "is_ours" in redis else redis["port"] is not None


def _process(raw: dict[str, Any] | None) -> ProcessId | None:
    return None if raw is None else ProcessId(int(raw["pid"]), str(raw["mark"]))
