"""`yak spark` without Spark: which words go where, what is shown of jobs, and which Python is taken."""

import csv
import datetime as dt
import decimal
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from yak.client.login import use_login
from yak.client.security import ClientSecurity, use
from yak.commands import spark_python
from yak.commands.output import Output, flat
from yak.commands.spark import (
    NO_ZONE,
    _query,
    environment_of,
    followed,
    left_running,
    own_options_first,
    plain,
    print_rows,
    show_progress,
    tables_named,
)
from yak.errors import UsageError
from yak.local import spark_runs
from yak.local.processes import identify, kill, wait_gone
from yak.spark.jobs.frame import _with_client_options, main
from yak.spark.jobs.options import ReadOptions, key_values

NOW_MS = 1_790_000_000_000


def a_run(job: str, state: str, *, words: tuple[str, ...] = (), **more: Any) -> spark_runs.Run:
    made = spark_runs.new_run(job, words, master="local[2]", now_ms=NOW_MS)
    made = replace(made, state=state, **more)
    spark_runs.save(made)
    return made


def a_batch(run: spark_runs.Run, **more: Any) -> None:
    line = {
        "time_ms": NOW_MS, "event": "batch", "query": "counts", "query_id": "q", "batch": 41, "input_rows": 120,
        "input_per_s": 60.0, "processed_per_s": 300.0, "duration_ms": 410, "lag": 5, "state_rows": 7,
        "state_bytes": 20_480, "dropped_late": 0, "watermark": "2026-09-21T13:00:00.000Z", "sink": "noop",
    }  # fmt: skip
    spark_runs.add_progress(run.folder, {**line, **more})


# ------------------------------------------------------------------------------------------------ words of a job


@pytest.mark.parametrize(
    ("typed", "read"),
    [
        ("run counts --topic orders", "run counts -- --topic orders"),
        ("run counts --topic orders --follow", "run --follow counts -- --topic orders"),
        ("run -f counts -t orders -q x -b h:1", "run -f counts -- -t orders -q x -b h:1"),
        ("run counts -o json --topic t --context c", "run -o json --context c counts -- --topic t"),
        ("run --context c counts --timeout=5s", "run --context c --timeout=5s counts --"),
        ("run counts --help", "run counts -- --help"),
        ("run --help", "run --help"),
        ("run counts -- --follow", "run counts -- --follow"),
        ("status counts-1 -o json", "status counts-1 -o json"),
        ("", ""),
    ],
)
def test_spark_command_options_go_before_the_job_and_other_arguments_to_the_job(typed, read):
    assert own_options_first(typed.split()) == read.split()


def test_the_help_of_a_job_is_the_jobs_own(yak):
    ran = yak("spark", "run", "counts", "--help")
    assert ran.code == 0
    assert "Usage: yak spark run counts" in ran.out
    assert "--checkpoint-dir" in ran.out


def test_jobs_are_listed(yak):
    ran = yak("spark", "jobs", "-o", "json")
    assert {"counts", "archive", "anomaly"} <= {each["job"] for each in json.loads(ran.out)}
    assert "yak spark run JOB --help" in yak("spark", "jobs").err


def test_an_unknown_job_is_refused_before_anything_is_started(yak):
    ran = yak("spark", "run", "cuonts", "--topic", "orders")
    assert ran.code == 2
    assert ran.err.startswith("error[spark-job]")
    assert spark_runs.all_runs() == []


