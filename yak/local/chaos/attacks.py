"""The attacks of `yak chaos abuse`: requests of one client that take a broker's time or memory from others.

An attack is a loop until a deadline. Each runs in its own process (`yak chaos attack`), with its connections in
threads. Attacks expect refusals: a closed connection is reopened, at most 50 times a second.
"""

import contextlib
import gzip
import http.client
import itertools
import json
import socket
import struct
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from yak.client.reach import split_address
from yak.errors import UsageError
from yak.limits import PARTITIONS_PER_REQUEST_MAX, REQUEST_ELEMENTS_MAX
from yak.protocol.codec import encode_request, framed
from yak.protocol.record_batch import HEADER_BYTES, compute_crc
from yak.protocol.record_writer import build_batch

_TIMEOUT_SECONDS: Final = 5.0
_AGAIN_SECONDS: Final = 0.02
_LENGTH: Final = struct.Struct(">i")
_CLIENT_ID: Final = "yak-abuse"

PRODUCE, FETCH, METADATA, OFFSET_FETCH = 0, 1, 3, 9
CREATE_TOPICS, DELETE_TOPICS, DESCRIBE_CONFIGS, CONSUMER_GROUP_HEARTBEAT = 19, 20, 32, 68


@dataclass(frozen=True, slots=True)
class Target:
    """The attacked broker: `host:port` of its Kafka and HTTP listeners (empty: no HTTP), and the topics to write to.

    `packed_topic` sets a `compression.type`, so that the broker decompresses what it gets.
    """

    bootstrap: str
    http: str
    topic: str
    packed_topic: str


class Link:
    """One connection of an attacker. All methods raise OSError when the broker closes it."""

    def __init__(self, target: Target) -> None:
        self._sock = socket.create_connection(split_address(target.bootstrap), timeout=_TIMEOUT_SECONDS)

    def close(self) -> None:
        self._sock.close()

    def send(self, data: bytes) -> None:
        self._sock.sendall(data)

    def receive(self, answers: int = 1) -> None:
        """Read this many responses and discard them."""
        for _ in range(answers):
            (left,) = _LENGTH.unpack(self._take(_LENGTH.size))
            while left:
                left -= len(self._take(min(left, 1 << 16)))

    def _take(self, count: int) -> bytes:
        taken = bytearray()
        while len(taken) < count:
            piece = self._sock.recv(count - len(taken))
            if not piece:
                raise ConnectionResetError("closed")
            taken += piece
        return bytes(taken)


Round = Callable[[Link], None]
"""One iteration of an attack's loop on a connection."""


@dataclass(frozen=True, slots=True)
class Attack:
    """One row of the table. `prepare` builds the bytes once, before the loops begin; each loop then has its own
    connection."""

    name: str
    description: str
    connections: int
    prepare: Callable[[Target], Round]
    needs_http: bool = False


def frame(api_key: int, version: int, fields: Mapping[str, object], client_id: str = _CLIENT_ID) -> bytes:
    """A request with its length prefix."""
    return framed(encode_request(api_key, version, 1, client_id, fields))


def run_attack(attack: Attack, target: Target, seconds: float) -> int:
    """Run all connections of an attack until the time is over; return the number of rounds, refused ones included."""
    act = attack.prepare(target)
    deadline = time.monotonic() + seconds
    rounds = [0] * attack.connections

    def loop(number: int) -> None:
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError, http.client.HTTPException), contextlib.closing(Link(target)) as link:
                while time.monotonic() < deadline:
                    rounds[number] += 1
                    act(link)
            time.sleep(_AGAIN_SECONDS)

    threads = [threading.Thread(target=loop, args=(number,), daemon=True) for number in range(attack.connections)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, deadline + 2 * _TIMEOUT_SECONDS - time.monotonic()))
    return sum(rounds)


# ---------------------------------------------------------------------------------------------------------- attacks


def _produce(topic: str, batch: bytes, client_id: str = _CLIENT_ID) -> bytes:
    data = {"name": topic, "partition_data": [{"index": 0, "records": batch}]}
    return frame(PRODUCE, 9, {"transactional_id": None, "acks": 1, "timeout": 1000, "topic_data": [data]}, client_id)


def _bomb(target: Target) -> Round:
    """A gzip batch of 122 KB that holds 120 MiB of zeros: the broker must decompress it to validate its records."""
    packed = gzip.compress(bytes(120 << 20), 9)
    plain = build_batch([(None, b"x")], int(time.time() * 1000))
    whole = bytearray(plain[:HEADER_BYTES]) + packed
    struct.pack_into(">i", whole, 8, len(whole) - 12)
    struct.pack_into(">h", whole, 21, 1)
    struct.pack_into(">I", whole, 17, compute_crc(whole))
    return _asking(_produce(target.packed_topic, bytes(whole)))


