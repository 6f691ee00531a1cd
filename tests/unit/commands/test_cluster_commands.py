"""Tables, JSON and effects of `topics`, `brokers` and `cluster`, with a cluster that is only said to be there."""

import json
from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from yak.client.admin import ConfigValue, FoundOffset
from yak.client.members import ROLE, Member
from yak.client.metadata import Broker, ClusterMetadata, Partition, Topic
from yak.commands.options import Globals
from yak.errors import YakError
from yak.ids import TopicPartition
from yak.view.broker_state import SeenState


def config(name, value, source="default", read_only=False):
    return ConfigValue(name, value, source, source == "default", read_only, False)


class FakeAdmin:
    """Answers like `yak.client.admin.Admin`, and remembers what it was asked to change."""

    changes: list = []  # noqa: RUF012

    def __init__(self, servers, *, timeout_ms=10_000, verbose=0):
        self.timeout_s = 1.0
        self.answered = "127.0.0.1:9092"

    def metadata(self):
        orders = (Partition(0, 1, (1, 2), (1, 2)), Partition(1, 2, (2, 1), (2,)), Partition(2, -1, (1, 2), ()))
        topics = {
            "__consumer_offsets": Topic("__consumer_offsets", (Partition(0, 1, (1,), (1,)),)),
            "orders": Topic("orders", orders),
            "yak": Topic("yak", (Partition(0, 1, (1,), (1,)),)),
        }
        return ClusterMetadata("clusterid", 1, {1: Broker(1, "a", 9092), 2: Broker(2, "::1", 9093)}, topics)

    def controller_id(self, metadata, *, is_yak):
        return metadata.controller_id

    silent: set = set()  # noqa: RUF012
    """Partitions whose leader does not answer."""

    def offsets(self, wanted, *, read_committed=False, answered_only=False):
        ends = {TopicPartition("orders", 0): (10, 1010), TopicPartition("orders", 1): (0, 500)}
        found = {}
        for each, spec in wanted.items():
            if each in self.silent and answered_only:
                continue
            low, high = ends.get(each, (0, 3))
            offset = {"earliest": low, "latest": high}.get(spec, low + 2)
            found[each] = FoundOffset(offset, 4)
        return found

    def watermarks(self, partitions, *, read_committed=False, answered_only=False):
        low = self.offsets(dict.fromkeys(partitions, "earliest"), answered_only=answered_only)
        high = self.offsets(dict.fromkeys(partitions, "latest"), answered_only=answered_only)
        return {each: (low[each].offset, high[each].offset) for each in low}

    def min_isrs(self, topics):
        return dict.fromkeys(topics, 2)

    def configs(self, kind, name):
        if kind == "topic":
            return [config("min.insync.replicas", "2", "topic"), config("retention.ms", "604800000")]
        said = [config("log.retention.ms", "604800000"), config("node.id", name, "static", True)]
        if name == "1":
            said += [
                config("yak.broker.epoch", "17", "static", True),
                config("yak.broker.role", "leader", "static", True),
                config("yak.metadata.controller.epoch", "3", "static", True),
                config("yak.metadata.offset", "42", "static", True),
                config("yak.metadata.reason", "the store was rolled back", "static", True),
                config("yak.metadata.state", "FROZEN", "static", True),
                config("yak.metadata.store", "abc", "static", True),
                config("yak.metadata.unsafe", "", "static", True),
            ]
        return said

    def damaged_offsets(self, name):
        return {0: {1: 640}} if name == "orders" else {}

    def topic_ids(self, names):
        return {name: self.topic_id(name) for name in names}

    def topic_id(self, name):
        return "AAAAAAAAAAAAAAAAAAAAAQ"

    taken: set = {"taken"}  # noqa: RUF012
    """Topics that the controller knows."""

    def create_topic(self, name, **options):
        if name in self.taken:
            raise YakError("topic-exists", f'topic "{name}" was not created', why="it is there", try_=("x",))
        self.changes.append(("create", name, options))

    def delete_topic(self, name):
        self.changes.append(("delete", name))

    def add_partitions(self, name, total, **options):
        self.changes.append(("grow", name, total, options))

    def alter_configs(self, kind, name, changes, deletions=(), **options):
        self.changes.append(("configs", kind, name, dict(changes), tuple(deletions), options))

    def delete_records(self, before):
        self.changes.append(("trim", dict(before)))
        return dict(before)


