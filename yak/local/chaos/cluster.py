"""The cluster of a chaos run: brokers behind fault proxies, and their own Redis or quorum, in one folder."""

import shutil
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from yak.attempts import attempts
from yak.client.store_moves import set_target
from yak.errors import StartRefused, Unreachable, WaitTimeout, YakError
from yak.local import processes, redis_child
from yak.local.broker_process import parse_error
from yak.local.chaos.node import Disk, LimitedDisk, Node, OwnDisk, can_limit
from yak.local.chaos.proxy import CLIENTS, Proxy, Route, quiet_port
from yak.local.quorum import BOTH, RAFT, REDIS, QuorumSpec, new_secret, shared_secret, voters_of
from yak.local.redis_child import RunningRedis
from yak.private_files import replace_file

START_SECONDS: Final = 60.0
_REDIS_START_SECONDS: Final = 10.0
_POLL_SECONDS: Final = 0.02
_REPLICAS_MAX: Final = 3
_LAG_MS: Final = 4_000
"""Shorter than usual, as `node.LEASE_SECONDS`."""
_MOVE_S: Final = 3.0


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """The cluster's size and its store. `disk_bytes`: of each broker's file system for disk faults; None without them."""

    brokers: int = 3
    disk_bytes: int | None = None
    metadata: str = REDIS


