"""The failover screen's rows and lines, without a terminal."""

import pytest

from yak.errors import UsageError
from yak.local.demo.delivery_statistics import Counts, Pause
from yak.local.status import BrokerCondition, BrokerStatus
from yak.tui.demo.state import DemoState
from yak.tui.formatter import Formatter
from yak.tui.rows.cells import Cell
from yak.tui.rows.failover import (
    Processes,
    broker_rows,
    delivery_lines,
    history_rows,
    nothing_yet_lines,
    sole_in_sync,
    timeline_lines,
)
from yak.tui.screens.failover import move_body, move_command
from yak.tui.screens.processes import end_question, resume_plan
from yak.tui.state.drills import Drill, MovedLeadership, Timeline
from yak.tui.state.picture import Broker, Partition, Picture

FMT = Formatter()


def process(state: BrokerCondition, pid: int | None) -> BrokerStatus:
    return BrokerStatus(0, "leader", pid, "", state)


def text_of(lines: list[list[Cell]]) -> str:
    return "\n".join(" ".join(cell.text for cell in line) for line in lines)


def cluster() -> Picture:
    picture = Picture()
    picture.is_loaded, picture.controller_id, picture.store_state = True, 1, "connected"
    for node in (1, 2, 3):
        picture.brokers[node] = Broker(node, link="up", host="127.0.0.1", port=9090 + node)
    picture.partitions["orders", 0] = Partition("orders", 0, 1, 1, 1, (1, 2, 3), (1, 2, 3))
    picture.partitions["orders", 1] = Partition("orders", 1, 1, 1, 1, (1, 2, 3), (1,))
    picture.partitions["orders", 2] = Partition("orders", 2, 2, 1, 1, (1, 2, 3), (1, 2, 3))
    return picture


def killed() -> Timeline:
    drill = Drill("kill", 1, 1_000_000, "kill -9 of broker 1", "yak node kill 1", frozenset({"orders-0"}))
    found = Timeline(drill, detected_ms=10, fenced_ms=20, elected_ms=40, first_write_ms=100)
    found.moved["orders-0"] = MovedLeadership("orders-0", 1, 2, 5, 40)
    found.longest = Pause("orders-0", 1_000_000, 1_000_105)
    return found


def test_brokers_have_their_process_beside_what_the_cluster_says() -> None:
    processes = Processes({1: process("running", 11), 2: process("paused", 12), 3: process("dead", None)}, True, 99)
    rows = {row.key: [cell.text for cell in row.cells] for row in broker_rows(cluster(), processes, FMT)}
    assert rows["1"][:7] == ["1", "leader ◆", "● ACTIVE", "2", "0", "● running", "11"]
    assert rows["2"][4:7] == ["1", "‖ paused", "12"]
    assert rows["3"][5:7] == ["✗ dead", FMT.sign("none")]
    assert rows["redis"][5:7] == ["● running", "99"]


def test_broker_rows_of_a_remote_cluster_have_no_processes() -> None:
    rows = broker_rows(cluster(), None, FMT)
    assert [row.key for row in rows] == ["1", "2", "3"]
    assert rows[0].cells[5].text == "not here"


def test_sole_in_sync_lists_partitions_that_depend_on_a_broker() -> None:
    assert sole_in_sync(cluster(), 1) == ["orders-1"]
    assert [(row.cells[3].text, row.cells[4].text) for row in broker_rows(cluster(), None, FMT)[::2]] == [
        ("2", "0"),
        ("0", "1"),
    ]


def test_kill_question_names_process_controller_and_offline_partitions() -> None:
    processes = Processes({1: process("running", 4711)})
    text, title, yes = end_question("kill", 1, cluster(), processes)
    assert (title, yes) == ("Kill broker 1", "Kill")
    assert "4711" in text
    assert "leads 2 of 3" in text
    assert "controller" in text
    assert "orders-1: offline" in text
    assert "offline" not in end_question("kill", 2, cluster(), processes)[0]


