"""Internal topics: the brokers alone write and delete them; there is no authentication of clients by which to allow others.

With `yak.internal.topics.admin.enable` an administrator on the same machine may, to repair a cluster. A client id
proves nothing: Kafka's AdminUtils.ADMIN_CLIENT_ID says only that the client means it.
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
