"""/health on real brokers: what it says, and what it says when something is wrong."""

from support.waiting import wait_until

from yak.client.admin import Admin


def test_health_reports_the_node_and_its_state(cluster):
    for node in (1, 2, 3):
        found = cluster.get(node, "/health")
        assert found.status_code == 200
        body = found.json()
        assert (body["status"], body["reasons"], body["node_id"], body["state"]) == ("ok", [], node, "ACTIVE")
        assert body["redis"] == {"state": "connected", "lost_ms": None}
        assert body["quorum"] is None
        quorum = cluster.get(node, "/api/quorum")
        assert (quorum.status_code, quorum.json()["metadata"], quorum.json()["reported_by"]) == (200, "redis", node)
        assert "in Redis" in quorum.json()["message"]
        assert body["disks"] == [{"index": 0, "state": "online"}]
    assert [cluster.get(node, "/health").json()["is_controller"] for node in (1, 2, 3)].count(True) == 1
    assert cluster.get(1, "/health/live").json()["status"] == "ok"
    assert cluster.get(1, "/health/ready").status_code == 200


def test_health_counts_partitions_and_says_what_a_dead_broker_costs(cluster, new_name):
    topic = new_name()
    Admin(cluster.bootstrap).create_topic(
        topic, assignment=[[3, 1], [1, 3], [2, 3]], configs={"min.insync.replicas": "2"}
    )
    wait_until(lambda: cluster.get(1, "/health").json()["replicas"] == 2, "the replicas")
    before = cluster.get(1, "/health").json()
    assert (before["leaders"], before["under_replicated"], before["under_min_isr"]) == (1, 0, 0)

    cluster.local.kill(3)
    wait_until(lambda: cluster.get(1, "/health").json()["under_min_isr"] == 3, "three partitions under min ISR")
    assert cluster.get(1, "/health").status_code == 503
    after = cluster.get(1, "/health").json()
    assert after["status"] == "unhealthy"
    assert after["reasons"] == ["3 partitions are under min.insync.replicas"]
    # The cluster's trouble is no reason to send clients elsewhere.
    assert cluster.get(1, "/health/ready").status_code == 200