def members(metadata, *, answered, timeout_s, names=(ROLE,)):
    """Broker 1 is a YAK and says so, 2 is of another make, and 3 died."""

    def said(node_id):
        return {each.name: each.value for each in FakeAdmin("").configs("broker", str(node_id)) if each.name in names}

    address = metadata.brokers[1].address
    return (
        Member(1, address, "r1", SeenState.ACTIVE, said(1)),
        Member(2, metadata.brokers[2].address, None, SeenState.ACTIVE, said(2)),
        Member(3, "c:9094", "r2", SeenState.FENCED),
    )


@pytest.fixture(autouse=True)
def fake(monkeypatch):
    FakeAdmin.changes = []
    monkeypatch.setattr("yak.client.admin.Admin", FakeAdmin)
    monkeypatch.setattr("yak.client.members.read_members", members)
    monkeypatch.setattr(
        "yak.client.log_dirs.replica_sizes",
        lambda metadata, timeout_s: {1: {("orders", 0): 4096, ("yak", 0): 100}, 2: {("orders", 1): 2048}},
    )
    return FakeAdmin.changes


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("topics-list", ["topics", "list"]),
        ("topics-list-wide", ["topics", "list", "-o", "wide", "--internal", "--sort", "size"]),
        ("topics-list-json", ["topics", "list", "-o", "json"]),
        ("topics-list-csv", ["topics", "list", "-o", "csv"]),
        ("topics-list-under-replicated", ["topics", "list", "--under-replicated-partitions"]),
        ("topics-list-at-min-isr", ["topics", "list", "--at-min-isr-partitions"]),
        ("topics-describe", ["topics", "describe", "orders"]),
        ("topics-describe-json", ["topics", "describe", "orders", "-o", "json"]),
        ("topics-describe-csv", ["topics", "describe", "orders", "yak", "-o", "csv"]),
        ("topics-trim-dry-run", ["topics", "trim", "orders", "--before", "200", "--dry-run"]),
        ("brokers-list", ["brokers", "list"]),
        ("brokers-list-wide", ["brokers", "list", "-o", "wide"]),
        ("brokers-list-json", ["brokers", "list", "-o", "json"]),
        ("brokers-describe", ["brokers", "describe", "1"]),
        ("brokers-describe-json", ["brokers", "describe", "2", "-o", "json", "--all-configs"]),
        ("brokers-config", ["brokers", "config", "1"]),
    ],
)
def test_the_output_is_as_agreed(yak, golden, name, args):
    ran = yak(*args)
    assert ran.code == 0, ran.err
    golden(f"tables/{name}.txt", ran.out)


def test_a_cluster_that_is_not_well_says_so_and_returns_1(yak, golden):
    ran = yak("cluster")
    assert ran.code == 1
    golden("tables/cluster.txt", ran.out)
    golden("tables/cluster-json.txt", yak("cluster", "-o", "json").out)


def test_kafkas_own_spelling_of_the_topic_commands_is_understood(yak, fake):
    assert yak("topics", "--list").out == yak("topics", "list").out
    assert yak("topics", "--describe", "--topic", "orders").out == yak("topics", "describe", "orders").out
    assert yak("topics", "--create", "--topic", "x", "--partitions", "3", "--replication-factor", "1").code == 0
    assert yak("topics", "--bootstrap-server", "h:1", "--delete", "--topic=orders", "-y").code == 0
    options = {"partitions": 3, "replication_factor": 1, "configs": {}, "validate_only": False}
    assert fake == [("create", "x", options), ("delete", "orders")]


def test_topics_create_with_one_failed_topic_exits_with_1_and_creates_the_others(yak, fake):
    ran = yak("topics", "create", "a", "taken", "b")
    assert ran.code == 1
    assert [each[1] for each in fake] == ["a", "b"]
    assert "error[topic-exists]" in ran.err
    assert yak("topics", "create", "taken", "--if-not-exists").code == 0
    assert len(fake) == 2


