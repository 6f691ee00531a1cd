"""`yak spark` as a user types it: on a real broker, with real Spark.

Jobs and programs run as processes of their own: `yak.spark.jobs.__main__` and `yak.spark.driver.submit_wrapper`.
"""

import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from yak.client.admin import Admin
from yak.commands import main as program
from yak.local import spark_runs
from yak.local.processes import is_running
from yak.spark.driver.make import quiet_python

TIMEOUT_S = 300
pytestmark = pytest.mark.timeout(900)


class SharedSession:
    """The shared session, which a command may not end."""

    def __init__(self, spark: Any) -> None:
        self._spark = spark

    def __getattr__(self, name: str) -> Any:
        return getattr(self._spark, name)

    def stop(self) -> None:
        """The other tests need it."""


@pytest.fixture(autouse=True)
def own_state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, bootstrap: str) -> Iterator[None]:
    """Settings and state of nobody else; no job is left behind."""
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    monkeypatch.setenv("YAK_BOOTSTRAP_SERVERS", bootstrap)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.delenv("YAK_SPARK_PYTHON", raising=False)
    monkeypatch.chdir(tmp_path)
    yield
    for run in spark_runs.all_runs():
        spark_runs.stop(run, hard=True)


@pytest.fixture
def topic(bootstrap: str, new_name: Callable[[], str]) -> str:
    """Thirty records of JSON under three keys, and one that is none."""
    name = new_name()
    Admin(bootstrap).create_topic(name, partitions=2)
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(30):
        value = json.dumps({"user": f"u{number % 2}", "total": number}, separators=(",", ":"))
        producer.produce(name, key=f"k{number % 3}", value=value)
    producer.produce(name, key="k0", value="no json")
    assert producer.flush(20) == 0
    return name


