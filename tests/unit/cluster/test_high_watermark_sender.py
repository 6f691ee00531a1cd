"""Reports of high watermarks: a call is bounded, and the values beyond it follow in further calls."""

from uuid import UUID

from yak.cluster.high_watermark_sender import CALLS_AN_INTERVAL, MAX_PER_CALL, HighWatermarkSender
from yak.ports.metadata_store import StoreOutcome

TOPIC = UUID(int=1)
INTERVAL_MS = 200


class Session:
    """Takes the calls."""

    def __init__(self) -> None:
        self.sent: list[list[list[object]]] = []

    def send(self, script, arguments, on_reply):
        assert script == "report_hw"
        self.sent.append(arguments["partitions"])
        self.reply = lambda now_ms, code="OK": on_reply(StoreOutcome(code, 0, "", {}), now_ms)


def test_report_of_many_partitions_is_sent_in_several_bounded_calls_within_an_interval():
    session = Session()
    reports = HighWatermarkSender(session, INTERVAL_MS)
    count = 2 * MAX_PER_CALL + 1
    for partition in range(count):
        reports.note(TOPIC, partition, 3, partition, {1: 9})
    sent_ms = []
    while (due_ms := reports.due_ms()) is not None:
        sent_ms.append(due_ms)
        reports.report(due_ms)
        session.reply(due_ms)
    assert [len(partitions) for partitions in session.sent] == [MAX_PER_CALL, MAX_PER_CALL, 1]
    assert sorted(entry[1] for partitions in session.sent for entry in partitions) == list(range(count))
    assert sent_ms[2] - sent_ms[0] == 2 * INTERVAL_MS // CALLS_AN_INTERVAL
    reports.note(TOPIC, 0, 3, 5, {1: 9})
    assert reports.due_ms() == sent_ms[2] + INTERVAL_MS


def test_values_that_a_store_without_memory_refused_are_reported_again_unless_newer_ones_are_known():
    session = Session()
    reports = HighWatermarkSender(session, INTERVAL_MS)
    for partition in (0, 1):
        reports.note(TOPIC, partition, 3, 5, {1: 9})
    reports.report(0)
    reports.note(TOPIC, 1, 3, 6, {1: 9})
    session.reply(10, "STORE_ERROR")
    reports.report(reports.due_ms())
    assert sorted(entry[1:3] + [entry[3]] for entry in session.sent[-1]) == [[0, 3, 5], [1, 3, 6]]
    session.reply(300)
    assert reports.due_ms() is None
