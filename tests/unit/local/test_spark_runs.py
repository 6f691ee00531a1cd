"""What is remembered of Spark jobs, and what is made of it."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from yak.errors import UsageError
from yak.local import spark_runs
from yak.local.processes import identify, send_signal, wait_gone


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    made = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    yield made
    made.kill()
    made.wait()


def test_a_run_is_as_it_was_saved(tmp_path):
    made = spark_runs.new_run("top-k", ["--topic", "orders"], master="local[2]", bootstrap="h:1", base=tmp_path)
    saved = replace(made, state="running", app_id="local-1", ui="http://127.0.0.1:4040", checkpoint="./ck")
    spark_runs.save(saved)
    assert spark_runs.load(made.folder) == saved
    assert saved.as_json()["pid"] == os.getpid()


def test_run_ids_are_numbered_and_no_job_name_leads_out_of_the_folder(tmp_path):
    ids = [spark_runs.new_run(job, base=tmp_path).id for job in ("counts", "counts", "../../x y")]
    assert ids[:2] == ["counts-1", "counts-2"]
    assert Path(tmp_path, ids[2]).resolve().parent == tmp_path.resolve()


def test_spark_run_whose_process_no_longer_exists_was_killed(tmp_path, child):
    made = spark_runs.new_run("counts", base=tmp_path)
    spark_runs.save(replace(made, state="running", process=identify(child.pid)))
    assert spark_runs.find_run("counts-1", tmp_path).state == "running"
    child.kill()
    child.wait()
    found = spark_runs.find_run("counts-1", tmp_path)
    assert (found.state, found.is_active) == ("killed", False)
    assert found.ended_ms is not None


def test_a_run_that_ended_stays_as_it_ended(tmp_path):
    made = spark_runs.new_run("counts", base=tmp_path)
    spark_runs.save(replace(made, state="finished", process=None))
    assert spark_runs.load(made.folder).state == "finished"  # type: ignore[union-attr]


def test_stop_sends_sigterm_to_the_process(tmp_path, child):
    made = replace(spark_runs.new_run("counts", base=tmp_path), process=identify(child.pid))
    assert spark_runs.stop(made)
    child.wait(60)
    assert child.returncode == -signal.SIGTERM
    assert made.process is not None
    assert wait_gone(made.process, 5)
    assert not spark_runs.stop(made)


def test_hard_stop_kills_what_the_process_has_started_too(tmp_path):
    script = "import subprocess; print(subprocess.Popen(['sleep', '60']).pid, flush=True); input()"
    command = [sys.executable, "-c", script]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as leader:
        assert leader.stdout is not None
        started = identify(int(leader.stdout.readline()))
        assert started is not None
        try:
            made = replace(spark_runs.new_run("mine", base=tmp_path), process=identify(leader.pid))
            spark_runs.stop(made, hard=True)
            assert wait_gone(started, 5)
        finally:
            leader.kill()
            send_signal(started, signal.SIGKILL)


def test_secrets_among_the_arguments_are_not_stored(tmp_path):
    words = ("--option", "kafka.sasl.password=p=w", "--conf", "spark.hadoop.fs.s3a.secret.key=k", "-t", "tokens")
    made = spark_runs.new_run("counts", words, master="sc://h:1/;token=t;use_ssl=true", base=tmp_path)
    found = spark_runs.load(made.folder)
    assert found is not None
    assert found.words == (
        *("--option", "kafka.sasl.password=(set)", "--conf", "spark.hadoop.fs.s3a.secret.key=(set)", "-t", "tokens"),
    )
    assert found.master == "sc://h:1/;token=(set)"


def test_runs_are_found_by_id_or_by_job_and_an_unknown_one_names_those_that_are_there(tmp_path):
    with pytest.raises(UsageError, match="nope") as none:
        spark_runs.find_run("nope", tmp_path)
    assert none.value.why == "none was started yet"
    spark_runs.new_run("counts", base=tmp_path, now_ms=1)
    spark_runs.new_run("counts", base=tmp_path, now_ms=2)
    assert spark_runs.find_run("counts", tmp_path).id == "counts-2"
    with pytest.raises(UsageError, match="nope") as some:
        spark_runs.find_run("nope", tmp_path)
    assert "counts-1" in some.value.why


def test_spark_runs_are_listed_running_runs_first_then_the_latest(tmp_path):
    for number, state in enumerate(("finished", "running", "failed", "running")):
        made = spark_runs.new_run("j", base=tmp_path, now_ms=number)
        spark_runs.save(replace(made, state=state))  # type: ignore[arg-type]
    assert [run.id for run in spark_runs.all_runs(tmp_path)] == ["j-4", "j-2", "j-3", "j-1"]


def test_files_that_are_not_a_spark_run_are_skipped(tmp_path):
    (tmp_path / "other").mkdir()
    (tmp_path / "torn").mkdir()
    (tmp_path / "torn" / "run.json").write_text('{"id": "to')
    (tmp_path / "sql.log").touch()
    assert spark_runs.all_runs(tmp_path) == []
    assert spark_runs.all_runs(tmp_path / "nowhere") == []


def test_ended_runs_are_retained_up_to_a_limit_and_no_running_run_is_dropped(tmp_path, monkeypatch):
    monkeypatch.setattr(spark_runs, "RUNS_MAX", 2)
    first = spark_runs.new_run("runs", base=tmp_path, now_ms=0)
    for number in range(1, 6):
        made = spark_runs.new_run("ended", base=tmp_path, now_ms=number)
        spark_runs.save(replace(made, state="finished"))
    spark_runs.new_run("last", base=tmp_path, now_ms=9)
    left = {run.id for run in spark_runs.all_runs(tmp_path)}
    assert {first.id, "last-1"} < left
    assert len(left) == 4


def test_progress_is_stored_and_its_older_part_dropped(tmp_path, monkeypatch):
    monkeypatch.setattr(spark_runs, "PROGRESS_BYTES", 2_000)
    monkeypatch.setattr(spark_runs, "PROGRESS_LINES_MAX", 10)
    made = spark_runs.new_run("counts", base=tmp_path)
    for number in range(200):
        spark_runs.add_progress(made.folder, {"event": "batch", "batch": number, "query_id": "q"})
    (made.folder / "progress.jsonl").open("ab").write(b'\xff\n{"event": "ba')
    batches = [line["batch"] for line in spark_runs.progress_of(made)]
    assert batches[-1] == 199
    assert batches == sorted(batches)
    assert (made.folder / "progress.jsonl").stat().st_size < 4_000


def test_figures_add_up_the_queries_of_a_job():
    line = {"event": "batch", "time_ms": 5, "input_rows": 1, "duration_ms": 7, "state_rows": None, "state_bytes": None}
    progress = [
        {**line, "query_id": "a", "batch": 1, "input_per_s": 9.0, "processed_per_s": 9.0, "lag": 9},
        {**line, "query_id": "a", "batch": 2, "input_per_s": 1.0, "processed_per_s": 2.0, "lag": 3},
        {**line, "query_id": "b", "batch": 7, "input_per_s": 10.0, "processed_per_s": None, "lag": None},
        {"event": "idle", "time_ms": 9, "query_id": "a"},
    ]
    found = spark_runs.figures(progress)
    assert (found["batch"], found["input_per_s"], found["processed_per_s"], found["lag"]) == (7, 11.0, 2.0, 3)
    assert found["state_bytes"] is None
    assert found["last_ms"] == 9
    assert spark_runs.figures([])["batch"] is None


def test_an_error_comes_back_with_all_its_parts(tmp_path):
    made = spark_runs.new_run("counts", base=tmp_path)
    assert spark_runs.error_of(made) is None
    spark_runs.save_error(made.folder, UsageError("spark-memory", "m", why="w", try_=("t", "u")))
    found = spark_runs.error_of(made)
    assert isinstance(found, UsageError)
    assert (found.code, found.message, found.why, found.try_, found.exit_code) == (
        "spark-memory",
        "m",
        "w",
        ("t", "u"),
        2,
    )


def test_unwritable_state_folder_raises_a_usage_error(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(UsageError) as refused:
        spark_runs.new_run("counts", base=tmp_path / "file" / "below")
    assert refused.value.code == "spark-state"
    with pytest.raises(UsageError):
        spark_runs.scratch_log("sql", tmp_path / "file" / "below")


def test_a_log_for_what_is_no_job_does_not_grow_for_ever(tmp_path, monkeypatch):
    monkeypatch.setattr(spark_runs, "LOG_BYTES", 10)
    log = spark_runs.scratch_log("sql", tmp_path)
    log.write_text("x" * 11)
    assert spark_runs.scratch_log("sql", tmp_path).read_text() == ""


def test_a_file_of_a_later_version_is_read_as_far_as_it_is_known(tmp_path):
    made = spark_runs.new_run("counts", base=tmp_path)
    path = made.folder / "run.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "of_the_future": 1}))
    assert spark_runs.load(made.folder) == made
