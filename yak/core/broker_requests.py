"""Requests to other brokers over one channel to each, with a callback for each answer (Kafka's InterBrokerSendThread)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from yak.cluster.records import BrokerState
from yak.core.broker_channel import ANSWER_MS_MAX, BrokerChannel, ChannelEvents
from yak.core.context import Context
from yak.core.peers import CLIENT_ID, Address, Peers
from yak.errors import ProtocolViolation
from yak.ids import NodeId
from yak.protocol.codec import decode_response, encode_request, framed

Api: TypeAlias = tuple[int, int]
"""API key and version."""
Then: TypeAlias = Callable[[Any], None]
"""Called with the response, or with None when the connection was lost first: the request may have been executed."""


class BrokerRequests:
    """The user of a channel: sends in order, and fails what is unanswered when the connection is lost."""

    def __init__(
        self,
        context: Context,
        peers: Peers,
        node_id: NodeId,
        events: ChannelEvents,
        address: Address | None = None,
        *,
        answer_ms_max: int = ANSWER_MS_MAX,
        reconnects: bool = True,
    ) -> None:
        self._context, self._node_id = context, node_id
        self._events = events
        self._queued: deque[tuple[Api, Mapping[str, object], Then]] = deque()
        self._in_flight: deque[tuple[Api, Then]] = deque()
        self.channel = BrokerChannel(
            context, peers, node_id, self, events, address, answer_ms_max=answer_ms_max, reconnects=reconnects
        )

    def __len__(self) -> int:
        return len(self._queued) + len(self._in_flight)

    def send(self, api: Api, fields: Mapping[str, object], then: Then) -> None:
        """Send a request, perhaps once the connection is proven."""
        self._queued.append((api, fields, then))
        if self.channel.is_proven:
            self.send_due()
        else:
            self.channel.open()

    def broker_changed(self) -> None:
        """Reconnect at once to a broker with a new registration; fail the requests to one that is gone or fenced.

        A paused broker answers nothing before it resumes, and another one has its partitions by now.
        """
        broker = self._context.image.brokers.get(self._node_id)
        if broker is None or broker.state in (BrokerState.FENCED, BrokerState.CLOSED):
            self.channel.close()
        else:
            self.channel.hurry()

    def send_due(self) -> None:
        """Send what is queued."""
        while self._queued:
            api, fields, then = self._queued.popleft()
            self._in_flight.append((api, then))
            frame = encode_request(*api, self.channel.next_correlation_id, CLIENT_ID, fields)
            self.channel.send(framed(frame))

    def on_answer(self, frame: memoryview) -> None:
        """Pass the oldest request its answer."""
        api, then = self._in_flight[0]
        try:
            answer = decode_response(*api, bytes(frame))
        except ProtocolViolation as violation:
            self.channel.give_up(self._events.broken, str(violation))
            return
        self._in_flight.popleft()
        then(answer)

    def forget(self) -> None:
        """Close the connection, and call nothing for the requests under way."""
        self._in_flight.clear()
        self._queued.clear()
        self.channel.close()

    def on_disconnected(self) -> None:
        """Fail every request: their senders find the right broker again."""
        failed = [*(then for _api, then in self._in_flight), *(then for _api, _fields, then in self._queued)]
        self._in_flight.clear()
        self._queued.clear()
        for then in failed:
            then(None)


class InterBrokerRequests:
    """The requests of one part of this broker to other brokers, by node."""

    def __init__(self, context: Context, peers: Peers, events: ChannelEvents) -> None:
        self._context, self._peers, self._events = context, peers, events
        self._brokers: dict[NodeId, BrokerRequests] = {}

    def to(self, node_id: NodeId) -> BrokerRequests:
        """The requests to one broker."""
        requests = self._brokers.get(node_id)
        if requests is None:
            requests = self._brokers[node_id] = BrokerRequests(self._context, self._peers, node_id, self._events)
        return requests

    def brokers_changed(self, changed: Iterable[NodeId]) -> None:
        """Reconnect to brokers with a new registration; fail the requests to those that are gone or fenced."""
        for node_id in changed:
            if node_id in self._brokers:
                self._brokers[node_id].broker_changed()

    def close(self) -> None:
        """Fail all requests, and close the connections."""
        for requests in self._brokers.values():
            requests.channel.close()
