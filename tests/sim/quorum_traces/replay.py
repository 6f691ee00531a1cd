"""Replays a trace on three nodes with the real Quorum, and compares each state. README.md says what is not compared.

    .venv/bin/python -m tests.sim.quorum_traces.replay FILE

replays all traces of a file, and prints those that differ.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Hashable
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

from tests.sim.quorum_traces.trace import Step
from tests.unit.quorum.conftest import Node, Sent, partition_of
from yak.errors import ErrorCode, FailStop
from yak.protocol.versions import FETCH
from yak.quorum import follower_fetches
from yak.quorum.quorum import Quorum, Role
from yak.quorum.state_machine import value_of
from yak.quorum.transport import BEGIN_QUORUM_EPOCH, VOTE
from yak.sim.seeded_random import SeededRandom

SERVERS: Final = (1, 2, 3)
_ROLES: Final = {
    "L": {Role.LEADER},
    "C": {Role.CANDIDATE},
    "P": {Role.PROSPECTIVE},
    "F": {Role.FOLLOWER},
    # after a pre-vote that failed, YAK waits for the next one as a prospective
    "U": {Role.UNATTACHED, Role.PROSPECTIVE},
    # a leader that resigned
    "R": {Role.UNATTACHED},
}
_ERRORS: Final = {
    None: ErrorCode.none,
    "FencedLeaderEpoch": ErrorCode.fenced_leader_epoch,
    "NotLeader": ErrorCode.not_leader_or_follower,
    "UnknownLeader": ErrorCode.unknown_leader_epoch,
}
_LOOKING: Final = {Role.UNATTACHED, Role.PROSPECTIVE}
"""A node that has lost the leader which the specification still names."""
_STRANGER: Final = 2_000
Key = tuple[Any, ...]


class Mismatch(AssertionError):
    """YAK and the specification differ."""


class Replay:
    """Three nodes, and the messages between them, which are delivered when the trace says so."""

    def __init__(self) -> None:
        self.specified = {
            server: {
                "role": "L" if server == 1 else "F",
                "epoch": 1,
                "vote": None,
                "leader": 1,
                "hwm": 1,
                "log": "1",
                "refused": False,
                "attached": True,
            }
            for server in SERVERS
        }
        self.committed = dict.fromkeys(SERVERS, 1)
        """The specification's high watermark, as YAK has it: a follower's does not fall with a new leader's."""
        self._restarted: set[int] = set()
        """Candidates of the specification that have restarted, and are none in YAK."""
        self.responses: dict[Key, tuple[Callable[[], None], int | None]] = {}
        """Responses on their way, and the high watermark that a follower takes from each."""
        self.leaders: dict[int, int] = {1: 1}
        self.votes: dict[tuple[int, int], int] = {}
        """(node, epoch) -> its vote, over all restarts."""
        self.history: list[str] = ["1"]
        """The committed log, as first seen on any node of YAK."""
        self.epochs = dict.fromkeys(SERVERS, 1)
        self.nodes = {server: Node(server, creates_cluster=False, seed=server) for server in SERVERS}
        self.requests: dict[Key, Sent] = {}
        self._held: dict[Key, Sent] = {}
        """Fetches that YAK has sent, as soon as it could, and the specification not yet."""
        self._begin()

    # ------------------------------------------------------------------------------------------- the nodes

    def _begin(self) -> None:
        """Node 1 leads epoch 1, and its first record is committed everywhere."""
        for server in SERVERS:
            self.nodes[server].quorum.start()
        self._fire(1, "election")
        for key in (("vote", 1, 2, True, 0, -1, 0), ("vote", 1, 2, False, 1, -1, 0)):
            self._answer(key)[1]()
            self._settle()
        for server in (2, 3):
            self._answer(("begin", 1, server, 1))
            for key in (("fetch", server, 1, 1, 0, -1), ("fetch", server, 1, 1, 1, 1)):
                self.requests[key] = self._held.pop(key)
                self._answer(key)[1]()
                self._settle()
        self.requests.clear()
        self._compare(None)

    def _settle(self) -> None:
        """Run the jobs: disks are fast. Then take what was sent."""
        for server, node in self.nodes.items():
            node.run_jobs()
            for sent in node.sent:
                key = _key(server, sent)
                (self._held if key[0] == "fetch" else self.requests)[key] = sent
            node.sent.clear()

    def _fire(self, server: int, timer: str) -> None:
        node = self.nodes[server]
        self._run_timer(node, (node.quorum, timer))

    def _run_timer(self, node: Node, key: Hashable) -> None:
        armed = node.timers._armed  # this one, whatever is due before it
        if key not in armed:
            raise Mismatch(f"node {node.quorum.config.node_id} has no timer {key[-1]}")
        due_ms, _number, action = armed.pop(key)
        node.clock.now_ms = max(node.clock.now_ms, due_ms)
        action()
        self._settle()

    def _answer(self, key: Key) -> tuple[Any, Callable[[], None]]:
        """Deliver a request; returns the response, and what delivers it."""
        sent = self.requests.pop(key, None)
        if sent is None:
            raise Mismatch(f"node {key[1]} has not sent {key}, but {sorted(map(str, self.requests))}")
        node = self.nodes[key[2]]
        found = node.handle(sent.api_key, sent.fields)
        self._settle()
        if not found and key[0] == "fetch":
            # nothing new: the specification answers at once, YAK when the fetch has waited
            parked = [each for each in node.timers._armed if each[1:] == ("delayed fetch", key[1])]
            for timer in parked:
                self._run_timer(node, timer)
        if not found:
            raise Mismatch(f"node {key[2]} does not answer {key}")
        return found[0], lambda: sent.done(found[0])

    # ------------------------------------------------------------------------------------------- steps

    def run(self, steps: list[Step]) -> None:
        """Take all steps. Raises Mismatch."""
        actions: dict[str, Callable[[Step], None]] = {
            "HandleVoteRequest": self._vote,
            "HandleVoteResponse": self._take_vote,
            "AcceptBeginQuorumRequest": self._begin_epoch,
            "ResendBeginQuorumEpochRequest": lambda step: self._fire(step.server, "begin"),
            "SendFetchRequest": self._send_fetch,
            "AcceptFetchRequest": self._fetch,
            "DivergingFetchRequest": self._fetch,
            "RejectFetchRequest": self._fetch,
            "HandleFetchResponse": self._take_fetched,
            "HandleClientRequest": self._append,
            "VoterFetchTimeout": self._time_out,
            "VoterElectionTimeout": lambda step: self._fire(step.server, "election"),
            "CheckQuorumResign": self._resign,
            "RestartWithState": self._restart,
            # the response that decided has done it already
            "ConcludePreVote": lambda _step: None,
            "BecomeLeader": lambda _step: None,
            # messages that are lost are those that no step delivers
            "ChangeNetworkConnectivity": lambda _step: None,
        }
        for number, (step, following) in enumerate(zip(steps, [*steps[1:], None], strict=True)):
            wins = (
                following is not None
                and following.server == step.server
                and following.changes.get(step.server, {}).get("role") in ("C", "L")
            )
            try:
                self._specify(step)
                actions[step.action](step)
                self._settle()
                self._compare(step.server if wins else None)
            except Mismatch as mismatch:
                raise Mismatch(f"step {number}, {step.encode()}: {mismatch}") from None
            except FailStop as stop:
                raise Mismatch(f"step {number}, {step.encode()}: a node stops itself, {stop}") from stop

    def _specify(self, step: Step) -> None:
        """Take the step in the specification's state."""
        self._before = {server: dict(state) for server, state in self.specified.items()}
        for server, changed in step.changes.items():
            self.specified[server].update(changed)
            if "role" in changed:
                self._restarted.discard(server)
        for server, state in self.specified.items():
            if state["role"] == "L":
                self.committed[server] = max(self.committed[server], state["hwm"])

    def _vote(self, step: Step) -> None:
        request, said = step.message, step.answer
        key = _vote_key(step.peer, step.server, request)
        response, deliver = self._answer(key)
        found = partition_of(response)
        self._same("error", _ERRORS[said["error"]], found.error_code)
        self._same("vote_granted", said["vote_granted"], bool(found.vote_granted))
        self._same("leader_epoch", said["replica_epoch"], found.leader_epoch)
        self._same("leader_id", _named(said), found.leader_id)
        self.responses[_voted_key(step.peer, step.server, request["pre_vote"], said)] = deliver, None

    def _take_vote(self, step: Step) -> None:
        self._deliver(_voted_key(step.server, step.peer, step.message["pre_vote"], step.message))

    def _deliver(self, key: Key) -> int | None:
        if key not in self.responses:
            raise Mismatch(f"no node has answered {key}")
        deliver, high_watermark = self.responses.pop(key)
        deliver()
        return high_watermark

    def _begin_epoch(self, step: Step) -> None:
        self._answer(("begin", step.peer, step.server, step.message["replica_epoch"]))

    def _send_fetch(self, step: Step) -> None:
        """YAK has sent its fetch, unless an error came before it, or the leader is unknown."""
        if not step.message["sent"]:
            return
        quorum, state = self.nodes[step.server].quorum, self.specified[step.server]
        if not self._before[step.server]["attached"]:
            # the pre-vote that the leader refuses
            self._fire(step.server, "election")
            request = {"pre_vote": True, "replica_epoch": state["epoch"], **_log_end(state["log"])}
            self._answer(_vote_key(step.server, step.peer, request))[1]()
            self._settle()
        key = ("fetch", step.server, step.peer, quorum.epoch, quorum.log.end_offset, quorum.log.last_epoch)
        if key not in self._held:
            self._fire(step.server, "retry")
        if key not in self._held:
            raise Mismatch(f"node {step.server} does not fetch")
        self.requests[key] = self._held.pop(key)

    def _fetch(self, step: Step) -> None:
        said, leader = step.answer, self.nodes[step.server].quorum
        key = _fetch_key(step.peer, step.server, step.message)
        response, deliver = self._answer(key)
        found, offset = partition_of(response), key[-2]
        self._same("error", _ERRORS[said.get("error")], found.error_code)
        self._same("leader_epoch", said["replica_epoch"], found.current_leader.leader_epoch)
        self._same("leader_id", _named(said), found.current_leader.leader_id)
        diverging, records = (-1, -1), b""
        high_watermark = None
        if step.action == "DivergingFetchRequest":
            diverging = said["diverging_epoch"], said["diverging_end_offset"] - 1
        elif step.action == "AcceptFetchRequest":
            high_watermark = min(self.committed[step.server], offset + 1)
            self._same("high watermark", high_watermark, min(found.high_watermark, offset + 1))
            records = leader.log.read(offset, 1) if said["entries"] else b""
        self._same("diverging epoch", diverging, (found.diverging_epoch.epoch, found.diverging_epoch.end_offset))
        self._same("records", records, bytes(found.records or b""))
        self.responses[key] = deliver, high_watermark

    def _take_fetched(self, step: Step) -> None:
        high_watermark = self._deliver(_fetch_key(step.server, step.peer, step.message))
        if high_watermark is not None:
            self.committed[step.server] = max(self.committed[step.server], high_watermark)

    def _append(self, step: Step) -> None:
        self.nodes[step.server].propose("alloc_pid", node_id=_STRANGER, broker_epoch=0, operation=step.message["value"])

    def _time_out(self, step: Step) -> None:
        is_attached = self._before[step.server]["attached"]
        self._fire(step.server, "fetch" if is_attached else "election")

    def _resign(self, step: Step) -> None:
        node = self.nodes[step.server]
        node.clock.now_ms += 10 * node.quorum.config.fetch_timeout_ms
        self._fire(step.server, "leader")

    def _restart(self, step: Step) -> None:
        """The machine loses power: what was not synced is lost."""
        server = step.server
        disk = self.nodes[server].disk
        disk.crash(SeededRandom(server))
        self.nodes[server] = Node(server, disk=disk, creates_cluster=False, seed=server)
        self.nodes[server].quorum.start()
        self.committed[server] = 0
        if self.specified[server]["role"] == "C":
            self._restarted.add(server)

    # ------------------------------------------------------------------------------------------- comparison

    def _same(self, what: str, expected: Any, found: Any) -> None:
        if expected != found:
            raise Mismatch(f"{what}: the specification has {expected}, YAK {found}")

    def _compare(self, undecided: int | None) -> None:
        """Compare all nodes. `undecided` has counted the votes in YAK, and not yet in the trace."""
        for server, node in self.nodes.items():
            self._check_safety(server, node.quorum)
            if server != undecided:
                self._compare_node(server, node.quorum)

    def _compare_node(self, server: int, quorum: Quorum) -> None:
        state = self.specified[server]
        is_lost = state["role"] == "F" and not state["attached"]
        roles = _LOOKING if is_lost else _ROLES[state["role"]]
        if state["role"] == "P" and state["refused"]:
            roles = {Role.FOLLOWER}
        if server in self._restarted:
            roles = {Role.UNATTACHED}
        if quorum.role not in roles:
            raise Mismatch(f"node {server} is {quorum.role}, the specification has {state['role']}")
        self._same(f"epoch of {server}", state["epoch"], quorum.epoch)
        self._same(f"log of {server}", state["log"], _text(quorum))
        self._same(f"high watermark of {server}", self.committed[server], quorum.high_watermark)
        if quorum.high_watermark < state["hwm"]:
            raise Mismatch(f"node {server} has high watermark {quorum.high_watermark}, not {state['hwm']}")
        leader = state["leader"] if quorum.role in (Role.LEADER, Role.FOLLOWER) else -1
        self._same(f"leader of {server}", leader, quorum.leader_id)
        vote = _vote_of(quorum)
        if state["vote"] is not None:
            self._same(f"vote of {server}", state["vote"], vote)
        elif state["role"] in ("L", "R"):
            self._same(f"vote of {server}", server, vote)
        elif state["epoch"] > 1:
            self._same(f"vote of {server}", -1, vote)

    def _check_safety(self, server: int, quorum: Quorum) -> None:
        """What holds whatever the trace says."""
        if quorum.epoch < self.epochs[server]:
            raise Mismatch(f"node {server} is in epoch {quorum.epoch}, and was in {self.epochs[server]}")
        self.epochs[server] = quorum.epoch
        if quorum.role is Role.LEADER and self.leaders.setdefault(quorum.epoch, server) != server:
            raise Mismatch(f"nodes {server} and {self.leaders[quorum.epoch]} lead epoch {quorum.epoch}")
        vote = _vote_of(quorum)
        if vote != -1 and self.votes.setdefault((server, quorum.epoch), vote) != vote:
            raise Mismatch(f"node {server} votes twice in epoch {quorum.epoch}")
        if vote == -1 and (server, quorum.epoch) in self.votes:
            raise Mismatch(f"node {server} forgets its vote in epoch {quorum.epoch}")
        committed = _text(quorum).split(".")[: quorum.high_watermark]
        self._same(f"committed log of {server}", self.history[: len(committed)], committed[: len(self.history)])
        self.history += committed[len(self.history) :]


