"""One record to one broker, whoever leads: what that very broker says is what is tested, so no client library is between."""

import datetime as dt

from kio.schema.errors import ErrorCode
from support.fault_cluster import FaultCluster
from support.raw import Closed, RawClient, batch
from support.waiting import wait_until

PATIENCE = dt.timedelta(seconds=2)
"""How long the broker may wait for its followers."""


def produce(cluster: FaultCluster, node_id: int, topic: str, value: bytes, *, acks: int = -1) -> ErrorCode:
    """Write a record to a broker, and give what it says; NETWORK_EXCEPTION when it does not answer at all."""
    try:
        with RawClient(cluster.nodes[node_id].proxy.port) as client:
            data = [{"name": topic, "partition_data": [{"index": 0, "records": batch(value)}]}]
            answer = client.ask(0, 9, transactional_id=None, acks=acks, timeout=PATIENCE, topic_data=data)
            return ErrorCode(answer.responses[0].partition_responses[0].error_code)
    except (OSError, Closed):
        return ErrorCode.network_exception


def wait_written(cluster: FaultCluster, topic: str, value: bytes) -> None:
    """Write it with acks=all to whoever leads, until it is acknowledged; it may be there twice then."""
    wait_until(
        lambda: produce(cluster, max(1, cluster.partition(topic).leader), topic, value) is ErrorCode.none,
        f"a record is written to {topic}",
    )


def wait_refused(cluster: FaultCluster, node_id: int, topic: str, *, acks: int, code: ErrorCode) -> None:
    """Wait until this broker says no in this way."""
    wait_until(
        lambda: produce(cluster, node_id, topic, b"refused", acks=acks) is code,
        f"node {node_id} refuses acks={acks} with {code.name}",
    )
