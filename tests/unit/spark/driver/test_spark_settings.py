"""What a session is made with, whether its master is there, and what executors are sent."""

import os
import re
import socket
import subprocess
import sys
import zipfile
from importlib.metadata import packages_distributions
from itertools import pairwise
from pathlib import Path

import pytest

from tests.errors import raises_error
from yak.errors import UsageError
from yak.spark.driver import executor_code, make
from yak.spark.driver.master import addresses_of, check_answers
from yak.spark.driver.settings import SessionSettings
from yak.spark.driver.submission import Submission, submit_command
from yak.spark.jobs.options import key_values


@pytest.mark.parametrize(
    "master",
    [
        "local",
        "local[*]",
        "local[4]",
        "local[2,3]",
        "spark://h:7077",
        "spark://a:1,b:2",
        "yarn",
        "k8s://https://h:6443",
        "sc://h",
    ],
)
def test_a_master_is_taken(master):
    SessionSettings(master=master).check()


@pytest.mark.parametrize(
    "wrong",
    [
        {"master": "lokal"},
        {"master": "http://h:7077"},
        {"driver_memory": "much"},
        {"connector": "pulsar"},
        {"ship": "everything"},
    ],
)
def test_invalid_input_is_refused(wrong):
    with raises_error(UsageError, "spark-options") as refused:
        SessionSettings(**wrong).check()  # type: ignore[arg-type]
    assert refused.value.try_


def test_the_master_comes_from_the_environment_as_spark_has_it(monkeypatch):
    monkeypatch.delenv("SPARK_REMOTE", raising=False)
    monkeypatch.delenv("MASTER", raising=False)
    assert SessionSettings().where == "local[*]"
    monkeypatch.setenv("MASTER", "spark://h:7077")
    assert SessionSettings().where == "spark://h:7077"
    assert SessionSettings(master="local[1]").where == "local[1]"


def test_settings_of_spark_are_name_and_value():
    assert key_values("--conf", ("a.b=c=d", " e = f")) == {"a.b": "c=d", "e": " f"}
    with pytest.raises(UsageError):
        key_values("--conf", ("a.b",))


def test_the_users_own_settings_win_and_the_log_is_ours(tmp_path):
    settings = SessionSettings(
        master="local[2]",
        conf={"spark.sql.shuffle.partitions": "7", "spark.driver.extraJavaOptions": "-Dmine=1"},
        driver_memory="2g",
        log=tmp_path / "a b" / "spark.log",
    )
    assert settings.log is not None
    settings.log.parent.mkdir()
    conf = make.configuration(settings)
    assert conf["spark.sql.shuffle.partitions"] == "7"
    assert conf["spark.driver.memory"] == "2g"
    assert conf["spark.sql.python.filterPushdown.enabled"] == "true"
    assert conf["spark.driver.extraJavaOptions"].startswith("-Dmine=1 ")
    assert f"appender.file.fileName = {settings.log}" in (settings.log.parent / "spark-log4j2.properties").read_text()


@pytest.mark.parametrize("master", ["local[2]", "sc://h"])
def test_private_key_among_the_options_is_hidden_in_plans(master):
    """Spark prints the plan with the options in errors and in its log. Passwords it hides without being told."""
    hidden = make.configuration(SessionSettings(master=master))["spark.sql.redaction.options.regex"]
    names = ("kafka.ssl.key.pem", "kafka.ssl.keystore.key", "url", "kafka.ssl.ca.pem", "key.serializer")
    assert [re.search(hidden, name) is not None for name in names] == [True, True, True, False, False]


def test_only_a_session_on_this_machine_has_the_manager_of_local_checkpoints():
    name = "spark.sql.streaming.checkpointFileManagerClass"
    assert make.configuration(SessionSettings(master="local[2]"))[name].endswith(
        ".FileSystemBasedCheckpointFileManager"
    )
    assert make.configuration(SessionSettings(master="local", conf={name: "mine"}))[name] == "mine"
    for elsewhere in ("spark://h:7077", "sc://h", "yarn"):
        assert name not in make.configuration(SessionSettings(master=elsewhere))


def test_behind_spark_connect_nothing_of_the_driver_is_set():
    assert not [
        name for name in make.configuration(SessionSettings(master="sc://h")) if name.startswith("spark.driver")
    ]


@pytest.mark.parametrize(("ship", "path"), [("package", "yak.zip"), ("all", "yak.zip:yakdeps"), ("nothing", None)])
def test_executors_elsewhere_find_what_they_were_sent(ship, path, tmp_path, monkeypatch):
    monkeypatch.setattr(executor_code, "package_zip", lambda: tmp_path / "yak.zip")
    conf = make.configuration(SessionSettings(master="spark://h:7077", ship=ship))
    assert conf.get("spark.executorEnv.PYTHONPATH") == path


def test_spark_itself_is_only_needed_when_it_is_used(monkeypatch):
    monkeypatch.setattr(make, "find_spec", lambda name: None if name == "pyspark" else object())
    with raises_error(UsageError, "spark-missing"):
        make.make_session(SessionSettings(master="local[1]"))


@pytest.mark.parametrize(
    ("master", "addresses"),
    [
        ("local[*]", []),
        ("yarn", []),
        ("spark://a:1,b", [("a", 1), ("b", 7077)]),
        ("sc://h/;token=x", [("h", 15002)]),
        ("k8s://https://h:6443", [("h", 6443)]),
        ("k8s://h", [("h", 443)]),
        ("spark://a:x", [("", 0)]),
        ("k8s://https://h:99999", [("", 0)]),
        ("k8s://http://h", [("h", 80)]),
        ("spark://[::1", [("", 0)]),
    ],
)
def test_addresses_are_read_from_a_master(master, addresses):
    assert addresses_of(master) == addresses