def _vote_of(quorum: Quorum) -> int:
    return quorum._election.state.voted_id


def _text(quorum: Quorum) -> str:
    """The log as a trace has it."""
    found = []
    for entry in quorum.log.entries(0, quorum.log.end_offset):
        value = "" if entry.is_control else json.loads(value_of(entry.batch))["args"]["operation"]
        found.append(f"{entry.epoch}{value}")
    return ".".join(found)


def _named(said: dict[str, Any]) -> int:
    return -1 if said["leader"] is None or said["unnamed"] else said["leader"]


def _log_end(log: str) -> dict[str, int]:
    entries = log.split(".")
    return {"last_log_epoch": int(entries[-1].split("v")[0]), "last_log_offset": len(entries)}


def _key(server: int, sent: Sent) -> Key:
    partition, peer = sent.partition, sent.address.node_id
    if sent.api_key == VOTE:
        names = ("pre_vote", "replica_epoch", "last_offset_epoch", "last_offset")
        return ("vote", server, peer, *(partition[name] for name in names))
    if sent.api_key == BEGIN_QUORUM_EPOCH:
        return ("begin", server, peer, partition["leader_epoch"])
    assert sent.api_key == FETCH
    names = ("current_leader_epoch", "fetch_offset", "last_fetched_epoch")
    return ("fetch", server, peer, *(partition[name] for name in names))


