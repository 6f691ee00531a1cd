"""The replicas as the keys of the metadata store have them."""

import json

import pytest

from yak.local.replicas_in_redis import _read

TOPIC = "00000000-0000-4000-8000-000000000001"


class Store(dict):
    """A Redis of hashes and sets, by key."""

    def hgetall(self, key):
        return self.get(key, {})

    smembers = hgetall

    def pipeline(self, *, transaction):
        del transaction
        return Pipeline(self)


class Pipeline:
    def __init__(self, store):
        self.store, self.found = store, []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def hgetall(self, key):
        self.found.append(self.store.hgetall(key))

    def execute(self):
        return self.found


def store(**configs):
    broker = {"host": "h", "port": "9092", "state": "ACTIVE"}
    partition = {"replicas": "1,2,3", "isr": "1@2", "leader": "1", "leader_epoch": "0", "partition_epoch": "4"}
    return Store(
        {
            "{y}:cluster": {"cluster_id": "c", "state": "LIVE", "ctl_id": "1"},
            "{y}:tn": {"a": TOPIC},
            f"{{y}}:t:{TOPIC}": {"name": "a", "total": "1", "made": "1"},
            f"{{y}}:p:{TOPIC}:0": partition,
            "{y}:brokers": {"1", "2"},
            "{y}:b:1": broker | {"min_isr": "2"},
            "{y}:b:2": broker | {"min_isr": "3"},
            "{y}:configs": {name: json.dumps({"min.insync.replicas": value}) for name, value in configs.items()},
        }
    )


@pytest.mark.parametrize(
    ("configs", "expected"),
    [
        ({}, 2),
        ({"broker:": "1"}, 1),
        ({"broker:": "1", "broker:1": "2", "broker:2": "3"}, 2),
        ({"broker:1": "2", "topic:a": "1"}, 1),
    ],
)
def test_min_isr_of_a_partition_is_the_topics_then_the_brokers_then_what_the_leader_was_started_with(configs, expected):
    (found,) = _read(store(**configs), "redis", None).partitions
    assert found.min_isr == expected
    assert found.replication.is_under_min_isr == (expected > 1)
