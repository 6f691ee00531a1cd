"""A follower's answer holds so many bytes: what has no room in it comes with the next, without anybody's new append."""

from tests.cluster_rig import ClusterRig

ROOM = {"replica.fetch.response.max.bytes": "1500", "replica.lag.time.max.ms": "30000"}
SOON_MS = 1_000


def test_a_batch_that_had_no_room_beside_another_comes_with_the_next_answer() -> None:
    rig = ClusterRig(settings=ROOM)
    rig.create_topic("orders", partitions=12, min_insync_replicas="2")
    rig.run_until(lambda: all(rig.is_in_sync("orders", number) for number in range(12)))
    led = [number for number in range(12) if rig.leader("orders", number) == 1]
    assert len(led) > 2
    for _ in range(5):
        pending = [rig.begin_produce("orders", [b"x" * 1000], partition=number) for number in led]
        rig.run_for(SOON_MS)
        assert all(each.is_done for each in pending)
