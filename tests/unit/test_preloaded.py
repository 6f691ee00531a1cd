"""A `yak` that the tests fork is what an executed one is."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.preloaded import PORTS
from yak.local.spawn import yak_argv

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="`yak` is forked on Linux only")
RUNS = [
    (["--version"], {}),
    (["version"], {"YAK_OUTPUT": "json"}),
    (["serve", "--dry-run", "--port", "0"], {"YAK_NODE_ID": "7", "YAK_DATA_DIR": "elsewhere"}),
    (["serve", "--port", "none"], {}),
    (["nonsense"], {}),
    (["produce", "orders", "-b", "127.0.0.1:1", "--timeout", "10ms"], {}),
]


@pytest.fixture(autouse=True)
def yak_is_forked(request):
    if request.config.getoption("exec_yak"):
        pytest.skip("no `yak` is forked in this run")


@pytest.mark.parametrize(("words", "variables"), RUNS, ids=" ".join)
def test_a_forked_yak_prints_and_ends_as_an_executed_one(words, variables, tmp_path):
    environment = {**os.environ, "NO_COLOR": "1", "XDG_STATE_HOME": str(tmp_path), **variables}

    def run(**by):
        done = subprocess.run(
            yak_argv(*words), cwd=tmp_path, env=environment, capture_output=True, text=True, input="record\n", **by
        )
        return done.returncode, done.stdout, re.sub(r"in \d+\.\d s", "in SECONDS s", done.stderr)

    assert run() == run(close_fds=False)  # which needs exec


def test_cluster_of_a_forked_yak_has_the_ports_of_the_test_that_starts_it(tmp_path):
    environment = {**os.environ, PORTS: "20000 20100", "XDG_STATE_HOME": str(tmp_path)}

    def run(*words):
        return subprocess.run(yak_argv(*words), cwd=tmp_path, env=environment, check=True, capture_output=True).stdout

    try:
        up = json.loads(run("up", "-d", "--port", "0", "--no-http", "--metadata", "raft", "-o", "json"))
        assert all(20_000 <= int(each["address"].rpartition(":")[2]) < 20_100 for each in up["brokers"])
    finally:
        run("down", "--purge", "--yes")


def test_a_forked_pytest_finds_modules_and_ends_as_an_executed_one(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "of_folder.py").write_text("import of_path\n")
    (tmp_path / "elsewhere" / "of_path.py").write_text("def pytest_report_header():\n    return 'header of a plugin'\n")
    (tmp_path / "test_it.py").write_text("def test_it():\n    assert 1 == 2\n")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "elsewhere"), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    words = ["-mpytest", "-p", "of_folder", "-p", "of_path", "-p", "no:cacheprovider", "--rootdir", "."]

    def run(**by):
        done = subprocess.run(
            [sys.executable, *words], cwd=tmp_path, env=environment, capture_output=True, text=True, **by
        )
        return done.returncode, re.sub(r"in [\d.]+s", "", done.stdout), done.stderr

    forked = run()
    assert forked == run(close_fds=False)  # which needs exec
    assert forked[0] == 1
    assert "header of a plugin" in forked[1]


def test_a_forked_yak_has_its_own_arguments_session_folder_and_files(tmp_path):
    ready, log = tmp_path / "ready.json", tmp_path / "log"
    words = ["serve", "--metadata", "raft", "--port", "0", "--no-http", "--ready-file", str(ready)]
    with open(log, "w") as out:
        child = subprocess.Popen(
            yak_argv(*words), cwd=tmp_path, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True
        )
    try:
        while not ready.exists():
            assert child.poll() is None, log.read_text()
            time.sleep(0.01)
        process = Path(f"/proc/{child.pid}")
        arguments = (process / "cmdline").read_bytes().rstrip(b"\0").decode().split("\0")
        environment = (process / "environ").read_bytes()
        parent = int((process / "stat").read_text().rpartition(")")[2].split()[1])
        assert f"PYTEST_CURRENT_TEST={os.environ['PYTEST_CURRENT_TEST']}".encode() not in environment, "it was executed"
        assert json.loads(ready.read_text())["pid"] == child.pid
        assert (arguments, parent) == (yak_argv(*words), os.getpid())
        assert (os.getsid(child.pid), os.getpgid(child.pid)) == (child.pid, child.pid)
        assert os.readlink(process / "cwd") == str(tmp_path)
        assert [os.readlink(process / "fd" / str(number)) for number in range(3)] == [os.devnull, str(log), str(log)]
    finally:
        child.terminate()
        assert child.wait(30) == 0


def test_a_forked_yak_ends_by_a_signal_as_an_executed_one(tmp_path):
    for number, code in ((signal.SIGINT, 0), (signal.SIGKILL, -signal.SIGKILL)):
        ready = tmp_path / f"ready-{number}.json"
        words = ["serve", "--metadata", "raft", "--port", "0", "--no-http", "--ready-file", str(ready)]
        child = subprocess.Popen(yak_argv(*words), cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while not ready.exists():
            assert child.poll() is None
            time.sleep(0.01)
        child.send_signal(number)
        assert child.wait(30) == code


def test_a_forked_program_of_the_web_ui_has_its_own_arguments_and_settings_of_textual(tmp_path):
    folder = Path(__file__).parents[1] / "tui" / "web"
    environment = {**os.environ, "TEXTUAL_DRIVER": "no.such:Driver", "TMPDIR": str(tmp_path)}

    def run(script, *words, **by):
        command = [sys.executable, "-P", str(folder / script), *words]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, **by)
        return done.returncode, done.stdout, done.stderr.splitlines()[-1]

    for script, words, error in (
        ("serve_tiny_app.py", ['{"port": "x"}'], "the name has no address"),
        ("tiny_app.py", [], "ModuleNotFoundError: No module named 'no'"),
    ):
        forked = run(script, *words)
        assert forked == run(script, *words, close_fds=False)  # which needs exec
        assert forked[0] == 1
        assert error in forked[2]