def test_bars_are_to_scale_and_each_begins_where_the_one_before_ends() -> None:
    lines = timeline_lines(killed(), FMT, 80, 30, 1_000_200)
    bars = {line[0].text.strip(): line[2].text for line in lines[1:6]}
    assert list(bars) == ["kill -9", "detected", "fenced", "elected", "first write"]
    ends = {name: len(bar) for name, bar in bars.items()}
    begins = {name: len(bar) - len(bar.lstrip()) for name, bar in bars.items()}
    assert begins["fenced"] == ends["detected"]
    assert begins["first write"] == ends["elected"]
    room = ends["first write"]
    assert ends["elected"] == pytest.approx(room * 0.4, abs=1.5)
    assert all(len(line[0].text) + len(line[1].text) + len(line[2].text) + 4 <= 80 for line in lines[1:6])


def test_timeline_lines_report_longest_wait_and_moved_leaders() -> None:
    text = text_of(timeline_lines(killed(), FMT, 80, 30, 1_000_200))
    assert "the longest wait for an acknowledgement: 105 ms" in text
    assert "orders-0  1 → 2  epoch 5" in text
    assert "orders-0" not in text_of(timeline_lines(killed(), FMT, 80, 6, 1_000_200)[:6])


def test_moved_partitions_of_internal_topics_are_one_line() -> None:
    found = killed()
    for number in range(30):
        found.moved[f"__consumer_offsets-{number}"] = MovedLeadership(f"__consumer_offsets-{number}", 1, 2, 5, 40)
    lines = [line[0].text for line in timeline_lines(found, FMT, 80, 20, 1_000_200)]
    assert lines[-1] == "  30 partitions of internal topics"
    assert not any("__consumer_offsets" in line for line in lines)


def test_partitions_of_users_come_first_and_those_without_room_are_counted() -> None:
    found = killed()
    for number in range(30):
        found.moved[f"__a-{number}"] = MovedLeadership(f"__a-{number}", 1, 2, 5, 40)
    lines = timeline_lines(found, FMT, 80, 12, 1_000_200)
    assert len(lines) == 12
    assert "orders-0" in lines[7][0].text
    assert lines[-1][0].text.strip() == "and 27 more"
    assert timeline_lines(found, FMT, 80, 8, 1_000_200)[-1][0].text.strip() == "31 partitions have another leader"


def test_timeline_outcome_explains_missing_steps() -> None:
    found = Timeline(Drill("kill", 1, 0, "kill", "", frozenset({"orders-0"})))
    assert "waiting for another leader of 1 partition" in text_of(timeline_lines(found, FMT, 80, 9, 10))
    found.moved["orders-0"] = MovedLeadership("orders-0", 1, None, 5, 40)
    assert "without a leader: orders-0" in text_of(timeline_lines(found, FMT, 80, 9, 10))
    found.moved["orders-0"].to_node, found.elected_ms = 2, 40
    assert "no client was seen to write" in text_of(timeline_lines(found, FMT, 80, 9, 10))
    found.is_written = True
    assert "no write was acknowledged" in text_of(timeline_lines(found, FMT, 80, 9, 10))
    idle = Timeline(Drill("kill", 1, 0, "kill"))
    assert "led nothing" in text_of(timeline_lines(idle, FMT, 80, 9, 10))
    seen = Timeline(Drill("seen", 1, 0, "broker 1 was lost"), detected_ms=5)  # the metadata store is down, too
    assert "it was not fenced" in text_of(timeline_lines(seen, FMT, 80, 9, 10))


def test_before_the_first_failover_it_says_how_to_see_one_and_what_does_not_work_elsewhere() -> None:
    assert "K kills it" in text_of(nothing_yet_lines(is_local=True))
    elsewhere = text_of(nothing_yet_lines(is_local=False))
    assert "K, P and U work on clusters that yak up started on this machine" in elsewhere
    assert "F moves its leaders" in elsewhere


def test_the_history_has_the_newest_first() -> None:
    older, newer = killed(), killed()
    newer.drill = Drill("pause", 2, 2_000_000, "SIGSTOP", "")
    rows = history_rows([older, newer], FMT, 3_000_000)
    assert [row.cells[1].text for row in rows] == ["pause 2", "kill 1"]
    assert rows[1].cells[4].text == "105 ms"


