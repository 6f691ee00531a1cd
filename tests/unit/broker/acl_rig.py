"""A broker with ACLs, clients by name, and requests whose other fields are filled in."""

import dataclasses

from tests.rig import Rig
from yak.acls.bindings import CLUSTER_NAME, PatternType, Permission, ResourceType
from yak.protocol.record_batch import TRANSACTIONAL_BIT
from yak.protocol.record_writer import build_batch

ADMIN = "User:admin"
SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": f"User:other;{ADMIN}",
    "delegation.token.secret.key": "of the rig",
}


def error_codes(answer):
    """All error codes other than NONE in an answer."""
    found = set()
    if isinstance(answer, tuple):
        for each in answer:
            found |= error_codes(each)
    elif dataclasses.is_dataclass(answer):
        for field in dataclasses.fields(answer):
            value = getattr(answer, field.name)
            if field.name.endswith("error_code"):
                found |= {value} - {0}
            else:
                found |= error_codes(value)
    return found


def transactional_batch(values):
    """A batch of a transaction, by a producer that no coordinator knows."""
    given = [(None, value) for value in values]
    return build_batch(given, 0, attributes=TRANSACTIONAL_BIT, producer_id=7, producer_epoch=0, base_sequence=0)


class AclRig(Rig):
    """`client` is a super user."""

    def __init__(self, **configs):
        super().__init__(settings=SETTINGS | {name.replace("_", "."): value for name, value in configs.items()})
        self.become(self.client, ADMIN)

    @property
    def broker(self):
        return self.node.broker

    def become(self, channel, principal, host="10.0.0.1"):
        """Connect, and be this principal."""
        if channel.connection_id is None:
            self.ask_filled(18, 0, {}, channel)
        connection = self.broker.connections[channel.connection_id]
        connection.principal, connection.host = principal, host

    def user(self, name, host="10.0.0.1"):
        """A client of this user."""
        channel = self.new_client()
        self.become(channel, f"User:{name}", host)
        return channel

    def ask_filled(self, api_key, version, given, channel):
        """Ask with these fields and empty ones; None if the connection was closed."""
        return self.ask(api_key, version, client=channel, **given)

    def acl(self, operation, kind, name="*", user="ann", *, deny=False, prefixed=False, host="*"):
        """Add an ACL."""
        creation = {
            "resource_type": kind,
            "resource_name": CLUSTER_NAME if kind is ResourceType.CLUSTER else name,
            "resource_pattern_type": PatternType.PREFIXED if prefixed else PatternType.LITERAL,
            "principal": f"User:{user}",
            "host": host,
            "operation": operation,
            "permission_type": Permission.DENY if deny else Permission.ALLOW,
        }
        (result,) = self.ask(30, 3, creations=[creation]).results
        assert result.error_code == 0, result

    def audit(self):
        """The fields of the audit events so far, which are removed."""
        events = [notice.fields for notice in self.node.notices if notice.event == "audit"]
        self.node.notices.clear()
        return events
