"""The brokers' side: one client on each node, which calls the metadata store through the quorum's leader.

A client is a part of its node's process, and ends with it. Its answers are checked against what was acknowledged before.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from yak.errors import ErrorCode
from yak.ids import NodeId
from yak.ports.metadata_store import StoreOutcome, StoreRequest
from yak.quorum.state_machine import UNCOMMITTED
from yak.quorum.store import decode_outcome, encode_request
from yak.quorum.transport import ENVELOPE, VERSIONS_SENT, Address
from yak.sim.quorum.checks import Checks
from yak.sim.quorum.network import Requests
from yak.sim.quorum.node import EPOCH_BYTES
from yak.sim.seeded_random import SeededRandom
from yak.sim.world import World

if TYPE_CHECKING:
    from yak.sim.quorum.node import QuorumNode

TOPICS: Final = ("t1", "t2", "t3")
_READS: Final = (*UNCOMMITTED, "heartbeat")


@dataclass(slots=True)
class SharedClientState:
    """What the clients know of each other's work."""

    topic_ids: dict[str, str]
    """Name -> id of the newest topic of that name."""
    broker_epochs: dict[NodeId, int] = field(default_factory=dict)
    """Each broker's newest registration."""
    operations_count: int = 0


class Caller:
    """Sends store requests, and checks their answers."""

    def __init__(self, requests: Requests, checks: Checks, shared: SharedClientState, counts: dict[str, int]) -> None:
        self._requests, self._checks, self._shared, self._counts = requests, checks, shared, counts

    def call(self, node: QuorumNode, request: StoreRequest, done: Callable[[StoreOutcome | None], None]) -> None:
        """Send a request to a node; `done` gets its outcome, or None if that is unknown."""
        self._shared.operations_count += 1
        operation = f"o{self._shared.operations_count}"
        request = StoreRequest(
            request.script, {**request.arguments, "operation": operation}, request.known_offset, request.known_hash
        )
        floor, newest = self._checks.linearizable_reads.acknowledged_offset, self._checks.newest_epoch
        renewals = self._checks.renewals_monotonic.seen
        self._counts["calls"] += 1

        def answered(response: Any | None) -> None:
            if response is None or response.error_code != ErrorCode.none:
                self._counts["calls without an answer"] += 1
                done(None)
                return
            outcome = decode_outcome(response.response_data[EPOCH_BYTES:])
            epoch = int.from_bytes(response.response_data[:EPOCH_BYTES], "big")
            what = f"{request.script} {operation} at node {node.node_id}"
            self._checks.linearizable_reads.answered(what, floor, outcome)
            self._checks.renewals_monotonic.answered(what, renewals, outcome)
            self._checks.deposed_leader.answered(what, epoch, newest)
            if request.script not in _READS:
                self._checks.acknowledged_is_committed.acknowledged(operation, outcome)
            self._counts[f"answers {'OK' if outcome.code == 'OK' else 'refused'}"] += 1
            if request.script in _READS and outcome.code == "OK":
                self._counts["reads"] += 1
            done(outcome)

        address = Address(node.node_id, node.host, node.port)
        fields = {"request_data": encode_request(request), "request_principal": None, "client_host_address": b""}
        self._requests.send(address, ENVELOPE, VERSIONS_SENT[ENVELOPE], fields, answered)


