"""A broker's session with the metadata store: its ids, the calls in flight, and the collected outputs."""

from collections.abc import Callable
from typing import Any, Literal, TypeAlias

from yak.cluster.image import Image
from yak.cluster.outputs import CallStore, Notice, Output
from yak.ids import BrokerEpoch, ControllerEpoch, NodeId, Nonce
from yak.ports.metadata_store import StoreOutcome, StoreRequest

OnReply: TypeAlias = Callable[[StoreOutcome, int], None]
"""Called with the outcome and the time in ms."""

FREEZING_CODES = frozenset(
    {
        *("NO_CLUSTER", "WRONG_CLUSTER", "WRONG_INCARNATION", "SEEDING", "REGRESSED", "FORKED", "TRIMMED"),
        *("MIGRATING", "MOVED"),
    }
)
"""Refusals that say that the store does not hold this broker's history, or that the metadata move to another store."""

REFUSAL_REPEAT_MS = 60_000
"""A store without memory refuses each heartbeat: the same refusal is logged once in this time."""


class StoreSession:
    """The session; the parts of the broker lifecycle share it."""

    def __init__(self, node_id: NodeId, image: Image, next_nonce: Callable[[], Nonce]) -> None:
        self.node_id = node_id
        self.image = image
        self.cluster_id = image.cluster_id
        self.incarnation_id = image.incarnation_id
        self.broker_epoch: BrokerEpoch = 0
        """0 until registered."""
        self.registered_ms = 0
        """When it registered, by the broker's clock."""
        self.is_lossy = False
        """Whether the store recorded that this incarnation of the broker may have lost acknowledged data."""
        self.controller_epoch: ControllerEpoch = 0
        """0 unless this broker is the controller."""
        self._next_nonce = next_nonce
        self._in_flight: dict[Nonce, OnReply] = {}
        self._outputs: list[Output] = []
        self._refused_ms: dict[tuple[str, str], int] = {}
        """When each refusal was logged last."""

    def send(self, script: str, arguments: dict[str, object], on_reply: OnReply) -> None:
        """Call a script as this broker; the request names the newest record on its disk."""
        nonce = self._next_nonce()
        self._in_flight[nonce] = on_reply
        envelope: dict[str, object] = {
            "cluster_id": self.cluster_id,
            "incarnation_id": self.incarnation_id,
            "node_id": self.node_id,
            "broker_epoch": self.broker_epoch,
            "controller_epoch": self.controller_epoch,
        }
        request = StoreRequest(script, envelope | arguments, self.image.offset, self.image.chain_hash)
        self._outputs.append(CallStore(nonce, request))

    def take_handler(self, nonce: Nonce) -> OnReply | None:
        """The handler of this reply; None when the call was abandoned."""
        return self._in_flight.pop(nonce, None)

    def forget_calls(self) -> None:
        """Drop all calls in flight: no reply will come."""
        self._in_flight.clear()

    def put(self, output: Output) -> None:
        """Add an output."""
        self._outputs.append(output)

    def say(self, level: Literal["debug", "info", "warning", "error"], event: str, **fields: Any) -> None:
        """Add a line for the log."""
        self._outputs.append(Notice(level, event, fields))

    def say_refused(self, outcome: StoreOutcome, now_ms: int) -> None:
        """Log a refused call, unless the same refusal was logged less than `REFUSAL_REPEAT_MS` ago."""
        refusal = outcome.code, str(outcome.value.get("message", ""))
        self._refused_ms = {each: ms for each, ms in self._refused_ms.items() if now_ms - ms < REFUSAL_REPEAT_MS}
        if refusal not in self._refused_ms:
            self._refused_ms[refusal] = now_ms
            self.say("warning", "metadata-call-refused", code=outcome.code, reason=refusal[1])

    def take_outputs(self) -> list[Output]:
        """The outputs since the last call, in order."""
        outputs, self._outputs = self._outputs, []
        return outputs
