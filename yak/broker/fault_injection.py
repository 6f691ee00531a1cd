"""Applies the fault rules of tests to requests (`yak.faults`), between their arrival and their handlers.

Requests of brokers, proven by `yak.protocol.peer_proof`, and of this process, as for HTTP, are exempt: a rule is about
clients. Of several rules that act on a request, `blackhole_client` wins, then `disconnect_on`; errors of several rules go
into their rows, the oldest rule's first, and delays add up.

An error before the effect (`after` unset) takes the meant rows out of the request: the handler serves the others, and the
answer has both. Where a request changes nothing there is no difference, so it is served, and its answer stamped.
"""

from __future__ import annotations

import json
import uuid
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from yak.acls.bindings import Operation
from yak.broker.api_table import ApiTable, Handler
from yak.broker.call import Call, Encoded, Fields, Later, Now, Outcome
from yak.broker.delayed_answers import DelayedAnswer
from yak.broker.purgatory import Answer
from yak.broker.quorum_node import SERVED_EARLY
from yak.core.peers import CLIENT_ID
from yak.errors import ErrorCode, PeerError, UsageError
from yak.faults import COMMAND, rows
from yak.faults.rule import FaultKind, FaultRule, parse_rule
from yak.protocol.codec import decode_response, encode_response
from yak.protocol.hot_pieces import TopicKey
from yak.protocol.schema_fields import plain
from yak.protocol.versions import API_VERSIONS, FETCH, PRODUCE, SASL_AUTHENTICATE, SASL_HANDSHAKE
from yak.replication.fetch_sessions import ConsumerSession

if TYPE_CHECKING:
    from yak.broker.broker import Broker

BLACKHOLE_MS_MAX: Final = 86_400_000
_BETWEEN_BROKERS: Final = SERVED_EARLY - {FETCH, API_VERSIONS, SASL_HANDSHAKE, SASL_AUTHENTICATE}
_OF_A_SESSION: Final = frozenset(
    {
        ErrorCode.fetch_session_id_not_found,
        ErrorCode.invalid_fetch_session_epoch,
        ErrorCode.fetch_session_topic_id_error,
    }
)
"""Errors of a whole Fetch: all others have a partition."""
_LENGTH_BYTES: Final = 4