@pytest.fixture
def yak(spark: Any, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    """A command in this process, on the shared session."""

    def shared(settings: Any) -> SharedSession:
        quiet_python(settings.log)
        return SharedSession(spark)

    monkeypatch.setattr("yak.spark.driver.make.make_session", shared)
    monkeypatch.setattr("signal.signal", lambda *_: None)

    def run(*arguments: str) -> tuple[int, str, str]:
        capfd.readouterr()
        code = program.run(["spark", *arguments])
        return (code, *capfd.readouterr())

    return run


def typed(*arguments: str, **more: Any) -> "subprocess.CompletedProcess[str]":
    """A command as a process of its own."""
    return subprocess.run(
        [sys.executable, "-P", "-m", "yak.commands", *arguments], capture_output=True, text=True, timeout=TIMEOUT_S,
        stdin=subprocess.DEVNULL, **more,
    )  # fmt: skip


def no_trace_in(said: str) -> bool:
    return "\tat " not in said and "Traceback" not in said and len(said.splitlines()) < 12


# ---------------------------------------------------------------------------------------------------------- SQL


def test_a_topic_is_a_table_and_its_json_can_be_reached(yak, topic):
    query = f"SELECT json:user::string AS user, count(*) AS n, sum(json:total::int) AS total FROM `{topic}` GROUP BY 1 ORDER BY 1"
    code, out, _ = yak("sql", query, "-o", "json")
    assert code == 0
    assert [json.loads(line) for line in out.splitlines()] == [
        {"user": None, "n": 1, "total": None},
        {"user": "u0", "n": 15, "total": 210},
        {"user": "u1", "n": 15, "total": 225},
    ]
    assert yak("sql", query, "-o", "csv")[1].splitlines() == ["user,n,total", ",1,", "u0,15,210", "u1,15,225"]
    assert yak("sql", query)[1].splitlines()[0].split() == ["USER", "N", "TOTAL"]


def test_a_table_has_the_columns_of_the_record(yak, topic):
    code, out, _ = yak("sql", f"SELECT * FROM {topic.replace('-', '_')} WHERE value LIKE '%:29}}'", "-o", "json")
    assert code == 0
    (row,) = map(json.loads, out.splitlines())
    assert list(row) == ["key", "value", "json", "topic", "partition", "offset", "timestamp", "timestampType"]
    assert (row["key"], row["json"], row["topic"]) == ("k2", {"user": "u1", "total": 29}, topic)
    assert row["timestamp"].endswith("Z")


def test_with_a_schema_the_fields_are_columns(yak, topic):
    table = topic.replace("-", "_")
    arguments = ("sql", f"SELECT max(total) AS most, count(user) AS n, count(*) AS all FROM {table}", "-o", "json")
    code, out, _ = yak(*arguments, "--schema", f"{table}=user STRING, total INT")
    assert (code, json.loads(out)) == (0, {"most": 29, "n": 30, "all": 31})
    code, out, err = yak(*arguments, "--schema", f"{table}=user STRING, total INT", "--mode", "failfast")
    assert (code, out) == (2, "")
    assert no_trace_in(err)


@pytest.mark.parametrize(
    ("query", "slug", "said"),
    [
        ("SELECT * FROM `{topic}x`", "unknown-topic", 'closest: "{topic}"'),
        ("SELECT nope FROM `{topic}`", "spark-sql", "`nope` cannot be resolved"),
        ("SELEC 1", "spark-sql", "Syntax error at or near 'SELEC'"),
        ("SELECT 1/0", "spark-sql", "Division by zero"),
    ],
)
def test_refused_query_is_reported_in_three_lines(yak, topic, query, slug, said):
    code, out, err = yak("sql", query.format(topic=topic))
    assert (code, out) == (2, "")
    assert err.startswith(f"error[{slug}]"), err
    assert said.format(topic=topic) in err
    assert no_trace_in(err)


def test_shell_has_topics_and_prints_errors_in_three_lines(yak, topic):
    code, out, _ = yak("shell", "-c", f"print(topic('{topic}').where(F.col('key') == 'k1').count())")
    assert (code, out) == (0, "10\n")
    code, _, err = yak("shell", "-c", f"topic('{topic}x').count()")
    assert code == 2
    assert err.startswith("error[unknown-topic]")
    assert yak("shell", "-c", "raise SystemExit(7)")[0] == 7


# -------------------------------------------------------------------------------------------------- jobs, programs


@pytest.mark.thorough
def test_background_job_reports_progress_and_stops_in_order(topic, tmp_path):
    arguments = ("--topic", topic, "--sink", f"topic:{topic}-counts", "--checkpoint-dir", str(tmp_path / "ck"))
    started = typed("spark", "run", "counts", *arguments, "--master", "local[1]", "-o", "json")
    assert started.returncode == 0, started.stderr
    run = spark_runs.find_run(json.loads(started.stdout)["id"])
    assert run.state == "running"
    assert run.process is not None
    deadline = time.monotonic() + 400
    while spark_runs.figures(spark_runs.progress_of(run))["lag"] != 0 and time.monotonic() < deadline:
        time.sleep(0.1)
    (found,) = json.loads(typed("spark", "status", "-o", "json").stdout)
    assert found["progress"]["lag"] == 0
    assert found["checkpoint"] == str(tmp_path / "ck")
    assert sum(line["input_rows"] for line in spark_runs.batches_of(spark_runs.progress_of(run))) == 31
    stopped = typed("spark", "stop", run.id)
    assert (stopped.returncode, stopped.stdout) == (0, f"{run.id}: stopped\n")
    assert not is_running(run.process)
    assert "error" not in (run.folder / "errors.txt").read_text()


@pytest.mark.parametrize(
    ("number", "job", "options", "code"),
    [
        pytest.param(
            signal.SIGTERM,
            "sql",
            ("-q", "SELECT count(*) FROM t, range(1000000000000)", "--to", "latest"),
            143,
            marks=pytest.mark.thorough,
        ),
        (signal.SIGINT, "counts", (), 0),
    ],
)
def test_signal_cancels_a_batch_and_stops_a_stream_in_order(topic, tmp_path, number, job, options, code):
    arguments = (job, "--topic", f"t={topic}" if job == "sql" else topic, *options, "--master", "local[1]")
    events = tmp_path / "events"
    events.mkdir()
    for setting in ("enabled=true", "compress=false", f"dir={events}"):
        arguments += ("--conf", f"spark.eventLog.{setting}")
    command = [sys.executable, "-P", "-m", "yak.spark.jobs", *arguments]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as child:
        deadline = time.monotonic() + TIMEOUT_S
        while not (has_batch(job) if job == "counts" else has_begun_work(events)):
            assert time.monotonic() < deadline
            assert child.poll() is None, child.communicate()[1]
            time.sleep(0.2)
        child.send_signal(number)
        _, said = child.communicate(timeout=TIMEOUT_S)
    assert child.returncode == code, said
    assert spark_runs.find_run(job).state == "stopped"


def has_batch(job: str) -> bool:
    """Whether a stream has ended its first batch."""
    return any(spark_runs.batches_of(spark_runs.progress_of(run)) for run in spark_runs.all_runs() if run.job == job)


def has_begun_work(events: Path) -> bool:
    """Whether Spark runs, or has run, a piece of work: its event log is written when one starts."""
    return any(b"SparkListenerJobStart" in file.read_bytes() for file in events.rglob("*") if file.is_file())


STOPPED_EARLY = """
import dataclasses, signal, sys
from yak.spark.jobs import frame, sql

def build(spark, options):
    signal.raise_signal(signal.SIGINT)
    return sql.build(spark, options)

frame.command(dataclasses.replace(sql.JOB, build=build))(sys.argv[1:])
"""


@pytest.mark.thorough
def test_batch_that_is_stopped_before_it_reads_did_not_succeed(topic):
    arguments = ("--topic", f"t={topic}", "-q", "SELECT count(*) FROM t", "--to", "latest", "--master", "local[1]")
    command = [sys.executable, "-P", "-c", STOPPED_EARLY, *arguments]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S)
    assert (ran.returncode, ran.stdout) == (130, ""), ran.stderr
    assert spark_runs.find_run("sql").state == "stopped"