@pytest.fixture
def ann(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Commands connect with TLS as ann, by variables."""
    given = {
        "SECURITY_PROTOCOL": "SASL_SSL",
        "SSL_CA_LOCATION": "ca.pem",
        "SASL_USERNAME": "ann",
        "SASL_PASSWORD": "p=w",
    }
    for name, value in given.items():
        monkeypatch.setenv(f"YAK_{name}", value)
    monkeypatch.setenv(spark_runs.CLIENT_OPTIONS, "{}")  # restored after the test
    yield
    use_login(None)
    use(ClientSecurity())


def test_job_gets_tls_and_login_of_the_command_for_its_own_brokers(ann, yak, monkeypatch):
    started: dict[str, Any] = {}

    def start(g: Any, run: spark_runs.Run, arguments: list[str]) -> None:
        started.update(environment_of(g, run), arguments=arguments)

    monkeypatch.setattr("yak.commands.spark_python.hand_over", lambda: None)
    monkeypatch.setattr("yak.commands.spark.left_running", start)
    assert yak("spark", "run", "counts", "-t", "orders", "-b", "one:1").code == 0
    assert started["YAK_BOOTSTRAP_SERVERS"] == "one:1"
    assert "p=w" not in " ".join(started["arguments"])

    monkeypatch.setenv(spark_runs.CLIENT_OPTIONS, started[spark_runs.CLIENT_OPTIONS])
    options = _with_client_options(ReadOptions(topic="orders", option=("kafka.sasl.username=bob",)))
    assert spark_runs.CLIENT_OPTIONS not in os.environ
    assert key_values("--option", options.option) == {
        "kafka.security.protocol": "SASL_SSL",
        "kafka.ssl.ca.location": "ca.pem",
        "kafka.ssl.endpoint.identification.algorithm": "https",
        "kafka.sasl.mechanism": "SCRAM-SHA-256",
        "kafka.sasl.username": "bob",
        "kafka.sasl.password": "p=w",
    }


@pytest.mark.parametrize("option", ["--window=0s", "--nonsense"])
def test_run_of_a_job_with_invalid_options_has_failed(monkeypatch, option):
    run = a_run("counts", "starting")
    monkeypatch.setenv(spark_runs.VARIABLE, str(run.folder))
    assert main(["counts", "-t", "orders", option]) == 2
    assert spark_runs.find_run("counts-1").state == "failed"
    error = spark_runs.error_of(run)
    assert error is not None
    assert error.code == ("spark-options" if option == "--window=0s" else "usage")


def test_job_without_a_required_option_is_refused_as_any_other_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["counts"]) == 2
    assert capsys.readouterr().err.splitlines() == [
        "error[usage]: missing option '--topic' / '-t'",
        "  try:  yak spark run counts --help",
    ]


def test_spark_connector_of_spark_itself_gets_no_options_of_librdkafka(monkeypatch):
    monkeypatch.setenv(spark_runs.CLIENT_OPTIONS, '{"kafka.ssl.ca.location": "ca.pem"}')
    assert _with_client_options(ReadOptions(topic="orders", connector="kafka")).option == ()


# ---------------------------------------------------------------------------------------------- status and stop


def test_status_shows_those_that_run_and_with_all_those_that_ended(yak, golden):
    run = a_run("counts", "running", process=identify(os.getpid()), checkpoint="./ck")
    a_batch(run)
    ended = a_run("stats", "failed")
    spark_runs.save_error(ended.folder, UsageError("spark-memory", "too little", why="it needs more"))
    golden("tables/spark-status.txt", yak("spark", "status").out)
    golden("tables/spark-status-all.txt", yak("spark", "status", "--all").out)
    document = json.loads(yak("spark", "status", "--all", "-o", "json").out)
    assert [each["id"] for each in document] == ["counts-1", "stats-1"]
    header, counts, _stats = csv.reader(yak("spark", "status", "--all", "-o", "csv").out.splitlines())
    found = {**document[0], **document[0]["progress"]}
    assert dict(zip(header, counts, strict=True)) == {name: flat(found[name]) for name in header}, "the names of JSON"
    assert document[0]["progress"]["lag"] == 5
    assert document[0]["queries"][0]["batch"] == 41
    assert document[1]["error"] == {"code": "spark-memory", "message": "too little", "why": "it needs more"}


def test_spark_status_of_one_run_prints_its_queries_and_its_error(yak):
    run = a_run("counts", "failed", words=("--topic", "orders"), checkpoint="./ck")
    a_batch(run)
    spark_runs.save_error(run.folder, UsageError("spark-memory", "too little", why="w", try_=("--driver-memory 4g",)))
    ran = yak("spark", "status", "counts-1")
    assert ran.code == 0
    for words in (
        "counts-1  --topic orders",
        "./ck",
        "20.0 KiB",
        "error[spark-memory]: too little",
        "--driver-memory 4g",
    ):
        assert words in ran.out
    assert json.loads(yak("spark", "status", "counts-1", "-o", "json").out)["words"] == ["--topic", "orders"]


def test_spark_status_without_a_running_job_prints_what_to_do(yak):
    assert "yak spark run JOB starts one" in yak("spark", "status").err
    ran = yak("spark", "status", "counts")
    assert ran.code == 2
    assert ran.err.startswith("error[unknown-run]")


def test_stop_ends_the_process_and_says_how_it_ended(yak):
    script = (
        "import json, os, signal, sys, time\n"
        "path = sys.argv[1]\n"
        "def end(*_):\n"
        "    run = json.load(open(path)); run['state'] = 'stopped'; json.dump(run, open(path, 'w')); os._exit(0)\n"
        "signal.signal(signal.SIGTERM, end)\n"
        "print('there', flush=True)\n"
        "time.sleep(60)\n"
    )
    run = a_run("counts", "running")
    path = str(run.folder / "run.json")
    with subprocess.Popen([sys.executable, "-c", script, path], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        child.stdout.readline()
        spark_runs.save(replace(run, process=identify(child.pid)))
        # A process that nobody has waited for is gone to us, and still there for the kernel.
        ran = yak("spark", "stop", "counts-1")
        assert ran.out == "counts-1: stopped\n"
    assert yak("spark", "stop", "counts-1").err == "counts-1: stopped already\n"
    assert yak("spark", "stop", "--all").err == "No Spark job runs.\n"
    assert yak("spark", "stop").code == 2


def test_spark_job_that_does_not_end_is_reported_with_the_option_that_ends_it(yak):
    script = (
        "import signal, time; signal.signal(signal.SIGTERM, lambda *_: None); print('x', flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        child.stdout.readline()
        a_run("counts", "running", process=identify(child.pid))
        ran = yak("spark", "stop", "counts-1", "--timeout", "300ms")
        assert ran.code == 1
        assert ran.err.startswith("error[spark-stop]: counts-1 did not end in 0.3 s")
        assert yak("spark", "stop", "counts-1", "--now").out == "counts-1: killed\n"


# --------------------------------------------------------------------------------------------------- SQL, rows


@pytest.mark.parametrize(
    ("query", "tables"),
    [
        ("SELECT * FROM orders", {"orders": "orders"}),
        (
            "select * from ORDERS o join `eu.orders-v1` e using (key)",
            {"orders": "orders", "eu_orders_v1": "eu.orders-v1"},
        ),
        ("SELECT * FROM eu_orders_v1", {"eu_orders_v1": "eu.orders-v1"}),
        ("SELECT 'orders' -- from orders\n/* orders */", {}),
        ("SELECT * FROM orders2", {}),
        ("SELECT 1", {}),
    ],
)
def test_topics_that_a_query_names_are_its_tables(query, tables):
    found, rewritten = tables_named(query, ["orders", "eu.orders-v1", "payments"])
    assert found == tables
    assert "`eu.orders-v1`" not in rewritten


def test_topic_with_the_exact_name_is_selected_when_two_topics_share_a_table():
    assert tables_named("SELECT * FROM a_b", ["a-b", "a.b", "a_b"])[0] == {"a_b": "a_b"}
    assert tables_named("SELECT * FROM Orders", ["Orders", "orders"])[0] == {"Orders": "Orders"}
    assert tables_named("SELECT * FROM orders", ["Orders", "orders"])[0] == {"orders": "orders"}


def test_topic_in_backticks_is_selected_when_two_topics_share_a_table():
    assert tables_named("SELECT * FROM `a-b`", ["a-b", "a_b"]) == ({"a_b_2": "a-b"}, "SELECT * FROM `a_b_2`")
    assert tables_named("SELECT * FROM `a-b` JOIN a_b", ["a-b", "a_b", "a_b_2"])[0] == {"a_b_3": "a-b", "a_b": "a_b"}
    found, query = tables_named("SELECT * FROM `a-b` JOIN `a.b` USING (key)", ["a-b", "a.b"])
    assert found == {"a_b_2": "a-b", "a_b_3": "a.b"}
    assert query == "SELECT * FROM `a_b_2` JOIN `a_b_3` USING (key)"


def test_query_file_that_is_not_utf8_is_refused(tmp_path):
    (tmp_path / "query.sql").write_bytes(b"SELECT '\xff'")
    with pytest.raises(UsageError, match="cannot be read") as caught:
        _query(None, str(tmp_path / "query.sql"))
    assert "query.sql is not UTF-8" in caught.value.why


def test_times_keep_their_microseconds():
    when = dt.datetime(2026, 11, 20, 12, 0, 0, 123_456, tzinfo=dt.UTC)
    assert plain(when) == "2026-11-20T12:00:00.123456Z"
    assert plain(when.replace(tzinfo=None), NO_ZONE) == "2026-11-20T12:00:00.123456"
    assert plain(when.replace(microsecond=120_000)) == "2026-11-20T12:00:00.120Z"


def test_spark_values_are_converted_to_json_values():
    when = dt.datetime(2026, 11, 20, 12, 0, 0, 5_000, tzinfo=dt.UTC)
    row = SimpleNamespace(asDict=lambda: {"a": bytearray(b"x"), "b": [when]})
    values = [
        None,
        True,
        1,
        float("nan"),
        b"\xff\x00",
        decimal.Decimal("1.50"),
        decimal.Decimal(3),
        decimal.Decimal("12345678901234567.89"),
        {1: row},
        dt.date(2026, 1, 2),
    ]
    assert plain(values) == [
        None, True, 1, "nan", "ff00", 1.5, 3, "12345678901234567.89",
        {"1": {"a": "x", "b": ["2026-11-20T12:00:00.005Z"]}}, "2026-01-02",
    ]  # fmt: skip


def test_an_instant_is_the_same_whatever_zone_this_machine_is_in(monkeypatch):
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        instant = dt.datetime.fromtimestamp(1_790_000_000)  # noqa: DTZ006 - as PySpark makes it
        assert plain(instant) == "2026-09-21T14:13:20.000Z"
        assert plain(instant, NO_ZONE) == "2026-09-21T23:13:20.000"
        assert plain(instant, None) == "2026-09-21T23:13:20.000+09:00"
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize(
    ("form", "printed"),
    [
        ("json", '{"key": "k", "key": 1}\n'),
        ("csv", "key,n\nk,1\n,\n"),
        ("raw", "k\t1\n\t\n"),
        ("table", "KEY  N\nk    1\n–    –\n"),
    ],
)
def test_rows_are_printed_in_each_format(form, printed, capsys):
    fields = [SimpleNamespace(dataType=SimpleNamespace(typeName=lambda: "string")) for _ in range(2)]
    schema = SimpleNamespace(names=["key", "n"], fields=fields)
    g: Any = SimpleNamespace(out=Output(form), zone=dt.UTC)
    print_rows(g, schema, iter([("k", 1), (None, None)]))
    out = capsys.readouterr().out
    if form == "json":
        assert [json.loads(line) for line in out.splitlines()] == [{"key": "k", "n": 1}, {"key": None, "n": None}]
    else:
        assert out == printed


def test_two_columns_of_one_name_are_both_printed(capsys):
    fields = [SimpleNamespace(dataType=SimpleNamespace(typeName=lambda: "string")) for _ in range(2)]
    schema = SimpleNamespace(names=["key", "key"], fields=fields)
    print_rows(SimpleNamespace(out=Output("table"), zone=dt.UTC), schema, iter([("a", "b")]))  # type: ignore[arg-type]
    assert capsys.readouterr().out == "KEY  KEY 2\na    b\n"


class Terminal:
    """A stream that is a terminal."""

    def __init__(self) -> None:
        self.text = ""

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> None:
        self.text += text

    def flush(self) -> None:
        pass


def test_a_job_that_is_followed_shows_batch_rate_lag_and_state(monkeypatch):
    monkeypatch.delenv("CI", raising=False)
    run, terminal = a_run("counts", "running"), Terminal()
    g: Any = SimpleNamespace(out=Output(stderr=terminal))  # type: ignore[arg-type]
    with g.out.progress(run.id) as line:
        show_progress(line, run)
        assert "Spark is starting" in terminal.text
        a_batch(run)
        line._drawn = 0.0
        show_progress(line, run)
    assert "120/125" in terminal.text
    assert "batch 41  now 300/s  lag 5  state 20.0 KiB" in terminal.text


A_BATCH = """
import os, signal, sys
signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
os.kill(os.getppid(), int(sys.argv[1]))
signal.pause()
"""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_batch_that_is_followed_and_cut_by_a_signal_ends_with_the_code_of_that_signal(number, code):
    run = a_run("sql", "running")
    g: Any = SimpleNamespace(out=Output(), bootstrap_servers="127.0.0.1:9092")
    before = signal.getsignal(number)
    signal.signal(number, signal.SIG_DFL)  # under nohup it is ignored, which a job respects
    try:
        assert followed(g, run, [sys.executable, "-c", A_BATCH, str(number)]) == code
    finally:
        signal.signal(number, before)


def test_followed_program_that_is_killed_leaves_no_spark_behind(tmp_path, monkeypatch):
    """The second Ctrl+C, which nothing may outlive: spark-submit is a process of its own."""
    run = a_run("mine", "running")
    g: Any = SimpleNamespace(out=Output(), bootstrap_servers="127.0.0.1:9092")
    script = (
        "import subprocess, sys, time; child = subprocess.Popen(['sleep', '60'])\n"
        "open(sys.argv[1], 'w').write(f'{child.pid}.'); time.sleep(60)"
    )
    said, started = tmp_path / "pid", []

    def interrupted(*_: Any) -> None:
        if said.exists() and (text := said.read_text()).endswith("."):
            started.append(identify(int(text[:-1])))
            raise KeyboardInterrupt

    monkeypatch.setattr("yak.commands.spark.show_progress", interrupted)
    with pytest.raises(KeyboardInterrupt):
        followed(g, run, [sys.executable, "-c", script, str(said)])
    try:
        assert wait_gone(started[0], 5)
    finally:
        kill(started[0])


def test_job_whose_start_is_interrupted_is_stopped(monkeypatch):
    """Ctrl+C comes before the command has said that a job runs in the background."""
    run = a_run("counts", "starting")
    g: Any = SimpleNamespace(out=Output(), bootstrap_servers="127.0.0.1:9092")
    started: list[Any] = []

    def interrupted(_folder: Path) -> None:
        raise KeyboardInterrupt

    def start(*arguments: Any, **more: Any) -> Any:
        started.append(real(*arguments, **more))
        return started[0]

    real = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", start)
    monkeypatch.setattr(spark_runs, "load", interrupted)
    with pytest.raises(KeyboardInterrupt):
        left_running(g, run, [sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        assert started[0].wait(10) == -signal.SIGTERM
    finally:
        started[0].kill()
        started[0].wait()


# --------------------------------------------------------------------------------------------- the Python of Spark


def fake_python(folder: Path, said: str = "", code: int = 0) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "python3"
    program.write_text(f'#!/bin/sh\necho "{said}" >&2\nexit {code}\n')
    program.chmod(0o755)
    return str(program)


def test_python_that_has_pyspark_is_found_and_the_others_are_reported(tmp_path):
    without = fake_python(tmp_path / "a", "ModuleNotFoundError: No module named 'pyspark'", 1)
    with_it = fake_python(tmp_path / "b")
    env = {"PATH": f"{tmp_path}/a", "PYSPARK_PYTHON": with_it}
    assert spark_python.find_python(env) == with_it
    with pytest.raises(UsageError) as refused:
        spark_python.find_python({"PATH": f"{tmp_path}/a"})
    assert refused.value.code == "spark-missing"
    assert f"{without}: no module named 'pyspark'" in refused.value.why


def test_python_named_by_the_user_is_used_and_no_other(tmp_path):
    named = fake_python(tmp_path / "a", "boom", 1)
    other = fake_python(tmp_path / "b")
    with pytest.raises(UsageError) as refused:
        spark_python.find_python({"YAK_SPARK_PYTHON": named, "PYSPARK_PYTHON": other, "PATH": ""})
    assert refused.value.why == f"YAK_SPARK_PYTHON={named}: boom"


def test_the_whole_command_is_handed_to_it(monkeypatch, tmp_path):
    program = fake_python(tmp_path / "a")
    handed: list[Any] = []
    monkeypatch.setenv("YAK_SPARK_PYTHON", program)
    monkeypatch.setattr(os, "execve", lambda *words: handed.extend(words))
    monkeypatch.setattr(sys, "argv", ["yak", "spark", "sql", "SELECT 1"])
    spark_python.hand_over()
    assert handed[1] == [program, "-P", "-m", "yak.commands", "spark", "sql", "SELECT 1"]
    monkeypatch.setenv("YAK_SPARK_HANDED_OVER", handed[2]["YAK_SPARK_HANDED_OVER"])
    spark_python.hand_over()
    assert len(handed) == 3  # this is that Python


def test_executable_always_searches_a_python_with_pyspark_and_says_how_to_install_it(monkeypatch, tmp_path):
    monkeypatch.setattr(spark_python, "is_frozen", lambda: True)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    with pytest.raises(UsageError) as refused:
        spark_python.hand_over()
    assert refused.value.try_[0] == "python3 -m venv ~/.yak-spark && ~/.yak-spark/bin/pip install 'yak-broker[spark]'"


def test_without_pyspark_every_command_that_needs_it_says_what_to_install(yak, monkeypatch, tmp_path):
    monkeypatch.setattr(spark_python, "missing_here", lambda: ["pyspark"])
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("VIRTUAL_ENV", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "job.py").touch()
    for words in (["run", "counts", "--topic", "t"], ["sql", "SELECT 1"], ["shell"], ["submit", "job.py"]):
        ran = yak("spark", *words)
        assert (ran.code, ran.out) == (2, "")
        assert ran.err.startswith("error[spark-missing]: no Python with PySpark was found")
        assert "pip install 'yak-broker[spark]'" in ran.err


@pytest.mark.parametrize(
    "words",
    [
        ("sql",),
        ("sql", "SELECT 1", "-f", "x.sql"),
        ("sql", " ; "),
        ("sql", "SELECT 1", "--master", "lokal"),
        ("sql", "SELECT 1", "--conf", "x"),
        ("shell", "--driver-memory", "much"),
        ("submit", "nowhere.py"),
    ],
)
def test_wrong_use_ends_with_2_before_spark_is_started(yak, words):
    ran = yak("spark", *words)
    assert ran.code == 2
    assert ran.err.startswith("error[")
