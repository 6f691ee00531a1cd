"""The registry of external brokers: other software, registered over HTTP to be listed (ADR 0015).

Each has an entry in one hash of Redis, or in the state of the metadata quorum, which no other part of YAK reads. A script
replaces an entry if it is still the one that was read, else the change is planned again. While the metadata store is down,
the newest reading is listed.
"""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final, cast

import trio

from yak.cluster.image import Image
from yak.cluster.records import BrokerState
from yak.errors import ErrorCode
from yak.ids import NodeId
from yak.limits import EXTERNAL_BROKERS_MAX
from yak.ports.metadata_store import StoreRequest
from yak.quorum.transport import ENVELOPE
from yak.server.http.context import Context
from yak.server.http.problems import Problem
from yak.server.redis_client import ConnectionLost, ReplyError
from yak.views.metadata_json import ExternalBroker

if TYPE_CHECKING:
    from yak.server.redis_store import RedisStore

_SCRIPT: Final = """
local id, old, new, forgotten, forgotten_entry, count = unpack(ARGV)
local time = redis.call('TIME')
local now_ms = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
local function holds(id, entry) return (redis.call('HGET', KEYS[1], id) or '') == entry end
local state = redis.call('HGET', KEYS[2], 'state') or 'LIVE'
if state ~= 'LIVE' then return redis.error_reply('the metadata store is ' .. state) end
local writes = id and redis.call('HLEN', KEYS[1]) == tonumber(count) and holds(id, old)
  and holds(forgotten, forgotten_entry)
if writes then
  redis.call('HDEL', KEYS[1], forgotten)
  redis.call('HSET', KEYS[1], id, string.sub(new, 1, -2) .. ',"changed_ms":' .. now_ms .. '}')
end
return {now_ms, writes and 1 or 0, redis.call('HGETALL', KEYS[1])}
"""
_KEY: Final = "guests"
_FRESH_SECONDS: Final = 0.1
"""A newer reading is not repeated: requests that only read must not load the metadata store."""
_READ_SECONDS: Final = 1.0
_CHANGE_SECONDS: Final = 3.0
"""How long a change is tried, also while other changes conflict."""

Plan = Callable[[ExternalBroker | None], ExternalBroker]
"""The entry after a change, or the same object for no change. Raises Problem."""


@dataclass(slots=True, frozen=True)
class RegistrySnapshot:
    """The external brokers at a time of the metadata store's clock; 0 before the first reading."""

    brokers: dict[NodeId, ExternalBroker] = field(default_factory=dict)
    at_ms: int = 0


def is_yak_id(image: Image, node_id: NodeId) -> bool:
    """Whether a YAK broker has or had this id; partitions may name it."""
    return node_id in image.brokers or node_id in image.unregistered


