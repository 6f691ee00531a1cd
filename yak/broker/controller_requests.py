"""Forwards clients' requests to the controller (KIP-590), over a connection that lasts while a request is under way.

Kafka's brokers forward every change of the cluster. In YAK each broker makes the changes itself (docs/adr/0009); the
controller alone elects leaders.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from yak.broker.call import Call, Now, Outcome, forwarded_fields
from yak.broker.delayed_answers import DelayedAnswer
from yak.broker.purgatory import Purgatory
from yak.core.broker_channel import ChannelEvents
from yak.core.broker_requests import InterBrokerRequests
from yak.core.context import Context
from yak.core.peers import Peers
from yak.errors import ErrorCode
from yak.ids import NodeId

_EVENTS: Final = ChannelEvents("controller-connection-lost", "controller-unresponsive", "controller-response-invalid")


class ControllerRequests:
    """The requests that this broker forwards."""

    def __init__(self, context: Context, peers: Peers, node_id: NodeId, purgatory: Purgatory) -> None:
        self._context, self._node_id, self._purgatory = context, node_id, purgatory
        self.requests = InterBrokerRequests(context, peers, _EVENTS)

    def forward(self, call: Call, version: int, failed: Callable[[ErrorCode], Now], **added: object) -> Outcome:
        """Let the controller answer a request in this version, with `added` fields that the client's version lacks.

        Else the answer is `failed`. NOT_CONTROLLER, which clients repeat: another broker has forwarded the request
        already, no controller is known, or the connection to it was lost.
        """
        controller_id = self._context.image.controller_id
        is_elsewhere = controller_id != self._node_id and controller_id in self._context.image.brokers
        if call.connection.proven is not None or not is_elsewhere:
            return failed(ErrorCode.not_controller)
        requests = self.requests.to(controller_id)
        waiting = DelayedAnswer(self._purgatory, call, call.timeout_ms, lambda: failed(ErrorCode.request_timed_out))

        def answered(response: Any | None) -> None:
            if len(requests) == 0:
                requests.channel.close()
            waiting.complete(
                failed(ErrorCode.not_controller).fields if response is None else forwarded_fields(response)
            )

        requests.send((call.api_key, version), added | forwarded_fields(call.request), answered)
        return waiting.outcome()
