"""DescribeUserScramCredentials, AlterUserScramCredentials (keys 50 and 51, v0): no user has SCRAM credentials.

The errors are those of Kafka's ScramImage, and of its ScramControlManager at a metadata version without SCRAM.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from yak.broker.call import Api, Call, Fields, Now, Outcome
from yak.errors import ErrorCode

if TYPE_CHECKING:
    from yak.broker.broker import Broker


def describe_user_scram_credentials(broker: Broker, call: Call) -> Outcome:
    """Answer RESOURCE_NOT_FOUND for each user; nothing when all users are requested."""
    del broker
    times = Counter(user.name for user in call.request.users or ())
    results = [
        _result(user, ErrorCode.resource_not_found, f"user {user!r} has no SCRAM credentials")
        if number == 1
        else _result(user, ErrorCode.duplicate_resource, f"user {user!r} is named more than once")
        for user, number in times.items()
    ]
    return Now({"results": [{**result, "credential_infos": []} for result in results]})


def alter_user_scram_credentials(broker: Broker, call: Call) -> Outcome:
    """Refuse the changes of each user."""
    del broker
    users = dict.fromkeys(change.name for change in (*call.request.deletions, *call.request.upsertions))
    refused = "this version of YAK does not support SCRAM"
    return Now({"results": [_result(user, ErrorCode.unsupported_version, refused) for user in users]})


def _result(user: str, error_code: ErrorCode, message: str) -> Fields:
    return {"user": user, "error_code": error_code, "error_message": message}


APIS = (
    Api(
        50,
        "DescribeUserScramCredentials",
        range(1),
        ("SCRAM: no user has credentials",),
        describe_user_scram_credentials,
    ),
    Api(
        51,
        "AlterUserScramCredentials",
        range(1),
        ("SCRAM: changes are refused with UNSUPPORTED_VERSION, as in Kafka at a metadata version without it",),
        alter_user_scram_credentials,
    ),
)
