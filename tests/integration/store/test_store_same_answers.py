import random

import pytest
from support.store_walk import random_step, take_answer
from support.stores import Caller, MemoryBackend, RedisBackend, brokers

from yak.ports.metadata_store import StoreRequest


def check_partitions(callers: list[Caller]) -> None:
    """What must hold of any partition whatever was called."""
    image = callers[0].image
    for topic in image.topics.values():
        for p in topic.partitions:
            assert p.leader == -1 or p.leader in p.isr, p
            assert set(p.isr) <= set(p.replicas), p
            assert p.isr, p
            assert set(p.elr) <= set(p.replicas) - set(p.isr), p
            assert len(set(p.replicas)) == len(p.replicas), p
            assert set(p.adding_replicas + p.removing_replicas) <= set(p.replicas), p
            assert not set(p.adding_replicas) & set(p.removing_replicas), p


def check_epochs(before, after) -> None:
    for topic in before.topics.values():
        now = after.topic_by_id(topic.topic_id)
        for old, new in zip(topic.partitions, now.partitions if now else (), strict=False):
            assert new.partition_epoch >= old.partition_epoch
            assert new.leader_epoch >= old.leader_epoch
            assert new.leader == old.leader or new.leader_epoch > old.leader_epoch
            if new.partition_epoch > old.partition_epoch:
                arrived = set(new.isr_members) - set(old.isr_members)
                for node_id, epoch in arrived:
                    broker = after.brokers[node_id]
                    assert (broker.state.value, broker.broker_epoch) == ("ACTIVE", epoch)


SEEDS = (*range(6), *(pytest.param(seed, marks=pytest.mark.thorough) for seed in range(6, 12)))
"""Walks of 300 calls each; `make test-all` makes twice as many."""


@pytest.mark.parametrize("seed", SEEDS)
def test_both_stores_answer_alike_whatever_is_called(connected, seed):
    rng = random.Random(seed)
    worlds = [brokers(backend, 4) for backend in (MemoryBackend(), RedisBackend(connected, keep_dumps=False))]
    sent: list[tuple[int, list[StoreRequest]]] = []
    codes: dict[str, int] = {}
    for number in range(300):
        if sent and rng.random() < 0.1:
            # A call that was answered arrives once more, from a connection that was given up.
            at, requests = rng.choice(sent[-20:])
            late = True
        else:
            at, script, arguments = random_step(rng, worlds[0])
            requests = [callers[at].request(script, **arguments) for callers in worlds]
            late = False
            sent.append((at, requests))
        outcomes = []
        for callers, request in zip(worlds, requests, strict=True):
            before = callers[0].image
            outcome = callers[0].backend.call(request)
            outcomes.append((outcome.code, outcome.offset, outcome.value))
            if not late:
                take_answer(callers[at], request.script, outcome)
            for each in callers:
                each.catch_up()
            check_epochs(before, callers[0].image)
        assert outcomes[0] == outcomes[1], (number, requests[0])
        check_partitions(worlds[0])
        codes[outcomes[0][0]] = codes.get(outcomes[0][0], 0) + 1
        assert worlds[0][0].image.without_position() == worlds[1][0].image.without_position(), (number, requests[0])
    assert worlds[0][0].backend.high_watermarks() == worlds[1][0].backend.high_watermarks()
    assert worlds[0][0].backend.log_end_offsets() == worlds[1][0].backend.log_end_offsets()
    assert codes["OK"] > 100
