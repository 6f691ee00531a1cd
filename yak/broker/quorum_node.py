"""This broker's node of the metadata quorum, and the requests that it serves for it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from yak.broker.call import Call, Fields, Now, Outcome, forwarded_fields
from yak.broker.delayed_answers import DelayedAnswer
from yak.core.context import Context
from yak.core.peers import Peers
from yak.errors import ErrorCode, ProtocolViolation
from yak.ports.metadata_store import MetadataStore
from yak.ports.random_source import RandomSource
from yak.protocol.topic_names import METADATA_TOPIC_ID
from yak.protocol.versions import API_VERSIONS, FETCH, SASL_AUTHENTICATE, SASL_HANDSHAKE
from yak.quorum.transport import BEGIN_QUORUM_EPOCH, END_QUORUM_EPOCH, ENVELOPE, FETCH_SNAPSHOT, UPDATE_RAFT_VOTER, VOTE

if TYPE_CHECKING:  # a broker of a cluster with Redis does not load the quorum
    from yak.broker.broker import Broker
    from yak.quorum.config import QuorumConfig
    from yak.quorum.election_state import ElectionState
    from yak.quorum.leader_state import Respond
    from yak.quorum.raft_log import RaftLog
    from yak.quorum.store import StoreEvent
    from yak.quorum.store_choice import StoreChoice
    from yak.quorum.transport import Listener

SERVED_EARLY: Final = frozenset(
    {
        FETCH,
        API_VERSIONS,
        SASL_HANDSHAKE,
        SASL_AUTHENTICATE,
        VOTE,
        BEGIN_QUORUM_EPOCH,
        END_QUORUM_EPOCH,
        FETCH_SNAPSHOT,
        ENVELOPE,
        UPDATE_RAFT_VOTER,
    }
)
"""APIs that a node of a quorum serves before it has joined the cluster: it joins through them."""
_TIMEOUT_MS: Final = 60_000


@dataclass(frozen=True, slots=True)
class QuorumParts:
    """What a broker of a quorum is made of."""

    config: QuorumConfig
    log: RaftLog
    election: ElectionState
    state_path: str


class QuorumNode:
    """The quorum's node, its connections, and the metadata store that it is."""

    def __init__(
        self, context: Context, peers: Peers, parts: QuorumParts, rng: RandomSource, redis: MetadataStore | None
    ) -> None:
        """`redis` is the store outside of this process that the metadata may be in as well, or be moved to."""
        from yak.quorum.channels import QuorumChannels
        from yak.quorum.quorum import Quorum
        from yak.quorum.store import QuorumStore
        from yak.quorum.store_choice import StoreChoice

        self.events: deque[StoreEvent] = deque()
        """What the metadata store reported, until the broker's step takes it."""
        self.choice: StoreChoice | None = None
        report = self.events.append if redis is None else self._on_quorum_event
        quorum_store = QuorumStore(context, report)
        self.store: MetadataStore = quorum_store
        listener: Listener = quorum_store
        if redis is not None:
            self.store = listener = self.choice = StoreChoice(context, redis, quorum_store, self.events.append)
        self.quorum_store = quorum_store
        self.channels = QuorumChannels(context, peers)
        self.quorum = Quorum(
            context, parts.config, parts.log, parts.election, parts.state_path, self.channels, rng, listener
        )
        quorum_store.attach(self.quorum, self.channels)
        if self.choice is not None:
            self.choice.attach(self.quorum)

    @property
    def is_store(self) -> bool:
        """Whether the metadata are in the quorum, as far as this broker knows."""
        return self.choice is None or self.choice.uses_quorum

    def _on_quorum_event(self, event: StoreEvent) -> None:
        assert self.choice is not None
        self.choice.on_quorum(event)

    def on_redis(self, event: StoreEvent) -> None:
        """An event of the store outside of this process."""
        if self.choice is not None:
            self.choice.on_redis(event)

    def stop(self) -> None:
        """Resign. The connections stay open, since the other voters are notified over them; the process ends soon."""
        self.quorum.stop()


def serve_in_quorum(broker: Broker, call: Call, serve: Callable[[Respond], None]) -> Outcome:
    """Let the quorum answer a request: when its command is committed, when there is something new, or at once."""

    def late() -> Outcome:
        # the other node must not take silence for an answer
        broker.close_connection(call.connection, "a request of the quorum was not answered in time")
        return None

    waiting = DelayedAnswer(broker.purgatory, call, _TIMEOUT_MS, late)
    serve(waiting.complete)
    return waiting.outcome()


def node_for_brokers(broker: Broker, call: Call) -> QuorumNode:
    """The quorum's node, for a request that only brokers may send. Raises ProtocolViolation."""
    if broker.quorum is None:
        raise ProtocolViolation("the metadata of this cluster are not in a quorum of brokers")
    if call.connection.proven is None:
        raise ProtocolViolation("only an authenticated broker may send this request")
    return broker.quorum


def _check_the_one_partition(request: Any) -> None:
    """Check that a request names one partition of one topic. Raises ProtocolViolation."""
    if len(request.topics) != 1 or len(request.topics[0].partitions) != 1:
        raise ProtocolViolation("a request of the quorum names the one partition of the metadata log")


def is_metadata_fetch(call: Call) -> bool:
    """Whether a Fetch is one of another node for the quorum's log. For clients there is no topic with that id."""
    topics = call.request.topics
    return call.connection.proven is not None and len(topics) == 1 and topics[0].topic_id == METADATA_TOPIC_ID


def between_nodes(broker: Broker, call: Call) -> Outcome:
    """A request of another node of the quorum."""
    node = node_for_brokers(broker, call)
    if call.api_key != UPDATE_RAFT_VOTER:
        _check_the_one_partition(call.request)
    return serve_in_quorum(broker, call, lambda respond: node.quorum.handle(call.api_key, call.request, respond))


def forward_to_leader(broker: Broker, call: Call, failed: Fields) -> Outcome:
    """Let the quorum's leader answer a client's request; `failed` is the answer when it cannot be reached."""
    assert broker.quorum is not None
    node = broker.quorum
    address = node.quorum.leader_address
    if address is None:
        return Now(failed)

    def serve(respond: Respond) -> None:
        def done(response: Any | None) -> None:
            respond(failed if response is None else forwarded_fields(response))

        node.channels.send(address, call.api_key, forwarded_fields(call.request), done)

    return serve_in_quorum(broker, call, serve)


NO_LEADER: Final = ErrorCode.request_timed_out, "the metadata quorum has no leader at this moment; try again"
