"""yak.testing.remote: requests and answers of a test run in another process, over a session without brokers."""

import errno
import io
import json
import os
from typing import Any

import pytest

from yak.errors import YakError
from yak.testing import remote
from yak.testing.shape import ClusterShape, Node


class FakeCluster:
    bootstrap = "127.0.0.1:1"
    data_dir = "/data"
    brokers = (Node(1, "127.0.0.1:1", "running", 7),)

    def kill(self, node: int) -> None:
        if node != 1:
            raise YakError("unknown-node", f"the cluster has no node {node}", why="it has 1", try_=("brokers=3",))

    def end(self) -> None:
        raise AssertionError("a test may not call this")


class FakeSession:
    def __init__(self) -> None:
        self.said: list[object] = []

    def lend(self, shape: ClusterShape, *, fresh: bool) -> FakeCluster:
        self.said.append((shape, fresh))
        return FakeCluster()

    def give_back(self, cluster: FakeCluster, *, fresh: bool) -> None:
        self.said.append(("back", fresh))

    def close(self) -> None:
        self.said.append("closed")


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> FakeSession:
    session = FakeSession()
    monkeypatch.setattr(remote, "Session", lambda: session)
    return session


def ask(*lines: str) -> list[dict[str, Any]]:
    answers = io.StringIO()
    remote.serve(lines, answers)
    return [json.loads(line) for line in answers.getvalue().splitlines()]


LEND = json.dumps({"call": "lend", "brokers": 3, "configs": {"num.partitions": 6}, "fresh": True})


def test_a_cluster_is_lent_used_and_given_back_and_all_end_with_the_input(session):
    answers = ask(
        LEND,
        '{"call": "kill", "cluster": 1, "arguments": {"node": 1}}',
        '{"call": "brokers", "cluster": 1}',
        '{"call": "give_back", "cluster": 1, "fresh": false}',
    )
    assert [each["result"] for each in answers] == [
        {"cluster": 1, "bootstrap": "127.0.0.1:1", "data_dir": "/data"},
        None,
        [{"node_id": 1, "address": "127.0.0.1:1", "state": "running", "pid": 7}],
        None,
    ]
    assert session.said == [(ClusterShape.of(3, {"num.partitions": "6"}), True), ("back", False), "closed"]


def test_refusal_of_the_cluster_has_code_reason_and_remedy(session):
    _, refused = ask(LEND, '{"call": "kill", "cluster": 1, "arguments": {"node": 2}}')
    assert refused["error"] == {
        "code": "unknown-node",
        "message": "the cluster has no node 2",
        "why": "it has 1",
        "try": ["brokers=3"],
    }


def test_full_disk_is_an_answer_and_the_next_request_is_answered(session, monkeypatch):
    def restart(self: FakeCluster, node: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/tmp/cluster.json")

    monkeypatch.setattr(FakeCluster, "restart", restart, raising=False)
    _, refused, brokers = ask(
        LEND, '{"call": "restart", "cluster": 1, "arguments": {"node": 1}}', '{"call": "brokers", "cluster": 1}'
    )
    assert refused["error"]["code"] == "system"
    assert "No space left on device: '/tmp/cluster.json'" in refused["error"]["message"]
    assert len(brokers["result"]) == 1


@pytest.mark.parametrize(
    "line",
    [
        "no json",
        "[]",
        "{}",
        '{"call": "kill", "cluster": 9}',
        '{"call": "kill", "cluster": 1, "arguments": {"broker": 1}}',
        '{"call": "end", "cluster": 1}',
        '{"call": "lend", "brokers": 0, "configs": {}, "fresh": false}',
        '{"call": "lend", "brokers": 1, "configs": ["a=b"], "fresh": false}',
    ],
)
def test_request_that_makes_no_sense_is_refused_and_the_next_one_answered(session, line):
    _, refused, brokers = ask(LEND, line, '{"call": "brokers", "cluster": 1}')
    assert refused["error"]["code"] == "usage"
    assert len(brokers["result"]) == 1
    assert session.said[-1] == "closed"