def _asking(*requests: bytes) -> Round:
    """These requests, one after the other."""

    def act(link: Link) -> None:
        for request in requests:
            link.send(request)
            link.receive()

    return act


def _fetch_session(partitions: int) -> bytes:
    rows = [
        {"partition": number, "current_leader_epoch": -1, "fetch_offset": 0, "log_start_offset": -1,
         "last_fetched_epoch": -1, "partition_max_bytes": 1}
        for number in range(partitions)
    ]  # fmt: skip
    fields = {
        "replica_id": -1, "max_wait": 0, "min_bytes": 0, "max_bytes": 1, "isolation_level": 0, "session_id": 0,
        "session_epoch": 0, "topics": [{"topic": "no-such-topic", "partitions": rows}],
        "forgotten_topics_data": [], "rack_id": "",
    }  # fmt: skip
    return frame(FETCH, 12, fields)


def _topics(names: list[str], partitions: int = 1) -> bytes:
    topics = [
        {"name": name, "num_partitions": partitions, "replication_factor": 1, "assignments": [], "configs": []}
        for name in names
    ]
    return frame(CREATE_TOPICS, 5, {"topics": topics, "timeout": 5000, "validate_only": False})


def _create_topics(_target: Target) -> Round:
    """Create and delete as many partitions as one request may create; and one request for far more, which is
    refused."""
    names = [f"abuse-{number}" for number in range(100)]
    made, refused = _topics(names, PARTITIONS_PER_REQUEST_MAX // len(names)), _topics(names, 10_000)
    deleted = frame(DELETE_TOPICS, 4, {"topic_names": names, "timeout": 5000})
    # Deletion comes first: an earlier round may have ended before it deleted its topics.
    return _asking(deleted, refused, made)


def _metadata(names: list[str] | None) -> bytes:
    topics = None if names is None else [{"name": name} for name in names]
    fields = {
        "topics": topics,
        "allow_auto_topic_creation": False,
        "include_cluster_authorized_operations": False,
        "include_topic_authorized_operations": False,
    }
    return frame(METADATA, 8, fields)


def _elements(count: int) -> Round:
    """Requests of so many elements, to APIs that answer each element."""
    names = [f"t{number}" for number in range(count)]
    offsets = {"group_id": "abuse", "topics": [{"name": "no-such-topic", "partition_indexes": list(range(count))}]}
    requests = (
        _metadata(names),
        frame(OFFSET_FETCH, 5, offsets),
        frame(DELETE_TOPICS, 4, {"topic_names": [f"no-such-{name}" for name in names], "timeout": 1000}),
    )
    turn = itertools.cycle(requests)

    def act(link: Link) -> None:  # one of them in a round: a refusal may close the connection
        link.send(next(turn))
        link.receive()

    return act


def _described(target: Target) -> Round:
    """All configs of one topic, requested 10,000 times in one request."""
    resource = {"resource_type": 2, "resource_name": target.topic, "configuration_keys": None}
    fields = {"resources": [resource] * 10_000, "include_synonyms": True, "include_documentation": True}
    return _asking(frame(DESCRIBE_CONFIGS, 3, fields))


def _pipelined(target: Target) -> Round:
    count = 3000
    requests = _metadata([target.topic]) * count

    def act(link: Link) -> None:
        reader = threading.Thread(target=_read_quietly, args=(link, count), daemon=True)
        reader.start()
        link.send(requests)
        reader.join()

    return act


def _read_quietly(link: Link, count: int) -> None:
    with contextlib.suppress(OSError):
        link.receive(count)


def _large_frames(target: Target) -> Round:
    """Frames of 100 MB: a produce request whose batch every topic refuses."""
    piece = bytes(1 << 20)
    head = _produce(target.topic, b"")[_LENGTH.size :]
    length = 100_000_000

    def act(link: Link) -> None:
        link.send(_LENGTH.pack(length) + head)
        left = length - len(head)
        while left:
            link.send(piece[: min(left, len(piece))])
            left -= min(left, len(piece))
        link.receive()

    return act


def _json_keys(target: Target) -> Round:
    """4 MB of JSON: one object of 300,000 keys."""
    row: dict[str, Any] = {"topic": target.topic, "payload": {f"k{number}": 1 for number in range(300_000)}}
    body = json.dumps(row, separators=(",", ":")).encode()
    host, port = split_address(target.http)

    def act(_link: Link) -> None:
        with contextlib.closing(http.client.HTTPConnection(host, port, timeout=_TIMEOUT_SECONDS)) as connection:
            connection.request("POST", "/produce", body, {"Content-Type": "application/json"})
            connection.getresponse().read()

    return act


def _regex(target: Target) -> Round:
    """A subscription whose pattern backtracks heavily on names that nearly match."""
    names = [f"{'a' * 120}{number:02d}" for number in range(20)]
    with contextlib.suppress(OSError), contextlib.closing(Link(target)) as link:
        link.send(_topics(names))
        link.receive()
    numbers = itertools.count()

    def act(link: Link) -> None:
        number = next(numbers)
        fields = {
            "group_id": f"abuse-{number}", "member_id": f"member-{number}", "member_epoch": 0, "instance_id": None,
            "rack_id": None, "rebalance_timeout": 10_000, "subscribed_topic_names": None,
            "subscribed_topic_regex": "a*a*a*a*!", "server_assignor": None, "topic_partitions": [],
        }  # fmt: skip
        link.send(frame(CONSUMER_GROUP_HEARTBEAT, 1, fields))
        link.receive()

    return act


def _deletions(_target: Target) -> Round:
    """A thousand topics, created and deleted by one request each."""
    numbers = itertools.count()

    def act(link: Link) -> None:
        names = [f"gone-{next(numbers)}" for _ in range(1000)]
        _asking(_topics(names), frame(DELETE_TOPICS, 4, {"topic_names": names, "timeout": 5000}))(link)

    return act


def _unread(_target: Target) -> Round:
    """Requests for all metadata whose responses are never read."""
    requests = _metadata(None) * 2000

    def act(link: Link) -> None:
        with contextlib.suppress(TimeoutError):
            link.send(requests)
        time.sleep(1.0)
        raise ConnectionResetError("the next connection")

    return act


def _internal_records(target: Target) -> Round:
    """Group records, written as `__admin_client` does, with epochs and partitions that no coordinator writes."""
    group = b"abuse"
    key = struct.pack(">hh", 1, len(group)) + group + struct.pack(">h", 1) + b"t" + struct.pack(">i", -1)
    value = struct.pack(">hqi", 3, 1, 2**31 - 1) + struct.pack(">h", 0) + struct.pack(">q", 1)
    batch = build_batch([(key, value)], int(time.time() * 1000))
    return _asking(_produce("__consumer_offsets", batch, "__admin_client"), _metadata([target.topic]))


def _once(request: bytes) -> Round:
    """One request per connection: a fetch session lives as long as its connection."""

    def act(link: Link) -> None:
        link.send(request)
        link.receive()
        raise ConnectionResetError("the next session")

    return act


ATTACKS: Final[tuple[Attack, ...]] = (
    Attack("bombs", "122 KB of gzip that unpack to 120 MiB", 2, _bomb),
    Attack(
        "fetch-sessions",
        "new fetch sessions of 10,000 unknown partitions",
        2,
        lambda _: _once(_fetch_session(10_000)),
    ),
    Attack(
        "create-topics",
        "100 topics of 100 partitions created and deleted, and 100 of 10,000 requested",
        1,
        _create_topics,
    ),
    Attack("delete-topics", "1,000 topics created and deleted at once", 1, _deletions),
    Attack("elements", "requests of 240,000 elements", 2, lambda _: _elements(240_000)),
    Attack("elements-taken", "the largest requests that are taken", 2, lambda _: _elements(REQUEST_ELEMENTS_MAX - 1)),
    Attack("describe-configs", "DescribeConfigs that names one topic 10,000 times", 1, _described),
    Attack("pipelined", "200 connections with 3,000 Metadata requests each", 200, _pipelined),
    Attack("large-frames", "50 connections with frames of 100 MB", 50, _large_frames),
    Attack("unread", "20 connections that ask for all metadata and read no answer", 20, _unread),
    Attack("json-keys", "4 MB of JSON with 300,000 keys to POST /produce", 2, _json_keys, needs_http=True),
    Attack("regex", "subscriptions to a*a*a*a*! beside 20 long names", 2, _regex),
    Attack("group-records", "records of impossible commits to __consumer_offsets", 2, _internal_records),
)
"""In the order of the report."""


def chosen(names: str, *, has_http: bool) -> tuple[Attack, ...]:
    """The attacks of a list of names; `all` selects every possible one. Raises UsageError (`unknown-attack`)."""
    if names == "all":
        return tuple(attack for attack in ATTACKS if has_http or not attack.needs_http)
    known = {attack.name: attack for attack in ATTACKS}
    found = []
    for name in names.split(","):
        if name not in known:
            raise UsageError(
                "unknown-attack",
                f"there is no attack {name!r}",
                why=f"known are {', '.join(known)}",
                try_=("yak chaos abuse --attacks all",),
            )
        found.append(known[name])
    return tuple(found)
