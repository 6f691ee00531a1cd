"""The projection of a quorum's metadata into Redis, for tools that read it there: `yak serve --project-redis`.

The quorum's leader writes the keys of a cluster with Redis that `yak isr --from-redis` reads: topics, partitions with
their ISR, high watermarks, log ends, brokers, configs. The brokers themselves never read them, and nothing waits for a
write: a task compares the leader's state with what it wrote last, twice a second, and sends the differences on a connection
of its own. While Redis is down nothing is buffered for it; when it is up again the task begins with what Redis holds. So
does a new leader, to which the brokers report all offsets again: it overwrites no newer ones.

Each write is one script that checks first that Redis holds nothing, or a projection of this cluster by no later leader, or
what the move of this cluster's metadata into the quorum left there (`yak.metadata_store.migration`). So it never touches the
metadata of a cluster with Redis, and a leader that was replaced writes nothing. In the key of the cluster `state` is
PROJECTION: a broker started with this Redis as its metadata store is refused. Its `migration_id` stays: the move back to
Redis must be a newer one.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Final, TypeAlias

import trio

from yak.broker.broker import Broker
from yak.metadata_store.state import StoreState
from yak.server import log
from yak.server.redis_client import ConnectionLost, RedisAddress, RedisClient, ReplyError, message_of
from yak.server.redis_store import key_prefix

INTERVAL_SECONDS: Final = 0.5
OBJECTS_PER_WRITE: Final = 200
"""Of one script: about 1 ms of Redis."""
WRITES_PER_INTERVAL: Final = 4
_WRITTEN_MAX: Final = OBJECTS_PER_WRITE * WRITES_PER_INTERVAL
_PAUSE_SECONDS: Final = (1.0, 30.0)
"""Between two connections: the first pause, and the longest."""
_TIMEOUT_SECONDS: Final = 5.0
_PROBE_SECONDS: Final = 5.0
"""How often the task checks whether an idle Redis lost its data."""
_COMPARED_AT_ONCE: Final = 500
"""Objects compared before the event loop continues: less than a millisecond."""
_SCRIPT: Final = """
local held = redis.call('HMGET', KEYS[1], 'cluster_id', 'projected_epoch', 'state')
if redis.call('EXISTS', KEYS[1]) == 1 then
  if held[1] ~= ARGV[1] or not (held[2] or held[3] == 'MOVED') then return 'foreign' end
  if held[2] and tonumber(held[2]) > tonumber(ARGV[2]) then return 'later' end
elseif ARGV[3] == 'known' then
  return 'emptied'
end
for _, command in ipairs(cjson.decode(ARGV[4])) do redis.call(unpack(command)) end
return 'written'
"""

Name: TypeAlias = tuple[str, Any]
"""The kind of an object, and its key in the state."""
Commands: TypeAlias = list[list[str]]
Difference: TypeAlias = tuple[Name, Any, Commands]
"""An object, its new value (None if it is gone), and the commands that write it."""


class _ProjectionOutdated(Exception):
    """The task must begin again with what Redis holds; the message says why."""


class _Refused(Exception):
    """Redis holds something else than this cluster's projection."""


