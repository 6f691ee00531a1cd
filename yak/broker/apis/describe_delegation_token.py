"""DescribeDelegationToken (key 41, v1-3): refused, as by Kafka on a listener without authentication.

v2: flexible. v3: the token's requester. Kafka answers DELEGATION_TOKEN_AUTH_DISABLED only to an authenticated client
(`KafkaApis.allowTokenRequests`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from yak.broker.call import Call, Now, Outcome
from yak.errors import ErrorCode

if TYPE_CHECKING:
    from yak.broker.broker import Broker

KEY, NAME, VERSIONS = 41, "DescribeDelegationToken", range(1, 4)
ABSENT = ("delegation tokens: DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, as from Kafka on a PLAINTEXT listener",)


def handle(broker: Broker, call: Call) -> Outcome:
    """Refuse the request."""
    del broker, call
    return Now({"error_code": ErrorCode.delegation_token_request_not_allowed, "tokens": []})