def _vote_key(candidate: int, voter: int, request: dict[str, Any]) -> Key:
    names = ("pre_vote", "replica_epoch", "last_log_epoch", "last_log_offset")
    return ("vote", candidate, voter, *(request[name] for name in names))


def _voted_key(candidate: int, voter: int, pre_vote: bool, said: dict[str, Any]) -> Key:
    return (
        "voted",
        candidate,
        voter,
        pre_vote,
        said["replica_epoch"],
        said["vote_granted"],
        said["leader"],
        said["error"],
    )


def _fetch_key(follower: int, leader: int, request: dict[str, Any]) -> Key:
    """The specification counts offsets from 1."""
    return (
        "fetch",
        follower,
        leader,
        request["replica_epoch"],
        request["fetch_offset"] - 1,
        request["last_fetched_epoch"],
    )


def replay(steps: list[Step]) -> None:
    """Replay one trace. Raises Mismatch."""
    # a response has one batch, as the specification's has one entry
    with patch.object(follower_fetches, "PIECE_BYTES", 1):
        Replay().run(steps)


def main(file: str) -> None:
    """Replay all traces of a file."""
    traces = [[Step.decode(line) for line in lines] for lines in json.loads(Path(file).read_text())]
    differing = 0
    for number, steps in enumerate(traces):
        try:
            replay(steps)
        except Mismatch as mismatch:
            differing += 1
            print(f"trace {number}, {mismatch}")
    print(f"{len(traces)} traces, {sum(map(len, traces))} steps; {differing} traces differ")


if __name__ == "__main__":
    main(*sys.argv[1:])
