"""The end of a removal: the broker is unregistered, though the cluster does not answer now and then."""

import pytest

from yak.client import broker_removal
from yak.client.broker_removal import RemainingReplicas, Removal
from yak.client.leadership import Reassignment
from yak.client.metadata import Broker
from yak.client.replica_offsets import ClusterReplicas
from yak.errors import Unreachable, YakError
from yak.ids import TopicPartition
from yak.view.partition_replicas import PartitionReplicas

UNREACHABLE = Unreachable("unreachable", "h:1 did not answer")
UNKNOWN = YakError("unknown-broker", "broker 3 is not registered")


def finish(monkeypatch, *answers):
    """Finish a removal whose `unregister_broker` has these answers in turn; returns how many were taken."""
    left = list(answers)

    def unregister(address, node_id, *, timeout_s):
        assert (address, node_id) == ("h:1", 3)
        answer = left.pop(0)
        if answer is not None:
            raise answer

    monkeypatch.setattr(broker_removal, "unregister_broker", unregister)
    monkeypatch.setattr(broker_removal, "POLL_SECONDS", 0.0)
    removal = Removal("h:1", 3, timeout_s=1.0, say=print)
    monkeypatch.setattr(removal, "drain", lambda: None)
    monkeypatch.setattr(removal, "is_live", lambda: False)
    removal.finish()
    return len(answers) - len(left)


def test_removal_sends_the_request_again_after_no_answer(monkeypatch):
    assert finish(monkeypatch, UNREACHABLE, UNREACHABLE, None, None) == 3


def test_removal_has_ended_if_the_request_without_an_answer_was_carried_out(monkeypatch):
    assert finish(monkeypatch, UNREACHABLE, UNKNOWN) == 2
    assert finish(monkeypatch, YakError("timed-out", "unknown: broker 3 was unregistered or not"), UNKNOWN) == 2


def test_removal_of_an_unknown_broker_is_refused(monkeypatch):
    with pytest.raises(YakError, match="not registered"):
        finish(monkeypatch, UNKNOWN)


@pytest.mark.parametrize(
    ("live", "obstacle"),
    [
        ((1, 2, 3, 4), ""),
        ((1, 2, 3), "broker 4, a replica of orders-0 after the move, does not run"),
        ((1, 3, 4), "broker 2, a replica of orders-0 after the move, does not run"),
        ((2, 4), ""),
    ],
    ids=["all", "new replica", "remaining replica", "removed replicas"],
)
def test_removal_says_which_replica_is_away_without_which_no_move_ends(live, obstacle):
    """A remaining replica, too: a reassignment is complete when all of its target is in sync. The command hung silently."""
    replicas, moves = (4, 2, 3, 1), {TopicPartition("orders", 0): Reassignment((4,), (3, 1))}
    partition = PartitionReplicas("orders", 0, 2, 5, 7, replicas, (2, 3), 9, {})
    found = ClusterReplicas("id", 2, {node: Broker(node, "h", node) for node in live}, (partition,))
    assert RemainingReplicas(found, Broker(2, "h", 2), (partition,), {}, moves, is_live=True).obstacle == obstacle
