"""`yak groups`: rows, rules of its arguments, what it refuses, and its output."""

import csv
import json
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace

import pytest

from yak.client.groups import descriptions, lag, offsets
from yak.client.groups.partition_syntax import parse_partitions, partitions_text, select_partitions
from yak.client.metadata import Broker, ClusterMetadata, Partition, Topic
from yak.commands import groups, live_table
from yak.commands.groups import chosen, rewrite
from yak.errors import Unreachable, UsageError, YakError
from yak.ids import TopicPartition
from yak.view.groups import Group, Member

NODES = {node: Broker(node, "127.0.0.1", 9090 + node) for node in (1, 2)}
NOW_MS = 1_795_176_000_000
O0, O1, O2, P0 = (*(TopicPartition("orders", n) for n in range(3)), TopicPartition("payments", 0))
MEMBERS = (
    Member("app-1-uuid", "app-1", "/10.0.0.1", assigned=(O0, O1), topics=("orders", "payments")),
    Member("app-2-uuid", "app-2", "/10.0.0.2", "static-2", assigned=(P0,), topics=("orders", "payments")),
)
AUDIT = Group("audit", "classic", "Stable", "consumer", 1, MEMBERS, "range", coordinator_address=NODES[1].address)
BILLING = Group("billing", "classic", "Empty", "consumer", 2, (), coordinator_address=NODES[2].address)
JOINING = Group(
    "joining", "classic", "PreparingRebalance", "consumer", 2, (Member("m", "app", "/10.0.0.3"),),
    coordinator_address=NODES[2].address,
)  # fmt: skip
NEW = Group(
    "new", "consumer", "Stable", "consumer", 2,
    (Member("n", "app", "/h", assigned=(O2,), topics=("orders",), pattern="pay.*", epoch=4, target=(O2, P0)),),
    "uniform", 4, NODES[2].address,
)  # fmt: skip
COMMITTED = {
    "audit": {O0: 7, O1: 100, TopicPartition("gone", 0): 4},
    "billing": {O0: 0, O1: 120, O2: 3},
    "joining": {},
    "new": {O2: 9},
}
MARKS = {O0: (5, 30), O1: (0, 100), O2: (9, 9), P0: (0, 0)}


def topic(name, count):
    return Topic(name, tuple(Partition(n, 1, (1,), (1,)) for n in range(count)))


METADATA = ClusterMetadata("c", 1, NODES, {"orders": topic("orders", 3), "payments": topic("payments", 1)})


class World:
    """What the brokers say, and what was asked of them."""

    def __init__(self):
        self.groups = {each.group_id: each for each in (AUDIT, BILLING, JOINING, NEW)}
        self.committed = {name: dict(found) for name, found in COMMITTED.items()}
        self.silent = {}
        self.errors = {}
        self.commits, self.deleted, self.deleted_offsets, self.filters = [], [], [], []

    def list(self, _brokers, *, states=(), types=()):
        self.filters.append((states, types))
        return {name: replace(each, members=None) for name, each in self.groups.items()}, self.silent

    def describe(self, _brokers, groups):
        return {each.group_id: self.errors.get(each.group_id, self.groups[each.group_id]) for each in groups}

    def read_committed(self, _brokers, names, *, known=None):
        return {name: self.committed.get(name, {}) for name in names}

    def commit(self, _brokers, group, wanted):
        self.commits.append((group, dict(wanted)))
        return {each: self.errors.get(each) for each in wanted}

    def delete(self, _brokers, names):
        self.deleted += names
        return {name: self.errors.get(name) for name in names}

    def delete_offsets(self, _brokers, group, partitions):
        self.deleted_offsets.append((group, list(partitions)))
        return {each: self.errors.get(each) for each in partitions}


@pytest.fixture
def world(monkeypatch):
    made = World()
    found = {(O0): 12, (O1): -1}
    admin = SimpleNamespace(
        servers="x:1", timeout_s=1.0, metadata=lambda: METADATA,
        offsets=lambda wanted: {each: SimpleNamespace(offset=found.get(each, -1)) for each in wanted},
    )  # fmt: skip

    brokers = SimpleNamespace(admin=admin)
    monkeypatch.setattr("yak.commands.groups.connect", lambda _g: nullcontext(brokers))
    monkeypatch.setattr("yak.commands.options.Globals.now_ms", lambda _g: NOW_MS)
    monkeypatch.setattr(descriptions, "list_groups", made.list)
    monkeypatch.setattr(descriptions, "describe_groups", made.describe)
    monkeypatch.setattr(offsets, "committed_offsets", made.read_committed)
    monkeypatch.setattr(offsets, "commit_offsets", made.commit)
    monkeypatch.setattr(offsets, "delete_groups", made.delete)
    monkeypatch.setattr(offsets, "delete_offsets", made.delete_offsets)
    monkeypatch.setattr(
        lag, "read_marks", lambda _admin, wanted: {each: MARKS[each] for each in wanted if each in MARKS}
    )
    monkeypatch.setattr(lag, "oldest_unread", lambda *_a, **_k: {O0: NOW_MS - 65_000})
    return made


