"""The client of the metadata store in Redis, the only file of the broker that connects to Redis.

It has two connections to one server process: one for pipelined calls, one that tails the metadata log with a blocking
read. When one is lost, or a call times out, both are closed and `StoreLost` is posted. It then reconnects with growing
pauses; callers retry after `StoreConnected`.
"""

import json
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import trio

from yak.core.events import Event, RecordsTailed, StoreConnected, StoreLost, StoreReplied
from yak.errors import StartRefused, first_in
from yak.ids import MetadataOffset, Nonce
from yak.ports.metadata_store import StoreOutcome, StoreRequest, TailedRecord
from yak.server import redis_scripts
from yak.server.latencies import Histogram
from yak.server.redis_client import ConnectionLost, Part, RedisAddress, RedisClient, ReplyError, message_of

_FIRST_PAUSE_SECONDS = 0.02
_LONGEST_PAUSE_SECONDS = 2.0
_BLOCK_MS = 5_000
_RECORDS_PER_READ = 100
_READ_SECONDS = 3.0
SAFE_SETTINGS: Final = {
    "appendonly": ("yes", "a restart of Redis loses all metadata"),
    "appendfsync": ("always", "a crash of its machine loses the newest metadata"),
    "no-appendfsync-on-rewrite": ("no", "a crash during a rewrite loses metadata"),
    "maxmemory-policy": ("noeviction", "Redis may evict keys when memory is short"),
}
"""The settings without which metadata can be lost (redis.conf), and the danger of another value."""


@dataclass(slots=True, frozen=True)
class LogPage:
    """Some records of the metadata log, which spans `begin` to `end`; both are 0 when it is empty.

    `snapshot` replaces the trimmed records; it may be None if there is none, or was not asked for.
    """

    records: Sequence[TailedRecord]
    begin: MetadataOffset
    end: MetadataOffset
    snapshot: TailedRecord | None


