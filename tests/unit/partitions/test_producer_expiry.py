"""Idle idempotent producers are forgotten, as often as `producer.id.expiration.check.interval.ms` says."""

import pytest

from yak.sim.rig import Rig


@pytest.mark.parametrize(("interval_ms", "is_left"), [(500, False), (60_000, True)])
def test_idle_producers_are_looked_for_at_the_interval(interval_ms, is_left):
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
