"""`yak produce` and `yak consume` against librdkafka's mock broker, which lives in this process."""

import contextlib
import csv
import io
import itertools
import json
import os
import pty
import signal
import subprocess
import sys
import threading
import time
from datetime import UTC
from types import SimpleNamespace

import pytest
from confluent_kafka import Producer

from yak.client.consume import PartitionReader
from yak.client.consumer import ConsumerRecord
from yak.client.inputs import Row
from yak.client.produce import Failed, Outgoing, ProducerTransaction
from yak.commands import interrupts, produce
from yak.commands.produce import SentRows, Source
from yak.commands.record_output import RecordPrinter
from yak.errors import YakError

set_handler = signal.signal
"""The fixture `yak` replaces it."""


@pytest.fixture(scope="module")
def cluster():
    """A mock broker's address, and a way to make topics (its partitions: four)."""
    producer = Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "mock", "log_level": 0})
    broker = next(iter(producer.list_topics("yak", timeout=10).brokers.values()))
    return f"{broker.host}:{broker.port}", lambda topic: producer.list_topics(topic, timeout=10)


@pytest.fixture
def topic(cluster, monkeypatch, request):
    """A topic of this test's own, and YAK_BOOTSTRAP_SERVERS set."""
    address, make = cluster
    name = f"t-{abs(hash(request.node.name))}"
    make(name)
    monkeypatch.setenv("YAK_BOOTSTRAP_SERVERS", address)
    monkeypatch.setattr(
        "yak.client.admin.Admin.topic_ids", lambda _admin, names: {each: f"id of {each}" for each in names}
    )
    return name


def records(yak, topic, *more):
    ran = yak("consume", topic, "--from-beginning", "--exit", "-o", "json", *more)
    assert ran.code == 0, ran.err
    return [json.loads(line) for line in ran.out.splitlines()]


def test_few_records_are_answered_with_their_partitions_and_offsets(yak, topic):
    ran = yak("produce", topic, "-p", "2", "-m", "a", "-m", "b")
    assert (ran.code, ran.out, ran.err) == (0, f"{topic}-2@0\n{topic}-2@1\n", "")
    assert yak("produce", topic, "-p", "2", "-m", "c", "-q").out == ""
    values = yak("consume", topic, "--from-beginning", "-e")
    assert values.out == "a\nb\nc\n"
    assert values.err.startswith("read 3 records (4 partitions) in ")
    assert values.err.endswith("; stopped: reached end\n")


def test_many_records_are_answered_with_totals(yak, topic, tmp_path):
    (tmp_path / "in.txt").write_text("".join(f"line {n}\n" for n in range(2000)))
    ran = yak("produce", "-t", topic, "-f", "in.txt", "-z", "lz4", "--linger", "5ms")
    assert (ran.code, ran.out) == (0, "")
    assert ran.err.startswith("wrote 2 000 records to ")
    assert sorted(each["value"] for each in records(yak, topic)) == sorted(f"line {n}" for n in range(2000))


def test_produce_with_o_json_prints_delivery_statistics_as_one_document(yak, topic):
    account = json.loads(yak("produce", topic, "-p", "1", "-m", "a", "-m", "b", "-o", "json").out)
    assert account.pop("seconds") >= 0
    assert account == {
        "topic": topic, "acknowledged": 2, "failed": 0, "unknown": 0, "rejected": 0,
        "partitions": [{"topic": topic, "partition": 1, "records": 2, "first_offset": 0, "last_offset": 1}],
    }  # fmt: skip
    rows = list(csv.DictReader(yak("produce", topic, "-p", "1", "-m", "c", "-o", "csv").out.splitlines()))
    assert [(row["partition"], row["last_offset"]) for row in rows] == [("1", "2")]


def test_key_headers_timestamp_and_partition_arrive(yak, topic):
    yak(
        "produce", topic, "-k", "u1", "-m", "x", "-H", "source=web", "-H", "flag", "-p", "3", "--timestamp",
        "1795176000",
    )  # fmt: skip
    (record,) = records(yak, topic)
    assert (record["key"], record["partition"], record["timestamp"]) == ("u1", 3, "2026-11-20T12:00:00.000Z")
    assert record["headers"] == [{"key": "source", "value": "web"}, {"key": "flag", "value": None}]


def test_keys_go_where_java_clients_send_them(yak, topic):
    # Partitions by Kafka's murmur2 of these keys, modulo 4 (org.apache.kafka.common.utils.UtilsTest has the hashes).
    hashes = {"21": -973932308, "foobar": -790332482, "a-little-bit-long-string": -985981536, "abc": 479470107}
    yak("produce", topic, "--key-separator", "=", *(word for key in hashes for word in ("-m", f"{key}=x")))
    found = {each["key"]: each["partition"] for each in records(yak, topic)}
    assert found == {key: (value & 0x7FFFFFFF) % 4 for key, value in hashes.items()}


