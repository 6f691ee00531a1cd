"""The state that the quorum replicates: the metadata store (`yak.metadata_store`), changed by committed commands alone.

A command is a store request with everything that its effect depends on: the leader's time, and the *soft facts*. Soft facts
are what brokers report with each heartbeat, and the controller's lease counter. They are no commands, since nothing but
liveness depends on them: the leader keeps them in memory, and every command carries those that held when it was appended.
So all replicas compute the same state. A heartbeat that changes more than soft facts is a command.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from yak.errors import FailStop, ProtocolViolation
from yak.ids import MetadataOffset, NodeId
from yak.metadata_store.scripts import execute, is_known
from yak.metadata_store.state import StoreState
from yak.ports.metadata_store import StoreOutcome, StoreRequest, TailedRecord
from yak.protocol.record_batch import HEADER_BYTES, iterate_headers
from yak.protocol.record_walk import walk_records
from yak.protocol.record_writer import build_batch
from yak.quorum.control_records import ControlType, read_control, snapshot_footer, snapshot_header
from yak.quorum.voters import VoterSet

UNCOMMITTED: Final = frozenset({"verify", "report_hw"})
"""Scripts that change nothing which another script reads: they run on the leader alone."""
NOT_IN_A_QUORUM: Final = "seed_"
"""The scripts of a restore: a quorum restores nothing from the brokers' copies."""
_ACTIVE: Final = ("ACTIVE", "STOPPING")
_SNAPSHOT_RECORDS_PER_BATCH: Final = 500
_EPOCH_COUNTS: Final = 1 << 20
"""Counters of a new leader begin above all that an earlier leader can have reached."""


@dataclass(slots=True)
class VolatileState:
    """What the leader knows from heartbeats: reported to a next leader within a heartbeat interval.

    The next leader must know `persisted` also of a broker that died, so a command carries it within about a second.
    """

    lease_renewals: int = 0
    """`lease_n` of the store."""
    brokers: dict[NodeId, tuple[int, int, MetadataOffset, bool]] = field(default_factory=dict)
    """Node -> (broker epoch, heartbeats, newest metadata offset on its disk, whether its disks are full)."""

    @property
    def persisted(self) -> dict[NodeId, MetadataOffset]:
        """The newest metadata offset on each broker's disk."""
        return {node_id: offset for node_id, (_epoch, _heartbeats, offset, _is_full) in self.brokers.items()}

    def as_json(self) -> list[Any]:
        """The facts for a command."""
        return [self.lease_renewals, {str(node_id): list(fact) for node_id, fact in self.brokers.items()}]

    @classmethod
    def from_json(cls, data: list[Any]) -> VolatileState:
        """The facts of a command."""
        return cls(data[0], {int(node_id): tuple(fact) for node_id, fact in data[1].items()})

    @classmethod
    def of_state(cls, state: StoreState) -> VolatileState:
        """The facts that a state holds since its last command."""
        return cls(
            state.cluster.get("lease_n", 0),
            {
                node_id: (
                    broker["broker_epoch"],
                    state.heartbeats.get(node_id, 0),
                    broker["persisted"],
                    node_id in state.full,
                )
                for node_id, broker in state.brokers.items()
            },
        )

    def install(self, state: StoreState) -> None:
        """Make these the facts that the next script sees.

        Of an earlier incarnation of a broker only the metadata on its disk count, until the present one reports its own:
        a command that was appended before a registration was applied has no facts of the new incarnation yet.
        """
        if not state.cluster:
            return
        state.cluster["lease_n"] = self.lease_renewals
        for node_id, broker in state.brokers.items():
            epoch, heartbeats, persisted, is_full = self.brokers.get(node_id, (0, 0, 0, False))
            is_current = epoch == broker["broker_epoch"]
            broker["persisted"] = persisted
            is_open = broker["state"] != "CLOSED"
            if is_open:
                state.heartbeats[node_id] = heartbeats
            if is_open and is_current and is_full:
                state.full[node_id] = None
            else:
                state.full.pop(node_id, None)

    def follow(self, state: StoreState) -> None:
        """Take the metadata on the disk of an incarnation as those of the next one, until that one reports."""
        for node_id, (epoch, heartbeats, persisted, _is_full) in self.brokers.items():
            broker = state.brokers.get(node_id)
            if broker is not None and broker["broker_epoch"] != epoch:
                self.brokers[node_id] = (broker["broker_epoch"], heartbeats, persisted, False)


