"""Idle idempotent producers are forgotten, as often as `producer.id.expiration.check.interval.ms` says."""

import pytest
from kio.schema.errors import ErrorCode

from tests.rig import Rig
from tests.unit.broker.replicated import add_broker, set_partition
from yak.storage.producer_state import DEFERRED_EXPIRY_MS


@pytest.mark.parametrize(("interval_ms", "is_left"), [(500, False), (60_000, True)])
def test_idle_producers_are_checked_at_the_interval(interval_ms, is_left):
    rig = Rig(
        settings={
            "producer.id.expiration.ms": "1000",
            "producer.id.expiration.check.interval.ms": str(interval_ms),
        }
    )
    rig.create_topic("orders")
    rig.produce("orders", [b"x"], producer_id=7, epoch=0, sequence=0)
    rig.run_for(2_000)
    described = rig.ask(61, 0, topics=[{"name": "orders", "partition_indexes": [0]}])
    assert bool(described.topics[0].partitions[0].active_producers) == is_left


def test_sequences_that_a_follower_refused_are_forgotten_without_their_producers():
    rig = Rig(settings={"producer.id.expiration.check.interval.ms": "1000"})
    rig.create_topic("orders")
    add_broker(rig, 2)
    partition = set_partition(rig, "orders", leader=2, replicas=(1, 2), isr=(1, 2))
    for producer_id in range(5):
        answer = rig.produce("orders", [b"x"], producer_id=producer_id, epoch=0, sequence=0)
        assert answer.error_code == ErrorCode.not_leader_or_follower
    assert len(partition.deferred_sequences) == 5
    rig.run_for(DEFERRED_EXPIRY_MS + 2_000)
    assert not partition.deferred_sequences
