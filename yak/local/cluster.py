"""A cluster on this machine: a Redis server and brokers as children that outlive the command that started them.

There is no supervisor process: each child has a session of its own, and `<data-dir>/cluster.json` remembers what was
started. A start spawns the broker first and the Redis server a moment later: the broker needs longer to load than
Redis to answer, and waits for it.

    <data-dir>/cluster.json, cluster.lock    what was started; one command at a time
    <data-dir>/node-1/                       the broker's own data directory
    <data-dir>/redis/                        the Redis server's append-only file
    <data-dir>/logs/node-1.log, redis.log    what they print
    <data-dir>/run/node-1.json               the broker's ready file
"""

import contextlib
import os
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from yak.errors import StartRefused, UsageError, YakError
from yak.local import ports, processes, redis_child, state
from yak.local.broker_process import BrokerSpec, StartingBroker
from yak.local.processes import ProcessId
from yak.local.state import BrokerState, ClusterState, RedisState
from yak.local.status import BrokerStatus, ClusterStatus, broker_status, look

DEFAULT_PORT: Final = 9092
BROKER_PATIENCE_SECONDS: Final = 30.0
_OWN_ENTRIES: Final = ("logs", "redis", "run", state.STATE_FILE, f"{state.STATE_FILE}.tmp", state.LOCK_FILE)


@dataclass(frozen=True, slots=True)
class UpSettings:
    """What a cluster is started with. `port` None means 9092, or any free port when that is taken; 0 any free port."""

    port: int | None = None
    host: str = "127.0.0.1"
    redis_url: str | None = None
    configs: tuple[str, ...] = ()
    ephemeral: bool = False
    supervised: bool = False


@dataclass(frozen=True, slots=True)
class UpResult:
    """What `LocalCluster.up` did. `started` names the nodes it started; none when all ran already.

    `redis_started` says whether it started a Redis server.
    """

    status: ClusterStatus
    started: tuple[int, ...]
    took_ms: float
    port_moved: bool
    supervisor_pid: int | None
    redis_started: bool


