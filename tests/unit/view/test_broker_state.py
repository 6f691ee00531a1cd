"""The state of a broker that a client sees, in the terminal UI as in `yak brokers`."""

import pytest

from yak.tui.formatter import Formatter
from yak.tui.rows.cluster import broker_state_cell
from yak.tui.state.picture import Broker
from yak.view.broker_state import SeenState


@pytest.mark.parametrize("registered", SeenState)
def test_active_broker_that_does_not_answer_is_silent_and_others_keep_their_state(registered: SeenState) -> None:
    expected = SeenState.SILENT if registered is SeenState.ACTIVE else registered
    assert registered.seen(answers=False) is expected
    assert registered.seen(answers=True) is registered


@pytest.mark.parametrize("registered", SeenState)
@pytest.mark.parametrize("link", ["up", "down", "unknown"])
def test_screen_shows_the_state_that_a_client_sees(registered: SeenState, link: str) -> None:
    broker = Broker(1, registered=registered, link=link)
    expected = registered.seen(answers=link != "down")
    assert broker_state_cell(broker, Formatter()).text.endswith(f" {expected}")
    assert broker.is_up is (expected is SeenState.ACTIVE)