class RedisProjection:
    """Projects what this broker's node of the quorum has applied, while it leads."""

    def __init__(self, url: str, broker: Broker) -> None:
        """Raises UsageError for an invalid `url`."""
        self._address = RedisAddress.parse(url)
        assert broker.quorum is not None
        self._quorum = broker.quorum.quorum
        self._prefix = key_prefix()
        self._written: dict[Name, Any] = {}
        self._offset = -1
        """Of the metadata that are written completely."""
        self._sent_at = 0.0
        self._said = ""

    @property
    def _leads(self) -> bool:
        # metadata that are being moved to Redis, or are there, are not projected
        return self._quorum.is_ready_leader and self._state.cluster.get("state") == "LIVE"

    async def run(self) -> None:
        """Project until cancelled. An outage is logged once."""
        pause = _PAUSE_SECONDS[0]
        while True:
            await trio.sleep(INTERVAL_SECONDS)
            if not self._leads:
                continue
            reason, event = "", "projection-lost"
            try:
                await self._serve()
            except* (ConnectionLost, ReplyError, OSError, _ProjectionOutdated) as group:
                reason = message_of(group)
            except* _Refused as group:
                reason, event = message_of(group), "projection-refused"
            except* Exception as group:  # noqa: BLE001 - our bug: it must not end the broker
                reason, event = message_of(group), "projection-failed"
            if not reason:
                pause = _PAUSE_SECONDS[0]
                continue
            self._say("warning", event, reason=reason)
            await trio.sleep(pause)
            pause = min(pause * 2, _PAUSE_SECONDS[1])

    def _say(self, level: str, event: str, **fields: object) -> None:
        if event != self._said:
            self._said = event
            log.write(level, event, {"redis": str(self._address), **fields})

    async def _serve(self) -> None:
        """Write with one connection while this node leads.

        Raises ConnectionLost, ReplyError, _ProjectionOutdated and _Refused, in groups.
        """
        stream = await self._address.open(_TIMEOUT_SECONDS)
        client = RedisClient(stream, f"redis at {self._address}", _TIMEOUT_SECONDS)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.run)
            for command in self._address.login():
                await client.call(*command)
            is_known = await self._read_written(client)
            while self._leads:
                await self._write(client, is_known=is_known)
                is_known = True
                self._say("info", "projection-connected")
                await trio.sleep(INTERVAL_SECONDS)
            nursery.cancel_scope.cancel()

    # ------------------------------------------------------------------------------------------------- what is there

    async def _read_written(self, client: RedisClient) -> bool:
        """Take over what Redis holds of this projection; whether it holds any."""
        self._written, self._offset = {}, -1
        p = self._prefix
        fields = ("tn", "hw", "leo", "configs")
        replies = await client.pipeline([("EXISTS", f"{p}cluster"), *(("HGETALL", f"{p}{name}") for name in fields)])
        names, marks, ends, configs = (dict(zip(flat[::2], flat[1::2], strict=True)) for flat in replies[1:])
        nodes = await client.call("SMEMBERS", f"{p}brokers")
        made = await client.pipeline([("HGET", f"{p}t:{each}", "made") for each in names.values()]) if names else []
        for (name, topic_id), count in zip(names.items(), made, strict=True):
            self._written["topic", topic_id] = (name,)
            self._written |= {("partition", (topic_id, number)): () for number in range(int(count or 0))}
        for field, text in marks.items():
            epoch, _, offset = text.partition(":")
            self._written["hw", _place(field)] = (int(epoch), int(offset))
        self._written |= {("leo", _place(field)): () for field in ends}
        self._written |= {("configs", name): {} for name in configs}
        self._written |= {("broker", int(node)): () for node in nodes}
        return bool(replies[0])

    # ------------------------------------------------------------------------------------------------- differences

    async def _write(self, client: RedisClient, *, is_known: bool) -> None:
        """Write what changed, up to a number of calls: the rest is a difference the next time too."""
        state = self._state
        offset = state.cluster["mo"]
        found = await self._differences(state, is_same=offset == self._offset)
        if len(found) <= _WRITTEN_MAX:
            self._offset = offset
        pieces = [found[start : start + OBJECTS_PER_WRITE] for start in range(0, len(found), OBJECTS_PER_WRITE)]
        if not pieces and trio.current_time() - self._sent_at >= _PROBE_SECONDS:
            pieces = [[]]
        for some in pieces[:WRITES_PER_INTERVAL]:
            await self._send(client, some, is_known=is_known)
            is_known = True

    @property
    def _state(self) -> StoreState:
        return self._quorum.machine.state

    async def _send(self, client: RedisClient, some: list[Difference], *, is_known: bool) -> None:
        if not self._leads:
            raise _ProjectionOutdated("this node does not lead the quorum, or the metadata are moved")
        cluster, epoch = self._state.cluster, self._quorum.epoch
        key = f"{self._prefix}cluster"
        head = ["HSET", key, "cluster_id", cluster["cluster_id"], "state", "PROJECTION", "projected_epoch", str(epoch)]
        head += ["ctl_id", str(cluster["ctl_id"]), "ctl_epoch", str(cluster["ctl_epoch"])]
        commands = json.dumps([head, *(command for _, _, commands in some for command in commands)])
        arguments = (cluster["cluster_id"], epoch, "known" if is_known else "new", commands)
        outcome = await client.call("EVAL", _SCRIPT, 1, key, *arguments)
        if outcome == "foreign":
            raise _Refused("it holds the metadata of another cluster, or of one with Redis; nothing is written there")
        if outcome != "written":
            raise _ProjectionOutdated("a later leader writes" if outcome == "later" else "it lost its data")
        self._sent_at = trio.current_time()
        for name, value, _ in some:
            if value is None:
                self._written.pop(name, None)
            else:
                self._written[name] = value

    async def _differences(self, state: StoreState, *, is_same: bool) -> list[Difference]:
        """Differences between the state and what is written; removals first. `is_same`: only offsets may differ."""
        written, p = self._written, self._prefix
        found: list[Difference] = []
        if not is_same:
            found += [(name, None, _removal(p, name, written[name])) for name in written if not _exists(state, name)]
        objects = _offsets(state, p, written) if is_same else _everything(state, p, written)
        for each in objects:
            if each is None:
                await trio.lowlevel.checkpoint()
                continue
            name, value, make = each
            if written.get(name) != value:
                found.append((name, value, make()))
                if len(found) > _WRITTEN_MAX:
                    break
        return found