@pytest.mark.parametrize("format_", ["table", "wide", "csv", "json"])
@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("list", ["list"]),
        ("describe", ["describe", "audit", "billing"]),
        ("state", ["describe", "audit", "billing", "new", "--state"]),
        ("watch", ["watch", "-n", "1"]),
        ("members", ["members", "audit"]),
        ("members-new", ["members", "new"]),
        ("reset", ["reset", "billing", "-t", "orders", "--shift-by", "2"]),
    ],
)
def test_the_output_is_as_agreed(yak, golden, world, name, args, format_):
    ran = yak("groups", *args, "-o", format_)
    assert ran.code == 0, ran.err
    golden(f"tables/groups-{name}-{format_}.txt", ran.out)


def test_state_of_a_group_reads_no_offset_and_has_kafkas_own_spelling(yak, world, monkeypatch):
    monkeypatch.setattr(offsets, "committed_offsets", lambda *_, **_named: pytest.fail("it asked for offsets"))
    ran = yak("groups", "--describe", "--group", "audit", "--state")
    assert ran.code == 0, ran.err
    assert ran.out == yak("groups", "describe", "audit", "--state").out
    ran = yak("groups", "describe", "audit", "nope", "--state")
    assert ran.code == 1
    assert "audit" in ran.out
    assert "error[unknown-group]" in ran.err


def test_groups_describe_prints_only_partitions_with_lag_on_request(yak, world):
    whole = json.loads(yak("groups", "describe", "audit", "-o", "json").out)[0]
    assert 0 in [each["lag"] for each in whole["partitions"]]
    ran = yak("groups", "describe", "audit", "--lag-only", "-o", "json")
    assert ran.code == 0, ran.err
    printed = json.loads(ran.out)[0]
    assert printed["partitions"] == [each for each in whole["partitions"] if each["lag"] != 0]
    assert printed["lag"] == whole["lag"]
    world.committed["audit"] = {O0: 30, O1: 100}
    assert "\nall read" in yak("groups", "describe", "audit", "--lag-only").out


def test_states_without_partitions_are_not_limited_to_those_with_lag(yak, world):
    ran = yak("groups", "describe", "audit", "--state", "--lag-only")
    assert (ran.code, ran.out) == (2, "")
    assert "--state and --lag-only exclude each other" in ran.err


def test_group_whose_log_end_offsets_are_unknown_has_an_unknown_lag(yak, world, monkeypatch):
    assert "3 partitions, nothing is committed" not in yak("groups", "describe", "billing").out
    monkeypatch.setattr(lag, "read_marks", lambda _admin, _wanted: {})
    ran = yak("groups", "describe", "billing")
    assert "3 partitions, the lag is not known" in ran.out
    world.committed["billing"] = {}
    assert "nothing is committed" in yak("groups", "describe", "billing").out


def test_group_with_a_partition_without_a_leader_has_not_read_all(yak, world, monkeypatch):
    monkeypatch.setattr(lag, "read_marks", lambda _admin, _wanted: {O0: (0, 30)})
    world.committed["billing"] = {O0: 30, O1: 120}
    out = yak("groups", "describe", "billing").out
    assert out.endswith("\nall read but 1 of 2 partitions; 1 without a committed offset that can be compared\n")


def test_watched_groups_have_the_rate_at_which_their_committed_offsets_grow(yak, world, monkeypatch):
    moments = iter([100.0, 102.0])
    monkeypatch.setattr(groups, "time", SimpleNamespace(monotonic=lambda: next(moments)))

    def sleep(seconds):
        assert seconds == 0.5
        world.committed["audit"] |= {O0: 27, O2: 5_000}  # O2 had no commit before: what was read of it is unknown

    monkeypatch.setattr(live_table, "time", SimpleNamespace(sleep=sleep, monotonic=lambda: 0.0))
    ran = yak("groups", "watch", "audit", "joining", "-n", "2", "--interval", "500ms", "-o", "csv")
    assert ran.code == 0, ran.err
    rows = list(csv.DictReader(ran.out.splitlines()))
    assert [row["group"] for row in rows] == ["audit", "joining"] * 2, "one header"
    assert [row["records_per_s"] for row in rows] == ["", "", "10", ""]