def test_consume_json_output_is_produced_again_unchanged(yak, topic, cluster, tmp_path):
    (tmp_path / "in.bin").write_bytes(b"\xff\x00\xfe\nplain\n")
    yak("produce", topic, "-f", "in.bin", "-H", "a=b", "-k", "k")
    copy = topic + "-copy"
    cluster[1](copy)
    exported = yak("consume", topic, "--from-beginning", "-e", "-o", "json").out
    assert '"value_encoding": "base64"' in exported
    (tmp_path / "out.jsonl").write_text(exported)
    assert yak("produce", copy, "-f", "out.jsonl").code == 0
    fields = ("key", "value", "headers", "timestamp", "value_encoding")
    first, second = ([[each.get(name) for name in fields] for each in records(yak, name)] for name in (topic, copy))
    assert sorted(first, key=str) == sorted(second, key=str)


def test_a_key_separator_makes_a_file_lines_and_no_other_format_takes_it(yak, topic, tmp_path):
    (tmp_path / "o.tsv").write_text("u1\t1\nu2\t2\n")
    ran = yak("produce", topic, "-f", "o.tsv", "-K", "\\t", "--dry-run", "-o", "json")
    assert ran.code == 0, ran.err
    assert '"key": "u1"' in ran.out
    ran = yak("produce", topic, "-f", "o.tsv", "-K", "\\t", "--format", "csv")
    assert ran.code == 2
    assert "--key-separator splits lines, and the format is csv" in ran.err


def test_csv_rows_are_mapped_and_bad_ones_set_aside(yak, topic, tmp_path):
    (tmp_path / "o.csv").write_text("\ufeffid;total;src\nu1;12;web\nu2;13\nu3;14;app\n")
    ran = yak("produce", topic, "-f", "o.csv", "--csv-key", "id", "--csv-header", "src=source")
    assert ran.code == 1
    assert 'o.csv: delimiter ";", columns id, total, src\n' in ran.err
    assert "1 bad row not sent: o.csv.rejected.csv\n  why:  line 3: 2 columns, not 3\n" in ran.err
    assert "  try:  less o.csv.rejected.csv\n        correct those rows, and send them alone" in ran.err
    with open("o.csv.rejected.csv", newline="") as file:
        rejected = list(csv.DictReader(file))
    assert [(row["reason"], row["row"], row["id"]) for row in rejected] == [("2 columns, not 3", "2", "u2")]
    found = sorted((each["key"], each["value"], each["headers"][0]["value"]) for each in records(yak, topic))
    assert found == [("u1", '{"total":"12"}', "web"), ("u3", '{"total":"14"}', "app")]


def test_bad_json_line_is_refused_with_the_reason_of_the_first_one(yak, topic, tmp_path):
    (tmp_path / "o.json").write_text('{"value": 1}\n{bad\n{"nope": 3}\n')
    ran = yak("produce", topic, "-f", "o.json", "--format", "json")
    assert ran.code == 1
    assert "2 bad rows not sent: o.json.rejected.csv\n  why:  row 2: not JSON: " in ran.err


def test_produce_from_a_pipe_to_a_terminal_sends_every_record(yak, topic, tmp_path, monkeypatch):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)  # where a file's lines are counted for the progress bar
    os.mkfifo("pipe")
    for text, more, values in ((b"a\nb\n", (), ["a", "b"]), (b"id,n\nu1,1\n", ("--csv-key", "id"), ['{"n":"1"}'])):
        writer = threading.Thread(target=(tmp_path / "pipe").write_bytes, args=(text,), daemon=True)
        writer.start()
        ran = yak("produce", topic, "-p", "0", "-f", "pipe", *more)
        writer.join(10)
        assert ran.code == 0, ran.err
        assert [each["value"] for each in records(yak, topic)][-len(values) :] == values


def test_produce_of_an_empty_file_without_end_ends(yak, topic, tmp_path):
    (tmp_path / "empty.txt").touch()
    ran = yak("produce", topic, "-f", "empty.txt", "--repeat", "0")
    assert (ran.code, ran.out) == (0, "")


@pytest.mark.parametrize("option", [("--repeat", "2"), ("--resume", "ck")])
def test_produce_from_a_pipe_refuses_to_read_it_twice(yak, topic, option):
    os.mkfifo("pipe")
    for given in ((), ("-f", "-"), ("-f", "pipe")):
        ran = yak("produce", topic, *given, *option)
        assert (ran.code, ran.out) == (2, "")
        assert "can be read" in ran.err


