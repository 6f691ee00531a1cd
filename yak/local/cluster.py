"""A local cluster: brokers and, unless they are a quorum themselves, a Redis server, as child processes that outlive the
command that started them.

There is no supervisor process: each child has its own session, and `<data-dir>/cluster.json` stores the started
processes. `cluster_plan` chooses the brokers, `cluster_start` starts them, and `layout` defines the paths.
"""

import contextlib
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from shlex import quote
from typing import TYPE_CHECKING, Final

from yak.errors import UsageError, YakError
from yak.local import cluster_plan, layout, machines, processes, quorum, redis_child, state
from yak.local.cluster_plan import UpSettings
from yak.local.cluster_start import REDIS_ALONE, end_strays, forget_socket, start_missing, take_in_ready
from yak.local.processes import ProcessId
from yak.local.state import BrokerState, ClusterState, RedisState
from yak.local.status import BrokerStatus, ClusterStatus, broker_status, is_alive, status_of

if TYPE_CHECKING:
    from yak.client.broker_removal import Removal

__all__ = ["LocalCluster", "UpResult", "UpSettings"]

BROKER_PATIENCE_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True)
class UpResult:
    """The result of `LocalCluster.up`. `started` lists the started nodes; empty when all ran already.

    `taken_ports` are default ports in use by other programs, so that brokers got other ports. `redis_started` is True
    when a Redis server was started.
    """

    status: ClusterStatus
    started: tuple[int, ...]
    took_ms: float
    taken_ports: tuple[int, ...]
    supervisor_pid: int | None
    redis_started: bool


