"""DescribeAcls, CreateAcls, DeleteAcls (keys 29 to 31, v1-3): SECURITY_DISABLED, as from Kafka without an authorizer.

v2: flexible. v3: user resources. Tools that probe for ACLs take this answer as "no ACLs here" (Kafka's AclApis.scala).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from yak.broker.call import Api, Call, Fields, Now, Outcome
from yak.errors import ErrorCode

if TYPE_CHECKING:
    from yak.broker.broker import Broker


def describe_acls(broker: Broker, call: Call) -> Outcome:
    """Answer that there is no authorizer."""
    del broker, call
    return Now({**_refusal(), "resources": []})


def create_acls(broker: Broker, call: Call) -> Outcome:
    """Refuse each creation."""
    del broker
    return Now({"results": [_refusal() for _ in call.request.creations]})


def delete_acls(broker: Broker, call: Call) -> Outcome:
    """Refuse each filter."""
    del broker
    return Now({"filter_results": [{**_refusal(), "matching_acls": []} for _ in call.request.filters]})


def _refusal() -> Fields:
    return {
        "error_code": ErrorCode.security_disabled,
        "error_message": "No Authorizer is configured: this version of YAK has no authorization.",
    }


_ABSENT = ("authorization: the answer is SECURITY_DISABLED, as from Kafka without an authorizer",)
APIS = (
    Api(29, "DescribeAcls", range(1, 4), _ABSENT, describe_acls),
    Api(30, "CreateAcls", range(1, 4), _ABSENT, create_acls),
    Api(31, "DeleteAcls", range(1, 4), _ABSENT, delete_acls),
)