def test_csv_rows_say_their_partition_and_chosen_columns_and_are_read_in_any_encoding(yak, topic, tmp_path):
    (tmp_path / "o.csv").write_bytes("id:größe:a:p\nu1:ä:1:2\nu2:ö:2:\nu3:ü:3:x\n".encode("cp1252"))
    ran = yak(
        "produce", topic, "-f", "o.csv", "--csv-key", "id", "--csv-value", "json:größe,a", "--csv-partition", "p",
        "--csv-delimiter", ":", "--csv-encoding", "cp1252",
    )  # fmt: skip
    assert ran.code == 1
    with open("o.csv.rejected.csv", newline="") as file:
        assert [(row["reason"], row["line"]) for row in csv.DictReader(file)] == [
            ('partition "x" is not a number', "4")
        ]
    found = {each["key"]: each for each in records(yak, topic)}
    assert json.loads(found["u1"]["value"]) == {"größe": "ä", "a": "1"}
    assert found["u1"]["partition"] == 2
    assert set(found) == {"u1", "u2"}


@pytest.mark.parametrize("option", [("--csv-delimiter", ";"), ("--csv-encoding", "cp1252"), ("--csv-key", "id")])
def test_option_of_csv_makes_a_file_csv(yak, topic, tmp_path, option):
    (tmp_path / "o.txt").write_text("id;n\nu1;1\n")
    ran = yak("produce", topic, "-f", "o.txt", *option, "--dry-run", "-o", "json")
    assert [each["value"] for each in json.loads(ran.out)] == ['{"n":"1"}' if "id" in option else '{"id":"u1","n":"1"}']


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("-m", "a", "--format", "json"), "--format and -m exclude each other"),
        (("-m", "a", "--csv-key", "id"), "--csv-key and -m exclude each other"),
        (("-f", "o.txt", "--format", "lines", "--csv-key", "id"), "--csv-key and --format lines exclude each other"),
        (("-t", "other", "-m", "a"), "and --topic other exclude each other"),
    ],
)
def test_produce_option_without_effect_is_refused(yak, topic, args, message):
    ran = yak("produce", topic, *args)
    assert (ran.code, ran.out) == (2, "")
    assert message in ran.err


@pytest.mark.parametrize(
    ("flags", "code"),
    [
        (("--csv-value", "json:id,nope"), "csv-column"),
        (("--csv-partition", "nope"), "csv-column"),
        (("--csv-delimiter", ";;"), "usage"),
        (("--csv-encoding", "klingon"), "bad-encoding"),
        (("--template",), "usage"),
    ],
)
def test_csv_flags_that_cannot_be_are_refused(yak, topic, tmp_path, flags, code):
    (tmp_path / "o.csv").write_text("id,n\nu1,1\n")
    ran = yak("produce", topic, "-f", "o.csv", "--csv-key", "id", *flags, "-o", "json")
    assert ran.code == 2
    assert json.loads(ran.err.strip().splitlines()[-1])["error"]["code"] == code


def test_a_template_is_filled_in_each_record(yak, topic):
    ran = yak(
        "produce", topic, "-k", "{{int 7 7}}", "-m", '{"i":{{i}}}', "-H", "who={{i}}", "--template",
        "--repeat", "3", "-p", "1",
    )  # fmt: skip
    assert ran.code == 0
    found = records(yak, topic)
    assert [json.loads(each["value"])["i"] for each in found] == [0, 1, 2]
    assert {each["partition"] for each in found} == {1}
    for each in found:
        assert each["key"] == "7"
        assert each["headers"][0]["value"] == str(json.loads(each["value"])["i"])
    yak("produce", topic, "-m", "{{i}}", "-p", "0")
    assert "{{i}}" in [each["value"] for each in records(yak, topic)]


@pytest.mark.parametrize("placeholder", ["{{wat}}", "{{choice a b}}"])
def test_a_template_that_is_wrong_says_where(yak, topic, placeholder):
    ran = yak("produce", topic, "-m", f"a\n {placeholder}", "--template", "-o", "json")
    error = json.loads(ran.err.strip().splitlines()[-1])["error"]
    assert error["code"] == "bad-template"
    assert error["why"].startswith("line 2, column 2: ")
    assert "{{i}}, {{uuid}}" in error["try"][0]


def test_a_dry_run_shows_five_and_sends_nothing(yak, topic, tmp_path):
    (tmp_path / "o.csv").write_text("id,n\n" + "".join(f"u{n},{n}\n" for n in range(20)))
    ran = yak("produce", topic, "-f", "o.csv", "--csv-key", "id", "--dry-run", "-o", "json")
    printed = json.loads(ran.out)
    assert [each["key"] for each in printed] == ["u0", "u1", "u2", "u3", "u4"]
    assert ran.err.endswith("dry run: nothing was sent\n")
    assert records(yak, topic) == []


