"""What the quorum has committed, as first seen on any node, and the state and outcomes that replaying it gives."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from yak.ids import Offset
from yak.metadata_store.state import StoreState
from yak.ports.metadata_store import StoreOutcome
from yak.quorum.control_records import ControlType, read_control
from yak.quorum.raft_log import Entry
from yak.quorum.state_machine import StateMachine, value_of
from yak.quorum.voters import VoterSet


class Reference:
    """The committed log, replayed on a state machine of its own."""

    def __init__(self, voters: VoterSet) -> None:
        self._machine = StateMachine()
        self.entries: list[Entry] = []
        """Each has one record, so the index is the offset."""
        self.voters = voters
        """The newest committed voters."""
        self.voters_at: list[VoterSet] = [voters]
        """By offset: the committed voters after everything below it."""
        self.digest_at: list[str] = [digest(StoreState())]
        """By offset: the digest of the state after everything below it."""
        self.whole_digest_at: list[str] = [whole_digest(StateMachine())]
        """The same with soft facts."""
        self.on_command: Callable[[str, dict[str, Any], StoreOutcome, StoreState], None] = lambda *_: None
        """Gets the script, arguments and outcome of each command, and the state after it."""
        self.operations: dict[str, tuple[Offset, StoreOutcome]] = {}
        """Client's operation -> where its command is, and its outcome."""

    @property
    def end_offset(self) -> Offset:
        """Everything below it is committed."""
        return len(self.entries)

    def commit(self, entry: Entry) -> str | None:
        """Append the next committed entry; returns the operation of its command."""
        assert entry.base_offset == self.end_offset
        assert entry.next_offset == entry.base_offset + 1
        self.entries.append(entry)
        operation = None
        if entry.is_control:
            for kind, value in read_control(entry.batch):
                if kind == ControlType.KRAFT_VOTERS:
                    self.voters = VoterSet.decode(value)
        else:
            value = value_of(entry.batch)
            outcome = self._machine.apply(value)
            command = json.loads(value)
            self.on_command(command["script"], command["args"], outcome, self._machine.state)
            operation = command["args"].get("operation")
            if operation is not None:
                self.operations[operation] = entry.base_offset, outcome
        self.voters_at.append(self.voters)
        self.digest_at.append(self.digest_at[-1] if entry.is_control else digest(self._machine.state))
        self.whole_digest_at.append(self.whole_digest_at[-1] if entry.is_control else whole_digest(self._machine))
        return operation


def digest(state: StoreState) -> str:
    """A digest of the replicated part of a state. The metadata log is part of it by its hash chain."""
    cluster = {name: value for name, value in state.cluster.items() if name != "lease_n"}
    brokers = {
        node_id: {name: value for name, value in broker.items() if name != "persisted"}
        for node_id, broker in state.brokers.items()
    }
    return _hash(
        [
            cluster,
            brokers,
            list(state.unregistered),
            state.secret,
            state.topic_ids,
            state.topics,
            [[*where, partition] for where, partition in state.partitions.items()],
            state.configs,
            len(state.log),
            state.log[0].offset if state.log else 0,
            state.snapshot.offset if state.snapshot is not None else -1,
        ]
    )


def whole_digest(machine: StateMachine) -> str:
    """A digest of everything that a snapshot has."""
    state = machine.state
    heartbeats = {node_id: count for node_id, count in state.heartbeats.items() if node_id in state.brokers}
    return _hash(
        [
            machine.time_ms,
            digest(state),
            state.cluster,
            list(state.brokers.items()),
            sorted(heartbeats.items()),
            sorted(state.full),
            [asdict(record) for record in state.log[-3:]],
            None if state.snapshot is None else asdict(state.snapshot),
        ]
    )


def _hash(value: Any) -> str:
    return hashlib.sha1(json.dumps(value).encode(), usedforsecurity=False).hexdigest()