def test_master_without_a_listener_is_reported_at_once():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        check_answers(f"spark://127.0.0.1:1,127.0.0.1:{port}", timeout_s=2)
    with raises_error(UsageError, "spark-master") as refused:
        check_answers(f"spark://127.0.0.1:{port}", timeout_s=2)
    assert f"127.0.0.1:{port}: connection refused" in refused.value.why


def test_error_of_a_master_has_no_token_in_it():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"sc://127.0.0.1:{taken.getsockname()[1]}"
    with pytest.raises(UsageError, match=f"the Spark master {address}/ does not answer") as refused:
        check_answers(f"{address}/;token=secret", timeout_s=2)
    assert "secret" not in str(vars(refused.value))


def test_log_in_a_folder_with_an_accent_is_named_as_java_reads_it(tmp_path):
    """Properties files are Latin-1 with escapes."""
    make.log_option(tmp_path / "jörg-λ.log")
    text = (tmp_path / "jörg-λ-log4j2.properties").read_text()
    assert f"appender.file.fileName = {tmp_path}/j\\u00f6rg-\\u03bb.log\n" in text


def test_yarn_without_its_configuration_directory_is_refused(monkeypatch):
    monkeypatch.delenv("HADOOP_CONF_DIR", raising=False)
    monkeypatch.delenv("YARN_CONF_DIR", raising=False)
    with pytest.raises(UsageError, match="YARN"):
        check_answers("yarn", timeout_s=1)
    monkeypatch.setenv("YARN_CONF_DIR", "/etc/hadoop")
    check_answers("yarn", timeout_s=1)


def test_the_package_is_one_zip_that_holds_what_an_executor_imports(tmp_path):
    made = executor_code.package_zip(tmp_path)
    names = zipfile.ZipFile(made).namelist()
    assert {"yak/__init__.py", "yak/spark/__init__.py", "yak/spark/source/data_source.py", "yak/errors.py"} <= set(
        names
    )
    assert not [name for name in names if name.endswith(".pyc")]
    assert executor_code.package_zip(tmp_path) == made
    before = made.stat().st_mtime_ns
    assert executor_code.package_zip(tmp_path).stat().st_mtime_ns == before


def test_file_without_a_time_is_sent_to_executors(tmp_path):
    (tmp_path / "module.py").touch()
    os.utime(tmp_path / "module.py", (0, 0))
    made = executor_code._zipped("yak", [(tmp_path / "module.py", "yak/module.py")], tmp_path)
    assert zipfile.ZipFile(made).namelist() == ["yak/module.py"]


_IMPORTED = """
import sys
import yak.spark.columnar.read, yak.spark.source.stream, yak.spark.source.write, yak.spark.source.librdkafka
import yak.spark.source.json_values, yak.spark.jobs.anomaly, yak.spark.jobs.replay
print(*(name for name in sys.modules if "." not in name))
"""


def test_environment_for_executors_has_all_that_their_code_imports():
    pytest.importorskip("pyspark")
    ran = subprocess.run([sys.executable, "-P", "-c", _IMPORTED], capture_output=True, text=True, check=True)
    sources = packages_distributions()
    needed = {name for module in ran.stdout.split() for name in sources.get(module, ())}
    assert needed - {"yak-broker", "pyspark", "py4j", "setuptools"} <= set(executor_code._NEEDED)


def test_program_is_submitted_with_the_package_and_its_options(tmp_path, monkeypatch):
    monkeypatch.setattr("yak.spark.driver.submission.check_answers", lambda *_args, **_named: None)
    monkeypatch.setattr(executor_code, "package_zip", lambda: tmp_path / "yak.zip")
    settings = SessionSettings(
        app_name="j", master="spark://h:7077", conf={"a": "b"}, jars=("x.jar",), driver_memory="2g"
    )
    submission = Submission("/p/job.py", ("--topic", "t"), settings, py_files=("more.py",), archives=("env.tgz#e",))
    command = submit_command(submission)
    pairs = dict(pairwise(command))
    assert pairs["--py-files"] == f"{tmp_path}/yak.zip,more.py"
    assert pairs["--archives"] == "env.tgz#e"
    assert pairs["--jars"] == "x.jar"
    assert pairs["--master"] == "spark://h:7077"
    assert "a=b" in command
    assert "spark.executorEnv.PYTHONPATH=yak.zip" in command
    assert Path(command[-4]).name == "submit_wrapper.py"
    assert Path(command[-4]).is_file()
    assert command[-3:] == ["/p/job.py", "--topic", "t"]
    in_cluster = submit_command(Submission("/p/job.py", (), settings, deploy_mode="cluster"))
    assert in_cluster[-1] == "/p/job.py"
    assert not in_cluster[-2].endswith("submit_wrapper.py")


@pytest.mark.parametrize(
    "wrong",
    [
        Submission("j.py", (), SessionSettings(master="sc://h:1")),
        Submission("j.py", (), SessionSettings(master="local[1]"), deploy_mode="both"),
    ],
)
def test_a_submission_that_cannot_be_is_refused(wrong):
    with raises_error(UsageError, "spark-options"):
        submit_command(wrong)


def test_a_session_that_spark_stopped_itself_blames_the_master_that_did_not_answer():
    error = RuntimeError("java.lang.IllegalStateException: Cannot call methods on a stopped SparkContext.")
    failure = make.failure(error, SessionSettings(master="spark://h:7077"))
    assert (failure.code, failure.exit_code) == ("spark-master", 2)
    assert failure.why.startswith("it took the connection, but not the application")
    assert make.failure(error, SessionSettings(master="local[1]")).code != "spark-master"