def test_produce_run_resumes_at_the_checkpoint(yak, topic, tmp_path):
    lines = [f"{n}\n" for n in range(30)]
    (tmp_path / "in.txt").write_text("".join(lines[:20]))
    assert yak("produce", topic, "-f", "in.txt", "--resume", "ck").code == 0
    assert json.loads((tmp_path / "ck").read_text())["rows"] == 20
    (tmp_path / "in.txt").write_text("".join(lines))
    # The head of the file is what tells it apart, so this input must have kept its first bytes.
    shown = json.loads(yak("produce", topic, "-f", "in.txt", "--resume", "ck", "--dry-run", "-o", "json").out)
    assert [each["value"] for each in shown] == ["20", "21", "22", "23", "24"]
    ran = yak("produce", topic, "-f", "in.txt", "--resume", "ck")
    assert ran.code == 0, ran.err
    assert "resuming after row 20" in ran.err
    assert sorted(int(each["value"]) for each in records(yak, topic)) == list(range(30))
    assert yak("produce", topic, "-m", "x", "--resume", "ck").code == 2


def test_csv_file_with_two_columns_of_one_name_is_refused(yak, topic, tmp_path):
    (tmp_path / "in.csv").write_text("id,name,name\n1,a,b\n")
    ran = yak("produce", topic, "-f", "in.csv")
    assert (ran.code, ran.err.partition(": ")[0]) == (2, "error[csv-column]")
    assert yak("produce", topic, "-f", "in.csv", "--csv-value", "id").code == 0


def test_resumed_run_does_not_repeat_the_rows_behind_one_that_the_cluster_refuses(yak, topic, tmp_path):
    (tmp_path / "in.csv").write_text("id,to\na,0\nb,77\nc,1\n")
    words = ("produce", topic, "-f", "in.csv", "--csv-value", "id", "--csv-partition", "to", "--resume", "ck")
    ran = yak(*words)
    assert ran.code == 1
    assert "1 bad row not sent: in.csv.rejected.csv" in ran.err
    assert "error[unknown-partition]: 1 of 3 records not acknowledged" in ran.err
    assert "resuming after row 3" in yak(*words).err
    assert sorted(each["value"] for each in records(yak, topic)) == ["a", "c"]
    (row,) = list(csv.reader((tmp_path / "in.csv.rejected.csv").open()))[1:]
    assert row[1:] == ["2", "3", "b", "77"]


def test_refused_line_is_rejected_with_its_text():
    source = Source.__new__(Source)
    rejected = []
    source.reject = rejected.append
    sent = SentRows(source)
    sent.settle = rejected.append
    sent.add(3, Row(7, Outgoing(b"text\xff")))
    sent.add(4, Row(8, Outgoing(b"other")))
    sent.failed(Failed(3, YakError("record-too-large", "no"), "too large"))
    sent.failed(Failed(4, YakError("timed-out", "no"), "later"))
    assert rejected == [Row(7, Outgoing(b"text\xff"), "too large", ("text\\xff",)), 3]


def test_produce_resumes_no_run_into_a_topic_that_was_created_again(yak, topic, tmp_path, monkeypatch):
    (tmp_path / "in.txt").write_text("1\n2\n")
    assert yak("produce", topic, "-f", "in.txt", "--resume", "ck").code == 0
    monkeypatch.setattr("yak.client.admin.Admin.topic_ids", lambda _admin, names: dict.fromkeys(names, "another id"))
    ran = yak("produce", topic, "-f", "in.txt", "--resume", "ck")
    assert (ran.code, ran.err.partition(": ")[0]) == (2, "error[resume-mismatch]")


def test_apaches_properties_are_understood(yak, topic, tmp_path):
    (tmp_path / "in.txt").write_text("k1|v1\nk2|v2\n")
    options = ["--property", "parse.key=true", "--property", "key.separator=|", "--request-required-acks", "1"]
    assert yak("produce", topic, "-f", "in.txt", "-p", "0", *options).code == 0
    ran = yak(
        "consume", topic, "--from-beginning", "-e", "--property", "print.key=true", "--property", "print.offset=true"
    )
    assert ran.out == "0\tk1\tv1\n1\tk2\tv2\n"
    assert yak("consume", topic, "--property", "print.moon=true").code == 2


def test_tee_copies_values_and_rate_holds_back(yak, topic, tmp_path):
    (tmp_path / "in.txt").write_text("a\nb\nc\n")
    started = time.monotonic()
    ran = yak("produce", topic, "-f", "in.txt", "--tee", "--rate", "10")
    assert ran.out == "a\nb\nc\n"
    assert time.monotonic() - started > 0.19