def test_topics_create_if_not_exists_creates_a_topic_that_only_lagging_metadata_list(yak, fake):
    ran = yak("topics", "create", "orders", "--if-not-exists", "-o", "json")
    assert (ran.code, json.loads(ran.out)) == (0, [{"name": "orders", "result": "created"}])
    assert [each[:2] for each in fake] == [("create", "orders")]


def test_topics_create_if_not_exists_succeeds_without_the_right_to_create_a_topic_that_exists(yak, monkeypatch):
    def refuse(_self, name, **_options):
        raise YakError("not-authorized", f'topic "{name}" was not created', why="no ACL")

    monkeypatch.setattr(FakeAdmin, "create_topic", refuse)
    assert yak("topics", "create", "orders", "--if-not-exists").code == 0
    assert yak("topics", "create", "other", "--if-not-exists").code == 1


def test_topics_delete_if_exists_succeeds_for_a_topic_that_was_deleted_meanwhile(yak, monkeypatch):
    def gone(_self, name):
        raise YakError("unknown-topic", f'topic "{name}" was not deleted', why="it does not exist")

    monkeypatch.setattr(FakeAdmin, "delete_topic", gone)
    ran = yak("topics", "delete", "orders", "-y", "--if-exists", "-o", "json")
    assert (ran.code, json.loads(ran.out)) == (0, [{"name": "orders", "result": "not there"}])
    assert yak("topics", "delete", "orders", "-y").code == 1


def test_topics_delete_requires_confirmation_and_needs_yes_without_a_terminal(yak, fake):
    ran = yak("topics", "delete", "orders")
    assert (ran.code, fake) == (2, [])
    assert yak("topics", "delete", "orders", "-y").code == 0
    assert yak("topics", "delete", "nope", "-y").code == 1
    assert yak("topics", "delete", "nope", "-y", "--if-exists").code == 0
    assert fake == [("delete", "orders")]


@pytest.mark.parametrize("args", [("delete", "orders"), ("trim", "orders", "--before", "800", "--partitions", "0")])
def test_topic_that_was_created_again_before_the_confirmation_keeps_its_records(yak, fake, monkeypatch, args):
    def confirm(_g, _question):
        monkeypatch.setattr(FakeAdmin, "topic_id", lambda _self, _name: "AnotherTopicsIdAAAAAAA")

    monkeypatch.setattr(Globals, "confirm", confirm)
    ran = yak("topics", *args)
    assert (ran.code, fake) == (1, [])
    assert "created again, before the confirmation" in ran.err
    monkeypatch.setattr(Globals, "confirm", lambda _g, _question: None)
    assert yak("topics", *args).code == 0


def test_topics_alter_sends_only_the_requested_changes(yak, fake):
    assert (
        yak(
            "topics", "alter", "orders", "-c", "retention.ms=5", "--delete-config", "min.insync.replicas", "-p", "9"
        ).code
        == 0
    )
    assert fake == [
        ("configs", "topic", "orders", {"retention.ms": "5"}, ("min.insync.replicas",), {"validate_only": False}),
        ("grow", "orders", 9, {"validate_only": False}),
    ]
    assert yak("topics", "alter", "orders").code == 2
    assert yak("topics", "alter", "orders", "-c", "retention.ms").code == 2


def test_trimming_stays_within_the_log_and_reports_partitions_without_leader(yak, fake):
    ran = yak("topics", "trim", "orders", "--before", "800", "-y", "-o", "json")
    assert fake == [("trim", {TopicPartition("orders", 0): 800, TopicPartition("orders", 1): 500})]
    assert (ran.code, json.loads(ran.out)[2]) == (
        1,
        {"partition": 2, "old_start": None, "new_start": None, "records": None, "result": "failed: it has no leader"},
    )
    assert yak("topics", "trim", "orders", "--before", "800", "--partitions", "0,1", "-y").code == 0
    assert yak("topics", "trim", "orders", "--before", "800", "--partitions", "2", "-y").code == 1


def test_a_clone_takes_partitions_and_the_configs_that_were_set(yak, fake):
    assert yak("topics", "clone", "orders", "copy").code == 0
    expected = {
        "partitions": 3, "replication_factor": 2, "configs": {"min.insync.replicas": "2"}, "validate_only": False,
    }  # fmt: skip
    assert fake == [("create", "copy", expected)]