def test_watch_of_groups_goes_on_while_no_broker_answers(yak, world, monkeypatch):
    answers = iter([[], Unreachable("unreachable", "no broker answered", why="refused"), Unreachable("x", "x"), []])

    def watched(*_args, **_named):
        answer = next(answers)
        if isinstance(answer, Unreachable):
            raise answer
        return answer

    monkeypatch.setattr(groups, "_watched", watched)
    ran = yak("groups", "watch", "-n", "4", "--interval", "0")
    assert ran.code == 0, ran.err
    assert len(ran.out.splitlines()) == 2
    assert [line.partition("Z  ")[2] for line in ran.err.splitlines()] == ["no broker answered: refused"]


def test_watching_a_group_that_is_not_there_is_refused(yak, world):
    ran = yak("groups", "watch", "audi", "-n", "1")
    assert ran.code == 1
    assert ran.err.startswith('error[unknown-group]: group "audi" does not exist\n  why:  closest: "audit"')


def test_committed_offset_that_does_not_fit_the_log_is_a_warning(yak, world):
    ran = yak("groups", "describe", "billing", "audit")
    assert ran.code == 0
    assert "warning: orders-0: 0 is committed; 5 of them are deleted: the log starts at 5\n" in ran.err
    assert "warning: orders-1: 120 is committed; the log ends at 100: it was truncated" in ran.err
    assert "warning: gone-0: 4 is committed; the topic is gone, or the partition has no leader\n" in ran.err


def test_filters_reach_the_brokers_as_kafka_spells_them(yak, world):
    assert yak("groups", "list", "--state", "stable,EMPTY", "--state", "dead", "--type", "Classic").code == 0
    assert world.filters == [(("Stable", "Empty", "Dead"), ("classic",))]
    ran = yak("groups", "list", "--state", "full")
    assert ran.code == 2
    assert '"full" is not a state of groups' in ran.err


def test_groups_list_without_lag_requests_no_offset(yak, world, monkeypatch):
    def forbidden(*_, **_named):
        raise AssertionError("it asked")

    monkeypatch.setattr(offsets, "committed_offsets", forbidden)
    ran = yak("groups", "list", "--no-lag")
    assert ran.code == 0, ran.err
    assert "LAG" not in ran.out


def test_a_list_that_may_not_be_whole_says_so_and_returns_1(yak, world):
    world.silent = {NODES[2]: "refused"}
    ran = yak("groups", "list")
    assert ran.code == 1
    assert "broker 2 at 127.0.0.1:9092 did not answer; its groups are missing: refused" in ran.err


def test_a_group_that_cannot_be_described_is_listed_and_returns_1(yak, world):
    world.errors["audit"] = YakError("no-coordinator", "x", why="y")
    ran = yak("groups", "list", "-o", "json")
    assert ran.code == 1
    assert next((each["group"], each["members"]) for each in json.loads(ran.out)) == ("audit", None)


def test_an_unknown_group_does_not_hide_the_others(yak, world):
    ran = yak("groups", "describe", "audti", "billing")
    assert ran.code == 1
    assert "error[unknown-group]" in ran.err
    assert 'closest: "audit"' in ran.err
    assert ran.out.startswith("group        billing\n")


def test_a_rebalancing_group_says_when_its_assignments_are_known(yak, world):
    ran = yak("groups", "members", "joining")
    assert ran.code == 0
    assert "is PreparingRebalance: its assignments are known when it is Stable" in ran.err
    assert yak("groups", "members", "billing").err == 'group "billing" is Empty: it has no members\n'


