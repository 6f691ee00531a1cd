"""Almost right requests, thousands of them: the broker answers or closes, never fails, and stays healthy.

YAK_FUZZ_SECONDS makes it longer than the five seconds that every run gets.
"""

import os
import random
import struct

import pytest
from support.client_kinds import Confluent
from support.fuzzing import fuzz, mutated_requests, valid_requests
from support.raw import Health, RawClient, RawTarget, assert_no_bugs

from tests.rig import Rig
from tests.unit.broker.raw_connection import RawConnection

SECONDS = float(os.environ.get("YAK_FUZZ_SECONDS", "5"))


@pytest.mark.parametrize("kind", ["valid", "mutated"])
def test_the_core_takes_any_request(kind):
    """In process, on the simulated broker: any exception of the core ends the test with the frame that caused it."""
    rig = Rig()
    rig.create_topic("fuzz", partitions=2)
    rig.create_topic("fuzz-2")

    def attempt(frame: bytes) -> None:
        connection = RawConnection(rig)
        connection.send(frame)
        rig.run_for(2)
        connection.close()

    tried = fuzz(SECONDS / 4, valid_requests() if kind == "valid" else mutated_requests(), attempt)
    assert tried > 50


def test_a_live_broker_takes_any_request(broker):
    broker.start(auto_create_topics_enable=False)
    client = Confluent(broker.bootstrap)
    for topic in ("fuzz", "fuzz-2"):
        client.create_topic(topic, partitions=2)
    health = Health(broker, "healthy")
    target = RawTarget(broker, 0.05)
    tried = fuzz(SECONDS / 2, mutated_requests(), target.attempt)
    target.close()
    assert tried > 20
    assert_no_bugs(broker)
    health.check()
    health.close()


def test_a_live_broker_takes_noise(broker):
    broker.start()
    health = Health(broker, "healthy")
    rng = random.Random(20)
    for _ in range(100):
        with RawClient(broker.port) as raw:
            raw.send(rng.randbytes(rng.randrange(1, 3000)))
        with RawClient(broker.port) as raw:
            noise = rng.randbytes(rng.randrange(8, 300))
            raw.send(struct.pack(">i", len(noise)) + noise)
    health.check()
    health.close()
