"""Clients that take every connection a broker has to give: other brokers get in all the same."""

import contextlib

from support.fault_cluster import FaultCluster, Start
from support.raw import Closed, RawClient
from support.waiting import wait_until

BOUND = 12


def test_a_flood_of_clients_does_not_keep_a_follower_from_coming_back(cluster: FaultCluster, unique_topic: str) -> None:
    flooded = cluster.nodes[1]
    flooded.restart_fresh(Start(configs={"max.connections.per.ip": str(BOUND)}))
    cluster.create(unique_topic, [1, 2, 3])
    with contextlib.ExitStack() as flood:

        def is_full() -> bool:
            client = flood.enter_context(RawClient(flooded.proxy.target_port))
            try:
                client.ask(18, 0)
            except Closed:
                return True
            return False

        wait_until(is_full, "clients have all connections")
        cluster.nodes[2].kill9()
        cluster.wait_isr(unique_topic, 1, 3)
        wait_until(is_full, "and those of the one that died")
        cluster.nodes[2].start()
        cluster.wait_isr(unique_topic, 1, 2, 3)
        assert cluster.partition(unique_topic).leader == 1
        assert is_full(), "clients are bounded still"