class ChaosCluster:
    """All processes of a run; `close` ends every one."""

    def __init__(self, folder: Path, settings: ClusterSettings) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._redis_port = quiet_port()
        self._redis_folder = folder / "redis"
        self.redis: RunningRedis | None = None
        self.disks = "no fault fills them"
        """A description of how disks are filled."""
        self.can_fill = False
        self.replicas = replicas = min(_REPLICAS_MAX, settings.brokers)
        """Of each partition."""
        configs = (
            f"replica.lag.time.max.ms={_LAG_MS}",
            f"default.replication.factor={replicas}",
            f"min.insync.replicas={min(2, replicas)}",
        )
        self.nodes: dict[int, Node] = {}
        self.has_redis, self._moves = settings.metadata != RAFT, settings.metadata == BOTH
        self._target = RAFT
        """Where the next move brings the metadata."""
        for node_id in range(1, settings.brokers + 1):
            disk = self._disk(node_id, settings.disk_bytes)
            self.nodes[node_id] = Node(
                node_id,
                folder=folder,
                disk=disk,
                redis_port=self._redis_port,
                sources=self.pids,
                configs=configs,
            )
        if not self.has_redis:
            self._share_quorum(new_secret())

    def _share_quorum(self, secret: str) -> None:
        """Make the first nodes the voters, by the addresses of their proxies."""
        secret_file = self.folder / "secret"
        replace_file(str(secret_file), f"{secret}\n".encode())
        voters = [self.nodes[node_id] for node_id in range(1, voters_of(len(self.nodes)) + 1)]
        named = ",".join(f"{node.node_id}@{node.proxy.address}" for node in voters)
        for node in self.nodes.values():
            node.quorum = QuorumSpec(named, str(secret_file), BOTH if self._moves else RAFT)

    def _disk(self, node_id: int, size_bytes: int | None) -> Disk:
        place = self.folder / f"node-{node_id}"
        if size_bytes is None:
            return LimitedDisk(place)
        try:
            disk = OwnDisk(place, size_bytes)
        except OSError as error:
            self.can_fill = can_limit()
            how = "a limit on the broker's files" if self.can_fill else "not at all"
            self.disks = f"{how}, for no small file system can be had: {error}"
            return LimitedDisk(place)
        self.can_fill, self.disks = True, f"a file system of {size_bytes >> 20} MiB for each broker"
        return disk

    # ---------------------------------------------------------------------------------------------- life cycle

    def start(self) -> None:
        """Start everything and wait until all brokers serve. Raises the error of a broker that ended, or
        WaitTimeout."""
        if self.has_redis:
            self.start_redis()
        self._start_brokers()
        if self._moves:
            # a cluster that is to move was made with one store: its brokers are started again with both
            self.stop()
            self._share_quorum(shared_secret(str(self.nodes[1].disk.readable)))
            self._start_brokers()

    def _start_brokers(self) -> None:
        for node in self.nodes.values():
            node.spawn()
        for _ in attempts(START_SECONDS, _POLL_SECONDS):
            if all(node.is_ready for node in self.nodes.values()):
                return
            for node in self.nodes.values():
                code = node.end_code()
                if code is not None:
                    raise parse_error(node.log(), code) or YakError(
                        "broker-ended", f"{node.name} ended with code {code}", why=str(node.log_path)
                    )
        raise WaitTimeout(
            "broker-not-ready",
            f"the brokers were not ready after {START_SECONDS:.0f} s",
            why=f"their logs are in {self.folder}",
        )

    def stop(self) -> list[str]:
        """Stop all brokers in order, one after the other; return what is to be said of those that had to be killed."""
        return [node.late_stop() for node in self.nodes.values() if not node.stop()]

    def close(self) -> None:
        for node in self.nodes.values():
            node.close()
        self.kill_redis()

    def keep_data(self) -> None:
        """Copy the data on temporary file systems to `node-N.data`: call it before `close`."""
        for node in self.nodes.values():
            if isinstance(node.disk, OwnDisk) and node.disk.readable.is_dir():
                shutil.copytree(node.disk.readable, self.folder / f"{node.name}.data", dirs_exist_ok=True)

    def discard(self) -> None:
        """Delete the folder: call it after `close`."""
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def bootstrap(self) -> str:
        return ",".join(node.proxy.address for node in self.nodes.values())

    def pids(self) -> dict[str, int]:
        return {node.name: node.process.pid for node in self.nodes.values() if node.process is not None}

    # --------------------------------------------------------------------------------------------- metadata store

    @property
    def redis_url(self) -> str:
        """The store's own address, without a proxy."""
        return redis_child.url(self._redis_port)

    def start_redis(self) -> None:
        """Start the store on its data; does nothing when it runs. Raises YakError."""
        if self.redis is not None and processes.is_running(self.redis.process):
            return
        deadline = time.monotonic() + _REDIS_START_SECONDS
        while True:
            try:
                self.redis = redis_child.start(
                    str(self._redis_folder), self._redis_port, str(self.folder / "redis.log")
                )
            except StartRefused:
                # a child of the killed server, which rewrites its log, may still hold the port
                if time.monotonic() > deadline:
                    raise
                time.sleep(_POLL_SECONDS)
            else:
                return

    def kill_redis(self) -> None:
        """`kill -9` the store."""
        if self.redis is not None:
            processes.kill(self.redis.process)

    def pause_redis(self, *, is_paused: bool) -> None:
        """SIGSTOP or SIGCONT the store."""
        if self.redis is not None:
            processes.send_signal(self.redis.process, signal.SIGSTOP if is_paused else signal.SIGCONT)

    def move_metadata(self) -> str:
        """Ask for a move of the metadata to the store to which they were not moved last. Raises YakError."""
        target, self._target = self._target, REDIS if self._target == RAFT else RAFT
        set_target({node.node_id: node.proxy.address for node in self.nodes.values()}, target, timeout_s=_MOVE_S)
        return f"to {target}"

    def empty_redis(self, *, by_restart: bool) -> None:
        """Delete all of the store's data: by FLUSHALL, or by a start on an empty folder. Raises YakError."""
        if by_restart:
            self.kill_redis()
            shutil.rmtree(self._redis_folder, ignore_errors=True)
            self.start_redis()
            return
        import redis

        try:
            with redis.Redis.from_url(self.redis_url, socket_timeout=5.0) as client:
                client.flushall()
        except redis.RedisError as error:
            raise Unreachable("redis-unreachable", f"the Redis server cannot be emptied: {error}") from error

    # ------------------------------------------------------------------------------------------------- connections

    def routes(self, node_id: int, peers: str) -> Iterator[Route]:
        """The routes between a broker and `others`, `clients`, the `store`, one `node-N`, or `all`; `+` joins two."""
        return (proxy.route(source) for proxy, source in self.ends(node_id, peers))

    def ends(self, node_id: int, peers: str) -> Iterator[tuple[Proxy, str]]:
        """The proxies between a broker and its peers, and what each calls the other end."""
        node = self.nodes[node_id]
        for part in ("others+clients+store" if peers == "all" else peers).split("+"):
            if part == "store":
                yield node.redis, CLIENTS
            elif part == "clients":
                yield node.proxy, CLIENTS
            else:
                for other in self.nodes.values():
                    if other is not node and part in ("others", other.name):
                        yield node.proxy, other.name
                        yield other.proxy, node.name

    def reconnect(self) -> None:
        for node in self.nodes.values():
            node.proxy.reconnect()
            node.redis.reconnect()
