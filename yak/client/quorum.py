"""The metadata quorum: DescribeQuorum (key 55, KIP-595), its voters and their changes (KIP-853)."""

import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from yak.client.errors import reason_of
from yak.client.metadata import Broker
from yak.client.raw_connection import RawConnection, first
from yak.errors import Unreachable, YakError
from yak.ids import LeaderEpoch, NodeId, Offset
from yak.protocol.topic_names import METADATA_TOPIC
from yak.view.lag import lag_records
from yak.views.quorum import leader_log_end

_API_VERSIONS: Final = 18, 0
_DESCRIBE_QUORUM: Final = 55
_ADD_RAFT_VOTER: Final = 80
_REMOVE_RAFT_VOTER: Final = 81
_QUORUM: Final = {"topics": [{"topic_name": METADATA_TOPIC, "partitions": [{"partition_index": 0}]}]}


class Controller(NamedTuple):
    """The quorum's leader and its epoch."""

    node_id: NodeId
    epoch: int


def read_controller(addresses: Iterable[str], *, timeout_s: float) -> Controller | None:
    """The controller, from the first broker that knows it; None if no broker does. Never raises.

    `timeout_s` is for each address.
    """
    for address in addresses:
        try:
            with RawConnection(address, timeout_s=timeout_s) as connection:
                answer = connection.call((_DESCRIBE_QUORUM, 0), _QUORUM)
        except OSError:  # unreachable, or the API is unsupported
            continue
        for found in answer.topics:
            for partition in found.partitions:
                if not int(partition.error_code) and partition.leader_id >= 0:
                    return Controller(int(partition.leader_id), int(partition.leader_epoch))
    return None


_NOT_LEADER, _TIMED_OUT = 6, 7
_DUPLICATE_VOTER, _VOTER_NOT_FOUND = 126, 127
_AGAIN_AFTER_S: Final = 0.1
_ADDITION_S_MAX: Final = 5.0
_ANSWER_S: Final = 2.0
FETCHES_WITHIN_MS: Final = 3_000
"""A voter that fetched so recently counts as running."""


@dataclass(frozen=True, slots=True)
class QuorumReplica:
    """A node of the quorum. `directory_id` None: a first voter that never reported it. Ages are None if not known."""

    node_id: NodeId
    directory_id: uuid.UUID | None
    address: str | None
    log_end_offset: Offset | None
    lag: int | None
    fetched_ms_ago: int | None
    caught_up_ms_ago: int | None

    @property
    def is_running(self) -> bool:
        """Whether the node fetched a moment ago; the leader itself does not fetch."""
        return self.fetched_ms_ago is not None and self.fetched_ms_ago <= FETCHES_WITHIN_MS


@dataclass(frozen=True, slots=True)
class QuorumState:
    """The quorum as its leader describes it."""

    leader_id: NodeId
    epoch: LeaderEpoch
    high_watermark: Offset
    voters: tuple[QuorumReplica, ...]
    observers: tuple[QuorumReplica, ...]

    @property
    def voter_ids(self) -> list[NodeId]:
        """The node ids of the voters."""
        return [voter.node_id for voter in self.voters]

    def status_of(self, replica: QuorumReplica) -> str:
        """`leader`, `follower` or `observer`."""
        if replica not in self.voters:
            return "observer"
        return "leader" if replica.node_id == self.leader_id else "follower"

    def running_voters(self) -> set[NodeId]:
        """The leader, and the voters that fetched a moment ago."""
        return {self.leader_id, *(voter.node_id for voter in self.voters if voter.is_running)}


def describe_quorum(address: str, *, timeout_s: float) -> QuorumState:
    """The quorum, by any broker. Raises Unreachable (`unreachable`, `quorum-no-leader`) and YakError (`no-quorum`).

    Waits up to `timeout_s` for a leader.
    """

    def ask(connection: RawConnection, _left_s: float) -> tuple[int, str, Any]:
        answer = connection.call((_DESCRIBE_QUORUM, 2), _QUORUM)
        partition = answer if answer.error_code else first(first(answer.topics).partitions)
        return int(partition.error_code), partition.error_message or "", answer

    code, why, answer = _ask_until(address, timeout_s, ask)
    if answer.error_code:
        raise YakError("kafka-error", "the quorum could not be read", why=why, try_=("yak help kafka-error",))
    if code:
        raise _no_leader(why)
    return _state_of(answer)


def add_voter(
    address: str, cluster_id: str, node_id: NodeId, directory_id: uuid.UUID, at: tuple[str, int], *, timeout_s: float
) -> None:
    """Make an observer a voter. Raises the errors of `describe_quorum` and YakError (`quorum-not-changed`)."""

    def fields(left_s: float) -> dict[str, object]:
        wait_s = max(0.0, min(left_s - _ANSWER_S, _ADDITION_S_MAX))
        return {
            "cluster_id": cluster_id,
            "timeout": round(wait_s * 1000),
            "voter_id": node_id,
            "voter_directory_id": directory_id,
            "listeners": [{"name": "PLAINTEXT", "host": at[0], "port": at[1]}],
        }

    _change(address, timeout_s, _ADD_RAFT_VOTER, fields, f"node {node_id} was not added to the voters")