_Object: TypeAlias = tuple[Name, Any, Callable[[], Commands]] | None
"""An object's name, a value that changes with it, and what makes the commands that write it; None: let others run."""


def _everything(state: StoreState, p: str, written: Mapping[Name, Any]) -> Iterator[_Object]:
    """All objects that may differ. The state may change at each None."""
    # each write names the controller
    yield ("cluster", ""), (state.cluster["ctl_id"], state.cluster["ctl_epoch"]), list
    for node_id, broker in list(state.brokers.items()):
        names = ("broker_epoch", "state", "host", "port", "role", "rack", "min_isr")
        fields = tuple((name, str(broker[name])) for name in names if broker.get(name) is not None)
        yield ("broker", node_id), fields, partial(_broker_commands, p, node_id, fields)
    for topic_id, topic in list(state.topics.items()):
        value = (topic["name"], topic["total"], topic["made"])
        yield ("topic", topic_id), value, partial(_topic_commands, p, topic_id, topic)
    yield None
    for number, (where, partition) in enumerate(list(state.partitions.items()), 1):
        epochs = (partition["leader_epoch"], partition["partition_epoch"])
        if written.get(("partition", where)) != epochs:
            yield ("partition", where), epochs, partial(_partition_commands, p, where, partition)
        if number % _COMPARED_AT_ONCE == 0:
            yield None
    for name, configs in list(state.configs.items()):
        yield ("configs", name), configs, partial(_field, f"{p}configs", name, configs)
    yield from _offsets(state, p, written)


def _offsets(state: StoreState, p: str, written: Mapping[Name, Any]) -> Iterator[_Object]:
    for number, (where, mark) in enumerate(list(state.high_watermarks.items()), 1):
        held, ends = written.get(("hw", where)), state.log_end_offsets.get(where)
        is_same = mark == held and ends == written.get(("leo", where))
        if not is_same and (held is None or mark >= held):  # else it is of an earlier term of this leader
            field = f"{where[0]}:{where[1]}"
            yield ("hw", where), mark, partial(_mark_commands, p, field, mark)
            if ends is not None:
                yield ("leo", where), ends, partial(_field, f"{p}leo", field, {"le": ends[0], "leo": ends[1]})
        if number % _COMPARED_AT_ONCE == 0:
            yield None


def _exists(state: StoreState, name: Name) -> bool:
    kind, key = name
    objects: dict[str, Mapping[Any, Any]] = {
        "cluster": {"": None},
        "broker": state.brokers,
        "topic": state.topics,
        "configs": state.configs,
    }
    return key in objects.get(kind, state.partitions)


def _place(field: str) -> tuple[str, int]:
    topic_id, _, number = field.rpartition(":")
    return topic_id, int(number)


def _removal(p: str, name: Name, value: Any) -> Commands:
    kind, key = name
    if kind == "topic":
        return [["HDEL", f"{p}tn", value[0]], ["DEL", f"{p}t:{key}"]]
    if kind == "partition":
        return [["DEL", f"{p}p:{key[0]}:{key[1]}"]]
    if kind == "broker":
        return [["SREM", f"{p}brokers", str(key)], ["DEL", f"{p}b:{key}"]]
    return [["HDEL", f"{p}{kind}", key if kind == "configs" else f"{key[0]}:{key[1]}"]]


def _broker_commands(p: str, node_id: int, fields: Iterable[tuple[str, str]]) -> Commands:
    key = f"{p}b:{node_id}"
    pairs = [part for pair in fields for part in pair]
    return [["DEL", key], ["HSET", key, *pairs], ["SADD", f"{p}brokers", str(node_id)]]


def _topic_commands(p: str, topic_id: str, topic: Mapping[str, Any]) -> Commands:
    fields = [part for name in ("name", "total", "made") for part in (name, str(topic[name]))]
    return [["HSET", f"{p}tn", topic["name"], topic_id], ["HSET", f"{p}t:{topic_id}", *fields]]


def _partition_commands(p: str, where: tuple[str, int], partition: Mapping[str, Any]) -> Commands:
    names = ("replicas", "isr", "elr", "leader", "leader_epoch", "partition_epoch")
    fields = [part for name in names for part in (name, str(partition[name]))]
    return [["HSET", f"{p}p:{where[0]}:{where[1]}", *fields]]


def _mark_commands(p: str, field: str, mark: tuple[int, int]) -> Commands:
    return [["HSET", f"{p}hw", field, f"{mark[0]}:{mark[1]}"]]


def _field(key: str, field: str, value: Any) -> Commands:
    return [["HSET", key, field, json.dumps(value)]]