def test_broker_configs_are_changed_one_by_one(yak, fake):
    assert yak("brokers", "config", "1", "--set", "log.retention.ms=5", "--delete", "node.id", "--dry-run").code == 0
    assert fake == [("configs", "broker", "1", {"log.retention.ms": "5"}, ("node.id",), {"validate_only": True})]
    assert yak("brokers", "config", "7").code == 1


def test_brokers_watch_prints_rates_from_the_second_sample_on(yak):
    ran = yak("brokers", "watch", "--interval", "10ms", "-n", "2", "-o", "json")
    first, second = (json.loads(line) for line in ran.out.splitlines())
    assert [row["records_per_s"] for row in first] == [None, None, None]
    assert [row["records_per_s"] for row in second] == [0, 0, 0]


def test_topic_whose_leader_does_not_answer_is_described_without_its_offsets(yak, monkeypatch):
    monkeypatch.setattr(FakeAdmin, "silent", {TopicPartition("orders", 1)})
    assert "records      –\n" in yak("topics", "describe", "orders").out
    (described,) = json.loads(yak("topics", "describe", "orders", "-o", "json").out)
    known = [(each["log_start_offset"], each["high_watermark"]) for each in described["partitions"]]
    assert known == [(10, 1010), (None, None), (None, None)]
    assert described["records"] is None
    listed = {each["name"]: each["records"] for each in json.loads(yak("topics", "list", "-o", "json").out)}
    assert listed == {"orders": None, "yak": 3}


def test_topic_is_described_without_configs_that_the_user_may_not_see(yak, monkeypatch):
    def denied(_self, _kind, _name):
        raise YakError("not-authorized", "configs could not be read")

    monkeypatch.setattr(FakeAdmin, "configs", denied)
    ran = yak("topics", "describe", "orders")
    assert ran.code == 0
    assert ran.err == "orders: the configs are not shown, which needs describe-configs of the topic\n"
    assert "min.insync.replicas" not in ran.out
    assert "PARTITION" in ran.out
    (described,) = json.loads(yak("topics", "describe", "orders", "-o", "json").out)
    assert described["configs"] is None
    assert [each["partition"] for each in described["partitions"]] == [0, 1, 2]


def test_a_broker_that_is_down_is_described_without_its_configs(yak):
    ran = yak("brokers", "describe", "3")
    assert ran.code == 0
    assert "state                 FENCED" in ran.out
    assert "broker 3 is FENCED: its configs cannot be read" in ran.err
    assert json.loads(yak("brokers", "describe", "3", "-o", "json").out)["configs"] == []


def test_a_broker_is_unregistered_after_a_question_that_names_what_counts_on_it(yak, monkeypatch):
    requests = []
    monkeypatch.setattr("yak.client.unregister.unregister_broker", lambda *args, **_: requests.append(args))
    ran = yak("brokers", "unregister", "2")
    assert (ran.code, requests) == (2, [])
    assert "Forget broker 2, which 3 partitions count on?" in ran.err
    ran = yak("brokers", "unregister", "2", "--yes")
    assert (ran.code, requests) == (0, [("127.0.0.1:9092", 2)])
    assert ran.err == "broker 2 was unregistered\n"
    assert yak("brokers", "unregister", "9", "--yes").code == 1
    assert yak("brokers", "unregister", "2", "--yes", "--readonly").code == 2
    assert len(requests) == 1


@pytest.mark.parametrize("partitions", ["0,9", "0,x", "", "-1"])
def test_trim_of_a_partition_that_is_not_there_deletes_nothing(yak, fake, partitions):
    ran = yak("topics", "trim", "orders", "--before", "800", "--partitions", partitions, "-y")
    assert (ran.code, fake) == (2, [])


def test_filtered_list_without_a_match_does_not_say_that_there_are_no_topics(yak, monkeypatch):
    whole = ClusterMetadata(
        "c", 1, {1: Broker(1, "a", 9092)}, {"orders": Topic("orders", (Partition(0, 1, (1,), (1,)),))}
    )
    monkeypatch.setattr(FakeAdmin, "metadata", lambda _self: whole)
    ran = yak("topics", "list", "--unavailable-partitions")
    assert (ran.code, ran.out, ran.err) == (0, "", "No such topics.\n")


