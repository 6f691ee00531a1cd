"""Which heartbeats say that nobody has our place."""

from types import SimpleNamespace

import pytest

from yak.cluster.heartbeat import Heartbeats
from yak.seams.metadata_store import StoreOutcome


@pytest.mark.parametrize(("state", "counted_ms"), [("ACTIVE", 1_000), ("STOPPING", 1_000), ("FENCED", 0)])
def test_the_store_takes_heartbeats_of_a_fenced_broker_too_but_they_do_not_count(state, counted_ms):
    """It wants to know when that broker has caught up; another may have led meanwhile."""
    replies, answers = [], []
    link = SimpleNamespace(
        image=SimpleNamespace(offset=7), send=lambda _script, _arguments, on_reply: replies.append(on_reply)
    )
    heart = Heartbeats(link, 500, lambda answer, _now_ms: answers.append(answer), lambda *_: pytest.fail("not refused"))
    heart.start(1_000)
    heart.on_time(1_000)
    (on_reply,) = replies
    on_reply(StoreOutcome("OK", value={"state": state, "controller_epoch": 1, "lease_n": 3}), 1_004)
    assert heart.counted_ms == counted_ms
    assert answers[0].asked_ms == 1_000


def test_what_was_taken_before_the_controller_let_the_broker_in_counts_once_it_has():
    replies = []
    link = SimpleNamespace(
        image=SimpleNamespace(offset=7), send=lambda _script, _arguments, on_reply: replies.append(on_reply)
    )
    heart = Heartbeats(link, 500, lambda *_: None, lambda *_: pytest.fail("not refused"))
    heart.start(1_000)
    heart.on_time(1_000)
    replies[0](StoreOutcome("OK", value={"state": "FENCED", "controller_epoch": 1, "lease_n": 3}), 1_004)
    heart.let_in(3)
    assert heart.counted_ms == 1_000
    heart.on_time(1_500)
    replies[1](StoreOutcome("OK", value={"state": "FENCED", "controller_epoch": 1, "lease_n": 3}), 1_504)
    heart.let_in(3)  # as the image has it that we did not renew yet
    assert heart.counted_ms == 1_000
