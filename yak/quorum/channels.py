"""The quorum's requests over channels between brokers: channels to each node for what may wait, and one for the rest.

The other node answers the requests of one connection in order. So a fetch, which waits for something new, a command, which
waits for its commit, and a change of the voters, which waits for a replica to catch up as well, each have a connection of
their own beside that of the votes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from yak.core.broker_channel import ANSWER_MS_MAX, ChannelEvents
from yak.core.broker_requests import BrokerRequests
from yak.core.context import Context
from yak.core.peers import Peers
from yak.protocol.versions import FETCH
from yak.quorum.transport import (
    ADD_RAFT_VOTER,
    ENVELOPE,
    FETCH_SNAPSHOT,
    REMOVE_RAFT_VOTER,
    UPDATE_RAFT_VOTER,
    VERSIONS_SENT,
    Address,
)

_EVENTS: Final = ChannelEvents("quorum-connection-lost", "quorum-node-unresponsive", "quorum-response-invalid")
_LANES: Final = {
    FETCH: "fetches",
    FETCH_SNAPSHOT: "fetches",
    ENVELOPE: "commands",
    **dict.fromkeys((ADD_RAFT_VOTER, REMOVE_RAFT_VOTER, UPDATE_RAFT_VOTER), "voters"),
}
_ANSWER_MS_MAX: Final = {"fetches": 2_000, "votes": 2_000, "commands": 5_000, "voters": ANSWER_MS_MAX}
"""How long a lane waits for an answer, as Kafka's `controller.quorum.request.timeout.ms`; then it reconnects.

When a network is whole again, TCP may repeat what an old connection lost only after as long as the outage took. A new
connection works at once. A leader that cannot commit a command resigns earlier, so a command waits as long as for Redis.
"""


class QuorumChannels:
    """The `Transport` of a broker's quorum node."""

    def __init__(self, context: Context, peers: Peers) -> None:
        self._context, self._peers = context, peers
        self._requests: dict[tuple[Address, str], BrokerRequests] = {}

    def send(
        self, address: Address, api_key: int, fields: Mapping[str, Any], done: Callable[[Any | None], None]
    ) -> None:
        """Send a request; `done` gets the response, or None if the connection is lost first."""
        lane = (address, _LANES.get(api_key, "votes"))
        requests = self._requests.get(lane)
        if requests is None:
            requests = self._requests[lane] = BrokerRequests(
                self._context,
                self._peers,
                address.node_id,
                _EVENTS,
                address,
                answer_ms_max=_ANSWER_MS_MAX[lane[1]],
                # the node may have been removed, or have another address: then nothing is sent there any more
                reconnects=False,
            )
        requests.send((api_key, VERSIONS_SENT[api_key]), fields, done)
        # the pauses of the quorum's own retries bound the attempts; an election must not wait for the channel's
        requests.channel.open_at_once()

    def forget(self, address: Address, api_key: int) -> None:
        """Close the connection of that API; the requests under way are not answered any more."""
        requests = self._requests.pop((address, _LANES.get(api_key, "votes")), None)
        if requests is not None:
            requests.forget()