def remove_voter(
    address: str, cluster_id: str, node_id: NodeId, directory_id: uuid.UUID | None, *, timeout_s: float
) -> None:
    """Make a voter an observer. Raises the errors of `describe_quorum` and YakError (`quorum-not-changed`)."""
    fields = {"cluster_id": cluster_id, "voter_id": node_id, "voter_directory_id": directory_id}
    what = f"node {node_id} was not removed from the voters"
    _change(address, timeout_s, _REMOVE_RAFT_VOTER, lambda _left_s: fields, what)


def _change(
    address: str, timeout_s: float, api_key: int, fields: Callable[[float], dict[str, object]], message: str
) -> None:
    """Ask for a change of the voters; `fields` gets the seconds that are left."""

    def ask(connection: RawConnection, left_s: float) -> tuple[int, str, Any]:
        answer = connection.call((api_key, 0), fields(left_s))
        return int(answer.error_code), answer.error_message or answer.error_code.name, None

    code, why, _ = _ask_until(address, timeout_s, ask)
    if code:
        raise YakError("quorum-not-changed", message, why=why, try_=("yak quorum describe --replication",))


def _ask_until(
    address: str, timeout_s: float, ask: Callable[[RawConnection, float], tuple[int, str, Any]]
) -> tuple[int, str, Any]:
    """Ask until the answer is no transient error (no leader, another change is under way), or the time is over."""
    deadline = time.monotonic() + timeout_s
    sent = 0
    try:
        with RawConnection(address, timeout_s=timeout_s + _ANSWER_S) as connection:
            _check_has_quorum(connection, address)
            while True:
                sent += 1
                code, why, answer = ask(connection, deadline - time.monotonic())
                if sent > 1 and code in (_DUPLICATE_VOTER, _VOTER_NOT_FOUND):
                    return 0, "", answer  # an earlier attempt took effect, and its answer was lost
                if code not in (_NOT_LEADER, _TIMED_OUT) or time.monotonic() + _AGAIN_AFTER_S >= deadline:
                    return code, why, answer
                time.sleep(_AGAIN_AFTER_S)
    except OSError as error:
        raise Unreachable(
            "unreachable", f"{address} did not answer for the metadata quorum", why=reason_of(error)
        ) from None


def _check_has_quorum(connection: RawConnection, address: str) -> None:
    answer = connection.call(_API_VERSIONS, {})
    if any(int(each.api_key) == _ADD_RAFT_VOTER for each in answer.api_keys):
        return
    raise YakError(
        "no-quorum",
        f"the cluster at {address} has no metadata quorum whose voters can be changed",
        why="its metadata are in Redis, or it is a Kafka before 3.9",
        try_=("yak cluster", "yak up --metadata raft          start a cluster with a quorum"),
    )


def _no_leader(why: str) -> YakError:
    return Unreachable(
        "quorum-no-leader",
        "the metadata quorum has no leader",
        why=f"{why}; a majority of its voters must run and reach each other",
        try_=("yak up --status", "yak up          starts brokers that do not run"),
    )


def _state_of(answer: Any) -> QuorumState:
    partition = answer.topics[0].partitions[0]
    addresses = {
        int(node.node_id): Broker(node.node_id, node.listeners[0].host, int(node.listeners[0].port)).address
        for node in answer.nodes
        if node.listeners
    }
    end = leader_log_end(partition)
    now_ms = max(
        (int(each.last_caught_up_timestamp) for each in (*partition.current_voters, *partition.observers)), default=-1
    )

    def replicas(found: Sequence[Any]) -> tuple[QuorumReplica, ...]:
        return tuple(_replica(each, addresses.get(int(each.replica_id)), end, now_ms) for each in found)

    return QuorumState(
        int(partition.leader_id),
        int(partition.leader_epoch),
        int(partition.high_watermark),
        replicas(partition.current_voters),
        replicas(partition.observers),
    )


def _replica(found: Any, address: str | None, end: Offset, now_ms: int) -> QuorumReplica:
    log_end = int(found.log_end_offset) if found.log_end_offset >= 0 else None
    return QuorumReplica(
        int(found.replica_id),
        found.replica_directory_id,
        address,
        log_end,
        lag_records(log_end, end),
        _age(int(found.last_fetch_timestamp), now_ms),
        _age(int(found.last_caught_up_timestamp), now_ms),
    )


def _age(timestamp_ms: int, now_ms: int) -> int | None:
    """The age of a time stamp by the leader's clock, whose present time is its own entry."""
    return max(0, now_ms - timestamp_ms) if timestamp_ms >= 0 else None