def test_members_with_v_also_show_the_subscription(yak, world):
    assert "SUBSCRIPTION" in yak("groups", "members", "audit", "-v").out
    assert "SUBSCRIPTION" not in yak("groups", "members", "audit").out


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["-t", "orders"], "say where to move the offsets"),
        (["--to-earliest"], "say which offsets to move"),
        (["-t", "orders", "--all-topics", "--to-earliest"], "--topic and --all-topics exclude each other"),
        (["-t", "orders", "--to-earliest", "--shift-by", "1"], "--to-earliest and --shift-by exclude each other"),
        (["-t", "orders", "--to-offset", "1", "--to-timestamp", "-1h"], "--to-offset and --to-timestamp exclude"),
        (["-t", "orders:x", "--to-latest"], '"orders:x" is not TOPIC or TOPIC:P,P'),
        (["-t", "orders:3", "--to-latest"], "orders has no partition 3"),
        (["-t", "orders", "--to-timestamp", "noon"], '"noon" is not a time'),
    ],
)
def test_a_reset_needs_one_place_and_one_target(yak, world, args, message):
    ran = yak("groups", "reset", "billing", *args)
    assert ran.code == 2
    assert message in ran.err


def test_groups_reset_is_a_dry_run_unless_execute_is_given(yak, world):
    ran = yak("groups", "reset", "billing", "--all-topics", "--to-earliest")
    assert ran.code == 0
    assert ran.err == "dry run: nothing was changed; --execute does it\n"
    assert world.commits == []
    ran = yak("groups", "reset", "billing", "--all-topics", "--to-earliest", "--execute")
    assert (ran.code, ran.err) == (0, '3 partitions of group "billing" moved\n')
    assert world.commits == [("billing", {O0: 5, O1: 0, O2: 9})]


def test_groups_reset_commits_only_changed_offsets_and_reports_clamping(yak, world):
    ran = yak("groups", "reset", "billing", "-t", "orders:1-2", "--to-offset", "3", "--execute", "-o", "json")
    assert world.commits == [("billing", {O1: 3, O2: 9})]
    rows = json.loads(ran.out)
    assert (rows[1]["result"], rows[1]["note"]) == ("set", "3 is before the log, which starts at 9")
    assert rows[1]["change"] == 6
    assert yak("groups", "reset", "new", "--all-topics", "--to-latest", "--yes").code == 0


def test_a_reset_by_time_takes_the_first_record_from_then_on(yak, world):
    yak("groups", "reset", "billing", "-t", "orders:0,1", "--to-timestamp", "-5m", "--execute")
    assert world.commits == [("billing", {O0: 12, O1: 100})]


def test_a_reset_takes_offsets_from_a_file(yak, world, tmp_path):
    file = tmp_path / "billing.csv"
    file.write_text("orders,0,6\norders,2,9\n")
    ran = yak("groups", "reset", "billing", "--from-file", str(file), "--execute")
    assert ran.code == 0, ran.err
    assert world.commits == [("billing", {O0: 6, O2: 9})]
    ran = yak("groups", "reset", "billing", "--topic", "orders:0,1", "--from-file", str(file), "-o", "json")
    assert [row["note"] for row in json.loads(ran.out)] == [None, "the file does not name it"]
    ran = yak("groups", "reset", "billing", "--from-file", str(tmp_path / "none"))
    assert (ran.code, "error[offsets-file]" in ran.err) == (2, True)


@pytest.mark.parametrize(
    ("line", "code", "error", "why"),
    [
        ("0rders,0,1", 1, "unknown-topic", 'closest: "orders"'),
        ("orders,7,1", 2, "unknown-partition", "it has 3, from 0"),
    ],
)
def test_reset_from_a_file_that_names_an_unknown_partition_moves_nothing(yak, world, tmp_path, line, code, error, why):
    (tmp_path / "f.csv").write_text(f"orders,0,6\n{line}\n")
    for more in ([], ["--execute"]):
        ran = yak("groups", "reset", "billing", "--from-file", str(tmp_path / "f.csv"), *more)
        assert (ran.code, ran.out) == (code, "")
        assert f"error[{error}]" in ran.err
        assert why in ran.err
    assert world.commits == []


def test_reset_that_moves_nothing_says_why(yak, world, monkeypatch):
    args = ("--topic", "orders:2", "--to-earliest", "--execute")
    world.committed["billing"] = {O2: 9}
    assert yak("groups", "reset", "billing", *args).err == "nothing to move: the offsets are already committed\n"
    monkeypatch.setattr(lag, "read_marks", lambda *_: {})
    left = (
        "nothing was moved: 1 partition left alone\n"
        "warning: 1 partition not moved: no leader answers; yak isr --offline\n"
    )
    assert yak("groups", "reset", "billing", *args).err == left
    world.errors["later"] = YakError("unknown-group", "none")
    world.groups["later"] = BILLING
    monkeypatch.setattr(descriptions, "require_groups", lambda _brokers, names: {names[0]: world.errors["later"]})
    ran = yak("groups", "reset", "later", *args)
    assert ran.err == f'there is no group "later" yet\n{left}'
    ran = yak("groups", "reset", "later", *args[:-1])
    assert ran.err.startswith('there is no group "later" yet\ndry run')


