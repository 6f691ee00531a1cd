"""`yak consume --group`: its rules, when it commits, how it says where it starts, and signals that are held."""

import os
import signal
from types import SimpleNamespace

import pytest

from yak.client.groups.group_reader import CommitEvery, Started
from yak.client.metadata import ClusterMetadata, Partition, Topic
from yak.commands import interrupts
from yak.commands.consume import GroupReading, Request, obstacle_of, parse_commit_every, print_start
from yak.errors import UsageError
from yak.ids import TopicPartition

ALREADY = 'group "audit": 2 partitions (orders:0,2): 1 from the committed offset'
O0, O1, O2 = (TopicPartition("orders", n) for n in range(3))


@pytest.mark.parametrize(
    ("text", "every"),
    [
        ("1", CommitEvery(1, None)),
        ("5s", CommitEvery(None, 5_000)),
        ("1000,500ms", CommitEvery(1000, 500)),
        ("1m, 10", CommitEvery(10, 60_000)),
    ],
)
def test_commits_are_due_after_records_after_time_or_both(text, every):
    assert parse_commit_every(text) == every


@pytest.mark.parametrize("text", ["", "0", "0s", "-1", "soon", "1,2", "1s,2s", "1,", "1.5"])
def test_commit_every_that_is_neither_a_count_nor_a_duration_is_refused(text):
    with pytest.raises(UsageError, match="--commit-every"):
        parse_commit_every(text)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--group", "audit", "--partitions", "0"], "--group and --partitions exclude each other"),
        (["--group", "audit", "--partition", "0"], "--group and --partitions exclude each other"),
        (["--group", ""], "a group needs a name"),
        (["--commit-every", "5s"], "--commit-every needs --group"),
        (["--no-commit"], "--no-commit needs --group"),
        (["-g", "a", "--commit-every", "5s", "--no-commit"], "--commit-every and --no-commit exclude each other"),
        (["-g", "a", "--commit-every", "never"], '--commit-every "never"'),
        (["-g", "a", "--from-beginning", "--tail", "3"], "--from-beginning and --tail exclude each other"),
        (["--offset", "1:2", "--to", "end"], "--to excludes an --offset with an end"),
    ],
)
def test_consume_with_conflicting_options_is_refused_before_any_request(yak, args, message, monkeypatch):
    monkeypatch.setattr("yak.client.admin.Admin", lambda *_a, **_k: pytest.fail("it asked a broker"))
    ran = yak("consume", "orders", *args)
    assert ran.code == 2
    assert message in ran.err


class Notes:
    """Stands for `g`: keeps what it is told."""

    def __init__(self):
        self.out = self
        self.notes, self.warnings = [], []

    def note(self, text):
        self.notes.append(text)

    def warn(self, text):
        self.warnings.append(text)


@pytest.mark.parametrize(
    ("request_", "started", "notes"),
    [
        (
            Request(group="audit"),
            [Started(O0, 5, 5), Started(O1, 9, 9)],
            ['group "audit": 2 partitions (orders:0-1): from the committed offset'],
        ),
        (
            Request(group="audit"),
            [Started(O2, 9, None)],
            ['group "audit": 1 partition (orders:2): from the end (no committed offset)'],
        ),
        (
            Request(group="audit", from_beginning=True),
            [Started(O0, 5, 5), Started(O2, 0, None)],
            [
                ALREADY + ", 1 by --from-beginning (no committed offset)",
                "--from-beginning counts only where nothing is committed; yak groups reset audit moves committed offsets",
            ],
        ),
        (Request(group="audit"), [], ['group "audit": no partition for this member; the others have them all']),
    ],
)
def test_a_member_says_where_it_starts_and_what_has_no_say(request_, started, notes):
    g = Notes()
    print_start(g, request_, started)
    assert g.notes == notes


def test_records_that_were_deleted_unread_are_a_warning():
    g = Notes()
    print_start(g, Request(group="audit"), [Started(O0, 9, 2, "7 records were deleted before the group read them")])
    assert g.warnings == ["orders-0: 7 records were deleted before the group read them"]


class OffsetsTopic:
    """Stands for an Admin of a cluster whose offsets topic has one partition, with these replicas and this ISR."""

    def __init__(self, replicas, isr):
        topic = Topic("__consumer_offsets", (Partition(0, 1, replicas, isr),))
        self.metadata = lambda: ClusterMetadata("c", 1, {}, {topic.name: topic})
        self.min_isrs = lambda names: dict.fromkeys(names, 2)


def test_group_that_cannot_store_its_assignment_is_named_with_the_partition():
    text = obstacle_of("audit", OffsetsTopic((1, 2, 3), (1,)))
    assert "__consumer_offsets-0 has 1 in-sync replica and needs 2; see yak isr __consumer_offsets" in text


@pytest.mark.parametrize(("replicas", "isr"), [((1, 2, 3), (1, 3)), ((1,), (1,))])
def test_group_that_can_store_its_assignment_waits_for_a_member(replicas, isr):
    assert "it is rebalancing" in obstacle_of("audit", OffsetsTopic(replicas, isr))


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_the_first_signal_is_held_and_the_second_is_not(number, code):
    before = signal.getsignal(number)
    with interrupts.held() as held:
        assert held.exit_code == 0
        os.kill(os.getpid(), number)
        assert (held.signal, held.exit_code) == (number, code)
        with pytest.raises((KeyboardInterrupt, SystemExit)):
            os.kill(os.getpid(), number)
    assert signal.getsignal(number) is before
    interrupts._seen.clear()


def member(reader, held):
    """The read loop of a member of the group audit."""
    printer = SimpleNamespace(flush=lambda: None)
    return GroupReading(Notes(), Request(group="audit"), reader, printer, [], None, None, None, held=held, admin=None)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_first_signal_ends_a_member_which_then_commits(number):
    finished = []
    reader = SimpleNamespace(
        records=lambda more: iter([None] if more() else []), finish=lambda: finished.append(True), is_joining=False
    )
    assert member(reader, interrupts.DeferredSignal(number)).run() == 128 + number
    assert finished


def test_second_signal_ends_a_member_without_a_commit():
    def interrupted(more):
        raise KeyboardInterrupt

    reader = SimpleNamespace(records=interrupted, finish=lambda: pytest.fail("it commits"))
    with pytest.raises(KeyboardInterrupt):
        member(reader, interrupts.DeferredSignal(signal.SIGINT)).run()


@pytest.mark.parametrize(("text", "separator"), [("→", "→"), ("\\t", "\t"), ("\\x3d", "=")])
def test_key_separator_of_apaches_property_is_any_text(text, separator):
    assert Request().with_properties((f"key.separator={text}",)).separator == separator


@pytest.mark.parametrize("args", [["--property", "key.separator=\\x"], ["--partitions", ""], ["-r", "ok", "("]])
def test_values_that_cannot_be_read_are_wrong_usage(yak, args, monkeypatch):
    world = type("World", (), {"metadata": lambda _self: type("M", (), {"topics": {}})()})
    monkeypatch.setattr("yak.client.admin.Admin", lambda *_a, **_k: world())
    ran = yak("consume", "orders", *args)
    assert ran.code == 2
    assert "error[usage]" in ran.err
    assert "(" not in args or "error[usage]: ( is not a regular expression" in ran.err