class ExternalBrokers:
    """This broker's access to the registry: `context.part(ExternalBrokers)`."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._broker = context.broker
        self._store = cast("RedisStore | None", context.shell.store)
        """None in a cluster with a quorum alone."""
        self._entries: dict[NodeId, str] = {}
        self._reading = RegistrySnapshot()
        self._lock = trio.Lock()
        self._tried_at = float("-inf")

    async def read(self) -> RegistrySnapshot:
        """The external brokers without those whose id a YAK broker has taken; the last known ones during an outage."""
        async with self._lock:
            if trio.current_time() >= self._tried_at + _FRESH_SECONDS:
                try:
                    await self._call(_READ_SECONDS)
                except (ConnectionLost, ReplyError):
                    self._tried_at = trio.current_time()
        image, reading = self._broker.image, self._reading
        return RegistrySnapshot({n: b for n, b in reading.brokers.items() if not is_yak_id(image, n)}, reading.at_ms)

    async def change(self, node_id: NodeId, plan: Plan) -> ExternalBroker:
        """Carry out what `plan` makes of the broker's entry. Raises Problem."""
        try:
            async with self._lock:
                with trio.fail_after(_CHANGE_SECONDS):
                    await self._call(_CHANGE_SECONDS)
                    while True:
                        old = self._reading.brokers.get(node_id)
                        new = plan(old)
                        if new is old or await self._call(_CHANGE_SECONDS, *self._write(new)):
                            return self._reading.brokers[node_id]
        except (trio.TooSlowError, ConnectionLost, ReplyError) as error:
            message = str(error) or "too many changes at the same time"
            raise Problem(
                503, "metadata-store-unavailable", f"the registry cannot be changed now: {message}", "try again"
            ) from None

    def _write(self, new: ExternalBroker) -> tuple[int, str, str, int | str, str, int]:
        """The script's arguments: node id, old and new entry, the forgotten node id and its entry, and the number of entries.

        Raises Problem 409 when the registry is full.
        """
        entry = asdict(new)
        del entry["node_id"], entry["changed_ms"]
        forgotten = None
        if new.node_id not in self._entries and len(self._entries) >= EXTERNAL_BROKERS_MAX:
            forgotten = self._closed_first()
        return (
            new.node_id,
            self._entries.get(new.node_id, ""),
            json.dumps(entry),
            "" if forgotten is None else forgotten,
            "" if forgotten is None else self._entries[forgotten],
            len(self._entries),
        )

    def _closed_first(self) -> NodeId:
        """The entry that makes room: of a YAK broker's id, or the one closed first."""
        image = self._broker.image
        closed = [
            (not is_yak_id(image, node_id), broker.changed_ms, node_id)
            for node_id, broker in self._reading.brokers.items()
            if broker.state is BrokerState.CLOSED or is_yak_id(image, node_id)
        ]
        if not closed:
            message = "the maximum number of external brokers is registered"
            raise Problem(409, "too-many-brokers", message, "unregister unused ones")
        return min(closed)[2]

    async def _call(self, timeout_seconds: float, *change: str | int) -> bool:
        """Read the registry, after a change if there is one; whether it was made. Raises ConnectionLost, ReplyError."""
        if self._store is None or self._broker.metadata_in_quorum:
            at_ms, is_written, entries = await self._call_quorum(timeout_seconds, *change)
        else:
            # moved or being moved: an entry that is written now would be lost
            keys = [f"{self._store.prefix}{name}" for name in (_KEY, "cluster")]
            reply = await self._store.call("EVAL", _SCRIPT, 2, *keys, *change, timeout_seconds=timeout_seconds)
            at_ms, is_written, flat = reply
            entries = {int(node_id): entry for node_id, entry in zip(flat[::2], flat[1::2], strict=True)}
        if entries != self._entries:
            self._entries = entries
            # Entries of a YAK with external brokers in its metadata log have no time.
            earliest_ms = self._broker.image.incarnation_ms
            brokers = {n: _broker(n, json.loads(entries[n]), earliest_ms) for n in entries}
        else:
            brokers = self._reading.brokers
        self._reading = RegistrySnapshot(brokers, int(at_ms))
        self._tried_at = trio.current_time()
        return bool(is_written)

    async def _call_quorum(self, timeout_seconds: float, *change: str | int) -> tuple[int, bool, dict[NodeId, str]]:
        """The same in a cluster with a quorum: its leader reads, or commits the change. Raises ConnectionLost."""
        from yak.quorum.store import decode_outcome, encode_request

        names = ("external_id", "old", "new", "forgotten", "forgotten_entry", "count")
        request = StoreRequest("external_broker", dict(zip(names, change, strict=False)))
        fields = {"request_data": encode_request(request), "request_principal": None, "client_host_address": b""}
        try:
            answer = await self._context.broker_client.ask(ENVELOPE, fields, timeout_s=timeout_seconds)
        except Problem as problem:
            raise ConnectionLost(problem.message) from None
        if answer.error_code != ErrorCode.none:
            raise ConnectionLost("the metadata quorum has no leader that answers")
        outcome = decode_outcome(answer.response_data)
        if outcome.code != "OK":
            raise ConnectionLost(f"the metadata quorum refused: {outcome.code}")
        value: dict[str, Any] = outcome.value
        return (
            value["now_ms"],
            value["is_written"],
            {int(node_id): entry for node_id, entry in value["entries"].items()},
        )


def _broker(node_id: NodeId, entry: dict[str, Any], earliest_ms: int) -> ExternalBroker:
    return ExternalBroker(
        node_id,
        entry["broker_epoch"],
        entry["boot_id"],
        entry["host"],
        entry["port"],
        entry["rack"],
        entry["security_protocol"],
        BrokerState(entry["state"]),
        entry.get("changed_ms", earliest_ms),
    )