class StoreClient:
    """One broker's calls, one after the other, with random arguments."""

    def __init__(
        self, world: World, rng: SeededRandom, node: QuorumNode, nodes: dict[NodeId, QuorumNode], caller: Caller,
        shared: SharedClientState, faults_ms: int, replacements: SeededRandom | None,
    ) -> None:  # fmt: skip
        """`replacements` draws disks of an earlier time and brokers to unregister, in runs that have these."""
        self._world, self._rng, self._node, self._nodes, self._caller = world, rng, node, nodes, caller
        self._shared, self._replacements = shared, replacements
        self._calls_left = rng.between(5, 70)
        # they last about as long as the faults
        self._pause_us = 2_000 * faults_ms // self._calls_left
        self._burst_percent = rng.choice((0, 30, 80))
        self._life = 0
        self._boot_id = ""
        self._broker_epoch = self._controller_epoch = 0
        self._is_active = False
        self._lease: tuple[int, int] = (0, 0)
        self._known: tuple[int, str] = (0, "")
        self._disk = (0, 0)
        """The newest metadata record and broker epoch that this process found on its disk."""
        self._backups = [self._disk]
        self._is_calling = False
        self.is_over = False
        node.on_restart, node.on_end = self._begin, self._end

    def _begin(self) -> None:
        self._life += 1
        self._boot_id = f"boot {self._node.node_id} {self._life}"
        self._take_disk()
        self._controller_epoch = 0
        self._is_calling = self._is_active = False
        self._later()

    def _take_disk(self) -> None:
        """Begin another incarnation on the disk of the last one, or in some runs on one of an earlier time."""
        newest, self._broker_epoch = max(self._disk[1], self._broker_epoch), 0
        self._disk = self._known[0], newest
        if self._replacements is not None:
            self._backups.append(self._disk)
            if self._replacements.chance(50):
                self._disk = self._replacements.choice(self._backups)

    def _end(self) -> None:
        self._life += 1

    def _later(self) -> None:
        life = self._life

        def call() -> None:
            if self._life == life and not self._is_calling and not self.is_over:
                self._call()

        self._world.after(self._rng.between(100, self._pause_us), call)

    def _deposed(self) -> QuorumNode | None:
        """A node that still leads, after the election of another leader."""
        leads = {
            node.quorum.epoch: node
            for node in self._nodes.values()
            if node.quorum is not None and node.quorum.leader is not None
        }
        return leads[min(leads)] if len(leads) > 1 else None

    def _target(self) -> QuorumNode:
        """The leader as this node knows it; sometimes any other node."""
        quorum, rng = self._node.quorum, self._rng
        leader = None if quorum is None else self._nodes.get(quorum.leader_id)
        return rng.choice(list(self._nodes.values())) if leader is None or rng.chance(5) else leader

    def _call(self) -> None:
        if self._node.is_paused:
            self._later()
            return
        self._calls_left -= 1
        if self._calls_left < 0:
            return
        if self._replacements is not None and self._replacements.chance(10):
            self._begin()  # another process, which registers
        life = self._life
        # several calls side by side, as those of a broker: only then a cut leader has a long tail to truncate
        self._is_calling = not self._rng.chance(self._burst_percent)
        if not self._is_calling:
            self._later()
        script, arguments = self._draw()
        target, deposed = self._target(), self._deposed()
        if deposed is not None and self._rng.chance(50):
            target = deposed
            if self._rng.chance(70):
                script = "verify"
        knows = self._rng.chance(40)
        request = StoreRequest(script, arguments, *(self._known if knows else (0, "")))

        def done(outcome: StoreOutcome | None) -> None:
            if self._life != life:
                return
            if outcome is not None:
                self._take(script, arguments, outcome)
            if self._is_calling:
                self._is_calling = False
                self._later()

        self._caller.call(target, request, done)
        if script == "register" and self._replacements is not None and self._replacements.chance(50):
            self._world.after(self._replacements.between(0, 2_000), lambda: self._register_again(life))

    def _register_again(self, life: int) -> None:
        """The process ended right after it had sent its registration, and the next one registers at once."""
        if self._life == life and not self.is_over:
            self._begin()
            self._call()

    # ---------------------------------------------------------------------------------------------------- requests

    def _draw(self) -> tuple[str, dict[str, Any]]:
        node_id, rng = self._node.node_id, self._rng
        base: dict[str, Any] = {
            "node_id": node_id,
            "broker_epoch": self._broker_epoch,
            "controller_epoch": self._controller_epoch,
        }
        if self._broker_epoch == 0 and rng.chance(90):
            named = {"boot_id": self._boot_id, "directories": f"d{node_id}", "host": "h", "port": 1, "rack": None}
            more = {"role": "any", "lossy": False, "secret": "s", "last_epoch": self._disk[1]}
            if self._replacements is not None:
                more["persisted"] = self._disk[0]
            return "register", base | named | more
        if self._replacements is not None and self._replacements.chance(5):
            target = self._replacements.choice(list(self._nodes))
            return "unregister", base | {"target_id": target, "target_epoch": self._shared.broker_epochs.get(target, 0)}
        draw = rng.below(100)
        if not self._is_active and rng.chance(60):
            # the way to an unfenced broker: registered on disk, a controller, unfenced by it
            draw = rng.choice((0, 45, 55, 55))
        if draw < 20:
            return "heartbeat", base | {"persisted": self._known[0], "is_full": rng.chance(10)}
        if draw < 40:
            return "verify", base
        if draw < 45:
            report = [[topic_id, 0, 0, rng.below(100), {"1": 5}] for topic_id in self._shared.topic_ids.values()]
            return "report_hw", base | {"partitions": report}
        if draw < 55:
            claim = {"claimed_epoch": self._lease[0], "claimed_renewals": self._lease[1]}
            return "acquire_lease", base | claim
        if draw < 65:
            target = self._node.node_id if rng.chance(50) else rng.choice(list(self._nodes))
            named = {"target_id": target, "target_epoch": self._shared.broker_epochs.get(target, 0)}
            script = "fence" if self._is_active and rng.chance(20) else "unfence"
            return script, base | named
        return self._draw_of_topics(base)

    def _draw_of_topics(self, base: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        rng, name = self._rng, self._rng.choice(TOPICS)
        topic_id = self._shared.topic_ids.get(name, "")
        item: dict[str, Any] = {"topic_id": topic_id, "partition": 0, "partition_epoch": rng.below(4)}
        match rng.below(6):
            case 0:
                topic_id = str(rng.uuid4())
                self._shared.topic_ids[name] = topic_id
                partitions = [{"partition": 0, "replicas": ",".join(map(str, self._nodes))}]
                more = {"total": 1, "partitions": partitions, "configs": {"retention.ms": "1"}}
                return "create_topic", base | {"name": name, "topic_id": topic_id} | more
            case 1:
                return "delete_topic", base | {"topic_id": topic_id}
            case 2:
                changes = [["retention.ms", str(rng.below(1000))], ["min.insync.replicas", str(rng.between(1, 2))]]
                named = {"resource_type": "topic", "resource_name": name, "replace": rng.chance(50)}
                return "alter_configs", base | named | {"changes": changes}
            case 3:
                item |= {"leader": rng.choice(list(self._nodes)), "unclean": rng.chance(20)}
                return "elect", base | {"partitions": [item]}
            case 4:
                isr = f"{self._node.node_id}@{self._broker_epoch}"
                item |= {"leader_epoch": rng.below(2), "isr": isr, "nonce": str(rng.below(1000)), "min_isr": 1}
                return "alter_isr", base | {"partitions": [item]}
        return "alloc_pid", base

    def _take(self, script: str, arguments: dict[str, Any], outcome: StoreOutcome) -> None:
        if outcome.code == "OK" and outcome.offset >= self._known[0]:
            self._known = outcome.offset, outcome.chain_hash
        elif outcome.code == "STALE_BROKER_EPOCH" and arguments["broker_epoch"] == self._broker_epoch:
            self._take_disk()
            self._is_active = False
            self._boot_id += "+"
        value: Any = outcome.value
        if script == "register" and outcome.code == "OK":
            self._broker_epoch = self._shared.broker_epochs[self._node.node_id] = value["broker_epoch"]
        elif script == "acquire_lease" and outcome.code == "OK":
            self._controller_epoch = value["controller_epoch"]
        elif script == "heartbeat" and outcome.code == "OK":
            self._is_active = value["state"] == "ACTIVE"
        if "lease_n" in value:
            self._lease = value["controller_epoch"], value["lease_n"]