class FaultInjection:
    """The fault rules in force, and the requests that they hold back."""

    def __init__(self, broker: Broker, apis: ApiTable) -> None:
        self._broker, context = broker, broker.context
        self._rules = context.faults
        self._apis = {key: name for key, name in apis.names.items() if key not in _BETWEEN_BROKERS}
        self._blackholed: dict[DelayedAnswer, str] = {}
        """Requests that get no answer, and the id of the rule: its removal closes their connections."""
        self.is_active = False
        """Whether there is any rule: the only cost where there is none."""
        if context.config.yak_fault_injection_enable:
            context.notice("warning", "fault-injection-enabled", config="yak.fault.injection.enable=true")

    # ----------------------------------------------------------------------------------------------------- requests

    def serve(self, handle: Handler, call: Call) -> Outcome:
        """Serve a request as the rules say that match it."""
        broker, connection = self._broker, call.connection
        if (
            connection.proven is not None
            or connection.is_in_process
            or call.api_key in _BETWEEN_BROKERS
            or call.client_id == CLIENT_ID
        ):
            return handle(broker, call)
        named = self._named(call)
        fired = self._rules.fired(call.api_key, call.client_id, lambda: named)
        if not fired:
            return handle(broker, call)
        kinds = {kind: [rule for rule in fired if rule.fault is kind] for kind in FaultKind}
        if kinds[FaultKind.BLACKHOLE_CLIENT]:
            return self._swallow(call, kinds[FaultKind.BLACKHOLE_CLIENT][0])
        disconnects = kinds[FaultKind.DISCONNECT_ON]
        if any(not rule.after for rule in disconnects):
            _disconnect(broker, call)
            return None
        fault = call.fault = RequestFault(
            broker,
            call,
            kinds[FaultKind.INJECT_ERROR],
            sum(rule.delay_ms for rule in kinds[FaultKind.DELAY_ON]),
            disconnects=bool(disconnects),
        )
        outcome = fault.refuse_all() if fault.take_rows() else handle(broker, call)
        return outcome if type(outcome) is Later else fault.answered(outcome)

    def _named(self, call: Call) -> list[tuple[str | None, int | None]]:
        """The topics and partitions that a request names; those of a fetch session are named by the session."""
        broker, request = self._broker, call.request
        named: list[tuple[str | None, int | None]] = [
            (None if key is None else _topic_of(broker, key), index)
            for key, index in rows.named_rows(call.api_key, request)
        ]
        if call.api_key == FETCH and request.session_id:
            items = broker.fetches.sessions.items(request.session_id)
            named += [(_topic_of(broker, item.name or item.topic_key), item.index) for item in items]
        return named

    def _swallow(self, call: Call, rule: FaultRule) -> Later:
        call.request = None  # its views end with the step
        held = DelayedAnswer(
            self._broker.purgatory,
            call,
            BLACKHOLE_MS_MAX,
            partial(self._end_blackhole, call),
            lambda: self._blackholed.pop(held, None),
        )
        self._blackholed[held] = rule.rule_id
        return Later(held)

    def _end_blackhole(self, call: Call) -> None:
        """Close the connection: a later request must not be answered in this one's place."""
        self._broker.close_connection(call.connection, "blackhole_client of a fault rule was cleared")

    # ------------------------------------------------------------------------------------------------------- rules

    def command(self, call: Call) -> Now:
        """Answer a client's Envelope request about the rules: JSON of the result, or of an error."""
        error_code, answer = ErrorCode.none, {}
        try:
            wanted = self._parsed(bytes(call.request.request_data)[len(COMMAND) :])
            self._broker.authorization.check_cluster(call, Operation.ALTER)
            answer = {"result": self._carry_out(wanted)}
        except PeerError as error:
            error_code = error.error_code
            why = "faults need ALTER on the cluster"
            answer = {"error": {"code": "faults-refused", "message": error.message, "why": why, "try": []}}
        except UsageError as error:
            error_code = ErrorCode.invalid_request
            answer = {"error": error.as_json()}
        return Now({"response_data": json.dumps(answer).encode(), "error_code": error_code})

    def _parsed(self, text: bytes) -> dict[str, Any]:
        try:
            wanted = json.loads(text)
        except (ValueError, RecursionError):
            wanted = None
        if not isinstance(wanted, dict) or wanted.get("do") not in ("list", "add", "clear"):
            raise UsageError("bad-fault", "the request is no command", why="it lists, adds or clears faults")
        return wanted

    def _carry_out(self, wanted: dict[str, Any]) -> object:
        broker = self._broker
        if not broker.config.yak_fault_injection_enable:
            raise UsageError(
                "faults-off",
                f"broker {broker.node_id} injects no faults",
                why="yak.fault.injection.enable is false, as it should be in production",
                try_=("yak serve -c yak.fault.injection.enable=true",),
            )
        if wanted["do"] == "add":
            return self.add(wanted.get("rule"))
        if wanted["do"] == "clear":
            return self.clear(wanted.get("id"))
        return self._rules.as_json()

    def add(self, fields: object) -> str:
        """Add the rule that JSON fields describe; returns its id. Raises UsageError (`bad-fault`)."""
        if not isinstance(fields, dict):
            raise UsageError("bad-fault", "a fault is an object of JSON", why="with the field fault")
        rule, node_id = parse_rule(fields, self._apis), self._broker.node_id
        if rule.broker not in (None, node_id):
            why = f"this is broker {node_id}"
            raise UsageError("bad-fault", f"broker {rule.broker} holds the replica that is to lag", why=why)
        self._rules.add(rule)
        self.is_active = True
        self._broker.context.notice(
            "warning", "fault-added", **{key: str(value) for key, value in rule.as_json().items()}
        )
        self._replicas_changed([rule])
        return rule.rule_id

    def clear(self, rule_id: object = None) -> list[str]:
        """Remove a rule, or all for None; returns the ids of the removed ones.

        Connections with blackholed requests are closed, so that their clients reconnect.
        """
        if rule_id is not None and not isinstance(rule_id, str):
            raise UsageError("bad-fault", "the id of a fault is a text", why="yak faults list shows the ids")
        gone = self._rules.remove(rule_id)
        self.is_active = bool(self._rules)
        ids = [rule.rule_id for rule in gone]
        for held, held_by in list(self._blackholed.items()):
            if held_by in ids:
                held.complete_with(partial(self._end_blackhole, held.call))
        if gone:
            self._broker.context.notice("warning", "faults-cleared", ids=",".join(ids))
        self._replicas_changed(gone)
        return ids

    def _replicas_changed(self, rules: list[FaultRule]) -> None:
        """Stop or resume the fetches of replicas, and check ISRs that may change again."""
        broker = self._broker
        for rule in rules:
            for topic_partition, partition in broker.partitions.items():
                if rule.fault is FaultKind.LAG_REPLICA and rule.hits(*topic_partition):
                    broker.replica_fetchers.changed(partition)
                elif rule.fault is FaultKind.FREEZE_ISR and rule.hits(*topic_partition):
                    broker.isr_changes.check(partition)