PROGRAM = """
import os, sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.appName("mine").getOrCreate()
options = {"bootstrap": os.environ["YAK_BOOTSTRAP_SERVERS"], "subscribe": sys.argv[1], "startingOffsets": "earliest"}
query = (
    spark.readStream.format("yak").options(**options).load().writeStream.queryName("mine").format("noop")
    .trigger(availableNow=True).option("checkpointLocation", sys.argv[2]).start()
)
query.awaitTermination()
print("rows", spark.read.format("yak").options(**options).load().count())
raise ValueError("of the program's own")
"""


def test_submitted_program_reports_progress_and_the_line_of_its_error(topic, tmp_path):
    (tmp_path / "mine.py").write_text(PROGRAM)
    ran = typed("spark", "submit", "mine.py", "--master", "local[1]", "--", topic, str(tmp_path / "ck"))
    assert ran.returncode == 1
    assert ran.stdout == "rows 31\n"
    assert "error[spark-program]: mine.py failed\n  why:  ValueError: of the program's own, at " in ran.stderr
    assert "mine.py:12" in ran.stderr
    assert no_trace_in(ran.stderr)
    run = spark_runs.find_run("mine")
    assert run.state == "failed"
    assert spark_runs.figures(spark_runs.progress_of(run))["batch"] == 0
    assert "of the program's own" in (run.folder / "stderr.txt").read_text()


# ------------------------------------------------------------------------------------------------ what is missing


def test_too_little_memory_is_refused_before_a_read(topic, monkeypatch):
    # Java counts all 200 MiB with this collector. The one for small machines keeps some of them for itself.
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", "-XX:+UseG1GC -XX:TieredStopAtLevel=1")
    ran = typed("spark", "sql", f"SELECT * FROM `{topic}`", "--driver-memory", "200m", "--master", "local[1]")
    assert ran.returncode == 2
    assert ran.stderr.startswith("error[spark-memory]: 200 MiB are too little memory for Spark's driver")
    assert no_trace_in(ran.stderr)


def test_absent_master_is_reported_at_once():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    ran = typed("spark", "sql", "SELECT 1", "--master", f"spark://127.0.0.1:{port}")
    assert ran.returncode == 2
    assert ran.stderr.startswith(f"error[spark-master]: the Spark master spark://127.0.0.1:{port} does not answer")
    assert no_trace_in(ran.stderr)


def test_job_that_cannot_begin_ends_with_2(new_name):
    ran = typed("spark", "run", "counts", "--topic", new_name(), "--sink", "topic:x")
    assert ran.returncode == 2
    assert ran.stderr.startswith("error[spark-no-checkpoint]")
