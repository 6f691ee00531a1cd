"""Who leads: one case a rule."""

import uuid
from dataclasses import replace

import pytest

from tests.unit.cluster.conftest import broker, partition_of
from yak.cluster.controller import Cause, needed_elections, preferred_elections, preferred_leader
from yak.cluster.image import Image, TopicInfo
from yak.cluster.records import BrokerState

ACTIVE, FENCED, STOPPING, CLOSED = BrokerState.ACTIVE, BrokerState.FENCED, BrokerState.STOPPING, BrokerState.CLOSED


def image_of(brokers, replicas=(1, 2, 3), isr=None, leader=1, elr=(), configs=None):
    """One topic of one partition."""
    topic = TopicInfo("t", uuid.UUID(int=1), (partition_of(replicas, isr, elr, leader),), configs or {})
    return Image(brokers={b.node_id: b for b in brokers}, topics={"t": topic})


def elected(image):
    """The leader asked for, with whether it is unclean and why; None when all is in order."""
    elections = [each for each in needed_elections(image) if each is not None]
    assert len(elections) <= 1
    return (elections[0].leader, elections[0].unclean, elections[0].cause) if elections else None


LOST = Cause.LOST


@pytest.mark.parametrize("state", [FENCED, CLOSED])
def test_an_active_leader_in_the_isr_stays_and_any_other_is_replaced(state):
    assert elected(image_of([broker(1), broker(2), broker(3)])) is None
    assert elected(image_of([broker(1, state), broker(2), broker(3)])) == (2, False, LOST)
    assert elected(image_of([broker(2), broker(3)])) == (2, False, LOST)
    assert elected(image_of([broker(1), broker(2), broker(3)], isr=(2, 3))) == (2, False, LOST)
    assert elected(image_of([broker(1, epoch=99), broker(2), broker(3)])) == (2, False, LOST)


def test_brokers_with_the_role_of_a_leader_go_first_then_the_order_of_replicas():
    roles = [broker(1, FENCED), broker(2, role="follower"), broker(3), broker(4)]
    assert elected(image_of(roles, (1, 2, 4, 3))) == (4, False, LOST)
    roles = [broker(1, FENCED), broker(2, role="follower"), broker(3, role="follower")]
    assert elected(image_of(roles, (3, 1, 2))) == (3, False, LOST)


def test_a_stopping_leader_is_relieved_when_another_member_is_active():
    assert elected(image_of([broker(1, STOPPING), broker(2), broker(3)])) == (2, False, Cause.STOPPING)
    assert elected(image_of([broker(1, STOPPING), broker(2, STOPPING), broker(3, FENCED)])) is None
    assert elected(image_of([broker(1, STOPPING), broker(2)], isr=(1,))) is None


def test_a_stopping_broker_is_not_chosen_and_keeps_others_from_being_chosen_uncleanly():
    brokers = [broker(1, FENCED), broker(2, STOPPING), broker(3)]
    assert elected(image_of(brokers, isr=(1, 2), elr=(3,))) == (-1, False, LOST)
    assert elected(image_of(brokers, isr=(1, 2), configs={"unclean.leader.election.enable": "true"}))[0] == -1


def test_a_former_member_that_lost_nothing_leads_when_no_member_is_alive():
    booted = broker(2, epoch=50)
    assert elected(image_of([broker(1, FENCED), booted], (1, 2), isr=(1, 2))) == (2, False, LOST)
    assert elected(image_of([broker(1, FENCED), booted], (1, 2), isr=(1,), elr=(2,))) == (2, False, LOST)
    lossy = broker(2, epoch=50, lossy=50)
    assert elected(image_of([broker(1, FENCED), lossy], (1, 2), isr=(1, 2))) == (-1, False, LOST)
    assert elected(image_of([broker(1, FENCED), broker(2)], (1, 2), isr=(1,))) == (-1, False, LOST)


def test_a_partition_without_a_leader_that_can_have_none_is_left_alone():
    assert elected(image_of([broker(1, FENCED), broker(2)], (1, 2), isr=(1,), leader=-1)) is None


def test_of_unclean_leaders_those_that_were_in_sync_once_are_preferred_but_not_with_a_disk_that_may_be_empty():
    def of(*brokers, **more):
        return elected(image_of(brokers, configs={"unclean.leader.election.enable": "true"}, **more))

    emptied, refilled = broker(3, epoch=60, lossy=60), broker(3, epoch=70, lossy=60)
    assert of(broker(1, FENCED), broker(2), refilled, isr=(1, 3)) == (3, True, LOST)
    assert of(broker(1, FENCED), broker(2), emptied, isr=(1, 3)) == (2, True, LOST)
    assert of(broker(1, FENCED), broker(2), emptied, isr=(3,), leader=3) == (2, True, LOST)
    assert of(broker(1, FENCED), broker(2, FENCED), emptied, isr=(3,), leader=3) == (3, True, LOST)


