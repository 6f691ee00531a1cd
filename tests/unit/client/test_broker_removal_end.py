"""The end of a removal: the broker is unregistered, though the cluster does not answer now and then."""

import pytest

from yak.client import broker_removal
from yak.client.broker_removal import Removal
from yak.errors import Unreachable, YakError

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