def test_groups_reset_of_a_partition_without_leader_moves_the_others_and_returns_1(yak, world, monkeypatch):
    monkeypatch.setattr(lag, "read_marks", lambda *_: {O0: MARKS[O0], O1: MARKS[O1]})
    ran = yak("groups", "reset", "billing", "--topic", "orders", "--to-earliest", "--execute", "-o", "json")
    assert world.commits == [("billing", {O0: 5, O1: 0})]
    assert (ran.code, json.loads(ran.out)[2]["note"]) == (1, "the partition has no leader that answers")


def test_groups_reset_of_a_deleted_topic_leaves_its_offset_and_returns_0(yak, world):
    world.groups["audit"] = replace(BILLING, group_id="audit")
    ran = yak("groups", "reset", "audit", "--all-topics", "--to-earliest", "--execute")
    assert (ran.code, world.commits) == (0, [("audit", {O0: 5, O1: 0})])


def test_a_group_with_members_is_not_reset_and_the_dry_run_says_so(yak, world):
    ran = yak("groups", "reset", "audit", "-t", "orders", "--to-earliest", "--execute")
    assert ran.code == 1
    assert "error[group-active]" in ran.err
    assert "2 members are connected: app-1 at 10.0.0.1, app-2 at 10.0.0.2" in ran.err
    assert world.commits == []
    ran = yak("groups", "reset", "audit", "-t", "orders", "--to-earliest")
    assert ran.code == 0
    assert "warning: this cannot be done now: 2 members are connected" in ran.err


def test_a_reset_of_a_group_that_is_not_there_makes_it(yak, world):
    ran = yak("groups", "reset", "fresh", "-t", "payments", "--to-latest", "--execute")
    assert ran.code == 0
    assert 'there is no group "fresh" yet: it was created' in ran.err
    assert world.commits == [("fresh", {P0: 0})]
    ran = yak("groups", "reset", "fresh", "--all-topics", "--to-latest")
    assert ran.code == 1
    assert "error[nothing-committed]" in ran.err


def test_advice_about_a_group_can_be_pasted_into_a_shell(yak, world):
    assert (
        "  try:  yak groups reset 'my group' --topic TOPIC\n" in yak("groups", "reset", "my group", "--to-latest").err
    )


def test_brokers_that_do_not_answer_are_not_said_to_have_no_groups(yak, world):
    world.groups, world.silent = {}, {NODES[2]: "timed out"}
    ran = yak("groups", "list")
    assert (ran.code, ran.out) == (1, "")
    assert "No groups" not in ran.err


def test_group_of_a_silent_broker_is_neither_reset_nor_counted_as_deleted(yak, world):
    del world.groups["audit"]
    world.silent = {NODES[2]: "timed out"}
    for command in (
        ("reset", "audit", "--topic", "orders", "--to-earliest", "--execute"),
        ("delete", "audit", "--if-exists", "--yes"),
    ):
        ran = yak("groups", *command)
        assert ran.code == 3, ran.out
        assert 'error[unreachable]: group "audit" was not found' in ran.err
    assert world.commits == world.deleted == []


def test_groups_reset_prints_a_partition_that_could_not_be_moved_and_returns_1(yak, world):
    world.errors[O0] = YakError("left-group", "no", why="it has members now")
    ran = yak("groups", "reset", "billing", "-t", "orders", "--to-latest", "--execute")
    assert ran.code == 1
    assert "failed: left-group" in ran.out
    assert "2 partitions of group" in ran.err


def test_deleting_needs_a_yes(yak, world):
    ran = yak("groups", "delete", "billing")
    assert ran.code == 2
    assert "Delete group billing and all committed offsets?" in ran.err
    assert world.deleted == []
    ran = yak("groups", "delete", "billing", "--yes")
    assert (ran.code, ran.err) == (0, "billing: deleted\n")
    assert world.deleted == ["billing"]


def test_a_group_with_members_is_not_deleted_and_the_others_are(yak, world):
    ran = yak("groups", "delete", "audit", "billing", "nope", "--yes")
    assert ran.code == 1
    assert world.deleted == ["billing"]
    assert "error[group-active]" in ran.err
    assert "error[unknown-group]" in ran.err
    ran = yak("groups", "delete", "nope", "--if-exists")
    assert (ran.code, ran.err) == (0, "nope: not there\n")


