"""What a request needs: an operation on a resource, for the principal that its login proved.

The Kafka requests behind a request have its principal too, and are checked for what only the body names, such as the
topics of `POST /produce`.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from yak.acls.bindings import CLUSTER_NAME, Operation, ResourceType

if TYPE_CHECKING:
    from starlette.requests import Request

    from yak.server.http.route import Route

_OPERATIONS: Final = {"read": Operation.DESCRIBE, "change": Operation.ALTER, "admin": Operation.ALTER}
_PARAMETERS: Final[Mapping[str, ResourceType]] = {
    "group": ResourceType.GROUP,
    "topic": ResourceType.TOPIC,
    "name": ResourceType.TOPIC,
}


class Access(NamedTuple):
    """An operation on a resource with this name."""

    operation: Operation
    kind: ResourceType
    name: str


def access_of(route: "Route", request: "Request") -> Access | None:
    """What the request needs: on the group or the topic that its path or its query names, else on the cluster.

    None where the body names it: the Kafka requests are checked.
    """
    operation = route.operation or _OPERATIONS[route.guard]
    for given in (request.path_params, request.query_params):
        for parameter, kind in _PARAMETERS.items():
            if parameter in given:
                return Access(operation, kind, str(given[parameter]))
    return None if route.operation else Access(operation, ResourceType.CLUSTER, CLUSTER_NAME)