class LocalCluster:
    """The cluster of one data directory. Every method that changes it holds the cluster's lock."""

    def __init__(self, data_dir: str) -> None:
        self.data_dir = os.path.realpath(data_dir)

    def status(self) -> ClusterStatus:
        """What was started and what runs; changes nothing."""
        return look(self.data_dir, self._known())

    def log_path(self, name: str) -> str:
        """The log file of `redis` or `node-1`."""
        return os.path.join(self.data_dir, "logs", f"{name}.log")

    def log_paths(self) -> dict[str, str]:
        """Every child's log file by the child's name."""
        known = self._known()
        brokers = [f"node-{broker.node_id}" for broker in known.brokers] if known else []
        return {name: self.log_path(name) for name in (*brokers, "redis")}

    def up(self, settings: UpSettings) -> UpResult:
        """Start what does not run; nothing at all when everything runs.

        Raises UsageError for a taken port or settings that differ from the running cluster's, StartRefused for a
        directory that is not ours to use, and whatever error the broker ends with.
        """
        began = time.monotonic()
        self._prepare_directory()
        with state.locked(self.data_dir):
            known = self._known() or ClusterState(self.data_dir, RedisState(settings.redis_url or ""))
            if any(broker_status(broker).state in {"running", "starting"} for broker in known.brokers):
                self._check_same(known, settings)
            port_moved = self._plan(known, settings)
            redis_before = known.redis.process
            started = self._start_missing(known)
            redis_started = known.redis.process != redis_before
            supervisor = known.supervisor
            if supervisor is not None and not processes.is_running(supervisor):
                supervisor = None
            if supervisor is None and settings.supervised:
                known.supervisor = processes.identify(os.getpid())
            elif supervisor is None:
                known.supervisor = None
            state.save(known)
        took_ms = (time.monotonic() - began) * 1000.0
        supervisor_pid = None if supervisor is None else supervisor.pid
        return UpResult(look(self.data_dir, known), started, took_ms, port_moved, supervisor_pid, redis_started)

    def down(self, *, purge: bool = False) -> tuple[str, ...]:
        """Stop brokers, then Redis, in that order; gives the names of those that had to be killed.

        `purge`, or a cluster that was started as ephemeral, also deletes what is in the directory and ours. Raises
        UsageError when no cluster was ever started there.
        """
        killed: list[str] = []
        with self._changing_known() as known:
            for broker in known.brokers:
                if broker.process and not processes.stop(broker.process, patience_seconds=BROKER_PATIENCE_SECONDS):
                    killed.append(f"node-{broker.node_id}")
                broker.process, broker.is_ready, broker.wanted = None, False, False
                state.save(known)
            if known.redis.process and not redis_child.stop(known.redis.process):
                killed.append("redis")
            known.redis.process, known.supervisor = None, None
            state.save(known)
            if purge or known.ephemeral:
                self._purge(known)
        return tuple(killed)

    def discard(self) -> None:
        """Stop what runs and delete the whole directory: only for one that was made for this cluster."""
        if state.load(self.data_dir) is not None:
            self.down(purge=True)
        shutil.rmtree(self.data_dir, ignore_errors=True)

    def restart(self, node_id: int, *, hard: bool = False) -> BrokerStatus:
        """Stop one broker (SIGTERM, or SIGKILL when `hard`) and start it on the same data and port.

        A Redis server of ours that is gone is started too. Raises UsageError for a node that is not there.
        """
        with self._changing_known() as known:
            broker = self._broker(known, node_id)
            self._stop_broker(broker, hard=hard)
            broker.wanted = True
            state.save(known)
            self._start_missing(known, only=node_id)
            return broker_status(broker)

    def kill(self, node_id: int) -> ProcessId:
        """`kill -9` one broker and wait until it is gone; it counts as dead, not as stopped.

        Raises UsageError when the node is not there, and YakError when it does not run.
        """
        known = self._require_known()
        broker = self._broker(known, node_id)
        if broker.process is None or not processes.kill(broker.process):
            raise YakError(
                "node-not-running",
                f"node {node_id} does not run",
                why="there is nothing to kill",
                try_=(f"yak up restart {node_id} --data-dir {self.data_dir}",),
            )
        return broker.process

    def _plan(self, known: ClusterState, settings: UpSettings) -> bool:
        """Fill in what is to be started; True when another port than the usual one was taken."""
        known.ephemeral = known.ephemeral or settings.ephemeral
        if settings.redis_url is not None and not known.redis.is_ours:
            known.redis.url = settings.redis_url
        if not known.redis.url:
            known.redis.port = ports.find_free("127.0.0.1")
        if not known.brokers:
            known.brokers.append(
                BrokerState(1, "leader", settings.host, 0, os.path.join(self.data_dir, "node-1"), settings.configs)
            )
        broker = known.brokers[0]
        condition = broker_status(broker).state
        if condition in {"running", "starting"}:
            return False
        usual = broker.port or DEFAULT_PORT
        broker.host = settings.host
        broker.port = _choose_port(settings.host, settings.port, usual)
        if settings.configs or condition == "stopped":
            broker.configs = settings.configs
        return settings.port is None and broker.port != usual

    def _start_missing(self, known: ClusterState, only: int | None = None) -> tuple[int, ...]:
        """Start our Redis if it is gone, and the brokers that should run and do not; wait until all are ready."""
        starting: list[tuple[BrokerState, StartingBroker]] = []
        redis = known.redis
        redis_missing = redis.is_ours and not (redis.process is not None and processes.is_running(redis.process))
        if redis_missing:
            self._choose_redis_port(known)
        server = None
        try:
            for broker in known.brokers:
                broker.wanted = broker.wanted or only is None
                missing = broker_status(broker).state == "dead"
                if missing and only in {None, broker.node_id}:
                    starting.append((broker, self._spawn_broker(known, broker)))
            state.save(known)
            if redis_missing:
                server = redis_child.start(
                    os.path.join(self.data_dir, "redis"), redis.port or 0, self.log_path("redis")
                )
                redis.process, redis.url = server.process, server.url
                state.save(known)
            for broker, child in starting:
                ready = child.wait_ready()
                broker.process, broker.is_ready, broker.epoch = ready.process, True, ready.broker_epoch
                broker.port = int(ready.address.rpartition(":")[2])
                state.save(known)
        except BaseException:
            self._undo_start(known, starting, stop_redis=server is not None and only is None)
            raise
        known.cluster_id = _read_cluster_id(known.brokers[0].data_dir) or known.cluster_id
        state.save(known)
        return tuple(broker.node_id for broker, _ in starting)

    def _spawn_broker(self, known: ClusterState, broker: BrokerState) -> StartingBroker:
        spec = BrokerSpec(broker.node_id, broker.host, broker.port, broker.data_dir, known.redis.url, broker.configs)
        child = StartingBroker(
            spec,
            log_path=self.log_path(f"node-{broker.node_id}"),
            ready_file=os.path.join(self.data_dir, "run", f"node-{broker.node_id}.json"),
        )
        broker.process, broker.is_ready, broker.epoch = child.process, False, None
        return child

    def _undo_start(
        self, known: ClusterState, starting: list[tuple[BrokerState, StartingBroker]], *, stop_redis: bool
    ) -> None:
        for broker, child in starting:
            child.abandon()
            broker.process, broker.is_ready = None, False
        if stop_redis and known.redis.process is not None:
            redis_child.stop(known.redis.process)
            known.redis.process = None
        state.save(known)

    def _choose_redis_port(self, known: ClusterState) -> None:
        redis = known.redis
        if not redis.port or not ports.is_free("127.0.0.1", redis.port):
            if any(broker_status(broker).state in {"running", "starting"} for broker in known.brokers):
                raise YakError(
                    "redis-port-taken",
                    f"Redis cannot come back on port {redis.port}, where the running broker looks for it",
                    why=f"{ports.holder(redis.port or 0) or 'another program'} listens there now",
                    try_=(f"yak up --down --data-dir {self.data_dir}          stop all, then start again",),
                )
            redis.port = ports.find_free("127.0.0.1")
        redis.url = redis_child.url(redis.port)

    def _stop_broker(self, broker: BrokerState, *, hard: bool) -> None:
        if broker.process is None:
            return
        if hard:
            processes.kill(broker.process)
        else:
            processes.stop(broker.process, patience_seconds=BROKER_PATIENCE_SECONDS)
        broker.process, broker.is_ready = None, False

    def _check_same(self, known: ClusterState, settings: UpSettings) -> None:
        """Refuse settings that a running cluster cannot take."""
        broker = known.brokers[0]
        wrong = None
        if settings.port not in {None, 0, broker.port}:
            wrong = f"it listens on {broker.address}, not on port {settings.port}"
        elif settings.redis_url not in {None, known.redis.url}:
            wrong = f"its metadata is in {known.redis.url}"
        elif settings.configs and settings.configs != broker.configs:
            wrong = "it was started with other configs"
        if wrong is not None:
            raise UsageError(
                "cluster-running",
                f"the cluster in {self.data_dir} already runs",
                why=wrong,
                try_=(f"yak up --down --data-dir {self.data_dir}          stop it first",),
            )

    def _known(self) -> ClusterState | None:
        """The remembered state; of a directory that was copied or moved, without the processes of the old place."""
        known = state.load(self.data_dir)
        if known is not None and known.data_dir != self.data_dir:
            for broker in known.brokers:
                broker.process, broker.is_ready = None, False
                broker.data_dir = os.path.join(self.data_dir, os.path.basename(broker.data_dir))
            known.data_dir, known.redis.process, known.supervisor = self.data_dir, None, None
        return known

    def _require_known(self) -> ClusterState:
        known = self._known()
        if known is None:
            raise UsageError(
                "no-cluster",
                f"no cluster was started in {self.data_dir}",
                why=f"there is no {state.STATE_FILE} in it",
                try_=(f"yak up -d --data-dir {self.data_dir}",),
            )
        return known

    def _broker(self, known: ClusterState, node_id: int) -> BrokerState:
        for broker in known.brokers:
            if broker.node_id == node_id:
                return broker
        nodes = ", ".join(str(broker.node_id) for broker in known.brokers)
        raise UsageError(
            "unknown-node",
            f"the cluster in {self.data_dir} has no node {node_id}",
            why=f"its nodes: {nodes}",
            try_=(f"yak up --status --data-dir {self.data_dir}",),
        )

    def _prepare_directory(self) -> None:
        """Make the data directory, or refuse it. Raises StartRefused; a refused directory is not touched."""
        if os.path.exists(os.path.join(self.data_dir, "meta.properties")):
            raise StartRefused(
                "data-dir-of-a-broker",
                f"{self.data_dir} is the data directory of one broker, not of a local cluster",
                why="it holds meta.properties, as yak serve and Apache Kafka write it",
                try_=("yak up --data-dir ./yak-cluster", f"yak serve --data-dir {self.data_dir}"),
            )
        try:
            os.makedirs(self.data_dir, exist_ok=True)
            with open(os.path.join(self.data_dir, state.LOCK_FILE), "a", encoding="utf-8"):
                pass
        except OSError as error:
            raise StartRefused(
                "data-dir-not-writable",
                f"cannot use {self.data_dir} for a cluster",
                why=os.strerror(error.errno or 0),
                try_=("yak up --data-dir DIR          a directory you may write to",),
            ) from error

    @contextlib.contextmanager
    def _changing_known(self) -> Iterator[ClusterState]:
        """The cluster's lock, and its state as read under it."""
        self._require_known()
        with state.locked(self.data_dir):
            yield self._require_known()

    def _purge(self, known: ClusterState) -> None:
        """Delete what a cluster puts into its directory, and the directory if nothing else is in it."""
        for broker in known.brokers:
            shutil.rmtree(broker.data_dir, ignore_errors=True)
        for entry in _OWN_ENTRIES:
            path = Path(self.data_dir) / entry
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            os.rmdir(self.data_dir)


def _choose_port(host: str, asked: int | None, usual: int) -> int:
    """The port to listen on, 0 for any. Raises UsageError when a port was asked for by number and is taken."""
    if asked:
        if not ports.is_free(host, asked):
            raise ports.port_taken_error(host, asked)
        return asked
    if asked is None and ports.is_free(host, usual):
        return usual
    return 0


def _read_cluster_id(broker_data_dir: str) -> str | None:
    """The cluster id that the broker wrote into its meta.properties."""
    try:
        text = (Path(broker_data_dir) / "meta.properties").read_text("utf-8")
    except OSError:
        return None
    for line in text.splitlines():
        name, _, value = line.partition("=")
        if name.strip() == "cluster.id":
            return value.strip()
    return None
