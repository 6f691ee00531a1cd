"""Internal topics: clients may not write or delete them, since clients are not authenticated.

With `yak.internal.topics.admin.enable` a client on the same machine may, to repair a cluster, under Kafka's
AdminUtils.ADMIN_CLIENT_ID. A client id proves nothing; it only shows the intent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from yak.broker.call import Call
from yak.protocol.topic_names import INTERNAL_TOPICS

if TYPE_CHECKING:
    from yak.broker.broker import Broker

ADMIN_CLIENT_ID = "__admin_client"
_LOOPBACK = ("127.", "[::1]:", "[::ffff:127.")


def is_kept_from(broker: Broker, call: Call, topic: str) -> bool:
    """Whether this is an internal topic that the client may neither write nor delete."""
    if topic not in INTERNAL_TOPICS:
        return False
    connection = call.connection
    is_local = connection.peer.startswith(_LOOPBACK) and not connection.is_in_process
    return not (broker.config.yak_internal_topics_admin_enable and is_local and call.client_id == ADMIN_CLIENT_ID)
