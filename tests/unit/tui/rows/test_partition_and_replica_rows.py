import pytest
from hypothesis import given
from hypothesis import strategies as st

from yak.tui.look import Look
from yak.tui.rows import partitions, replicas
from yak.tui.rows.packed import packed
from yak.tui.rows.topics import TopicFacts
from yak.tui.state.picture import Broker, Partition

LOOK, ASCII = Look(), Look(is_ascii=True)
BROKERS = {node: Broker(node) for node in (1, 2, 3)}


def partition(leader=2, isr=(1, 2), high=611_310, ends=None, **more):
    ends = {1: 611_310, 2: 611_310, 3: 609_902} if ends is None else ends
    return Partition("orders", 1, leader, 8, 9, (2, 1, 3), isr, high, ends, **more)


def detail(min_isr=2, silent_ms=4_800, leader_epoch=8, **more):
    followers = {
        1: replicas.Follower(11, 100, 100),
        3: replicas.Follower(13, silent_ms, silent_ms + 100),
    }
    return replicas.PartitionDetail(1_000, 2, leader_epoch, min_isr, epochs={2: 12, 1: 11}, followers=followers, **more)


def cells(row, columns=replicas.COLUMNS):
    return dict(zip((column.label for column in columns), (cell.text for cell in row.cells), strict=True))


# partitions


def test_a_partition_says_who_leads_it_and_a_dot_stands_for_who_is_out():
    facts = TopicFacts(0, {1: 4_011}, {1: 138 << 20})
    columns = partitions.columns(120)
    (row,) = partitions.partition_rows([partition(rate_in=840.0, since_ms=1_000)], facts, 2, LOOK, 5_800)
    found = cells(row, columns)
    assert found == {
        "P": "1", "LEADER": "2", "EPOCH": "8", "ISR": "1 2 ·", "HIGH WATERMARK": LOOK.number(611_310), "LOG START": LOOK.number(4_011),
        "SIZE": "138 MiB", "IN": "840/s", "STATE": "▲ under-replicated", "FOR": "4.8 s",
    }  # fmt: skip
    assert len(row.cells) == len(columns)


@pytest.mark.parametrize(
    ("leader", "isr", "min_isr", "words"),
    [
        (2, (1, 2, 3), 2, "in sync"),
        (2, (1, 2), 2, "under-replicated"),
        (2, (2,), 2, "below min ISR 2"),
        (2, (2,), None, "under-replicated"),
        (2, (1, 2, 3), 5, "in sync"),
        (None, (2,), 2, "no leader"),
    ],
)
def test_the_state_of_a_partition_in_words(leader, isr, min_isr, words):
    assert partitions.state_words(partition(leader, isr), min_isr)[1] == words


def test_the_title_says_how_much_is_in_the_topic():
    title = partitions.partitions_title("orders", [partition()], TopicFacts(0, {1: 611_300}, {1: 2048}), 2, LOOK)
    assert title == "Partitions of orders: 1 × RF 3, min ISR 2, 10 messages, 2.0 KiB"
    assert partitions.partitions_title("orders", [partition()], None, None, ASCII) == "Partitions of orders: 1 x RF 3"


# bars


@given(
    st.integers(0, 10_000), st.integers(0, 10_000), st.integers(0, 10_000), st.integers(1, 5_000), st.integers(2, 40),
    st.booleans(),
)  # fmt: skip
def test_a_bar_is_as_wide_as_it_is_to_be_and_never_whole_for_who_is_behind(
    top, behind, unacked, window, width, is_ascii
):
    end, high = max(0, top - behind), max(0, top - unacked)
    bar = replicas.offset_bar(end, high, top, window, width, Look(is_ascii=is_ascii))
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
    assert replicas.offset_bar(100, 100, 100, 100, 10, ASCII) == "=========|"
    assert replicas.offset_bar(100, 50, 100, 100, 10, ASCII) == "====|====="
    assert replicas.offset_bar(20, 100, 100, 100, 10, ASCII) == "==.......|"
    assert replicas.offset_bar(5, 5, 5, 100, 4, ASCII) == "===|"


@pytest.mark.parametrize(
    ("end", "rate", "window"), [(611_310, 0, 100), (611_310, 840, 2_000), (609_902, 0, 2_000), (0, 0, 1_000_000)]
)
def test_bars_show_as_much_as_the_last_one_is_behind(end, rate, window):
    assert replicas.window_of(partition(ends={1: 611_310, 2: 611_310, 3: end}, rate_in=rate)) == window


# replicas