class RedisStore:
    """The store's client. `submit` and `tail` are called from the event loop and never wait; `run` is one task."""

    def __init__(
        self, url: str, *, namespace: str = "", timeout_seconds: float = 5.0, allow_replicas: bool = True
    ) -> None:
        """Raises UsageError for an invalid `url`. `namespace` lets several clusters share one Redis.

        Without `allow_replicas`, `run` refuses a store that has replicas, or is one, at the first connection.
        """
        self._address = RedisAddress.parse(url)
        self.prefix = key_prefix(namespace)
        self._timeout = timeout_seconds
        self._allow_replicas = allow_replicas
        self.round_trips = Histogram()
        """Latency of answered calls: the way there, the script, and the way back."""
        self._sent: set[str] = set()
        """Scripts that the connected server has."""
        self._calls: RedisClient | None = None
        self._post: Callable[[Event], None] | None = None
        self._tail_after: MetadataOffset | None = None
        self._tail_changed = trio.Event()
        self._tail_client_id = 0

    def submit(self, nonce: Nonce, request: StoreRequest) -> None:
        """Send one call; `StoreReplied` or `StoreLost` follows. Without a connection, `StoreLost` was posted before."""
        if self._calls is None:
            return
        if request.script not in redis_scripts.NAMES:
            self._reply(nonce, StoreOutcome("BAD_REQUEST", value={"message": f"no script {request.script}"}))
            return
        sha, source = redis_scripts.script(request.script)
        parts = script_parts(self.prefix, request)
        started_ns = time.perf_counter_ns()

        def on_reply(reply: Any) -> None:
            if isinstance(reply, ReplyError) and str(reply).startswith("NOSCRIPT") and self._calls is not None:
                self._calls.submit(("EVAL", source, *parts), lambda again: self._answered(nonce, again, started_ns))
            else:
                self._answered(nonce, reply, started_ns)

        if sha in self._sent:
            self._calls.submit(("EVALSHA", sha, *parts), on_reply)
        else:
            # EVAL also stores the script for EVALSHA. Loading all scripts would delay the start by many milliseconds.
            self._sent.add(sha)
            self._calls.submit(("EVAL", source, *parts), on_reply)

    def tail(self, after: MetadataOffset) -> None:
        """(Re)start tailing after this offset."""
        self._tail_after = after
        self._tail_changed.set()
        if self._calls is not None and self._tail_client_id:
            self._calls.submit(("CLIENT", "UNBLOCK", self._tail_client_id), lambda _reply: None)

    async def run(self, post: Callable[[Event], None]) -> None:
        """Connect, reconnect and post events, until cancelled.

        Raises StartRefused for a store that is unsafe for the start of a broker.
        """
        self._post = post
        pause = _FIRST_PAUSE_SECONDS
        refused: BaseException | None = None
        while True:
            started = trio.current_time()
            try:
                await self._serve()
            except* (ConnectionLost, ReplyError) as group:
                reason = message_of(group)
            except* StartRefused as group:
                refused = first_in(group)
            finally:
                self._calls = None
                self._tail_after = None
            if refused is not None:
                raise refused
            post(StoreLost(reason))
            if trio.current_time() - started > _LONGEST_PAUSE_SECONDS:
                pause = _FIRST_PAUSE_SECONDS
            # jitter: brokers must not all reconnect at once after an outage
            await trio.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311
            pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)

    async def call(self, *command: Part, timeout_seconds: float) -> Any:
        """Run a command that is none of a metadata request. Raises ConnectionLost or ReplyError."""
        if self._calls is not None:
            with trio.move_on_after(timeout_seconds):
                return await self._calls.call(*command)
        raise ConnectionLost(f"redis at {self._address} does not answer")

    async def read_log(self, first: MetadataOffset, count: int, *, with_snapshot: bool = False) -> LogPage:
        """Read `count` records of the log from `first` on, to show them to users.

        It has a connection of its own, so that no call waits behind it, and a thread decodes the records. Raises
        ConnectionLost or ReplyError.
        """
        key = f"{self.prefix}log"
        client = RedisClient(await self._address.open(_READ_SECONDS), f"redis at {self._address}", _READ_SECONDS)
        commands: list[tuple[Part, ...]] = [
            *self._address.login(),
            ("XRANGE", key, "-", "+", "COUNT", 1),
            ("XREVRANGE", key, "+", "-", "COUNT", 1),
            ("XRANGE", key, f"{first}-0", "+", "COUNT", count),
            ("HGETALL", f"{self.prefix}snapshot") if with_snapshot else ("PING",),
        ]
        replies: list[Any] = []
        failure: BaseException | None = None
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(client.run)
                replies = await client.pipeline(commands)
                nursery.cancel_scope.cancel()
        except* (ConnectionLost, ReplyError) as group:
            failure = first_in(group)
        if failure is not None:
            raise failure
        oldest, newest, entries, flat = replies[-4:]

        def page() -> LogPage:
            snapshot = _snapshot_of(flat) if with_snapshot else None
            return LogPage([record_of(each) for each in entries], _offset_of(oldest), _offset_of(newest), snapshot)

        return await trio.to_thread.run_sync(page)

    def _answered(self, nonce: Nonce, reply: Any, started_ns: int) -> None:
        self.round_trips.note(time.perf_counter_ns() - started_ns)
        self._reply(nonce, outcome_of(reply))

    def _reply(self, nonce: Nonce, outcome: StoreOutcome) -> None:
        if self._post is not None:
            self._post(StoreReplied(nonce, outcome))

    async def _serve(self) -> None:
        """Serve with one pair of connections until one is lost. Raises ConnectionLost or ReplyError, in groups."""
        name = f"redis at {self._address}"
        async with trio.open_nursery() as nursery:
            calls = RedisClient(await self._address.open(self._timeout), name, self._timeout)
            nursery.start_soon(calls.run)
            tail = RedisClient(await self._address.open(self._timeout), name, self._timeout)
            nursery.start_soon(tail.run)
            process_id, unsafe = await self._greet(calls, tail)
            self._tail_after = None
            self._tail_changed = trio.Event()
            self._sent.clear()
            self._calls = calls
            assert self._post is not None
            self._post(StoreConnected(process_id, unsafe))
            await self._tail(tail)

    async def _greet(self, calls: RedisClient, tail: RedisClient) -> tuple[str, tuple[str, ...]]:
        """Log in and check the settings, on both connections at once. Returns the server's run id and warnings."""
        login = self._address.login()
        found: dict[str, list[Any]] = {}

        async def greet_calls() -> None:
            found["calls"] = await calls.pipeline([*login, ("INFO",)])

        async with trio.open_nursery() as nursery:
            nursery.start_soon(greet_calls)
            found["tail"] = await tail.pipeline([*login, ("INFO", "server"), ("CLIENT", "ID")])
        info = _parse_info(found["calls"][-1])
        if _parse_info(found["tail"][-2]).get("run_id") != info.get("run_id"):
            raise ConnectionLost("several server processes answer at this address")
        if info.get("loading", "0") != "0":
            # It refuses every script until it has its data, which says nothing about their history.
            raise ConnectionLost(f"redis at {self._address} is loading its data")
        self._tail_client_id = found["tail"][-1]
        unsafe = []
        try:
            settings = await tail.pipeline([("CONFIG", "GET", name) for name in SAFE_SETTINGS])
        except ReplyError as error:
            unsafe.append(f"its settings cannot be read ({error})")
        else:
            for (name, (wanted, danger)), pair in zip(SAFE_SETTINGS.items(), settings, strict=True):
                if len(pair) == 2 and pair[1] != wanted:
                    unsafe.append(f"{name} is {pair[1]}, not {wanted}: {danger}")
        unsafe += self._about_replicas(info)
        return info.get("run_id", ""), tuple(unsafe)

    def _about_replicas(self, info: dict[str, str]) -> list[str]:
        """Warnings about a replicated store. Raises StartRefused at the first connection if that is not allowed."""
        warnings = []
        # Valkey's name for the field is `server_mode`.
        if "sentinel" in (info.get("redis_mode"), info.get("server_mode")):
            raise ConnectionLost(f"{self._address} is a Sentinel: use the address of the Redis master")
        if info.get("role") != "master":
            warnings.append(f"it is a {info.get('role')}, not a master: its writes are lost")
        elif info.get("connected_slaves", "0") != "0":
            warnings.append(f"it has {info['connected_slaves']} replicas: a failover may lose acknowledged writes")
        if warnings and not self._allow_replicas:
            raise StartRefused(
                "metadata-store-replicated",
                f"the metadata store at {self._address} is replicated, which is not safe",
                why=f"{warnings[0]}; YAK detects a failover to an asynchronous replica, but cannot recover from it",
                try_=("a Redis without replicas, with appendonly yes and appendfsync always", "--allow-unsafe-redis"),
            )
        # Only the start is refused; a serving broker continues with a warning.
        self._allow_replicas = True
        return warnings

    async def _tail(self, client: RedisClient) -> None:
        """Tail the log until the connection is lost. Raises ConnectionLost, ReplyError."""
        key = f"{self.prefix}log"
        block_seconds = _BLOCK_MS / 1000
        while True:
            await self._tail_changed.wait()
            self._tail_changed = trio.Event()
            while self._tail_after is not None and not self._tail_changed.is_set():
                after = self._tail_after
                command = ("XREAD", "COUNT", _RECORDS_PER_READ, "BLOCK", _BLOCK_MS, "STREAMS", key, f"{after}-0")
                reply = await client.call(*command, extra_seconds=block_seconds)
                if reply is None or self._tail_changed.is_set():
                    continue
                records = [record_of(entry) for entry in reply[0][1]]
                if records[0].offset != after + 1:
                    records = [await self._snapshot(client, after)]
                self._tail_after = records[-1].offset
                assert self._post is not None
                self._post(RecordsTailed(records))

    async def _snapshot(self, client: RedisClient, after: MetadataOffset) -> TailedRecord:
        """The snapshot that replaces the trimmed records. Raises ConnectionLost when there is none."""
        found = _snapshot_of(await client.call("HGETALL", f"{self.prefix}snapshot"))
        if found is None or found.offset <= after:
            raise ConnectionLost(f"the metadata log has a gap after record {after}")
        return found