@pytest.mark.parametrize(
    "args",
    [
        ["topics", "alter", "orders", "--delete-config", "retention.mss"],
        ["brokers", "config", "1", "--delete", "log.retention.mss"],
    ],
)
def test_reset_of_an_unknown_config_is_refused_with_the_closest(yak, fake, args):
    ran = yak(*args)
    assert (ran.code, fake) == (1, [])
    assert "error[bad-config]" in ran.err
    assert "retention.ms" in ran.err.partition("closest")[2]


@pytest.mark.parametrize(
    "args",
    [
        ["create", "x", "-p", "99999999999"],
        ["create", "x", "-r", "99999999999"],
        ["alter", "orders", "-p", "99999999999"],
    ],
)
def test_number_beyond_kafkas_range_is_wrong_usage(yak, fake, args):
    ran = yak("topics", *args)
    assert (ran.code, fake) == (2, [])
    assert "it is not from 1 to 2147483647" in ran.err


def test_watched_brokers_have_one_csv_header(yak):
    ran = yak("brokers", "watch", "-n", "3", "--interval", "0", "-o", "csv")
    assert ran.out.count("time,id,address") == 1
    assert len(ran.out.splitlines()) == 1 + 3 * 3


def test_raw_description_of_a_topic_is_rows_for_programs(yak):
    lines = yak("topics", "describe", "orders", "-o", "raw").out.splitlines()
    assert [line.split("\t")[:2] for line in lines] == [["orders", "0"], ["orders", "1"], ["orders", "2"]]


def test_topics_of_a_leader_that_does_not_answer_are_offline_and_the_broker_is_named(yak, monkeypatch):
    """Metadata name it until the metadata store can elect another one."""
    silent = {1: "connection refused"}
    monkeypatch.setattr("yak.client.reach.silent_brokers", lambda nodes: silent)
    ran = yak("topics", "list", "--offline", "--no-headers")
    assert [line.split()[::3] for line in ran.out.splitlines()] == [["orders", "offline"], ["yak", "offline"]]
    assert ran.err == "broker 1 at a:9092 did not answer: connection refused\n"
    silent.clear()
    assert "yak" not in yak("topics", "list", "--offline").out


def test_partitions_of_a_leader_that_does_not_answer_are_offline_in_a_description(yak, monkeypatch):
    monkeypatch.setattr(FakeAdmin, "silent", {TopicPartition("orders", 0)})
    rows = json.loads(yak("topics", "describe", "orders", "-o", "json").out)[0]["partitions"]
    assert [row["state"] for row in rows] == ["offline", "under_min_isr", "offline"]


def test_brokers_list_names_voters_without_which_no_follower_takes_over(yak, monkeypatch):
    def roles(metadata, **_asked):
        said = enumerate(("leader", "follower"), 1)
        return tuple(Member(node, "a:1", None, SeenState.ACTIVE, {ROLE: role}) for node, role in said)

    monkeypatch.setattr("yak.client.members.read_members", roles)
    quorum = SimpleNamespace(voter_ids=[1])
    monkeypatch.setattr("yak.client.quorum.describe_quorum", lambda address, timeout_s: quorum)
    assert "no broker takes over when it dies" in yak("brokers", "list").err
    quorum.voter_ids = []
    assert "node 2 (role follower) takes over when it dies" in yak("brokers", "list").err


def test_cluster_restore_abort_dry_run_forgets_no_offer(yak, monkeypatch):
    aborted = []

    found = SimpleNamespace(state="SEEDING", cluster_id="c", offers={1: "x", 3: "y"})
    store = SimpleNamespace(name="redis://r", find=lambda: found, abort=lambda each: aborted.append(each.cluster_id))
    monkeypatch.setattr("yak.local.metadata_restore.RestoreStore", lambda _url, *, timeout_s: nullcontext(store))
    ran = yak("cluster", "restore", "--abort", "--dry-run", "--yes")
    assert (ran.code, aborted, ran.err) == (0, [], "The offers of brokers 1, 3 would be forgotten.\n")
    assert yak("cluster", "restore", "--abort", "--yes").code == 0
    assert aborted == ["c"]