def run_with_closed_stdout(*words):
    """The exit code and stderr of a `yak` whose stdout is a pipe without a reader."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    command = [sys.executable, "-m", "yak.commands", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment) as running:
        assert running.stdout is not None
        running.stdout.close()
        _, err = running.communicate(timeout=60)
        return running.returncode, err.decode()


def test_tee_into_a_closed_pipe_sends_the_records_it_has_read_and_fails(yak, topic, tmp_path):
    # Python 3.14 writes to stdout once 128 KiB are buffered
    (tmp_path / "in.txt").write_text("".join(f"{n:040}\n" for n in range(20_000)))
    code, err = run_with_closed_stdout("produce", topic, "-f", "in.txt", "--tee", "--linger", "1s")
    assert code == 1
    assert "error[system]: stdout was closed: the rest of the input was not sent" in err
    sent = len(records(yak, topic))
    assert 0 < sent < 20_000
    assert f"of {sent:_} acknowledged before the error".replace("_", " ") in err


def test_closed_pipe_hides_no_error_of_a_command(topic, tmp_path):
    (tmp_path / "in.jsonl").write_text('{"value": "a"}\nbad\n')
    code, err = run_with_closed_stdout("produce", topic, "-f", "in.jsonl", "--tee", "--transactional")
    assert (code, err.count("error[transaction-aborted]")) == (1, 1)


def test_error_in_the_middle_of_the_input_loses_no_record_before_it(yak, topic, tmp_path):
    (tmp_path / "in.jsonl").write_text('{"value": "a"}\n{"value": "b"}\nbad\n{"value": "c"}\n')
    (tmp_path / "in.jsonl.rejected.csv").mkdir()
    ran = yak("produce", topic, "-f", "in.jsonl", "--linger", "1s", "--resume", "ck")
    assert ran.code == 1
    assert ran.err.startswith(
        "2 records of 2 acknowledged before the error\nerror[file]: in.jsonl.rejected.csv cannot be written"
    )
    assert sorted(each["value"] for each in records(yak, topic)) == ["a", "b"]
    assert json.loads((tmp_path / "ck").read_text())["rows"] == 2


@pytest.mark.parametrize("args", [("",), ("-t", "")])
def test_topic_without_a_name_is_not_the_default_topic(yak, topic, args):
    ran = yak("produce", *args, "-m", "a")
    assert (ran.code, ran.out) == (1, "")
    assert 'error[unknown-topic]: topic "" does not exist' in ran.err


def test_topics_and_partitions_that_are_not_there_are_named(yak, topic):
    ran = yak("produce", topic + "x", "-m", "a")
    assert ran.code == 1
    assert f'error[unknown-topic]: topic "{topic}x" does not exist\n  why:  closest: "{topic}"' in ran.err
    assert ran.err.endswith(f"        yak topics create {topic}x\n")
    assert yak("produce", topic, "-p", "9", "-m", "a").code == 2
    assert yak("consume", topic, "--partitions", "0,9").code == 2
    assert yak("consume", topic + "x", "-e").code == 1


def test_an_argument_names_partitions_and_where_to_start(yak, topic, cluster):
    other = topic + "-other"
    cluster[1](other)
    for name in (topic, other):
        for partition in (0, 1, 3):
            yak("produce", name, "-p", str(partition), *(word for n in range(4) for word in ("-m", str(n))))

    def places(*args):
        ran = yak("consume", *args, "--exit", "-o", "json")
        assert ran.code == 0, ran.err
        found = map(json.loads, ran.out.splitlines())
        return sorted((each["topic"] == other, each["partition"], each["offset"]) for each in found)

    assert places(f"{topic}:1@2") == [(False, 1, 2), (False, 1, 3)]
    assert places(f"{topic}:0-1@-1") == [(False, 0, 3), (False, 1, 3)]
    assert places(f"{topic}:0,3@+3", f"{other}@3") == [
        (False, 0, 3), (False, 3, 3), (True, 0, 3), (True, 1, 3), (True, 3, 3),
    ]  # fmt: skip
    assert places(f"{topic}:1", "--offset", "3") == [(False, 1, 3)]
    assert places(f"{topic}:1@end") == []
    # its own start is before the one of the options, wherever it stands
    assert places(other, f"{other}:3@2", "--tail", "1") == [(True, 0, 3), (True, 1, 3), (True, 3, 2), (True, 3, 3)]
    assert places(f"{topic}:1@1", "--to", "end", "-n", "2") == [(False, 1, 1), (False, 1, 2)]


@pytest.mark.parametrize(
    ("word", "more", "error"),
    [
        (":x", [], "is not TOPIC or TOPIC:P,P"),
        (":9", [], "has no partition 9"),
        (":1@wat", [], "behind @ stands start, end, 42, +10 or -10"),
        (":1@2:3", [], "behind @ stands start, end, 42, +10 or -10"),
        (":1", ["--partitions", "1"], "both say which partitions to read"),
        (":1@2", ["--group", "g"], "the group shares the partitions among its members"),
        ("x:1", [], 'x" does not exist'),
    ],
)
def test_an_argument_that_names_no_partition_or_offset_is_refused(yak, topic, word, more, error):
    ran = yak("consume", topic + word, "--exit", *more)
    assert ran.code in (1, 2)
    assert error in ran.err


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (["--offset", "start"], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]),
        (["--offset", "7"], [7, 8, 9]),
        (["--offset", "+8"], [8, 9]),
        (["--offset", "-3"], [7, 8, 9]),
        (["--offset", "2:5"], [2, 3, 4]),
        (["--offset", ":2"], [0, 1]),
        (["--offset", "end"], []),
        (["--from-beginning", "--to", "end"], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]),
        (["--tail", "4"], [6, 7, 8, 9]),
        (["--from-beginning", "-n", "3"], [0, 1, 2]),
        (["--offset", "50"], []),
    ],
)
def test_consume_starts_and_stops_at_the_requested_offsets(yak, cluster, monkeypatch, spec, expected):
    address, make = cluster
    monkeypatch.setenv("YAK_BOOTSTRAP_SERVERS", address)
    make("ten")
    if not yak("consume", "ten", "--from-beginning", "-e", "-q").out:
        yak("produce", "ten", "-p", "1", "-q", *(word for n in range(10) for word in ("-m", f"v{n}")))
    ran = yak("consume", "ten", "--partitions", "1", "--exit", *spec, "--print", "offset")
    assert ran.code == 0, ran.err
    assert [int(line.split("\t")[0]) for line in ran.out.splitlines()] == expected


def test_consume_without_records_in_time_exits_with_5_and_empty_topic_ends_at_once(yak, topic):
    assert yak("consume", topic, "--from-beginning", "-e").code == 0
    ran = yak("consume", topic, "--timeout-ms", "200")
    assert ran.code == 5
    assert "error[nothing-in-time]" in ran.err


def test_filters_formats_and_decoders(yak, topic):
    given = (word for n in range(4) for word in ("-m", f'k{n}={{"n": {n}}}'))
    yak("produce", topic, "-p", "0", "-q", "--key-separator", "=", *given)
    base = ["consume", topic, "--from-beginning", "-e"]
    assert yak(*base, "--filter", "v:.n > 1", "--filter", "!k:k3").out == '{"n": 2}\n'
    assert (
        yak(*base, "-n", "1", "--format", r"%t/%p/%o %k=%s %K %S %%\x41\n").out == f'{topic}/0/0 k0={{"n": 0}} 2 8 %A\n'
    )
    assert yak(*base, "--format", "%z").code == 2
    assert yak(*base, "-n", "1", "--decoder", "tr 0 9").out == '{"n": 9}\n'
    assert yak(*base, "--decoder", "false").code == 1
    skipped = yak(*base, "--decoder", "false", "--skip-message-on-error")
    assert (skipped.code, skipped.out) == (1, "")
    assert yak(*base, "-o", "raw", "-n", "1").out == '{"n": 0}\n'
    table = list(csv.DictReader(yak(*base, "-o", "csv").out.splitlines()))
    assert [row["key"] for row in table] == ["k0", "k1", "k2", "k3"]
    embedded = yak(*base, "-n", "1", "-o", "json", "--json-value").out
    assert json.loads(embedded)["value"] == {"n": 0}


def test_consume_with_a_decoder_that_fails_prints_the_records_before_the_failure(yak, topic):
    yak("produce", topic, "-p", "1", "-m", "YQ==", "-m", "Yg==", "-m", "no base64!")
    ran = yak("consume", topic, "--from-beginning", "-e", "--decoder", "base64 -d")
    assert (ran.code, ran.out) == (1, "a\nb\n")
    assert "error[decoder-failed]" in ran.err


def test_consume_to_a_future_time_ends_though_records_keep_coming(yak, topic, monkeypatch):
    def records(self, *, more):
        ends = time.monotonic() + 6
        while more() and self.followed:
            assert time.monotonic() < ends
            yield ConsumerRecord(topic, 0, 0, time.time_ns() // 1_000_000, "CreateTime", None, b"x", [], 0)
            time.sleep(0.01)

    monkeypatch.setattr(PartitionReader, "records", records)
    ran = yak("consume", topic, "--from-beginning", "--to", "+1s")
    assert (ran.code, ran.err.rpartition("; ")[2]) == (0, "stopped: reached time\n")


@pytest.mark.parametrize("until", ["+1s", "now"])
def test_consume_to_a_time_waits_for_the_records_of_a_slow_broker(yak, topic, monkeypatch, until):
    yak("produce", topic, "-p", "0", "-m", "a", "-m", "b", "--timestamp", "2026-01-01")
    real = PartitionReader.records

    def records(self, *, more):
        ready = time.monotonic() + 1.8
        while time.monotonic() < ready and more():
            yield None
            time.sleep(0.05)
        yield from real(self, more=more)

    monkeypatch.setattr(PartitionReader, "records", records)
    ran = yak("consume", topic, "--from-beginning", "--to", until)
    assert (ran.code, ran.out) == (0, "a\nb\n"), ran.err


def test_several_topics_and_regular_expressions(yak, topic, cluster):
    cluster[1](topic + "-b")
    yak("produce", topic, "-m", "one")
    yak("produce", topic + "-b", "-m", "two")
    assert sorted(yak("consume", topic, topic + "-b", "--from-beginning", "-e").out.split()) == ["one", "two"]
    assert sorted(yak("consume", "-r", f"^{topic}", "--from-beginning", "-e").out.split()) == ["one", "two"]
    assert yak("consume", "--include", topic, "--from-beginning", "-e").out.split() == ["one"]
    assert "no-topic-matches" in yak("consume", "-r", "^nothing$").err


def test_bytes_that_are_no_text_are_printed_as_hex(yak, topic, tmp_path):
    (tmp_path / "in").write_bytes(b"\xff\x01\n")
    yak("produce", topic, "-f", "in")
    assert yak("consume", topic, "--from-beginning", "-e").out == "hex:ff01\n"
    assert yak("produce", topic, "--null-value", "", "-k", "k", "-m", "", "-q").code == 0
    assert "null" in yak("consume", topic, "--from-beginning", "-e").out.split()


def test_consume_prints_that_it_waits_and_ends_when_its_output_is_closed(topic):
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "yak.commands", "consume", topic, "--from-beginning"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=theirs) as consuming:
        os.close(theirs)
        try:
            said = ""
            while "waiting for records; Ctrl+C ends" not in said:
                said += os.read(ours, 4096).decode()
            assert consuming.stdout is not None
            consuming.stdout.close()
            assert consuming.wait(20) == 0
        finally:
            consuming.kill()
            os.close(ours)


def test_transaction_is_committed_and_its_records_are_answered(yak, topic):
    ran = yak("produce", topic, "--transactional", "-p", "1", "-m", "a", "-m", "b")
    assert (ran.code, ran.out, ran.err) == (0, f"{topic}-1@0\n{topic}-1@1\n", "")
    ran = yak("produce", topic, "--transactional-id", "me", "-p", "1", "-m", "c", "-o", "json")
    assert (ran.code, json.loads(ran.out)["acknowledged"]) == (0, 1)


@pytest.fixture
def calls(monkeypatch):
    """The ends of transactions, in order."""
    made = []

    def noted(name):
        real = getattr(ProducerTransaction, name)

        def end(self):
            made.append(name)
            real(self)

        return end

    for name in ("commit", "abort"):
        monkeypatch.setattr(ProducerTransaction, name, noted(name))
    return made


def test_transaction_with_a_bad_row_is_aborted(yak, topic, tmp_path, calls):
    (tmp_path / "in.csv").write_text("key,total\nu1,1\nu2,1,2\nu3,3\n")
    ran = yak("produce", topic, "-f", "in.csv", "--csv-key", "key", "--transactional")
    assert (ran.code, ran.out) == (1, "")
    assert "error[transaction-aborted]: the transaction of 2 records was aborted" in ran.err
    assert "1 bad row: in.csv.rejected.csv" in ran.err
    assert calls == ["abort"]


def test_transaction_with_a_record_that_is_not_acknowledged_is_aborted(yak, topic, calls, monkeypatch):
    def send(_g, _request, _source, sender, _bar):
        sender.send(Outgoing(b"a"))
        sender.send(Outgoing(b"b", partition=77))

    monkeypatch.setattr("yak.commands.produce._send_rows", send)
    ran = yak("produce", topic, "--transactional", "-m", "a")
    assert (ran.code, ran.out) == (1, "")
    assert "error[transaction-aborted]: the transaction of 2 records was aborted" in ran.err
    assert calls == ["abort"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
def test_interrupt_or_failure_aborts_the_transaction(yak, topic, calls, monkeypatch, error):
    def fail(*_):
        raise error

    monkeypatch.setattr("yak.commands.produce._send_rows", fail)
    ran = yak("produce", topic, "--transactional", "-m", "a")
    assert calls == ["abort"]
    assert ran.code == (130 if error is KeyboardInterrupt else 1)
    assert ("interrupted: the transaction was aborted" in ran.err) == (error is KeyboardInterrupt)


@pytest.fixture
def signals(monkeypatch):
    """Signals as in a process of the command."""
    monkeypatch.setattr("signal.signal", set_handler)
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: set_handler(number, signal.SIG_DFL) for number in numbers}
    yield
    for number, handler in before.items():
        set_handler(number, handler)
    interrupts._seen.clear()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signal_during_produce_sends_the_records_that_were_read_and_prints_them(
    yak, topic, monkeypatch, signals, number
):
    real = Source.rows

    def rows(source):
        yield from real(source)
        signal.raise_signal(number)

    monkeypatch.setattr(Source, "rows", rows)
    ran = yak("produce", topic, "-p", "0", "-m", "a", "--linger", "1s")
    assert (ran.code, ran.out) == (128 + number, "" if number == signal.SIGHUP else f"{topic}-0@0\n")
    assert [each["value"] for each in records(yak, topic)] == ["a"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signal_within_a_callback_of_librdkafka_is_no_bug_of_yak(yak, topic, monkeypatch, signals, number):
    def interrupted(*_):
        with contextlib.suppress(KeyboardInterrupt, SystemExit):  # as the binding drops it
            signal.raise_signal(number)
        raise SystemError

    monkeypatch.setattr("yak.commands.produce._send_rows", interrupted)
    assert yak("produce", topic, "-m", "a").code == 128 + number


@pytest.mark.parametrize(("number", "why"), [(signal.SIGINT, "interrupted"), (signal.SIGTERM, "terminated")])
def test_signal_during_consume_prints_the_records_that_were_read(yak, topic, monkeypatch, signals, number, why):
    yak("produce", topic, "-p", "0", "-m", "a")
    show = RecordPrinter.show

    def shown(printer, record):
        show(printer, record)
        signal.raise_signal(number)

    monkeypatch.setattr(RecordPrinter, "show", shown)
    ran = yak("consume", topic, "--from-beginning")
    assert (ran.code, ran.out) == (128 + number, "a\n")
    assert ran.err.endswith(f"; stopped: {why}\n")


def test_records_of_an_interrupted_write_are_not_written_again():
    class Pipe(io.BytesIO):
        def write(self, data):
            if self.getvalue():
                return super().write(data)
            super().write(data[:4])
            raise KeyboardInterrupt

    pipe = Pipe()
    stdout = SimpleNamespace(isatty=lambda: False, flush=lambda: None, buffer=pipe)
    g = SimpleNamespace(zone=UTC, out=SimpleNamespace(stdout=stdout, format="raw", unescaped=False))
    printer = RecordPrinter(g, None, None, False)
    printer.show(ConsumerRecord("t", 0, 0, 0, "CreateTime", None, b"abcdef", [], None))
    with pytest.raises(KeyboardInterrupt):
        printer.flush()
    printer.flush()
    assert pipe.getvalue() == b"abcd"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_during_the_commit_does_not_hide_that_the_records_are_written(yak, topic, monkeypatch, signals, number):
    real = ProducerTransaction.commit

    def commit(self):
        real(self)
        os.kill(os.getpid(), number)

    monkeypatch.setattr(ProducerTransaction, "commit", commit)
    ran = yak("produce", topic, "--transactional", "-p", "1", "-m", "a")
    assert (ran.code, ran.out) == (0, f"{topic}-1@0\n")


def test_second_signal_does_not_leave_the_transaction_open(yak, topic, monkeypatch, signals):
    real, aborted = ProducerTransaction.abort, []

    def abort(self):
        os.kill(os.getpid(), signal.SIGINT)
        real(self)
        aborted.append(True)

    def interrupt(*_):
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(ProducerTransaction, "abort", abort)
    monkeypatch.setattr("yak.commands.produce._send_rows", interrupt)
    assert yak("produce", topic, "--transactional", "-m", "a").code == 130
    assert aborted


@pytest.mark.parametrize(
    "args", [("--acks", "1"), ("--repeat", "0"), ("--transactional-id", ""), ("-f", "x.txt", "--resume", "x.ck")]
)
def test_options_that_a_transaction_cannot_have_are_refused(yak, topic, args):
    ran = yak("produce", topic, "--transactional", *args, *(() if "-f" in args else ("-m", "a")))
    assert ran.code == 2
    assert "transaction" in ran.err


def test_isolation_level_is_kafkas(yak, topic):
    yak("produce", topic, "-p", "0", "-m", "a")
    for args in (("--isolation", "read_committed"), ("--isolation-level", "read_uncommitted"), ("--read-committed",)):
        assert [each["value"] for each in records(yak, topic, *args)] == ["a"]
    ran = yak("consume", topic, "--isolation", "committed", "-e")
    assert ran.code == 2
    assert "is not one of 'read_uncommitted', 'read_committed'" in ran.err


def test_produce_rate_catches_up_a_second_of_a_pause(monkeypatch):
    """An input that says nothing for an hour, as of `tail -f`, must not give the right to an hour's records at once."""
    clock = [1000.0]
    monkeypatch.setattr(produce, "time", SimpleNamespace(monotonic=lambda: clock[0]))

    class Sender:
        def serve(self, seconds):
            clock[0] += seconds

    rows = produce._paced(itertools.count(), 10.0, Sender())
    next(rows)
    clock[0] += 3600.0
    began = clock[0]
    list(itertools.islice(rows, 32))
    assert clock[0] - began == pytest.approx(2.0, abs=0.2)
