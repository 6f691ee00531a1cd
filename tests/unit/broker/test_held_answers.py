"""Answers that wait for an earlier one of their connection: their bytes count, and stop the reading."""

import pytest

from tests.rig import Rig, fetch_fields
from tests.unit.broker.group_requests import JOIN, begin_join, find, join_fields
from yak.core.events import ConnectionClosed
from yak.limits import REQUESTS_IN_FLIGHT_PER_CONNECTION_MAX, UNSENT_REPLY_BYTES_MAX


@pytest.fixture
def rig() -> Rig:
    rig = Rig(settings={"group.initial.rebalance.delay.ms": "60000"})
    rig.create_topic("orders")
    rig.produce("orders", [b"x" * 60_000])
    find(rig, "g")
    rig.run_for(2_000)
    return rig


@pytest.mark.parametrize("is_closed", [False, True])
def test_answers_behind_a_join_that_waits_are_counted_until_they_are_sent_or_dropped(rig, is_closed):
    broker, client = rig.node.broker, rig.new_client()
    member = rig.ask(JOIN, 9, client=client, **join_fields(9))
    join = begin_join(rig, 9, "g", member.member_id, client=client)
    rig.run_for(10)
    fetches = [rig.begin(1, 12, client=client, **fetch_fields("orders", 0)) for _ in range(10)]
    rig.run_for(100)
    assert not any(each.is_done for each in (join, *fetches))
    assert broker.held_bytes > 10 * 60_000
    assert broker.backlog(client.connection_id) == 11
    fetches += [rig.begin(1, 12, client=client, **fetch_fields("orders", 0)) for _ in range(10)]
    rig.run_for(100)
    assert broker.held_bytes > UNSENT_REPLY_BYTES_MAX
    assert broker.backlog(client.connection_id) > REQUESTS_IN_FLIGHT_PER_CONNECTION_MAX
    if is_closed:
        broker.step(ConnectionClosed(client.connection_id), rig.world.now_ms)
    else:
        rig.run_for(60_000)
        assert all(each.is_done for each in (join, *fetches))
        assert broker.backlog(client.connection_id) == 0
    assert broker.held_bytes == 0
