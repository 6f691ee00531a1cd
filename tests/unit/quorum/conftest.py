"""One node of a quorum by hand: its sends are a list, its jobs run when a test says so, and its clock stands still."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from yak.core import events
from yak.core.context import Clock, Context
from yak.core.jobs import Jobs
from yak.core.timers import Timers
from yak.ports.metadata_store import StoreOutcome, StoreRequest
from yak.protocol.codec import decode_request, decode_response, encode_request, encode_response
from yak.protocol.request_header import read_request_header
from yak.protocol.topic_names import METADATA_TOPIC, METADATA_TOPIC_ID
from yak.protocol.versions import FETCH
from yak.quorum.config import QuorumConfig
from yak.quorum.control_records import leader_change
from yak.quorum.election_state import ElectionState
from yak.quorum.quorum import Quorum, Role
from yak.quorum.raft_log import RaftLog
from yak.quorum.state_machine import VolatileState, command_batch
from yak.quorum.transport import (
    ADD_RAFT_VOTER,
    BEGIN_QUORUM_EPOCH,
    END_QUORUM_EPOCH,
    FETCH_SNAPSHOT,
    REMOVE_RAFT_VOTER,
    VERSIONS_SENT,
    VOTE,
    Address,
)
from yak.quorum.voters import Voter, VoterSet
from yak.sim.disk import SimDisk
from yak.sim.seeded_random import SeededRandom

DIRECTORY = "/data"
STATE_PATH = "/data/quorum-state"
CLUSTER_ID = "c"
VERSIONS = {**VERSIONS_SENT, ADD_RAFT_VOTER: 0, REMOVE_RAFT_VOTER: 0}


def directory_id(node_id: int) -> uuid.UUID:
    return uuid.UUID(int=100 + node_id)


def voter(node_id: int, *, known: bool = True) -> Voter:
    return Voter(node_id, "h", 9000 + node_id, directory_id(node_id) if known else None)


def voter_set(*node_ids: int, known: bool = True) -> VoterSet:
    return VoterSet.of([voter(node_id, known=known) for node_id in node_ids])


@dataclass
class Sent:
    """A request that the node sent."""

    address: Address
    api_key: int
    fields: dict[str, Any]
    done: Callable[[Any | None], None]

    @property
    def partition(self) -> dict[str, Any]:
        return self.fields["topics"][0]["partitions"][0]


class Node:
    """A node, its disk, and what it sent."""

    def __init__(
        self,
        node_id: int = 1,
        voters: VoterSet | None = None,
        *,
        disk: SimDisk | None = None,
        snapshot_bytes: int = 1 << 20,
        seed: int = 1,
        creates_cluster: bool = True,
    ) -> None:
        self.disk = disk or SimDisk()
        self.disk.make_directory(DIRECTORY)
        self.sent: list[Sent] = []
        self.forgotten: list[tuple[Address, int]] = []
        self.notices: list[str] = []
        self.effects: list[events.Effect] = []
        self.jobs, self.timers, self.clock = Jobs(self.effects.append), Timers(), Clock(1_000_000)
        context = Context(self.clock, None, None, self.effects.append, self.jobs, self.timers)  # type: ignore[arg-type]
        log = RaftLog.open(self.disk, DIRECTORY, self.clock.now_ms)
        config = QuorumConfig(
            node_id,
            directory_id(node_id),
            CLUSTER_ID,
            "h",
            9000 + node_id,
            voters or voter_set(1, 2, 3),
            creates_cluster=creates_cluster,
            snapshot_bytes=snapshot_bytes,
        )
        election = ElectionState.read(self.disk, STATE_PATH)
        self.quorum = Quorum(context, config, log, election, STATE_PATH, self, SeededRandom(seed), self)
        self.waiting: list[events.RunJob] = []

    # transport and listener

    def send(self, address: Address, api_key: int, fields: dict[str, Any], done: Callable[[Any | None], None]) -> None:
        self.sent.append(Sent(address, api_key, fields, done))

    def forget(self, address: Address, api_key: int) -> None:
        self.forgotten.append((address, api_key))

    def on_leader(self) -> None:
        pass

    def on_applied(self) -> None:
        pass

    # driving

    def collect(self) -> None:
        for effect in self.effects:
            if isinstance(effect, events.RunJob):
                self.waiting.append(effect)
            elif isinstance(effect, events.Notice):
                self.notices.append(effect.event)
        self.effects.clear()

    def run_jobs(self) -> None:
        """Run all jobs, and those that follow."""
        self.collect()
        while self.waiting:
            self.run_job(0)

    def run_job(self, index: int) -> None:
        job = self.waiting.pop(index)
        self.jobs.on_done(events.JobDone(job.job_id, job.plan.run(self.disk), None))
        self.collect()

    def advance(self, ms: int, *, jobs: bool = True) -> None:
        """Let time pass, in small steps."""
        for _ in range(ms):
            self.clock.now_ms += 1
            self.timers.run_due(self.clock.now_ms)
            if jobs:
                self.run_jobs()

    def take(self, api_key: int) -> list[Sent]:
        """The requests of an API since the last call."""
        found = [each for each in self.sent if each.api_key == api_key]
        self.sent = [each for each in self.sent if each.api_key != api_key]
        return found

    def handle(self, api_key: int, fields: dict[str, Any]) -> list[Any]:
        """Hand over a request; the list has its response, as soon as there is one."""
        responses: list[Any] = []
        version = VERSIONS[api_key]
        view = memoryview(encode_request(api_key, version, 1, "t", fields))
        request = decode_request(api_key, version, view, read_request_header(view).body_offset)

        def respond(answer: dict[str, Any]) -> None:
            responses.append(decoded(api_key, answer))

        self.quorum.handle(api_key, request, respond)
        return responses

    def propose(self, script: str, **arguments: Any) -> list[StoreOutcome | None]:
        outcomes: list[StoreOutcome | None] = []
        self.quorum.propose(StoreRequest(script, arguments), outcomes.append)
        return outcomes

    def append_commands(self, count: int) -> None:
        for _ in range(count):
            self.propose("alloc_pid", node_id=1, broker_epoch=0)
            self.run_jobs()

    # requests of others

    def vote(self, candidate: int, epoch: int, *, pre_vote: bool = False, **changes: Any) -> list[Any]:
        """Ask for a vote, with a log as long as this one."""
        log = self.quorum.log
        partition = {
            "partition_index": 0,
            "replica_epoch": epoch,
            "replica_id": candidate,
            "replica_directory_id": directory_id(candidate),
            "voter_directory_id": self.quorum.config.directory_id,
            "last_offset_epoch": log.last_epoch,
            "last_offset": log.end_offset,
            "pre_vote": pre_vote,
        } | changes
        return self.handle(VOTE, about(partition) | {"voter_id": self.quorum.config.node_id})

    def begin(self, leader: int, epoch: int) -> list[Any]:
        partition = {
            "partition_index": 0,
            "voter_directory_id": self.quorum.config.directory_id,
            "leader_id": leader,
            "leader_epoch": epoch,
        }
        endpoints = [{"name": "PLAINTEXT", "host": "h", "port": 9000 + leader}]
        fields = about(partition) | {"voter_id": self.quorum.config.node_id, "leader_endpoints": endpoints}
        return self.handle(BEGIN_QUORUM_EPOCH, fields)

    def end(self, leader: int, epoch: int, *preferred: int) -> list[Any]:
        candidates = [{"candidate_id": each, "candidate_directory_id": directory_id(each)} for each in preferred]
        partition = {"partition_index": 0, "leader_id": leader, "leader_epoch": epoch}
        return self.handle(END_QUORUM_EPOCH, about(partition | {"preferred_candidates": candidates}))

    def fetch(self, replica: int, offset: int, last_epoch: int, **changes: Any) -> list[Any]:
        """A fetch of another node. `session_id` confirms a read round."""
        session_id, max_wait = changes.pop("session_id", 0), changes.pop("max_wait", 500)
        partition = {
            "partition": 0,
            "current_leader_epoch": self.quorum.epoch,
            "fetch_offset": offset,
            "last_fetched_epoch": last_epoch,
            "log_start_offset": 0,
            "partition_max_bytes": 1 << 20,
            "replica_directory_id": directory_id(replica),
            "high_watermark": self.quorum.high_watermark,
        } | changes
        fields = {
            "cluster_id": CLUSTER_ID,
            "replica_state": {"replica_id": replica, "replica_epoch": -1},
            "max_wait": max_wait,
            "min_bytes": 0,
            "max_bytes": 1 << 20,
            "session_id": session_id,
            "session_epoch": -1,
            "topics": [{"topic_id": METADATA_TOPIC_ID, "partitions": [partition]}],
            "forgotten_topics_data": [],
        }
        return self.handle(FETCH, fields)

    def fetch_all(self, replica: int, **changes: Any) -> list[Any]:
        """A fetch of a replica that has everything."""
        return self.fetch(replica, self.quorum.log.end_offset, self.quorum.log.last_epoch, **changes)

    def add(self, node_id: int, timeout: int = 1_000, **changes: Any) -> list[Any]:
        fields = {
            "cluster_id": CLUSTER_ID,
            "timeout": timeout,
            "voter_id": node_id,
            "voter_directory_id": directory_id(node_id),
            "listeners": [{"name": "PLAINTEXT", "host": "h", "port": 9000 + node_id}],
        }
        return self.handle(ADD_RAFT_VOTER, fields | changes)

    def remove(self, node_id: int) -> list[Any]:
        fields = {"cluster_id": CLUSTER_ID, "voter_id": node_id, "voter_directory_id": directory_id(node_id)}
        return self.handle(REMOVE_RAFT_VOTER, fields)

    # what others answer

    def grant(self, request: Sent, *, granted: bool = True, epoch: int | None = None, leader: int = -1) -> None:
        """Answer a request for a vote."""
        partition = {
            "partition_index": 0,
            "error_code": 0,
            "leader_id": leader,
            "leader_epoch": request.partition["replica_epoch"] if epoch is None else epoch,
            "vote_granted": granted,
        }
        fields = {
            "error_code": 0,
            "topics": [{"topic_name": METADATA_TOPIC, "partitions": [partition]}],
            "node_endpoints": [] if leader < 0 else [{"node_id": leader, "host": "h", "port": 9000 + leader}],
        }
        request.done(decoded(VOTE, fields))

    def send_records(self, request: Sent, records: bytes = b"", high_watermark: int = 0, **more: Any) -> None:
        """Answer a fetch as the leader."""
        partition = {
            "partition_index": 0,
            "error_code": 0,
            "high_watermark": high_watermark,
            "last_stable_offset": high_watermark,
            "log_start_offset": 0,
            "current_leader": {"leader_id": request.address.node_id, "leader_epoch": self.quorum.epoch},
            "aborted_transactions": None,
            "records": records,
        } | more
        fields = {
            "error_code": 0,
            "session_id": 0,
            "responses": [{"topic_id": METADATA_TOPIC_ID, "partitions": [partition]}],
            "node_endpoints": [],
        }
        request.done(decoded(FETCH, fields))

    def send_snapshot(self, request: Sent, data: bytes) -> None:
        """Answer a FetchSnapshot with the whole rest."""
        asked = request.partition
        partition = {
            "index": 0,
            "error_code": 0,
            "snapshot_id": asked["snapshot_id"],
            "current_leader": {"leader_id": request.address.node_id, "leader_epoch": self.quorum.epoch},
            "size": len(data),
            "position": asked["position"],
            "unaligned_records": data[asked["position"] :],
        }
        topics = [{"name": METADATA_TOPIC, "partitions": [partition]}]
        request.done(decoded(FETCH_SNAPSHOT, {"error_code": 0, "topics": topics, "node_endpoints": []}))

    # states

    def start(self) -> Node:
        """Start, and run the jobs of that; the only voter of a quorum leads it then."""
        self.quorum.start()
        self.run_jobs()
        return self

    def follow(self, leader: int, epoch: int) -> None:
        """Follow a leader that begins its epoch."""
        self.quorum.start()
        self.sent.clear()
        self.begin(leader, epoch)
        self.run_jobs()
        assert self.quorum.role is Role.FOLLOWER

    def become_leader(self, *followers: int) -> None:
        """Win an election by the votes of `followers`, commit the epoch's first record, and get ready."""
        if self.quorum.role is Role.UNATTACHED and not self.quorum.epoch:
            self.quorum.start()
        for _ in range(6_000):
            if self.quorum.role is Role.LEADER:
                break
            for request in self.take(VOTE):
                if request.address.node_id in followers:
                    self.grant(request)
            self.run_jobs()
            self.advance(1)
        assert self.quorum.role is Role.LEADER
        self.run_jobs()
        self.commit(*followers)

    def commit(self, *followers: int) -> None:
        """These replicas fetch everything, until all of it is committed."""
        for _ in range(4):
            self.run_jobs()
            for node_id in followers:
                self.fetch_all(node_id, max_wait=0)
            self.run_jobs()


