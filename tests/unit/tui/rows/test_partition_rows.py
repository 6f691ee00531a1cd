"""Rows of partitions and of their replicas."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yak.tui.formatter import Formatter
from yak.tui.rows import partitions
from yak.tui.rows.cells import SLICE, packed
from yak.tui.rows.failover import election_lines, failover_moves
from yak.tui.rows.partitions import ReplicationTable, bar_width, replication_columns
from yak.tui.rows.topics import TopicFacts
from yak.tui.state.elections import Elections, Failover
from yak.tui.state.picture import Broker, Partition, Picture
from yak.view.broker_state import SeenState

FMT, ASCII = Formatter(), Formatter(is_ascii=True)
BROKERS = {node: Broker(node) for node in (1, 2, 3)}


def partition(leader=2, isr=(1, 2), high=611_310, ends=None, min_isr=2, **more):
    ends = {1: 611_310, 2: 611_310, 3: 609_902} if ends is None else ends
    return Partition("orders", 1, leader, 8, 9, (2, 1, 3), isr, min_isr, high, ends, **more)


def detail(silent_ms=4_800, leader_epoch=8, **more):
    followers = {1: partitions.Follower(11, 100, 100), 3: partitions.Follower(13, silent_ms, silent_ms + 100)}
    return partitions.PartitionDetail(1_000, leader_epoch, epochs={2: 12, 1: 11}, followers=followers, **more)


def cells(row, columns=partitions.REPLICA_COLUMNS):
    return dict(zip((column.label for column in columns), (cell.text for cell in row.cells), strict=True))


# partitions


def test_partition_row_names_the_leader_and_has_a_dot_for_a_replica_out_of_the_isr():
    facts = TopicFacts(0, {1: 4_011}, {1: 138 << 20})
    columns = partitions.partition_columns(120)
    (row,) = partitions.partition_rows([partition(rate_in=840.0, since_ms=1_000)], facts, FMT, 5_800)
    found = cells(row, columns)
    assert found == {
        "P": "1", "LEADER": "2", "EPOCH": "8", "ISR": "1 2 ·", "HIGH WATERMARK": FMT.number(611_310), "LOG START": FMT.number(4_011),
        "SIZE": "138 MiB", "IN": "840/s", "STATE": "▲ at min ISR", "FOR": "4.8 s",
    }  # fmt: skip
    assert len(row.cells) == len(columns)


@pytest.mark.parametrize(
    ("leader", "isr", "min_isr", "text"),
    [
        (2, (1, 2, 3), 2, "✓ ok"),
        (2, (1, 2), 2, "▲ at min ISR"),
        (2, (2,), 2, "✗ under min ISR"),
        (2, (1, 2), 1, "▲ under-replicated"),
        (2, (1, 2, 3), 5, "✓ ok"),
        (None, (2,), 2, "✗ offline"),
    ],
)
def test_state_cell_has_sign_and_label_of_the_state(leader, isr, min_isr, text):
    assert partitions.state_cell(partition(leader, isr, min_isr=min_isr), FMT).text == text


def test_the_title_says_how_much_is_in_the_topic():
    title = partitions.partitions_title("orders", [partition()], TopicFacts(0, {1: 611_300}, {1: 2048}), FMT)
    assert title == "Partitions of orders: 1 × RF 3, min ISR 2, 10 records, 2.0 KiB"
    assert partitions.partitions_title("orders", [], None, ASCII) == "Partitions of orders: 0 x RF 0"


# bars


@given(
    st.integers(0, 10_000), st.integers(0, 10_000), st.integers(0, 10_000), st.integers(1, 5_000), st.integers(2, 40),
    st.booleans(),
)  # fmt: skip
def test_offset_bar_has_the_requested_width_and_is_never_full_for_a_lagging_replica(
    top, behind, unacked, window, width, is_ascii
):
    end, high = max(0, top - behind), max(0, top - unacked)
    bar = partitions.offset_bar(end, high, top, window, width, Formatter(is_ascii=is_ascii))
    full, missing, mark = "=.|" if is_ascii else "━┄┃"
    assert len(bar) == width
    if top == 0:
        assert bar == missing * width
        return
    assert bar.count(mark) == 1
    assert set(bar) <= {full, missing, mark}
    if end < top and high < top:
        assert bar[-1] in (missing, mark)
    if end == top:
        assert missing not in bar


def test_the_mark_is_where_the_high_watermark_is():
    assert partitions.offset_bar(100, 100, 100, 100, 10, ASCII) == "=========|"
    assert partitions.offset_bar(100, 50, 100, 100, 10, ASCII) == "====|====="
    assert partitions.offset_bar(20, 100, 100, 100, 10, ASCII) == "==.......|"
    assert partitions.offset_bar(5, 5, 5, 100, 4, ASCII) == "===|"


@pytest.mark.parametrize(
    ("end", "rate", "window"), [(611_310, 0, 100), (611_310, 840, 2_000), (609_902, 0, 2_000), (0, 0, 1_000_000)]
)
def test_bars_show_as_much_as_the_last_one_is_behind(end, rate, window):
    assert partitions.window_of(partition(ends={1: 611_310, 2: 611_310, 3: end}, rate_in=rate)) == window


# replicas


def test_a_replica_that_is_out_says_since_when_it_did_not_fetch():
    leader, first, last = partitions.replica_rows(partition(), detail(), BROKERS, FMT, 1_000)
    assert [row.key for row in (leader, first, last)] == ["2", "1", "3"]
    assert cells(leader)["WHY"] == "✓ leads"
    assert cells(leader)["EPOCH"] == "12"
    assert cells(first)["WHY"] == "✓ in sync"
    found = cells(last)
    assert (found["LAG"], found["WHY"]) == (FMT.number(1_408), "✗ OUT: no fetch for 4.8 s")
    assert (found["FETCHED"], found["CAUGHT UP"], found["EPOCH"]) == ("4.8 s", "4.9 s", "13")
    later = cells(partitions.replica_rows(partition(), detail(), BROKERS, FMT, 2_000)[2])
    assert (later["FETCHED"], later["WHY"]) == ("5.8 s", "✗ OUT: no fetch for 5.8 s")


def why(node=3, brokers=BROKERS, answer=None, **more):
    made = partition(**more)
    return partitions.replica_reason(node, made, detail() if answer is None else answer, brokers.get(node), 1_000)[0]


def test_why_a_replica_is_in_sync_or_not():
    assert why(answer=detail(silent_ms=100)) == "OUT: catching up, lag 1.4k"
    assert why(ends={1: 9, 2: 9, 3: 9}) == "OUT: caught up, joins at once"
    assert why(ends={1: 9, 2: 9, 3: None}) == "OUT: never fetched from leader 2"
    assert why(answer=detail(adding_replicas=(3,))) == "new: copying, 1.4k to go"
    assert why(leader=None) == "OUT: there is no leader to copy from"
    assert why(answer=detail(leader_epoch=7)) == "OUT: catching up, lag 1.4k"  # of a leader before: says nothing
    fenced = BROKERS | {3: Broker(3, registered=SeenState.FENCED)}
    assert why(brokers=fenced) == "OUT: broker is fenced"
    assert why(brokers=fenced, answer=detail(eligible_leaders=(3,))) == "OUT: broker is fenced, may lead again"
    assert why(brokers=BROKERS | {3: Broker(3, registered=SeenState.CLOSED)}) == "OUT: broker has stopped"
    assert why(brokers={}) == "OUT: broker is gone"
    assert why(1, brokers=BROKERS | {1: Broker(1, registered=SeenState.FENCED)}) == "in sync, broker is fenced"
    assert why(1, leader=None) == "in sync, no leader"


def test_all_replicas_of_a_topic_name_their_partition_once():
    rows = partitions.topic_replica_rows([partition()], {1: detail()}, BROKERS, FMT, 1_000)
    assert [row.key for row in rows] == ["1/2", "1/1", "1/3"]
    assert [row.cells[0].text for row in rows] == ["1", "", ""]
    assert all(len(row.cells) == len(partitions.TOPIC_REPLICA_COLUMNS) for row in rows)


# what it means


def said(made):
    return " ".join(cell.text for cell in partitions.meaning(made, FMT))


def test_the_sentence_of_the_sketch():
    number = FMT.number(611_310)
    assert said(partition()) == (
        f"HW = min(LEO of ISR {{1,2}}) = {number}. acks=all: accepted (ISR 2 ≥ min 2). If node 1 also fails: rejected."
    )


def test_partition_text_has_the_acks_all_result_now_and_after_one_more_failure():
    def whole(min_isr):
        return said(partition(isr=(1, 2, 3), ends={1: 5, 2: 5, 3: 5}, high=5, min_isr=min_isr))

    assert whole(2).endswith("acks=all: accepted (ISR 3 ≥ min 2). If one node fails: still accepted.")
    assert whole(1).endswith("If one node fails: still accepted, up to 2 of them.")
    assert whole(3).endswith("If one node fails: rejected.")
    alone = partition(isr=(2,))
    assert said(alone).endswith("acks=all: rejected (ISR 1 < min 2).")
    alone = partition(isr=(2,), min_isr=1)
    assert said(alone).endswith("acks=all: accepted (ISR 1 ≥ min 1). If node 2 fails: offline.")
    assert said(partition(leader=None, isr=(2,))).endswith("No leader: neither writes nor reads until {2} is back.")


def test_a_high_watermark_that_is_on_its_way_says_where_to():
    made = partition(isr=(1, 2), ends={1: 12, 2: 15, 3: 9}, high=10)
    assert said(made).startswith("HW = 10, on its way to min(LEO of ISR {1,2}) = 12.")
    assert said(partition(ends={1: None, 2: 15}, high=10)).startswith("HW = 10.")


def test_sentences_are_packed_into_lines():
    found = partitions.meaning(partition(), ASCII)
    assert len(packed(found, 120)) == 1
    assert len(packed(found, 70)) == 2
    narrow = packed(found, 20)
    assert max(sum(len(cell.text) + 1 for cell in line) for line in narrow) <= 21
    assert " ".join(cell.text for line in narrow for cell in line) == " ".join(cell.text for cell in found)


def picture_of(*partitions):
    made = Picture()
    made.brokers = {node: Broker(node) for node in (1, 2, 3)}
    for each in partitions:
        made.partitions[each.topic, each.partition] = each
        made.topics.setdefault(each.topic, []).append(each)
    made.topics_version += 1
    return made


def followed(number=0, leader=1, isr=(1, 2, 3), ends=(100, 100, 100), topic="orders", **more):
    return Partition(
        topic, number, leader, 4, 7, (1, 2, 3), isr, 2, 100, dict(zip((1, 2, 3), ends, strict=True)), **more
    )


def rows_of(picture, table=None, now_ms=5_000, width=78, **more):
    made = table or ReplicationTable()
    return made.rows(picture, ASCII, now_ms, [], width, **{"with_internal": False, **more})


def line(row):
    return [cell.text for cell in row.cells]


def test_a_row_has_a_bar_for_each_replica_the_leaders_first():
    (row,) = rows_of(picture_of(followed(leader=2, isr=(1, 2), ends=(100, 100, 40), since_ms=1_000)))
    width = bar_width(78, 3)
    state, since, name, leader, epoch, isr, high, rate, *bars = line(row)
    assert (state, since, name, leader, epoch, isr, high, rate) == (
        "[!] at min ISR",
        "4.0 s",
        "orders-0",
        "2",
        "4",
        "1 2 .",
        "100",
        "0/s",
    )
    assert bars[0] == "2 " + "=" * (width - 1) + "|"
    assert bars[1] == "1 " + "=" * (width - 1) + "|"
    assert bars[2].startswith("3x=")
    assert bars[2].endswith(" 60")
    assert [cell.tone for cell in row.cells[8:]] == ["accent", "accent", "bad"]


def test_rows_have_as_many_cells_as_columns_whatever_the_replicas():
    seven = Partition("wide", 0, 1, 0, 0, tuple(range(1, 8)), tuple(range(1, 8)), 1, 1, dict.fromkeys(range(1, 8), 1))
    one = Partition("one", 0, 1, 0, 0, (1,), (1,), 1, 1, {1: 1})
    table = ReplicationTable()
    rows = rows_of(picture_of(seven, one), table)
    assert {len(row.cells) for row in rows} == {len(table.columns())}
    assert len(replication_columns(7, 4)) == len(replication_columns(5, 4))
    assert line(rows[0])[-4:] == ["", "", "", ""]


def test_row_of_a_partition_that_waits_for_its_slice_has_as_many_cells_as_columns():
    table = ReplicationTable()
    rows = rows_of(picture_of(*(followed(number) for number in range(SLICE + 1))), table)
    assert {len(row.cells) for row in rows} == {len(table.columns())}
    assert line(rows[-1])[2] == f"orders-{SLICE}"


def test_unhealthy_partitions_are_listed_first_with_the_worst_at_the_top():
    picture = picture_of(
        followed(0), followed(1, isr=(1, 2)), followed(2, leader=None, isr=()), followed(3, isr=(1,)), followed(4)
    )
    table = ReplicationTable()
    assert [row.key for row in rows_of(picture, table)] == ["orders-2", "orders-3", "orders-1", "orders-0", "orders-4"]
    assert (table.count, table.count_ok) == (5, 2)
    for each in picture.partitions.values():
        each.leader, each.isr = 1, (1, 2, 3)
    assert [row.key for row in rows_of(picture, table)] == [f"orders-{number}" for number in range(5)]


def test_the_partition_of_a_row_and_internal_topics():
    table, internal = ReplicationTable(), followed(topic="__consumer_offsets")
    picture = picture_of(followed(), internal)
    assert [row.key for row in rows_of(picture, table)] == ["orders-0"]
    assert table.partition("__consumer_offsets-0") is None
    assert len(rows_of(picture, table, with_internal=True)) == 2
    assert table.partition("__consumer_offsets-0") is internal
    assert table.partition(None) is None


def test_topic_that_is_deleted_while_it_is_visible_leaves_the_table():
    table, picture = ReplicationTable(), picture_of(followed(), followed(topic="payments"))
    assert [row.key for row in rows_of(picture, table)] == ["orders-0", "payments-0"]
    picture.take({"kind": "topic-deleted", "time_ms": 1, "node_id": 1, "message": "", "topic": "payments"})
    rows = table.rows(picture, ASCII, 5_000, ["orders-0", "payments-0"], 78, with_internal=False)
    assert [row.key for row in rows] == ["orders-0"]


def test_problems_among_tens_of_thousands_are_first_within_a_second():
    picture = picture_of(*(followed(number) for number in range(3_000)))
    table = ReplicationTable()
    rows_of(picture, table, now_ms=10_000)
    picture.partitions["orders", 2_999].isr = (1,)
    assert rows_of(picture, table, now_ms=10_200)[0].key == "orders-0"
    assert rows_of(picture, table, now_ms=11_100)[0].key == "orders-2999"


def test_bars_fit_beside_the_rest():
    for width in (60, 78, 98, 116, 140, 200):
        for replicas in (1, 3, 5):
            assert 3 <= bar_width(width, replicas) <= 20
    assert bar_width(200, 3) > bar_width(78, 3)


# time lines


def failover():
    made = Failover(10_000, 2, detected_ms=10_000, fenced_ms=10_036, elected_ms=10_048, first_write_ms=10_157)
    made.moved = {"orders-1": (2, 3, 1), "orders-2": (2, None, 1)}
    return made


def text_of(lines):
    return [" ".join(cell.text for cell in each) for each in lines]


def test_a_failover_says_each_step_and_what_it_took():
    found = text_of(election_lines([failover()], ASCII, 14_000, 100, 10))
    assert found == [
        "00:00:10.000Z * broker 2 lost 4.0 s ago, not back yet".replace("4.0 s", "4 s"),
        "  detected +0 ms -> fenced +36 ms -> elected +12 ms -> write +109 ms = 157 ms",
        "  orders-1 2 -> 3 (epoch 1), orders-2 2 -> none (epoch 1)",
    ]


def test_a_failover_that_is_not_over_and_one_that_is():
    going = Failover(10_000, 2, detected_ms=10_000, moved={"orders-1": (2, None, 1)})
    assert "no new leader yet" in text_of(election_lines([going], ASCII, 10_100, 100, 10))[1]
    back = failover()
    back.back_ms, back.truncated = 26_700, ["the log of orders-1 is cut from 6682 to 6628"]
    found = text_of(election_lines([back], ASCII, 30_000, 100, 10))
    assert found[0].endswith("back after 16.7 s")
    assert found[-1].endswith("cut from 6682 to 6628")
    planned = Failover(10_000, None, elected_ms=10_020, moved={"orders-1": (2, 3, 1)})
    assert "leaders moved in order" in text_of(election_lines([planned], ASCII, 30_000, 100, 10))[0]


def test_election_lines_have_whole_newest_failovers():
    older, newer = failover(), failover()
    newer.node_id = 3
    assert "broker 3" in text_of(election_lines([older, newer], ASCII, 14_000, 100, 5))[0]
    assert len(election_lines([older, newer], ASCII, 14_000, 100, 5)) == 3
    assert len(election_lines([older, newer], ASCII, 14_000, 100, 6)) == 6


def test_as_many_moves_are_named_as_there_is_room_for():
    made = Failover(0, 2, moved={f"orders-{number}": (2, 3, 1) for number in range(20)})
    found = failover_moves(made, ASCII, 76)
    assert len(found) <= 76
    assert found.endswith("and 18 more")


def test_failover_over_no_leader_ends_with_the_new_leader():
    elections = Elections()
    event = {"kind": "leader-changed", "time_ms": 5, "topic": "orders", "partition": 0, "leader_epoch": 5}
    elections.take({**event, "from": 1, "to": None}, is_new=True)
    elections.take({**event, "from": None, "to": 3, "leader_epoch": 6}, is_new=True)
    assert elections.last.moved == {"orders-0": (1, 3, 6)}
