"""DescribeTransactions (key 65, v0) and ListTransactions (key 66, v0-2): there are no transactions.

ListTransactions v1: a filter by duration. v2: a filter by transactional id, an RE2 expression (KIP-1152).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from yak.broker.call import Api, Call, Now, Outcome
from yak.errors import ErrorCode, PeerError
from yak.groups.consumer.regexes import Expression

if TYPE_CHECKING:
    from yak.broker.broker import Broker

_STATES = frozenset((
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "Dead",
    "PrepareEpochFence",
))  # fmt: skip
"""Kafka's TransactionState."""


def describe_transactions(broker: Broker, call: Call) -> Outcome:
    """Answer TRANSACTIONAL_ID_NOT_FOUND for each transactional id."""
    del broker
    return Now(
        {
            "transaction_states": [
                {
                    "error_code": ErrorCode.transactional_id_not_found if name else ErrorCode.invalid_request,
                    "transactional_id": name,
                    "transaction_state": "",
                    "topics": [],
                }
                for name in call.request.transactional_ids
            ]
        }
    )


def list_transactions(broker: Broker, call: Call) -> Outcome:
    """Answer with no transactions, and with the state filters that Kafka does not know either."""
    del broker
    pattern = getattr(call.request, "transactional_id_pattern", None)
    unknown = [name for name in call.request.state_filters if name not in _STATES]
    try:
        if pattern:
            Expression(pattern)
    except PeerError as error:
        return Now({"error_code": error.error_code, "unknown_state_filters": [], "transaction_states": []})
    return Now({"error_code": ErrorCode.none, "unknown_state_filters": unknown, "transaction_states": []})


APIS = (
    Api(
        65,
        "DescribeTransactions",
        range(1),
        ("transactions: every transactional id gets TRANSACTIONAL_ID_NOT_FOUND",),
        describe_transactions,
    ),
    Api(66, "ListTransactions", range(3), ("transactions: none are listed",), list_transactions),
)