def about(partition: dict[str, Any]) -> dict[str, Any]:
    return {"cluster_id": CLUSTER_ID, "topics": [{"topic_name": METADATA_TOPIC, "partitions": [partition]}]}


def decoded(api_key: int, fields: dict[str, Any]) -> Any:
    frame = b"".join(map(bytes, encode_response(api_key, VERSIONS[api_key], 1, fields)))
    return decode_response(api_key, VERSIONS[api_key], frame[4:])


def partition_of(response: Any) -> Any:
    topics = response.responses if hasattr(response, "responses") else response.topics
    return topics[0].partitions[0]


def command(script: str = "alloc_pid", **arguments: Any) -> bytes:
    return command_batch(StoreRequest(script, arguments), VolatileState(), 1)


def log_bytes(*epochs: int, start: int = 0) -> bytes:
    """The batches of a leader's log: each epoch's first is the change of leader, the others are commands."""
    other = SimDisk()
    other.make_directory(DIRECTORY)
    log, last = RaftLog.open(other, DIRECTORY, 1), -1
    for epoch in epochs:
        batch = leader_change(2, voter_set(1, 2, 3), (), 1) if epoch != last else command()
        log.append(batch, epoch, 1)
        last = epoch
    return log.read(start)


@pytest.fixture
def node() -> Node:
    return Node()


@pytest.fixture
def leader() -> Node:
    node = Node()
    node.become_leader(2, 3)
    return node
