"""The sentences of events that the core's log events become."""

import pytest

from yak.core.events import Notice
from yak.views.notices import of_notice


@pytest.mark.parametrize(
    ("event", "fields", "words"),
    [
        ("leaders-elected", {"count": 1, "took_ms": 3}, "1 leader elected in 3 ms"),
        ("leaders-moved", {"count": 2, "took_ms": 3}, "2 leaders moved in 3 ms"),
        ("partitions-without-leader", {"count": 1}, "1 partition without an eligible leader"),
    ],
)
def test_sentence_agrees_with_its_number(event, fields, words):
    happening = of_notice(Notice("info", event, fields))
    assert happening is not None
    assert happening.message == words
