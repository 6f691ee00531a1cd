"""Whatever happened before the store lost its history, and whichever brokers answer: a safe restore loses no committed record."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.cluster import restore_model
from yak.cluster.restore import StoreBefore, plan_restore

MUTANT_SEEDS = (106, 140, 236, *range(4_000))
"""Those that found a mutant come first: the walks until then took nine tenths of these tests."""


@settings(max_examples=600)
@given(st.integers(0, 2**32))
def test_no_committed_record_is_lost_by_a_safe_restore(seed):
    restore_model.walk(seed)


def test_model_commits_and_restores():
    worlds = [restore_model.walk(seed) for seed in range(60)]
    assert sum(len(world.committed) for world in worlds) > 40
    assert sum(world.restores for world in worlds) > 40


def accept_all(plan):
    plan.unknown.clear()
    return plan


def missing_brokers_are_accepted(world, nodes):
    return accept_all(plan_restore(world.offers(nodes), StoreBefore(), incarnation_id=new_id(world), now_ms=0))


def the_oldest_image_counts(world, nodes):
    offers = world.offers(nodes)
    plan = plan_restore(offers, StoreBefore(), incarnation_id=new_id(world), now_ms=0)
    if not plan.is_safe:
        return plan
    oldest = min(offers, key=lambda offer: (offer.image.incarnation, offer.image.offset))
    return accept_all(plan_restore([oldest], StoreBefore(), incarnation_id=new_id(world), now_ms=0))


def new_id(world):
    return f"inc-{world.restores + 2}"


@pytest.mark.parametrize("mutant", [missing_brokers_are_accepted, the_oldest_image_counts])
def test_model_finds_a_rule_that_is_left_out(monkeypatch, mutant):
    monkeypatch.setattr(restore_model.World, "plan", mutant)
    assert any(fails(seed) for seed in MUTANT_SEEDS)


def test_model_finds_a_leader_that_believes_the_store_before_its_disk_has_the_record(monkeypatch):
    """The ISR that shrank in the store alone is forgotten, and a replica that left it may be elected."""

    def info_for(world, leader):
        info = world.now.topics["t"].partitions[0]
        is_answered = not world.is_lost and info.leader == leader.node_id
        if not is_answered or info.leader_epoch != leader.info.leader_epoch:
            return leader.info
        leader.pending = None
        return info

    monkeypatch.setattr(restore_model.World, "info_for", info_for)
    assert any(fails(seed) for seed in MUTANT_SEEDS)


def fails(seed):
    try:
        restore_model.walk(seed)
    except AssertionError as error:
        return "is not on replica" in str(error) or "two records" in str(error)
    return False