def test_an_unclean_leader_has_not_lost_its_disk_since_it_was_in_sync_though_it_started_again():
    def of(*brokers, **more):
        return elected(image_of(brokers, configs={"unclean.leader.election.enable": "true"}, leader=-1, **more))

    emptied = replace(broker(3, epoch=70, lossy=60), emptied_epoch=60)
    assert of(broker(1), broker(2), emptied, isr=(3,)) == (1, True, LOST)
    assert of(broker(1, epoch=80, lossy=80), broker(2, FENCED), emptied, isr=(3,)) == (1, True, LOST)
    assert of(broker(1, FENCED), broker(2, FENCED), emptied, isr=(3,)) == (3, True, LOST)
    never_in_sync_since = replace(broker(1, epoch=80, lossy=60), emptied_epoch=60)
    assert of(never_in_sync_since, broker(2), emptied, isr=(3,)) == (2, True, LOST)
    both = (never_in_sync_since, replace(broker(2, epoch=90, lossy=55), emptied_epoch=55))
    assert of(*both, emptied, isr=(3,)) == (1, True, LOST), "perhaps their disks were empty before this topic was there"


def test_a_single_replica_leads_whatever_it_lost():
    assert elected(image_of([broker(1, epoch=60, lossy=60)], (1,), leader=-1)) == (1, True, LOST)


def test_last_leader_leads_after_a_power_loss_of_all_once_every_broker_is_back():
    lost = [broker(n, epoch=50 + n, lossy=50 + n) for n in (1, 2, 3)]
    assert elected(image_of([lost[0], lost[1], broker(3, FENCED)], leader=2)) == (-1, False, LOST)
    assert elected(image_of(lost, leader=2)) == (2, True, LOST)
    assert elected(image_of(lost, isr=(3,), elr=(1, 2), leader=-1)) == (3, True, LOST)


def test_the_last_in_sync_leads_after_a_power_loss_of_all_though_another_had_left_before():
    lost = [broker(n, epoch=50 + n, lossy=50 + n) for n in (1, 2, 3)]
    assert elected(image_of(lost, isr=(3,), leader=-1)) == (3, True, LOST)
    assert elected(image_of(lost, isr=(3,), elr=(2,), leader=3)) == (3, True, LOST)
    assert elected(image_of([*lost[:2], broker(3, FENCED)], isr=(3,), leader=-1)) is None
    again = broker(1, epoch=60, lossy=51)
    assert elected(image_of([again, *lost[1:]], isr=(3,), leader=-1)) == (3, True, LOST)


def test_a_last_member_that_lost_power_does_not_lead_while_another_has_what_it_had():
    lost = [broker(n, epoch=50 + n, lossy=50 + n) for n in (1, 2, 3)]
    assert elected(image_of([broker(1), *lost[1:]], isr=(3,), leader=-1)) is None
    before = broker(1, epoch=9, lossy=9)
    assert elected(image_of([before, *lost[1:]], isr=(3,), leader=-1)) is None


def test_broker_back_with_an_empty_disk_does_not_lead_after_a_power_loss_of_all():
    lost = [broker(n, epoch=50 + n, lossy=50 + n) for n in (1, 2)]
    emptied = replace(broker(3, epoch=53, lossy=53), emptied_epoch=53)
    assert elected(image_of([*lost, emptied], isr=(3,), leader=-1)) is None
    assert elected(image_of([*lost, emptied], isr=(3, 1), leader=3)) == (1, True, LOST)


def test_a_broker_that_alone_lost_its_disk_does_not_lead_again():
    wiped = broker(1, epoch=50, lossy=50)
    assert elected(image_of([wiped, broker(2), broker(3)], isr=(1,))) == (-1, False, LOST)
    assert elected(image_of([wiped, broker(2), broker(3)])) == (2, False, LOST)


def test_nor_does_it_where_records_count_on_disks_alone_for_its_disk_may_be_an_older_one():
    older = broker(1, epoch=50, lossy=50)
    assert elected(image_of([older, broker(2), broker(3)], isr=(1,), configs={"flush.messages": "1"})) == (
        -1,
        False,
        LOST,
    )
    assert (
        elected(image_of([older, broker(2, FENCED), broker(3)], isr=(1,), leader=-1, configs={"flush.messages": "1"}))
        is None
    )


def test_the_preferred_leader_is_the_first_replica():
    image = image_of([broker(1), broker(2, role="follower"), broker(3)], (2, 3, 1))
    assert preferred_leader(image.topics["t"].partitions[0]) == 2
    assert [e.leader for e in preferred_elections(image) if e] == [2]


def test_leaderships_go_back_to_a_preferred_leader_that_is_alive_and_in_sync():
    def back(*brokers, **more):
        return [(e.leader, e.cause) for e in preferred_elections(image_of(brokers, **more)) if e]

    alive = (broker(1), broker(2), broker(3))
    assert back(*alive, leader=2) == [(1, Cause.PREFERRED)]
    assert back(*alive, leader=1) == []
    assert back(*alive, leader=2, isr=(2, 3)) == []
    assert back(*alive, leader=-1, isr=(1,)) == []
    for state in (FENCED, STOPPING):
        assert back(broker(1, state), broker(2), broker(3), leader=2) == []
