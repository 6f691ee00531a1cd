"""What a request needs: an operation on a resource, by Kafka's names, for the principal that its login proved.

`allowed` is the one place where HTTP asks whether a principal may do that. There are no ACLs: everything is allowed.
The Kafka requests behind a request have its principal too, and name what only the body names, such as the topics of
`POST /produce`.
"""

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from starlette.requests import Request

    from yak.server.http.route import Route

CLUSTER_NAME: Final = "kafka-cluster"
"""The name of the only resource of type CLUSTER (Kafka's Resource.CLUSTER_NAME)."""
_OPERATIONS: Final = {"read": "DESCRIBE", "change": "ALTER", "admin": "ALTER"}
_PARAMETERS: Final = {"group": "GROUP", "topic": "TOPIC", "name": "TOPIC"}


class Access(NamedTuple):
    """An operation (Kafka's AclOperation) on a resource (Kafka's ResourceType) with this name."""

    operation: str
    resource_type: str
    name: str


def access_of(route: "Route", request: "Request") -> Access:
    """What the request needs: on the group or the topic that its path or its query names, else on the cluster."""
    operation = route.operation or _OPERATIONS[route.guard]
    for given in (request.path_params, request.query_params):
        for parameter, resource_type in _PARAMETERS.items():
            if parameter in given:
                return Access(operation, resource_type, str(given[parameter]))
    return Access(operation, "CLUSTER", CLUSTER_NAME)


def allowed(principal: str, operation: str, resource_type: str, name: str) -> bool:  # noqa: ARG001
    """Whether the principal may do this. Without an authorizer every principal may."""
    return True