def test_a_replica_that_is_out_says_since_when_it_did_not_fetch():
    leader, first, last = replicas.replica_rows(partition(), detail(), BROKERS, LOOK, 1_000)
    assert [row.key for row in (leader, first, last)] == ["2", "1", "3"]
    assert cells(leader)["WHY"] == "✓ leads"
    assert cells(leader)["EPOCH"] == "12"
    assert cells(first)["WHY"] == "✓ in sync"
    found = cells(last)
    assert (found["BEHIND"], found["WHY"]) == (LOOK.number(1_408), "✗ OUT: no fetch for 4.8 s")
    assert (found["FETCHED"], found["CAUGHT UP"], found["EPOCH"]) == ("4.8 s", "4.9 s", "13")
    later = cells(replicas.replica_rows(partition(), detail(), BROKERS, LOOK, 2_000)[2])
    assert (later["FETCHED"], later["WHY"]) == ("5.8 s", "✗ OUT: no fetch for 5.8 s")


def why(node=3, brokers=BROKERS, told=None, **more):
    made = partition(**more)
    return replicas.why_words(node, made, detail() if told is None else told, brokers.get(node), 1_000)[0]


def test_why_a_replica_is_in_sync_or_not():
    assert why(told=detail(silent_ms=100)) == "OUT: catching up, 1.4k behind"
    assert why(ends={1: 9, 2: 9, 3: 9}) == "OUT: caught up, joins at once"
    assert why(ends={1: 9, 2: 9, 3: None}) == "OUT: never fetched from leader 2"
    assert why(told=detail(adding_replicas=(3,))) == "new: copying, 1.4k to go"
    assert why(leader=None) == "OUT: there is no leader to copy from"
    assert why(told=detail(leader_epoch=7)) == "OUT: catching up, 1.4k behind"  # of a leader before: says nothing
    fenced = BROKERS | {3: Broker(3, state="FENCED")}
    assert why(brokers=fenced) == "OUT: broker is fenced"
    assert why(brokers=fenced, told=detail(eligible_leaders=(3,))) == "OUT: broker is fenced, may lead again"
    assert why(brokers=BROKERS | {3: Broker(3, state="CLOSED")}) == "OUT: broker has stopped"
    assert why(brokers={}) == "OUT: broker is gone"
    assert why(1, brokers=BROKERS | {1: Broker(1, state="FENCED")}) == "in sync, broker is fenced"
    assert why(1, leader=None) == "in sync, no leader"


def test_all_replicas_of_a_topic_name_their_partition_once():
    rows = replicas.topic_replica_rows([partition()], {1: detail()}, BROKERS, LOOK, 1_000)
    assert [row.key for row in rows] == ["1/2", "1/1", "1/3"]
    assert [row.cells[0].text for row in rows] == ["1", "", ""]
    assert all(len(row.cells) == len(replicas.TOPIC_COLUMNS) for row in rows)


# what it means


def said(made, told=None):
    return " ".join(cell.text for cell in replicas.meaning(made, told or detail(), LOOK))


def test_the_sentence_of_the_sketch():
    number = LOOK.number(611_310)
    assert said(partition()) == (
        f"HW = min(LEO of ISR {{1,2}}) = {number}. acks=all: accepted (ISR 2 ≥ min 2). If node 1 also fails: rejected."
    )


def test_what_acks_all_gets_now_and_after_one_more_failure():
    whole = partition(isr=(1, 2, 3), ends={1: 5, 2: 5, 3: 5}, high=5)
    assert said(whole).endswith("acks=all: accepted (ISR 3 ≥ min 2). If one node fails: still accepted.")
    assert said(whole, detail(min_isr=1)).endswith("If one node fails: still accepted, up to 2 of them.")
    assert said(whole, detail(min_isr=3)).endswith("If one node fails: rejected.")
    alone = partition(isr=(2,))
    assert said(alone).endswith("acks=all: rejected (ISR 1 < min 2).")
    assert said(alone, detail(min_isr=1)).endswith("acks=all: accepted (ISR 1 ≥ min 1). If node 2 fails: offline.")
    assert said(partition(leader=None, isr=(2,))).endswith("No leader: neither writes nor reads until {2} is back.")


def test_a_high_watermark_that_is_on_its_way_says_where_to():
    made = partition(isr=(1, 2), ends={1: 12, 2: 15, 3: 9}, high=10)
    assert said(made).startswith("HW = 10, on its way to min(LEO of ISR {1,2}) = 12.")
    assert said(partition(ends={1: None, 2: 15}, high=10)).startswith("HW = 10.")


def test_sentences_are_packed_into_lines():
    found = replicas.meaning(partition(), detail(), ASCII)
    assert len(packed(found, 120)) == 1
    assert len(packed(found, 70)) == 2
    narrow = packed(found, 20)
    assert max(sum(len(cell.text) + 1 for cell in line) for line in narrow) <= 21
    assert " ".join(cell.text for line in narrow for cell in line) == " ".join(cell.text for cell in found)
