"""Internal topics: only brokers and super users write or delete them, with ACLs and without.

A super user is a principal of `super.users` that is authenticated, by a login or a certificate. Where clients prove
nothing, `yak.internal.topics.admin.enable` lets one on the same machine repair a cluster, under Kafka's
AdminUtils.ADMIN_CLIENT_ID: a client id proves nothing; it only shows the intent. So a write needs it in any case.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from yak.broker.call import Call
from yak.protocol.topic_names import INTERNAL_TOPICS
from yak.security import ANONYMOUS

if TYPE_CHECKING:
    from yak.broker.broker import Broker

ADMIN_CLIENT_ID = "__admin_client"
_LOOPBACK = ("127.", "[::1]:", "[::ffff:127.")


def may_not_write(broker: Broker, call: Call, topic: str) -> bool:
    """Whether this is an internal topic that the client may not write."""
    if topic not in INTERNAL_TOPICS:
        return False
    return call.client_id != ADMIN_CLIENT_ID or may_not_delete(broker, call, topic)


def may_not_delete(broker: Broker, call: Call, topic: str) -> bool:
    """Whether this is an internal topic that the client may not delete."""
    if topic not in INTERNAL_TOPICS or broker.authorization.is_super_user(call):
        return False
    connection = call.connection
    is_local = connection.peer.startswith(_LOOPBACK) and not connection.is_in_process
    is_allowed = broker.config.yak_internal_topics_admin_enable and connection.principal == ANONYMOUS
    return not (is_allowed and is_local and call.client_id == ADMIN_CLIENT_ID)