class LocalCluster:
    """The cluster of one data directory. Every method that changes its stored state holds the cluster's lock.

    Demos, benchmarks and screens use it as `yak up` does. Methods that name a node raise UsageError (`unknown-node`)
    for an unknown node, and UsageError (`no-cluster`) where no cluster was ever started. A directory whose name is no
    text raises UsageError (`data-dir-not-text`): the cluster's state and the address of its Redis contain the name.
    """

    def __init__(self, data_dir: str) -> None:
        self.data_dir = os.path.realpath(data_dir)
        self._last_known: ClusterState | None = None
        try:
            self.data_dir.encode()
        except UnicodeEncodeError:
            encoding = sys.getfilesystemencoding()
            raise UsageError(
                "data-dir-not-text",
                f"the name of the data directory is not text in {encoding}: {os.fsencode(self.data_dir)!r}",
                why="the cluster's files and the address of its Redis contain the name",
                try_=("--data-dir DIRECTORY", *(("PYTHONUTF8=1 yak ...",) if encoding != "utf-8" else ())),
            ) from None

    def status(self) -> ClusterStatus:
        """The started and the running processes; changes nothing."""
        return status_of(self.data_dir, self._known())

    def log_path(self, name: str) -> str:
        """The log file of `redis` or `node-1`."""
        return layout.log_path(self.data_dir, name)

    def log_paths(self) -> dict[str, str]:
        known = self._known()
        brokers = [f"node-{broker.node_id}" for broker in known.brokers] if known else []
        redis = () if known is not None and not known.has_redis else ("redis",)
        return {name: self.log_path(name) for name in (*brokers, *redis)}

    def redis_pid(self) -> int | None:
        """The pid of the cluster's own Redis server; None when it does not run, or when the cluster uses an external
        one."""
        known = self._known()
        process = None if known is None else known.redis.process
        return process.pid if process is not None and processes.is_running(process) else None

    # --------------------------------------------------------------------------------------------- whole cluster

    def up(self, settings: UpSettings) -> UpResult:
        """Start all missing processes in parallel and wait until they are ready; does nothing when all run.

        Raises UsageError for a taken port or settings that differ from the running cluster's, StartRefused for a
        directory that is not a cluster's, and the error of a broker that ends.
        """
        began = time.monotonic()
        layout.prepare(self.data_dir)
        with state.locked(self.data_dir):
            known = self._known() or ClusterState(self.data_dir, RedisState(settings.redis_url or ""))
            end_strays(known)
            had = len(known.brokers)
            taken_ports = cluster_plan.plan(known, settings)
            redis_before = known.redis.process
            try:
                started = start_missing(known)
            except BaseException:
                self._forget_after(known, had)
                raise
            redis_started = known.redis.process != redis_before
            supervisor = known.supervisor
            if supervisor is None or not processes.is_running(supervisor):
                supervisor = None
                known.supervisor = processes.identify(os.getpid()) if settings.supervised else None
            state.save(known)
        took_ms = (time.monotonic() - began) * 1000.0
        supervisor_pid = None if supervisor is None else supervisor.pid
        return UpResult(status_of(self.data_dir, known), started, took_ms, taken_ports, supervisor_pid, redis_started)

    def down(self, *, purge: bool = False, keep: bool = False) -> tuple[str, ...]:
        """Stop followers, then leaders, then Redis; returns the names of the processes that had to be killed.

        In this order no leadership has to move, and the brokers of each role stop in parallel. `purge`, or an ephemeral
        cluster, also deletes the cluster's files in the directory, unless `keep`.
        """
        killed: list[str] = []
        with self._changing_known() as known:
            known.ephemeral = known.ephemeral and not keep
            for broker in known.brokers:
                broker.wanted = False
            state.save_if_possible(known)
            for role in ("follower", "leader"):
                killed += self._stop_all([broker for broker in known.brokers if broker.role == role])
                state.save_if_possible(known)
            if known.redis.process and not redis_child.stop(known.redis.process):
                killed.append("redis")
            forget_socket(known)
            known.redis.process, known.supervisor = None, None
            state.save_if_possible(known)
            if purge or known.ephemeral:
                layout.purge(known)
        return tuple(killed)

    def discard(self) -> None:
        """Kill the cluster and delete the whole directory: only for a directory that was made for this cluster.

        It waits for no orderly stop, during which a second Ctrl+C would leave brokers behind.
        """
        if self._known() is not None:
            with self._changing_known() as known:
                running = [each.process for each in known.brokers] + [known.redis.process]
                for process in filter(None, running):
                    processes.send_signal(process, signal.SIGKILL)
                for process in filter(None, running):
                    processes.wait_gone(process, BROKER_PATIENCE_SECONDS)
                forget_socket(known)
        shutil.rmtree(self.data_dir, ignore_errors=True)

    def end_orphans(self) -> bool:
        """Stop the processes of a cluster whose directory was deleted or moved since; False when none runs."""
        last = self._last_known
        if last is None or self._known() is not None:
            return False
        found = filter(None, [each.process for each in last.brokers] + [last.redis.process])
        left = [process for process in found if processes.is_running(process)]
        processes.stop_all(left, patience_seconds=BROKER_PATIENCE_SECONDS)
        return bool(left)

    # ------------------------------------------------------------------------------------------------ one broker

    def add(self, role: str = "follower", configs: tuple[str, ...] | None = None) -> BrokerStatus:
        """Start another broker, empty, with the next node id. It joins the running cluster and gets no partition yet.

        `configs` None: those of the first broker. Raises YakError (`cluster-not-running`), or the broker's own error
        when it cannot start; the broker is then not stored.
        """
        with self._changing_known() as known:
            if not any(map(is_alive, known.brokers)):
                raise YakError(
                    "cluster-not-running",
                    f"the cluster in {self.data_dir} does not run",
                    why="a broker is added to brokers that run",
                    try_=(
                        f"yak up -d --data-dir {quote(self.data_dir)}",
                        "yak up -d --brokers N          start it with more",
                    ),
                )
            had = len(known.brokers)
            added = cluster_plan.add_broker(known, role, configs)
            try:
                start_missing(known, only=added.node_id)
            except BaseException:
                self._forget_after(known, had)
                raise
            return broker_status(added)

    def check_removal(self, node_id: int) -> None:
        """Refuse to remove a broker that this cluster cannot do without.

        Raises YakError (`last-broker`), UsageError (`unknown-node`, `metadata-moving`).
        """
        known = self._require_known()
        self._broker(known, node_id)
        if known.moving_to is not None:
            raise UsageError(
                "metadata-moving",
                f"node {node_id} cannot be removed while the metadata move to {known.moving_to}",
                why="the move needs all brokers, and was interrupted",
                try_=(
                    f"yak cluster migrate --to {known.moving_to} --data-dir {quote(self.data_dir)}          finish it first",
                ),
            )
        others = {broker.node_id for broker in known.brokers if broker.node_id != node_id}
        is_voter = known.metadata == quorum.REDIS and node_id in known.voters
        if others and not (is_voter and 2 * len(others.intersection(known.voters)) <= len(known.voters)):
            return
        folder = quote(self.data_dir)
        why = "it is the only broker of the cluster"
        remedies: tuple[str, ...] = (
            "yak node add",
            f"yak down --purge --data-dir {folder}          delete the cluster",
        )
        if others:
            voters = ", ".join(map(str, known.voters))
            why = f"the quorum that had the metadata before would have no majority of its voters {voters}"
            remedies = (f"yak cluster migrate --to raft --data-dir {folder}          remove it then",)
        raise YakError("last-broker", f"node {node_id} cannot be removed", why=why, try_=remedies)

    def remove(self, removal: "Removal") -> None:
        """Remove a broker for good: move away what it holds, stop it, unregister it, delete its directory.

        Goes on with a removal that was interrupted. Raises the errors of `check_removal` and of `Removal`.
        """
        node_id = removal.node_id
        with self._changing_known() as known:
            self.check_removal(node_id)
            broker = self._broker(known, node_id)
            removal.drain()
            broker.wanted = False
            state.save(known)
            self._stop_all([broker])
            state.save(known)
            try:
                removal.finish()
            except YakError as error:
                if error.code != "unknown-broker":  # interrupted behind the last request
                    raise
            known.brokers.remove(broker)
            if known.metadata == quorum.RAFT:
                known.voters = self._voters(known)
            state.save(known)
            layout.forget_node(known.data_dir, broker)

    def mates(self, node_id: int) -> tuple[int, ...]:
        known = self._require_known()
        return machines.mates(known, self._broker(known, node_id).node_id)

    def restart(self, node_id: int, *, hard: bool = False) -> BrokerStatus:
        """Stop one broker (SIGTERM, or SIGKILL when `hard`) and start it on the same data and port.

        Also starts the cluster's own Redis server when it does not run.
        """
        with self._changing_known() as known:
            broker = self._broker(known, node_id)
            self._restart(known, broker, hard=hard)
            return broker_status(broker)

    def _restart(self, known: ClusterState, broker: BrokerState, *, hard: bool = False) -> None:
        broker.wanted = True
        state.save(known)  # a broker whose start cannot be stored, as on a full disk, is not stopped
        if hard and broker.process is not None:
            processes.kill(broker.process)
        self._stop_all([broker])
        start_missing(known, only=broker.node_id)

    def migrate(self, to: str, *, redis_url: str | None = None, say: Callable[[str], None] = lambda _: None) -> bool:
        """Move the metadata of the running cluster to `to`, redis or raft; False when they are there already.

        Goes on with a move that was interrupted. `redis_url`: an external Redis instead of the cluster's own. Raises
        YakError (`cluster-not-running`), and the errors of `yak.local.migration`.
        """
        from yak.local.migration import Migration  # a start needs none of its clients

        with self._changing_known() as known:
            return Migration(known, partial(self._restart, known), say).run(to, redis_url)

    def kill(self, node_id: int) -> ProcessId:
        """`kill -9` one broker, paused or not, and wait until it is gone; its state is then dead, not stopped.

        Raises YakError (`node-not-running`).
        """
        process = self._running_process(node_id, "there is nothing to kill")
        processes.kill(process)
        return process

    def pause(self, node_id: int) -> ProcessId:
        """Pause one broker (SIGSTOP): its connections stay open, and it answers nothing.

        Raises YakError (`node-not-running`, `node-paused`).
        """
        process = self._running_process(node_id, "there is nothing to pause")
        if processes.is_paused(process):
            raise YakError(
                "node-paused",
                f"node {node_id} is paused already",
                why=f"its process {process.pid} was stopped before",
                try_=(f"yak node resume {node_id} --data-dir {quote(self.data_dir)}",),
            )
        processes.pause(process)
        return process

    def resume(self, node_id: int) -> ProcessId:
        """Resume a paused broker (SIGCONT). Raises YakError (`node-not-running`, `node-not-paused`)."""
        process = self._running_process(node_id, "there is nothing to resume")
        if not processes.is_paused(process):
            raise YakError(
                "node-not-paused",
                f"node {node_id} is not paused",
                why=f"its process {process.pid} runs",
                try_=(f"yak up --status --data-dir {quote(self.data_dir)}",),
            )
        processes.resume(process)
        return process

    # ----------------------------------------------------------------------------------------------------- Redis

    def stop_redis(self) -> int:
        """`kill -9` the cluster's own Redis server and return its pid. The brokers go on without it for a while.

        Raises YakError (`redis-not-ours`, `redis-not-running`).
        """
        known = self._require_known()
        pid = self.redis_pid()
        if pid is None or known.redis.process is None:
            raise self._no_redis(known)
        processes.kill(known.redis.process)
        return pid

    def start_redis(self) -> bool:
        """Start the cluster's own Redis server on its data and address; False when it ran already.

        Raises YakError (`redis-not-ours`), or the error of a failed start.
        """
        with self._changing_known() as known:
            if not known.redis.is_ours:
                raise self._no_redis(known)
            if known.redis.process is not None and processes.is_running(known.redis.process):
                return False
            start_missing(known, only=REDIS_ALONE)
            return True

    def _no_redis(self, known: ClusterState) -> YakError:
        if not known.has_redis:
            return YakError(
                "redis-not-ours",
                f"the cluster in {self.data_dir} has no Redis",
                why="its metadata are in a quorum of its brokers",
                try_=("yak node kill NODE", "yak quorum describe"),
            )
        if not known.redis.is_ours:
            return YakError(
                "redis-not-ours",
                f"the metadata store at {known.redis.url} is not ours to stop or start",
                why="the cluster was started with --redis-url",
            )
        return YakError(
            "redis-not-running",
            f"the Redis server of the cluster in {self.data_dir} does not run",
            why="it was stopped, or ended without yak",
            try_=(f"yak up -d --data-dir {quote(self.data_dir)}          start the missing processes",),
        )

    # -------------------------------------------------------------------------------------------------- internal

    def _running_process(self, node_id: int, why: str) -> ProcessId:
        broker = self._broker(self._require_known(), node_id)
        if broker.process is None or not is_alive(broker):
            raise YakError(
                "node-not-running",
                f"node {node_id} does not run",
                why=why,
                try_=(f"yak node restart {node_id} --data-dir {quote(self.data_dir)}",),
            )
        return broker.process

    def _stop_all(self, brokers: list[BrokerState]) -> list[str]:
        """Stop these brokers in parallel; return the names of those that had to be killed."""
        there = [(broker, broker.process) for broker in brokers if broker.process is not None]
        ended = processes.stop_all([process for _, process in there], patience_seconds=BROKER_PATIENCE_SECONDS)
        for broker in brokers:
            broker.process, broker.is_ready = None, False
        return [f"node-{broker.node_id}" for (broker, _), in_time in zip(there, ended, strict=True) if not in_time]

    def _voters(self, known: ClusterState) -> tuple[int, ...]:
        from yak.client.quorum import describe_quorum

        address = next(broker.address for broker in known.brokers if is_alive(broker))
        return tuple(describe_quorum(address, timeout_s=BROKER_PATIENCE_SECONDS).voter_ids)

    def _forget_after(self, known: ClusterState, count: int) -> None:
        """Remove brokers that could not join a cluster of `count` brokers; a new cluster keeps its list."""
        if count:
            del known.brokers[count:]
        state.save(known)

    def _known(self) -> ClusterState | None:
        """The stored state, with the brokers that are ready now. For a copied directory it omits the processes of the
        original; those of a moved one, which has no original any more, are its own."""
        known = state.load(self.data_dir)
        if known is None:
            return None
        if known.data_dir != self.data_dir:
            if os.path.exists(state.state_path(known.data_dir)):  # it was copied
                known.redis.process, known.supervisor = None, None
                for broker in known.brokers:
                    broker.process, broker.is_ready = None, False
            if known.redis.is_ours and known.redis.process is None:
                known.redis.url = ""  # the socket there belongs to the original cluster
            known.data_dir = self.data_dir
        for broker in known.brokers:
            broker.data_dir = layout.node_dir(self.data_dir, broker.node_id)  # never a folder that the file names
        take_in_ready(known)
        self._last_known = known
        return known

    def _require_known(self) -> ClusterState:
        known = self._known()
        if known is None:
            raise UsageError(
                "no-cluster",
                f"no cluster was started in {self.data_dir}",
                why=f"there is no {state.STATE_FILE} in it",
                try_=("yak up --status --data-dir DIR          if yak up was given another directory",),
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
            try_=(f"yak up --status --data-dir {quote(self.data_dir)}",),
        )

    @contextlib.contextmanager
    def _changing_known(self) -> Iterator[ClusterState]:
        """Hold the cluster's lock, and yield the state as read under it."""
        self._require_known()
        with state.locked(self.data_dir):
            known = self._require_known()
            end_strays(known)
            yield known