class StateMachine:
    """The replicated state of one node."""

    def __init__(self) -> None:
        self.state = StoreState()
        self.time_ms = 0
        """The time of the newest command: it does not go back when another node leads, whose clock is behind."""

    def restore(self, other: StateMachine) -> None:
        """Take the state of a snapshot."""
        self.state, self.time_ms = other.state, other.time_ms

    def apply(self, value: bytes) -> StoreOutcome:
        """Execute a committed command. The same commands in the same order lead to the same state on every node.

        Raises FailStop for a command of a newer YAK: without it this node's metadata would differ from the others'.
        """
        command = json.loads(value)
        if not is_known(command["script"]):
            raise FailStop(f"a command of a newer YAK in the metadata quorum's log, {str(command['script'])[:40]}")
        VolatileState.from_json(command["facts"]).install(self.state)
        self.time_ms = max(self.time_ms, command["t"])
        request = StoreRequest(command["script"], command["args"], command["offset"], command["hash"])
        return execute(self.state, request, command["t"])

    def execute_on_leader(self, request: StoreRequest, facts: VolatileState, now_ms: int) -> StoreOutcome:
        """Execute a request that needs no command; `facts` are the leader's, and get what a heartbeat reports."""
        facts.install(self.state)
        outcome = execute(self.state, request, now_ms)
        if request.script == "heartbeat" and outcome.code == "OK":
            reported = VolatileState.of_state(self.state)
            facts.lease_renewals = reported.lease_renewals
            facts.brokers = reported.brokers
        return outcome

    def needs_command(self, request: StoreRequest) -> bool:
        """Whether a request changes more than soft facts.

        The first heartbeat of an unfenced broker with its registration on disk records that this incarnation acts
        (`yak.metadata_store.controller.note_acted`): no later one may take it for one that never did.
        """
        if request.script in UNCOMMITTED:
            return False
        if request.script == "external_broker":
            return "external_id" in request.arguments
        if request.script != "heartbeat":
            return True
        arguments = request.arguments
        broker = self.state.brokers.get(arguments["node_id"])  # type: ignore[call-overload]
        return (
            broker is not None
            and broker["broker_epoch"] == arguments["broker_epoch"] != broker["acted_epoch"]
            and broker["state"] in _ACTIVE
            and arguments["persisted"] >= broker["broker_epoch"]
        )


def command_batch(request: StoreRequest, facts: VolatileState, now_ms: int) -> bytes:
    """The batch of one command. Times are the leader's: the scripts compare them only with each other."""
    value = {
        "script": request.script,
        "args": request.arguments,
        "offset": request.known_offset,
        "hash": request.known_hash,
        "t": now_ms,
        "facts": facts.as_json(),
    }
    return build_batch([(None, json.dumps(value, separators=(",", ":")).encode())], now_ms)


def value_of(batch: bytes) -> bytes:
    """The command in a batch of the log."""
    for record in walk_records(batch):
        return bytes(record.value or b"")
    raise AssertionError("a batch has a record")


def facts_of_new_leader(state: StoreState, epoch: int) -> VolatileState:
    """The facts with which a leader begins. Every counter moves, so that each observer begins to wait again.

    Counters that stood still since the last command must not make a live broker look dead.
    """
    facts = VolatileState.of_state(state)
    facts.lease_renewals = max(facts.lease_renewals + 1, epoch * _EPOCH_COUNTS)
    facts.brokers = {
        node_id: (broker_epoch, max(heartbeats + 1, epoch * _EPOCH_COUNTS), persisted, is_full)
        for node_id, (broker_epoch, heartbeats, persisted, is_full) in facts.brokers.items()
    }
    return facts


