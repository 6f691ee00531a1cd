"""A live broker: its start and its end."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from support.raw import RawClient
from support.waiting import wait_until

from yak.local import ports


def test_sigterm_ends_it_in_order_and_the_next_start_is_clean(broker):
    broker.start()
    with RawClient(broker.port) as client:
        assert client.ask(18, 0).error_code == 0
        broker.stop()
        assert client.is_closed()
    assert "stopped" in broker.log()
    assert (broker.data_dir / ".kafka_cleanshutdown").exists()
    broker.restart()
    with RawClient(broker.port) as client:
        assert client.ask(18, 0).error_code == 0


def serve_words(tmp_path: Path, redis_url: str, *more: str) -> list[str]:
    return ["serve", "--port", "0", "--data-dir", str(tmp_path / "data"), "--redis-url", redis_url, *more]


def test_serve_with_a_ready_file_that_cannot_be_written_refuses_to_start(yak, broker, tmp_path):
    ready_file = tmp_path / "none" / "ready.json"
    child = yak.start(*serve_words(tmp_path, broker.redis_url, "--ready-file", str(ready_file)))
    said = child.communicate(timeout=30)[1]
    assert child.returncode == 1
    assert f"error[ready-file-not-written]: the ready file {ready_file} cannot be written" in said
    assert "Traceback" not in said


def test_the_ready_file_comes_with_the_first_accepted_connection_and_goes_at_the_end(yak, broker, tmp_path):
    ready_file = tmp_path / "ready.json"
    child = yak.start(*serve_words(tmp_path, broker.redis_url, "--ready-file", str(ready_file), "--log-format", "json"))
    wait_until(ready_file.exists, "the broker is ready")
    ready = json.loads(ready_file.read_text())
    assert ready["pid"] == child.pid
    with RawClient(int(ready["address"].rpartition(":")[2])) as client:
        assert client.ask(18, 0).error_code == 0
    child.send_signal(signal.SIGINT)
    _, err = child.communicate(timeout=15)
    assert child.returncode == 0
    assert not ready_file.exists()
    assert {json.loads(line)["event"] for line in err.splitlines()} >= {"ready", "stopping", "stopped"}


@pytest.mark.parametrize("cores", [1, 2])
def test_service_manager_is_notified_once_when_clients_are_answered(yak, tmp_path, cores):
    if cores > 1 and not sys.platform.startswith("linux"):
        pytest.skip("--cores needs Linux")
    ready_file = tmp_path / "ready.json"
    words = ("--port", "0", "--no-http", "--metadata", "raft", "--data-dir", str(tmp_path / "data"))
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(60)
        more = ("--cores", str(cores), "--ready-file", str(ready_file))
        child = yak.start("serve", *words, *more, NOTIFY_SOCKET=str(tmp_path / "notify"))
        assert manager.recv(100) == b"READY=1"
        wait_until(ready_file.exists, "the ready file is written")
        with RawClient(int(json.loads(ready_file.read_text())["address"].rpartition(":")[2])) as client:
            assert client.ask(18, 0).error_code == 0
        child.send_signal(signal.SIGTERM)
        child.communicate(timeout=30)
        assert child.returncode == 0
        manager.setblocking(False)
        with pytest.raises(BlockingIOError):
            manager.recv(100)


_CONNECTS_WHEN_READY = """
import socket, sys
from yak.commands.main import main
from yak.server import main as server

write = server._write_ready_file

def connect_first(path, ready):
    host, _, port = ready["address"].rpartition(":")
    socket.create_connection((host, int(port)), timeout=5).close()
    write(path, ready)

server._write_ready_file = connect_first
main(sys.argv[1:])
"""


def test_a_broker_listens_before_it_writes_its_ready_file(broker, tmp_path):
    ready_file = tmp_path / "ready.json"
    words = serve_words(tmp_path, broker.redis_url, "--ready-file", str(ready_file))
    child = subprocess.Popen([sys.executable, "-c", _CONNECTS_WHEN_READY, *words], stderr=subprocess.PIPE, text=True)
    try:
        wait_until(lambda: ready_file.exists() or child.poll() is not None, "the broker is ready")
        assert child.poll() is None
    finally:
        child.send_signal(signal.SIGINT)
        _, err = child.communicate(timeout=15)
    assert "refused" not in err


_SIGNAL_WHILE_IT_OPENS = """
import os, sys, threading
from yak.commands.main import main
from yak.server import boot

open_data = boot.open_data
number, seconds = map(int, sys.argv[1:3])

def open_slowly(*args):
    os.kill(os.getpid(), number)
    threading.Event().wait(seconds)
    return open_data(*args)

boot.open_data = open_slowly
main(sys.argv[3:])
"""


def signalled(number: signal.Signals, seconds: int, words: list[str]) -> "subprocess.Popen[str]":
    """A broker that gets this signal when it begins to open its data, which takes this long."""
    command = [sys.executable, "-c", _SIGNAL_WHILE_IT_OPENS, str(int(number)), str(seconds), *words]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True)


def test_sigterm_while_it_opens_its_data_ends_it_at_once(broker, tmp_path):
    child = signalled(signal.SIGTERM, 60, serve_words(tmp_path, broker.redis_url))
    try:
        assert child.wait(20) == 0
    finally:
        child.kill()
        child.communicate()


def test_sighup_while_it_opens_its_data_reloads_the_users_file_later(broker, tmp_path):
    users = tmp_path / "users"
    users.write_text("ann:secret\n")
    users.chmod(0o600)
    child = signalled(signal.SIGHUP, 1, serve_words(tmp_path, broker.redis_url, "--users-file", str(users)))
    assert child.stderr is not None
    too_late = threading.Timer(20, child.kill)
    too_late.start()
    try:
        assert any("users-reloaded" in line for line in child.stderr)
    finally:
        too_late.cancel()
        child.terminate()
        child.communicate(timeout=15)


def test_serve_waits_for_an_unreachable_store_and_then_reports_the_error(yak, tmp_path):
    url = f"redis://user:secret@127.0.0.1:{ports.find_free('127.0.0.1')}/0"
    ran = yak.run(*serve_words(tmp_path, url, "--redis-timeout", "2s"))
    assert ran.code == 3
    assert "waiting for the metadata store" in ran.err
    assert "error[redis-unreachable]" in ran.err
    assert "secret" not in ran.err
    # else a second such start behind a reboot of the machine would count as one behind a power loss
    assert list(tmp_path.rglob(".kafka_cleanshutdown"))


def test_sigterm_while_it_waits_for_the_store_ends_it_with_0(yak, tmp_path):
    url = f"redis://127.0.0.1:{ports.find_free('127.0.0.1')}/0"
    child = yak.start(*serve_words(tmp_path, url))
    assert child.stderr is not None
    while "waiting for the metadata store" not in child.stderr.readline():
        assert child.poll() is None
    os.kill(child.pid, signal.SIGTERM)
    child.communicate(timeout=15)
    assert child.returncode == 0
