"""Which requests the clients of this broker may make; the API handlers call `allows` or `check` for each resource.

Without an authorizer (`authorizer.class.name`) every client may do everything. A broker that has proven itself
(`yak.protocol.peer_proof`) is a super user: it may do everything, and the clients' rights were checked by the broker that
took their request. A request of this process, as for HTTP, counts as its connection's principal.

`yak.broker.apis.authorization_rules` lists the authorizations that each API needs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from yak.acls.authorizer import Authorizer
from yak.acls.bindings import CLUSTER_NAME, SUPPORTED, Operation, ResourceType
from yak.broker.call import Call
from yak.core.context import Context
from yak.errors import ErrorCode, PeerError
from yak.security import ANONYMOUS

DENIED: Final = {
    ResourceType.TOPIC: ErrorCode.topic_authorization_failed,
    ResourceType.GROUP: ErrorCode.group_authorization_failed,
    ResourceType.CLUSTER: ErrorCode.cluster_authorization_failed,
    ResourceType.TRANSACTIONAL_ID: ErrorCode.transactional_id_authorization_failed,
    ResourceType.DELEGATION_TOKEN: ErrorCode.delegation_token_authorization_failed,
}
"""The error code of a denied operation, by the type of the resource."""
AUTHORIZATION_ERRORS: Final = frozenset(DENIED.values())
OPERATIONS_OMITTED: Final = -(2**31)
"""The authorized operations of an answer whose request does not include them."""


def denial(kind: ResourceType) -> PeerError:
    """The error of a denied operation, with Kafka's message."""
    return PeerError(DENIED[kind], f"{kind.name.capitalize().replace('_', ' ')} authorization failed.")


class Authorization:
    """The ACLs of this broker's clients, and the number of denied requests."""

    def __init__(self, context: Context, log_denied: Callable[[Call, Operation, ResourceType, str], None]) -> None:
        """`log_denied` gets the first denial of each request."""
        config = context.config
        self._context, self._log_denied = context, log_denied
        self.is_active = config.authorizer_class_name is not None
        """Whether ACLs decide: the only cost where they do not."""
        self.super_users = frozenset(config.super_users)
        self.authorizer = Authorizer(self.super_users, allows_without_acl=config.allow_everyone_if_no_acl_found)
        self.denied: dict[tuple[Operation, ResourceType], int] = {}
        """How many requests were denied, by the first operation that was."""
        self.image_changed()

    def image_changed(self) -> None:
        """Put the ACLs of a new image in force."""
        if self.is_active:
            self.authorizer.set_acls(self._context.image.acls)

    def authorize(self, principal: str, host: str, operation: Operation, kind: ResourceType, name: str) -> bool:
        """Whether a principal may do something: for callers without a Kafka request, such as HTTP. Nothing is logged."""
        return not self.is_active or self.authorizer.authorize(principal, host, operation, kind, name)

    def is_super_user(self, call: Call) -> bool:
        """Whether the other end is a broker, or an authenticated user of `super.users`; also without ACLs."""
        connection = call.connection
        if connection.proven is not None:
            return True
        return connection.principal != ANONYMOUS and connection.principal in self.super_users

    def may_see(self, call: Call, operation: Operation, kind: ResourceType, name: str) -> bool:
        """Whether a request may do something; its answer otherwise leaves the resource out, which is no denial."""
        if not self.is_active:
            return True
        connection = call.connection
        return connection.proven is not None or self.authorizer.authorize(
            connection.principal, connection.host, operation, kind, name
        )

    def allows(self, call: Call, operation: Operation, kind: ResourceType, name: str) -> bool:
        """Whether a request may do something. A denial is counted and logged, once for a request."""
        if not self.is_active:
            return True
        connection = call.connection  # as in `may_see`, without a further call: each Produce and Fetch comes here
        if connection.proven is not None or self.authorizer.authorize(
            connection.principal, connection.host, operation, kind, name
        ):
            return True
        self.note_denied(call, operation, kind, name)
        return False

    def allows_cluster(self, call: Call, operation: Operation) -> bool:
        """`allows` for the cluster."""
        return self.allows(call, operation, ResourceType.CLUSTER, CLUSTER_NAME)

    def allows_any(self, call: Call, operation: Operation, kind: ResourceType) -> bool:
        """Whether a request may do something with at least one resource of a type (authorizeByResourceType)."""
        if not self.is_active:
            return True
        connection = call.connection
        return connection.proven is not None or self.authorizer.authorize_any(
            connection.principal, connection.host, operation, kind
        )

    def check(self, call: Call, operation: Operation, kind: ResourceType, name: str) -> None:
        """Raise PeerError with the error code of the resource's type if a request may not do something."""
        if self.is_active and not self.allows(call, operation, kind, name):
            raise denial(kind)

    def check_cluster(self, call: Call, operation: Operation) -> None:
        """Raise PeerError(CLUSTER_AUTHORIZATION_FAILED) if a request may not do something with the cluster."""
        self.check(call, operation, ResourceType.CLUSTER, CLUSTER_NAME)

    def operations(self, call: Call, kind: ResourceType, name: str) -> int:
        """The operations that a request may do with a resource, as the bits of an answer (KIP-430)."""
        connection = call.connection
        if not self.is_active or connection.proven is not None:
            return sum(1 << operation for operation in SUPPORTED[kind])
        return self.authorizer.operations(connection.principal, connection.host, kind, name)

    def note_denied(self, call: Call, operation: Operation, kind: ResourceType, name: str) -> None:
        """Count and log the first denial of a request."""
        if getattr(call, "is_denied", False):
            return
        call.is_denied = True
        self.count_denied(operation, kind)
        self._log_denied(call, operation, kind, name)

    def count_denied(self, operation: Operation, kind: ResourceType) -> None:
        """Count a denied request."""
        self.denied[operation, kind] = self.denied.get((operation, kind), 0) + 1