class RequestFault:
    """What the rules do to one request, and to its answer."""

    __slots__ = ("_broker", "_call", "_delay_ms", "_disconnects", "_errors", "_refused", "_stamps")

    def __init__(
        self, broker: Broker, call: Call, errors: list[FaultRule], delay_ms: int, *, disconnects: bool
    ) -> None:
        self._broker, self._call, self._errors = broker, call, errors
        self._delay_ms, self._disconnects = delay_ms, disconnects
        self._stamps: list[FaultRule] = []
        """The errors that the answer gets; of a Fetch, its partitions have got them."""
        self._refused: Fields | None = None
        """The answer's rows of which nothing was done."""

    def take_rows(self) -> bool:
        """Take out of the request what is refused before it has an effect; returns whether nothing is left of it."""
        call, errors = self._call, self._errors
        if call.api_key == FETCH:
            whole = [rule for rule in errors if rule.topic is None and rule.error_code in _OF_A_SESSION]
            self._refused = {"error_code": whole[0].error_code} if whole else None
            return bool(whole)
        reads = rows.only_reads(call.api_key)
        self._stamps = [rule for rule in errors if reads or rule.after]
        before = [] if reads else [rule for rule in errors if not rule.after]
        if not before:
            return False
        meant, others = call.request, None
        if all(rule.topic is not None for rule in before):
            meant, others = rows.split_request(
                call.api_key, call.request, lambda *row: any(self._hit(rule, *row) for rule in before)
            )
        if meant is None:  # the rules are about rows that the request has not
            return False
        assert before[0].error_code is not None
        self._refused = rows.refused_fields(call.api_key, call.version, meant, before[0].error_code)
        self._stamp(self._refused, before)
        if others is not None:
            call.request = others
        return others is None

    def refuse_all(self) -> Encoded | None:
        """The answer of a request of which nothing is done; none to a Produce with acks=0."""
        assert self._refused is not None
        if self._call.api_key == PRODUCE and self._call.request.acks == 0:
            return None
        refused, self._refused = self._refused, None
        return self._encoded(refused)  # not by the broker, whose audit log is about what handlers did

    def answered(self, outcome: Answer) -> Outcome:
        """The answer that the client gets, and when. Called once, with the handler's answer."""
        call = self._call
        call.fault = None
        is_silent = not outcome
        if self._disconnects:
            _disconnect(self._broker, call)
            return None
        if is_silent:
            if self._stamps or self._refused is not None:
                self._broker.close_connection(call.connection, "inject_error of a fault rule, with acks=0")
            return outcome
        assert outcome is not None
        if self._stamps or self._refused is not None:
            outcome = self._changed(outcome)
        if not self._delay_ms:
            return outcome
        # later answers of the connection wait for this one, as in Kafka
        return Later(DelayedAnswer(self._broker.purgatory, call, self._delay_ms, lambda: outcome))

    def _changed(self, outcome: Now | Encoded) -> Encoded:
        call = self._call
        if type(outcome) is Now:
            fields = _copied(self._broker.answered_fields(call, outcome.fields))
        else:
            assert type(outcome) is list
            # parts of files are in answers to Fetch only, whose partitions got their errors before
            frame = b"".join(bytes(part) for part in outcome)
            fields = plain(decode_response(call.api_key, call.version, frame[_LENGTH_BYTES:]))
        self._stamp(fields, self._stamps)
        if self._refused is not None:
            rows.merge(call.api_key, call.version, fields, self._refused)
        return self._encoded(fields)

    def _encoded(self, fields: Fields) -> Encoded:
        call = self._call
        return [*encode_response(call.api_key, call.version, call.correlation_id, fields)]

    def _stamp(self, fields: Fields, rules: list[FaultRule]) -> None:
        """Put errors into an answer; the oldest rule comes last, and so wins."""
        call = self._call
        for rule in reversed(rules):
            assert rule.error_code is not None
            hit = None if rule.topic is None else lambda *row, rule=rule: self._hit(rule, *row)
            rows.stamp(call.api_key, call.version, fields, rule.error_code, hit)

    def _hit(self, rule: FaultRule, key: TopicKey, index: int | None) -> bool:
        return rule.hits(_topic_of(self._broker, key), index)

    # -------------------------------------------------------------------------------------------------------- fetches

    def check(self, topic: str, index: int) -> None:
        """Raise PeerError if a Fetch is to get an error for this partition."""
        for rule in self._errors:
            if rule.hits(topic, index):
                assert rule.error_code is not None
                raise PeerError(rule.error_code, rows.MESSAGE)

    def mark_dirty(self, session: ConsumerSession) -> None:
        """Let a fetch of a session answer the partitions that get an error, though nothing is new in them."""
        for item in session.items.values():
            topic = _topic_of(self._broker, item.name or item.topic_key)
            if any(rule.hits(topic, item.index) for rule in self._errors):
                session.mark_dirty(item)


def _copied(value: Any) -> Any:
    """A copy of an answer's fields that may be changed: handlers share rows between answers."""
    if type(value) is dict:
        return {name: _copied(each) for name, each in value.items()}
    return [_copied(each) for each in value] if type(value) in (list, tuple) else value


def _disconnect(broker: Broker, call: Call) -> None:
    broker.close_connection(call.connection, "disconnect_on of a fault rule")


def _topic_of(broker: Broker, key: TopicKey) -> str:
    """The name of a topic; empty for an id that is not known."""
    if isinstance(key, uuid.UUID):
        return broker.topic_name(key) or ""
    return key if isinstance(key, str) else ""
