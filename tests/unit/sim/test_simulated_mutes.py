"""A muted connection of a simulated broker, as in `tests/unit/server/test_muted_connections.py`."""

from tests.rig import Rig
from yak.core.events import MuteConnection, UnmuteConnection

API_VERSIONS = 18


def test_connection_muted_for_two_reasons_is_read_after_the_end_of_both() -> None:
    rig = Rig()
    connection_id = rig.client.connection_id
    assert connection_id is not None
    for _ in range(2):
        rig.node._carry_out(MuteConnection(connection_id))
    pending = [rig.begin(API_VERSIONS, 0) for _ in range(2)]
    rig.node._carry_out(UnmuteConnection(connection_id))
    rig.run_for(100)
    assert not any(each.is_done for each in pending)
    rig.node._carry_out(UnmuteConnection(connection_id))
    rig.run_for(100)
    assert all(each.is_done and not each.is_lost for each in pending)


def test_requests_that_waited_are_read_before_those_that_arrive_at_the_end_of_the_mute() -> None:
    rig, steps = Rig(), []
    connection_id = rig.client.connection_id
    assert connection_id is not None
    rig.node._carry_out(MuteConnection(connection_id))
    rig.node.receive(connection_id, [b"first", b"second"])
    rig.node._carry_out(UnmuteConnection(connection_id))
    rig.node._step = lambda event: steps.append(bytes(getattr(event, "frame", b"")))  # type: ignore[method-assign]
    rig.node.receive(connection_id, [b"third"])
    rig.run_for(1)
    assert [each for each in steps if each] == [b"first", b"second", b"third"]


def test_unmuting_a_connection_that_no_longer_exists_does_nothing() -> None:
    rig = Rig()
    rig.node._carry_out(UnmuteConnection(99))
    assert rig.ask(API_VERSIONS, 0) is not None