def test_offsets_of_a_topic_are_deleted_by_themselves(yak, world):
    ran = yak("groups", "delete", "billing", "--topic", "orders:0,2", "--topic", "payments", "--yes")
    assert ran.code == 0, ran.err
    assert world.deleted == []
    assert world.deleted_offsets == [("billing", [O0, O2])]
    assert ran.err == "billing orders-0: offset deleted\nbilling orders-2: offset deleted\n"
    ran = yak("groups", "delete", "billing", "--topic", "payments", "--yes")
    assert (ran.code, ran.err) == (0, "billing: nothing was committed of it\n")
    world.errors[O0] = YakError("group-subscribed", "no")
    assert yak("groups", "delete", "audit", "--topic", "orders:0", "--yes").code == 1


@pytest.mark.parametrize(
    "args",
    [
        ["groups", "delete", "billing", "--yes"],
        ["groups", "reset", "billing", "-t", "orders", "--to-latest", "--execute"],
        ["consume", "orders", "--group", "audit"],
    ],
)
def test_commands_that_change_groups_are_refused_when_read_only(yak, world, args, monkeypatch):
    monkeypatch.setattr("yak.client.admin.Admin", lambda *_a, **_k: pytest.fail("it asked a broker"))
    ran = yak("--readonly", *args)
    assert ran.code == 2
    assert "error[readonly]" in ran.err


def test_a_dry_run_is_allowed_when_read_only(yak, world):
    assert yak("--readonly", "groups", "reset", "billing", "-t", "orders", "--to-latest").code == 0


def test_kafkas_own_spelling_is_understood():
    assert rewrite(["--list"]) == ["list"]
    assert rewrite(["--list", "--state", "Empty"]) == ["list", "--state", "Empty"]
    assert rewrite(["--describe", "--group", "a", "--group=b"]) == ["describe", "a", "b"]
    assert rewrite(["--describe", "--group", "a", "--members"]) == ["members", "a"]
    assert rewrite(["--group", "a", "--reset-offsets", "--topic", "t:1", "--to-earliest", "--execute"]) == [
        "reset", "a", "--topic", "t:1", "--to-earliest", "--execute",
    ]  # fmt: skip
    assert rewrite(["--delete-offsets", "--group", "a", "--topic", "t"]) == ["delete", "a", "--topic", "t"]
    assert groups.groups.aliases["rm"] == "delete"
    assert rewrite(["describe", "--group", "a"]) == ["describe", "--group", "a"]
    with pytest.raises(UsageError):
        rewrite(["--describe", "--group"])


def test_partitions_are_written_short_and_read_back():
    places = [O2, P0, O0, TopicPartition("orders", 5), O1]
    assert partitions_text(places) == "orders:0-2,5 payments:0"
    assert parse_partitions(["orders:0-1,2", "payments", "orders:1"], METADATA) == [O0, O1, O2, P0]
    assert select_partitions(["gone:0", "orders"], COMMITTED["audit"]) == [TopicPartition("gone", 0), O0, O1]
    with pytest.raises(YakError, match="does not exist"):
        parse_partitions(["nope:0"], METADATA)
    assert chosen(None, ("A",), "state") == ()


def test_reset_by_duration_and_explicit_dry_run_are_those_of_kafka(yak, world):
    by_time = yak("groups", "reset", "audit", "-t", "orders", "--to-timestamp", "-1h")
    by_duration = yak(
        "groups", "--reset-offsets", "--group", "audit", "--topic", "orders", "--by-duration", "1h", "--dry-run"
    )
    assert (by_duration.code, by_duration.out) == (by_time.code, by_time.out)
    as_iso = yak("groups", "reset", "audit", "-t", "orders", "--by-duration", "PT1H")
    assert (as_iso.code, as_iso.out) == (by_time.code, by_time.out)
    for wrong in ("1x", "PT1x"):
        refused = yak("groups", "reset", "audit", "-t", "orders", "--by-duration", wrong).err
        assert f'error[bad-duration]: "{wrong}" is not a duration' in refused
    assert yak("groups", "reset", "audit", "-t", "orders", "--by-duration", "1h", "--to-latest").code == 2
    assert yak("groups", "reset", "audit", "-t", "orders", "--to-latest", "--dry-run", "--execute").code == 2