@pytest.mark.parametrize(
    ("counts", "said"),
    [
        (Counts(acknowledged=120_000, read=120_000), "✓ all is there:  lost 0  duplicated 0  reordered 0  moved 0"),
        (Counts(acknowledged=5, read=4, lost=1), "✗ 1 WRONG:  lost 1  duplicated 0"),
        (Counts(acknowledged=5, waiting=5, oldest_waiting_ms=7_000), "▲ unread for 7.0 s:"),
    ],
)
def test_delivery_lines_report_the_result(counts: Counts, said: str) -> None:
    demo = DemoState(counts=counts, counted_ms=1_000)
    text = text_of(delivery_lines(demo, Formatter(), 1_000))
    assert said in text
    assert all(len(line) <= 76 for line in text.splitlines())


def test_delivery_lines_report_the_rate_or_no_writes() -> None:
    demo = DemoState(phase="running", counts=Counts(acknowledged=5, read=5), counted_ms=1_000, rate=498.0)
    assert "498 acked/s" in text_of(delivery_lines(demo, FMT, 1_000))
    demo.rate = 0.0
    assert "▲ no write is acknowledged" in text_of(delivery_lines(demo, FMT, 1_000))


def test_delivery_lines_report_old_counts_and_deleted_topics() -> None:
    demo = DemoState(counts=Counts(acknowledged=5, failed=2), counted_ms=1_000, gone=("orders",), last_error="gone")
    text = text_of(delivery_lines(demo, FMT, 11_000))
    assert "counted 10 s ago" in text
    assert "topic orders was deleted" in text
    assert "2 failed at the client: gone" in text


LED = ["orders-0", "orders-1", "my-topic-0"]


@pytest.mark.parametrize(
    ("what", "to", "body", "command"),
    [
        ("", "any in sync", {"from": 1}, "yak failover --from 1"),
        ("", "2", {"from": 1, "to": 2}, "yak failover --from 1 --to 2"),
        ("my-topic", "any in sync", {"topic": "my-topic", "from": 1}, "yak failover my-topic --from 1"),
        (
            "orders:1",
            "3",
            {"topic": "orders", "partition": 1, "from": 1, "to": 3},
            "yak failover orders:1 --from 1 --to 3",
        ),
    ],
)
def test_move_sends_the_request_of_yak_failover(what: str, to: str, body: dict[str, object], command: str) -> None:
    values = {"what": what, "to": to}
    assert move_body(1, values, LED, [1, 2, 3]) == body
    assert move_command(1, values, LED, [1, 2, 3]) == command


@pytest.mark.parametrize(
    ("what", "to"), [("payments", "any in sync"), ("orders:7", "any in sync"), ("orders:x", "2"), ("", "9")]
)
def test_move_of_partitions_that_are_not_led_or_to_an_absent_broker_is_refused(what: str, to: str) -> None:
    with pytest.raises(UsageError):
        move_body(1, {"what": what, "to": to}, LED, [1, 2, 3])


class Control:
    """What would be done."""

    def __init__(self) -> None:
        self.done: list[str] = []

    def command(self, text_of: str) -> str:
        return f"yak {text_of}"

    def start_redis(self) -> None:
        self.done.append("redis")

    def resume(self, node: int) -> None:
        self.done.append(f"resume {node}")

    def restart(self, node: int) -> None:
        self.done.append(f"restart {node}")


BROKEN = Processes({1: process("dead", None), 2: process("paused", 12), 3: process("running", 13)}, False)


@pytest.mark.parametrize(
    ("chosen", "done"),
    [
        ("3", ["redis", "restart 1", "resume 2"]),
        (None, ["redis", "restart 1", "resume 2"]),
        ("2", ["redis", "resume 2"]),
        ("redis", ["redis"]),
    ],
)
def test_resume_plan_has_the_chosen_broker_or_all_and_redis_first(chosen: str | None, done: list[str]) -> None:
    control = Control()
    for remedy in resume_plan(chosen, BROKEN, control):  # type: ignore[arg-type]
        assert remedy.command.startswith("yak ")
        remedy.action()
    assert control.done == done


def test_resume_plan_is_empty_where_all_processes_run() -> None:
    assert resume_plan("1", Processes({1: process("running", 1)}, True), Control()) == []  # type: ignore[arg-type]
