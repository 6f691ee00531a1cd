"""A rebalance tells the caller before it takes effect, and what the caller does then takes effect with it."""

from dataclasses import dataclass, field

import pytest
from messages import message

from yak.client.consumer import Callbacks, Inbox, Rebalancing
from yak.ids import TopicPartition

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


@dataclass
class Wire:
    topic: str
    partition: int
    offset: int = -1001


@dataclass
class Handle:
    """What librdkafka is asked for, in order."""

    requests: list = field(default_factory=list)
    quiet: set = field(default_factory=set)
    """The numbers of the partitions that are paused: until they are resumed, whatever is assigned meanwhile."""

    def assign(self, wires):
        self.requests.append(("assign", [(w.partition, w.offset) for w in wires]))

    def incremental_assign(self, wires):
        self.requests.append(("incremental_assign", [(w.partition, w.offset) for w in wires]))

    def pause(self, wires):
        self.requests.append(("pause", [w.partition for w in wires]))
        self.quiet |= {w.partition for w in wires}

    def resume(self, wires):
        self.quiet -= {w.partition for w in wires}


def wires(*partitions):
    return [Wire(*each) for each in partitions]


@pytest.mark.parametrize(("is_cooperative", "verb"), [(True, "incremental_assign"), (False, "assign")])
def test_the_protocol_decides_how_partitions_are_taken(is_cooperative, verb):
    handle = Handle()
    Rebalancing(Inbox(), Callbacks(), is_cooperative=is_cooperative).assigned(handle, wires(A, B))
    assert handle.requests == [(verb, [(0, -1001), (1, -1001)])]


def test_a_seek_in_on_assigned_is_where_reading_begins_and_a_pause_holds():
    handle, inbox = Handle(), Inbox()

    def on_assigned(partitions):
        assert partitions == [A, B]
        rebalancing.arriving[B] = 42
        inbox.pause([A])

    rebalancing = Rebalancing(inbox, Callbacks(on_assigned), is_cooperative=True)
    rebalancing.assigned(handle, wires(A, B))
    assert handle.requests == [("incremental_assign", [(0, -1001), (1, 42)]), ("pause", [0])]
    assert rebalancing.arriving == {}


@pytest.mark.parametrize("end", [Rebalancing.revoked, Rebalancing.lost])
def test_paused_partition_that_is_revoked_is_read_when_it_comes_back(end):
    handle, inbox = Handle(), Inbox()
    rebalancing = Rebalancing(inbox, Callbacks(), is_cooperative=True)
    rebalancing.assigned(handle, wires(A, B))
    inbox.pause([A, B])
    handle.pause(wires(A, B))
    end(rebalancing, handle, wires(A))
    rebalancing.assigned(handle, wires(A))
    assert handle.quiet == {B.partition}
    assert inbox.paused == [B]


def test_taken_records_can_still_be_committed_on_revocation_and_are_then_forgotten():
    inbox, seen = Inbox(), []
    inbox.put(message(partition=0, offset=3))
    inbox.take(1)
    inbox.put(message(partition=0, offset=4))
    rebalancing = Rebalancing(
        inbox, Callbacks(on_revoked=lambda gone: seen.append((gone, inbox.uncommitted()))), is_cooperative=True
    )
    rebalancing.revoked(Handle(), wires(A))
    assert seen == [([A], {A: 4})]
    assert inbox.uncommitted() == {}
    assert inbox.take(9) == []


def test_empty_revocation_or_loss_is_not_reported():
    reported = []
    rebalancing = Rebalancing(
        Inbox(), Callbacks(on_revoked=reported.append, on_lost=reported.append), is_cooperative=True
    )
    rebalancing.revoked(Handle(), [])
    rebalancing.lost(Handle(), [])
    assert reported == []


def test_lost_partitions_cannot_be_committed_and_go_to_on_revoked_without_on_lost():
    inbox, reported = Inbox(), []
    inbox.put(message(partition=0, offset=3))
    inbox.take(1)
    revoked_only = Callbacks(on_revoked=lambda gone: reported.append(("revoked", gone, inbox.uncommitted())))
    Rebalancing(inbox, revoked_only, is_cooperative=True).lost(Handle(), wires(A))
    both = Callbacks(on_revoked=revoked_only.on_revoked, on_lost=lambda gone: reported.append(("lost", gone)))
    Rebalancing(inbox, both, is_cooperative=True).lost(Handle(), wires(B))
    assert reported == [("revoked", [A], {}), ("lost", [B])]


def test_exception_of_a_callback_is_raised_later_and_once_and_the_rebalance_continues():
    def on_assigned(_partitions):
        raise RuntimeError("the caller's own")

    handle = Handle()
    rebalancing = Rebalancing(Inbox(), Callbacks(on_assigned), is_cooperative=False)
    rebalancing.assigned(handle, wires(A))
    assert handle.requests == [("assign", [(0, -1001)])]
    with pytest.raises(RuntimeError, match="the caller's own"):
        rebalancing.raise_pending()
    rebalancing.raise_pending()


def test_rebalance_leaves_out_a_partition_that_on_assigned_removed():
    handle = Handle()
    rebalancing = Rebalancing(
        Inbox(), Callbacks(on_assigned=lambda _: rebalancing.arriving.pop(A)), is_cooperative=False
    )
    rebalancing.assigned(handle, wires(A, B))
    assert handle.requests == [("assign", [(1, -1001)])]
