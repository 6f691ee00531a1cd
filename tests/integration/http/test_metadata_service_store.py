"""The metadata service when the store is away, was emptied, or was trimmed; and a YAK broker that has an external broker's id."""

import time
from collections.abc import Iterator

import pytest
from support.own_redis import OwnRedis
from support.waiting import wait_until

from tests.integration.http.conftest import HttpCluster
from yak.local.cluster import LocalCluster, UpSettings
from yak.local.metadata_restore import RestoreStore


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnRedis]:
    made = OwnRedis(tmp_path_factory.mktemp("store"))
    yield made
    made.kill()


@pytest.fixture(scope="module")
def cluster(store: OwnRedis, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpCluster]:
    made = HttpCluster(LocalCluster(str(tmp_path_factory.mktemp("meta"))))
    try:
        made.local.up(UpSettings(port=0, brokers=2, leaders=2, redis_url=store.url))
        yield made
    finally:
        made.client.close()
        made.local.discard()


def invite(cluster, node_id, node=1):
    return cluster.post(
        node, "/register_broker", json={"brokerId": node_id, "brokerHost": "10.0.0.1", "brokerPort": 9092}
    )


def listed(cluster, node_id, node=1):
    brokers = cluster.get(node, "/broker_mgmt/0").json()["brokers"]
    return next((each for each in brokers if each["brokerId"] == node_id), None)


def redis_state(cluster, node=1):
    return cluster.get(node, "/health").json()["redis"]["state"]


def is_in(cluster, node, incarnation):
    state = cluster.get(node, "/health").json()["state"]
    return state == "ACTIVE" and cluster.get(node, "/metadata/image").json()["incarnation"] == incarnation


def test_a_yak_broker_takes_its_id_from_an_external_broker(cluster):
    assert invite(cluster, 3).json()["guest"] is True
    added = cluster.local.add()
    assert added.node_id == 3
    wait_until(lambda: (listed(cluster, 3) or {}).get("brokerStatus") == "ALIVE", "broker 3 is alive")
    assert listed(cluster, 3)["guest"] is False
    assert listed(cluster, 3)["epoch"] > 1
    assert invite(cluster, 3).status_code == 409
    assert cluster.post(1, "/update_broker", json={"brokerId": 3, "rackId": "x"}).status_code == 409


def test_without_the_store_reads_work_and_changes_are_refused(cluster, store):
    made = invite(cluster, 51).json()
    offset = cluster.get(1, "/metadata/image").json()["offset"]
    store.kill()
    wait_until(lambda: redis_state(cluster) == "lost", "the outage is noticed")
    for path, body in (
        ("/register_broker", {"brokerId": 52, "brokerHost": "h", "brokerPort": 1}),
        ("/update_broker", {"brokerId": 51, "rackId": "r"}),
        ("/create_topic", {"name": "meta-never"}),
    ):
        found = cluster.post(1, path, json=body)
        assert (found.status_code, found.json()["error"]) == (503, "metadata-store-unavailable"), found.text
    assert cluster.delete(1, "/unregister_broker/51").status_code == 503
    assert listed(cluster, 51) == made
    assert 51 in [each["brokerId"] for each in cluster.get(1, "/get_active_brokers").json()["brokers"]]
    changes = cluster.get(1, f"/client_mgmt/{time.time()}").json()
    assert changes["timestamp"] < time.time() - 0.01, "what happens now is not known here"
    page = cluster.get(1, "/metadata/log?from=2&limit=2").json()
    assert (page["source"], [each["offset"] for each in page["records"]], page["next"]) == ("copy", [2, 3], 4)
    assert page["end"] >= offset
    was = cluster.get(1, "/metadata/image?at=3").json()
    assert (was["offset"], was["topics"]) == (3, [])
    assert cluster.post(1, "/register_producer").status_code == 201, "ids at hand are given out"

    store.start()
    wait_until(lambda: redis_state(cluster) == "connected", "the store is back")
    wait_until(
        lambda: cluster.post(1, "/update_broker", json={"brokerId": 51, "rackId": "r"}).status_code == 200, "works"
    )
    assert cluster.get(1, "/metadata/log?limit=1").json()["source"] == "store"
    assert listed(cluster, 52) is None
    assert cluster.get(1, "/get_topic_by_name/meta-never").status_code == 404


def test_a_store_that_was_emptied_is_restored_without_its_external_brokers(cluster, store):
    assert invite(cluster, 62).status_code == 201
    then = cluster.get(1, "/metadata/image").json()
    since = time.time()
    with store.client() as client:
        client.flushall()
        wait_until(lambda: client.hlen("{y}:offers") == 3, "all brokers have offered")
    with RestoreStore(store.url, timeout_s=5.0) as restore:
        found = restore.find()
        restore.commit(found, found.plan())
    wait_until(lambda: all(is_in(cluster, node, then["incarnation"] + 1) for node in (1, 2, 3)), "everybody is back")
    wait_until(lambda: all(listed(cluster, 62, node) is None for node in (1, 2, 3)), "the registry went with Redis")
    assert (invite(cluster, 62).status_code, listed(cluster, 62)["epoch"]) == (201, 1)
    changes = cluster.get(1, f"/client_mgmt/{since}").json()
    assert changes["full"] is True, "a restore may have dropped what it does not name"
    page = cluster.get(1, "/metadata/log").json()
    assert page["begin"] > then["offset"]
    # This broker's own copy still tells what was before.
    then["brokers"] = [each for each in then["brokers"] if not each["guest"]]
    assert cluster.get(1, f"/metadata/image?at={then['offset']}").json() == then


def test_metadata_image_before_the_snapshot_in_store_and_copy_is_unavailable(cluster):
    begin = cluster.get(1, "/metadata/log").json()["begin"]
    assert begin > 1_000, "the restore of the test before"
    # A broker that comes now has a copy that begins with the snapshot.
    added = cluster.local.add()
    wait_until(lambda: (listed(cluster, added.node_id) or {}).get("brokerStatus") == "ALIVE", "it is alive")
    gone = cluster.get(added.node_id, "/metadata/image?at=5")
    assert (gone.status_code, gone.json()["error"]) == (410, "gone")
    at = int(gone.json()["hint"].partition("at=")[2].split()[0])
    assert at >= begin - 1, "the restore's snapshot, or a newer one that the controller put in its place"
    assert cluster.get(added.node_id, f"/metadata/image?at={at}").json()["offset"] == at