def key_prefix(namespace: str = "") -> str:
    """The prefix of all keys of a cluster; the hash tag keeps them in one slot of a Redis Cluster."""
    return f"{namespace}:{{y}}:" if namespace else "{y}:"


def script_parts(prefix: str, request: StoreRequest) -> tuple[Part, ...]:
    """The arguments of EVAL and EVALSHA after the script or its hash."""
    arguments = json.dumps(request.arguments, separators=(",", ":"))
    return (1, f"{prefix}cluster", prefix, request.known_offset, request.known_hash, arguments)


def record_of(entry: list[Any]) -> TailedRecord:
    """Decode a metadata record from a stream entry."""
    entry_id, flat = entry
    return TailedRecord.from_stream(entry_id, dict(zip(flat[::2], flat[1::2], strict=True)))


def _snapshot_of(flat: list[str]) -> TailedRecord | None:
    found = dict(zip(flat[::2], flat[1::2], strict=True))
    return TailedRecord.from_snapshot(found) if found else None


def _offset_of(entries: list[list[Any]]) -> MetadataOffset:
    return int(entries[0][0].split("-", 1)[0]) if entries else 0


def outcome_of(reply: Any) -> StoreOutcome:
    """Decode the reply of a script."""
    if isinstance(reply, ReplyError):
        return StoreOutcome("STORE_ERROR", value={"message": str(reply)})
    code, offset, chain_hash, value = reply
    parsed = json.loads(value)
    return StoreOutcome(code, int(offset), chain_hash, parsed if isinstance(parsed, dict) else {})


def _parse_info(text: str) -> dict[str, str]:
    pairs = (line.split(":", 1) for line in text.splitlines() if ":" in line)
    return {name: value.strip() for name, value in pairs}