# --------------------------------------------------------------------------------------------------------- snapshots


def write_snapshot(machine: StateMachine, voters: VoterSet, timestamp_ms: int) -> bytes:
    """A snapshot's file: a control batch with the voters, one JSON record for each object, and a footer (KIP-630)."""
    batches = [snapshot_header(timestamp_ms, voters)]
    values = [json.dumps(piece, separators=(",", ":")).encode() for piece in _pieces(machine)]
    for start in range(0, len(values), _SNAPSHOT_RECORDS_PER_BATCH):
        some = values[start : start + _SNAPSHOT_RECORDS_PER_BATCH]
        batches.append(build_batch([(None, value) for value in some], timestamp_ms))
    return b"".join([*batches, snapshot_footer(timestamp_ms)])


def read_snapshot(data: bytes) -> tuple[StateMachine, VoterSet]:
    """The state and the voters of a snapshot. Raises ProtocolViolation when it is incomplete or damaged."""
    machine, voters, is_complete = StateMachine(), None, False
    for position, header in iterate_headers(memoryview(data)):
        batch = data[position : position + header.size_bytes]
        if header.is_control:
            for kind, value in read_control(batch):
                if kind == ControlType.KRAFT_VOTERS:
                    voters = VoterSet.decode(value)
                is_complete = kind == ControlType.SNAPSHOT_FOOTER
        else:
            assert len(batch) > HEADER_BYTES
            for record in walk_records(batch):
                _take_piece(machine, json.loads(bytes(record.value or b"null")))
    if voters is None or not is_complete:
        raise ProtocolViolation("the snapshot of the metadata quorum is incomplete")
    return machine, voters


def _pieces(machine: StateMachine) -> Iterator[list[Any]]:
    state = machine.state
    yield ["time", machine.time_ms]
    yield ["cluster", state.cluster]
    yield ["secret", state.secret]
    for node_id, broker in state.brokers.items():
        yield ["broker", node_id, broker, state.heartbeats.get(node_id), node_id in state.full]
    for node_id in state.unregistered:
        yield ["unregistered", node_id]
    for topic_id, topic in state.topics.items():
        yield ["topic", topic_id, topic]
    for (topic_id, number), partition in state.partitions.items():
        yield ["partition", topic_id, number, partition]
    for name, configs in state.configs.items():
        yield ["configs", name, configs]
    for node_id, entry in state.external_brokers.items():
        yield ["external", node_id, entry]
    if state.snapshot is not None:
        yield ["snapshot", asdict(state.snapshot)]
    for record in state.log:
        yield ["record", asdict(record)]


def _take_piece(machine: StateMachine, piece: list[Any]) -> None:
    state = machine.state
    match piece:
        case ["time", time_ms]:
            machine.time_ms = time_ms
        case ["cluster", fields]:
            state.cluster = fields
        case ["secret", secret]:
            state.secret = secret
        case ["broker", node_id, fields, heartbeats, is_full]:
            state.brokers[node_id] = fields
            if heartbeats is not None:
                state.heartbeats[node_id] = heartbeats
            if is_full:
                state.full[node_id] = None
        case ["unregistered", node_id]:
            state.unregistered[node_id] = True
        case ["topic", topic_id, fields]:
            state.topics[topic_id] = fields
            state.topic_ids[fields["name"]] = topic_id
        case ["partition", topic_id, number, fields]:
            state.partitions[topic_id, number] = fields
        case ["configs", name, configs]:
            state.configs[name] = configs
        case ["external", node_id, entry]:
            state.external_brokers[node_id] = entry
        case ["snapshot", fields]:
            state.snapshot = TailedRecord(**fields)
        case ["record", fields]:
            state.log.append(TailedRecord(**fields))
        case _:
            raise ProtocolViolation(f"a snapshot of the metadata quorum has an unknown record {str(piece)[:40]}")
