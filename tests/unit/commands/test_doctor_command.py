"""`yak doctor`: what it advises depends on who starts what is missing."""

import json

import pytest

from yak.local import state as stored
from yak.local.state import BrokerState, ClusterState, RedisState


@pytest.mark.parametrize(("is_ours", "advice"), [(True, "yak up -d --data-dir "), (False, "redis-cli -s ")])
def test_doctor_of_a_stopped_cluster_says_what_starts_its_redis(yak, clean_environment, is_ours, advice):
    folder = clean_environment / "yak-data"
    folder.mkdir()
    broker = BrokerState(1, "leader", "127.0.0.1", 1, str(folder / "node-1"), wanted=False)
    redis = RedisState(f"unix://{folder}/redis.sock", is_ours=is_ours)
    stored.save(ClusterState(str(folder), redis, "c", brokers=[broker]))
    findings = {finding["check"]: finding for finding in json.loads(yak("doctor", "-o", "json").out)}
    assert findings["local cluster"]["state"] == "skip"
    assert findings["redis"]["state"] == "FAIL"
    assert findings["redis"]["try"].startswith(advice)
