from yak.tui.look import Look
from yak.tui.rows.elections import election_lines, moves
from yak.tui.rows.replication import ReplicationTable, badness, bar_width, columns
from yak.tui.state.elections import Elections, Failover
from yak.tui.state.picture import Broker, Partition, Picture

LOOK = Look(is_ascii=True)


def picture_of(*partitions):
    made = Picture()
    made.brokers = {node: Broker(node) for node in (1, 2, 3)}
    for each in partitions:
        made.partitions[each.topic, each.partition] = each
        made.topics.setdefault(each.topic, []).append(each)
    made.topics_version += 1
    return made


def partition(number=0, leader=1, isr=(1, 2, 3), ends=(100, 100, 100), topic="orders", **more):
    return Partition(topic, number, leader, 4, 7, (1, 2, 3), isr, 100, dict(zip((1, 2, 3), ends, strict=True)), **more)


def rows_of(picture, table=None, now_ms=5_000, width=78, **more):
    made = table or ReplicationTable()
    return made.rows(picture, LOOK, now_ms, [], width, **{"with_internal": False, **more})


def line(row):
    return [cell.text for cell in row.cells]


def test_a_row_has_a_bar_for_each_replica_the_leaders_first():
    (row,) = rows_of(picture_of(partition(leader=2, isr=(1, 2), ends=(100, 100, 40), since_ms=1_000)))
    width = bar_width(78, 3)
    state, since, name, leader, epoch, isr, high, rate, *bars = line(row)
    assert (state, since, name, leader, epoch, isr, high, rate) == (
        "[!] 1 out",
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
    seven = Partition("wide", 0, 1, 0, 0, tuple(range(1, 8)), tuple(range(1, 8)), 1, dict.fromkeys(range(1, 8), 1))
    one = Partition("one", 0, 1, 0, 0, (1,), (1,), 1, {1: 1})
    table = ReplicationTable()
    rows = rows_of(picture_of(seven, one), table)
    assert {len(row.cells) for row in rows} == {len(table.columns())}
    assert len(columns(7, 4)) == len(columns(5, 4))
    assert line(rows[0])[-4:] == ["", "", "", ""]


def test_what_is_not_well_comes_first_the_worst_at_the_top():
    picture = picture_of(
        partition(0), partition(1, isr=(1, 2)), partition(2, leader=None, isr=()), partition(3, isr=(1,)), partition(4)
    )
    table = ReplicationTable()
    assert [row.key for row in rows_of(picture, table)] == ["orders-2", "orders-3", "orders-1", "orders-0", "orders-4"]
    assert (table.count, table.count_well) == (5, 2)
    for each in picture.partitions.values():
        each.leader, each.isr = 1, (1, 2, 3)
    assert [row.key for row in rows_of(picture, table)] == [f"orders-{number}" for number in range(5)]


def test_a_partition_on_one_replica_alone_is_worse_than_one_that_lacks_one():
    assert (
        badness(partition(leader=None))
        > badness(partition(isr=(1,)))
        > badness(partition(isr=(1, 2)))
        > badness(partition())
        == 0
    )
    assert badness(Partition("one", 0, 1, 0, 0, (1,), (1,))) == 0


def test_the_partition_of_a_row_and_internal_topics():
    table, internal = ReplicationTable(), partition(topic="__consumer_offsets")
    picture = picture_of(partition(), internal)
    assert [row.key for row in rows_of(picture, table)] == ["orders-0"]
    assert table.partition("__consumer_offsets-0") is None
    assert len(rows_of(picture, table, with_internal=True)) == 2
    assert table.partition("__consumer_offsets-0") is internal
    assert table.partition(None) is None


def test_problems_among_tens_of_thousands_are_first_within_a_second():
    picture = picture_of(*(partition(number) for number in range(3_000)))
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


def words(lines):
    return [" ".join(cell.text for cell in each) for each in lines]


def test_a_failover_says_each_step_and_what_it_took():
    found = words(election_lines([failover()], LOOK, 14_000, 100, 10))
    assert found == [
        "00:00:10.000Z * broker 2 lost 4.0 s ago, not back yet".replace("4.0 s", "4 s"),
        "  detected +0 ms -> fenced +36 ms -> elected +12 ms -> write +109 ms = 157 ms",
        "  orders-1 2 -> 3 (epoch 1), orders-2 2 -> nobody (epoch 1)",
    ]


def test_a_failover_that_is_not_over_and_one_that_is():
    going = Failover(10_000, 2, detected_ms=10_000, moved={"orders-1": (2, None, 1)})
    assert "no new leader yet" in words(election_lines([going], LOOK, 10_100, 100, 10))[1]
    back = failover()
    back.back_ms, back.truncated = 26_700, ["the log of orders-1 is cut from 6682 to 6628"]
    found = words(election_lines([back], LOOK, 30_000, 100, 10))
    assert found[0].endswith("back after 16.7 s")
    assert found[-1].endswith("cut from 6682 to 6628")
    planned = Failover(10_000, None, elected_ms=10_020, moved={"orders-1": (2, 3, 1)})
    assert "leaderships moved in order" in words(election_lines([planned], LOOK, 30_000, 100, 10))[0]


def test_the_newest_failovers_are_shown_whole():
    older, newer = failover(), failover()
    newer.node_id = 3
    assert "broker 3" in words(election_lines([older, newer], LOOK, 14_000, 100, 5))[0]
    assert len(election_lines([older, newer], LOOK, 14_000, 100, 5)) == 3
    assert len(election_lines([older, newer], LOOK, 14_000, 100, 6)) == 6


def test_as_many_moves_are_named_as_there_is_room_for():
    made = Failover(0, 2, moved={f"orders-{number}": (2, 3, 1) for number in range(20)})
    found = moves(made, LOOK, 76)
    assert len(found) <= 76
    assert found.endswith("and 18 more")


def test_a_leadership_that_went_to_nobody_first_ends_with_who_has_it():
    elections = Elections()
    event = {"kind": "leader-changed", "time_ms": 5, "topic": "orders", "partition": 0, "leader_epoch": 5}
    elections.take({**event, "from": 1, "to": None}, is_new=True)
    elections.take({**event, "from": None, "to": 3, "leader_epoch": 6}, is_new=True)
    assert elections.last.moved == {"orders-0": (1, 3, 6)}
