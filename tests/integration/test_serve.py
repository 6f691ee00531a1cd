"""A live broker: its start, its end, and what it does with connections that are not a client's."""

import json
import os
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from yak.local import ports

API_VERSIONS = struct.pack(">hhih", 18, 0, 7, 1) + b"t"


def connect(broker: Any) -> socket.socket:
    return socket.create_connection(("127.0.0.1", broker.port), timeout=5)


def ask_versions(sock: socket.socket) -> bytes:
    sock.sendall(struct.pack(">i", len(API_VERSIONS)) + API_VERSIONS)
    (size,) = struct.unpack(">i", read(sock, 4))
    return read(sock, size)


def read(sock: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = sock.recv(size - len(data))
        assert more, "the broker closed the connection"
        data += more
    return data


def is_closed(sock: socket.socket) -> bool:
    try:
        return sock.recv(1) == b""
    except ConnectionResetError:
        return True


def handles(broker: Any) -> int:
    return psutil.Process(broker.pid).num_fds()


def until(condition: Callable[[], bool], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not become true in time"
        time.sleep(0.01)


STRANGE = {
    "HTTP": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500),
    "length -1": struct.pack(">i", -1),
    "length 0": struct.pack(">i", 0),
    "the smallest length": struct.pack(">i", -(2**31)),
    "one byte too long": struct.pack(">i", 100 * 1024 * 1024 + 1),
    "the largest length": struct.pack(">i", 2**31 - 1),
    "an unknown API": struct.pack(">ihhih", 10, 999, 0, 1, -1),
    "a version that is not there": struct.pack(">ihhih", 10, 3, 99, 1, -1),
}


@pytest.mark.parametrize("name", STRANGE)
def test_bytes_that_are_no_request_close_their_connection_and_no_other(module_broker: Any, name: str) -> None:
    broker = module_broker
    with connect(broker) as healthy:
        assert ask_versions(healthy)
        before = handles(broker)
        with connect(broker) as strange:
            strange.sendall(STRANGE[name])
            assert is_closed(strange)
        assert ask_versions(healthy)
        until(lambda: handles(broker) == before)
    if name in ("HTTP", "TLS"):
        assert f"{name} on the Kafka port" in broker.log()


def test_half_frames_resets_and_silence_leave_nothing_behind(module_broker: Any) -> None:
    broker = module_broker
    with connect(broker) as healthy:
        assert ask_versions(healthy)
        before = handles(broker)
        for number in range(50):
            sock = connect(broker)
            if number % 3:
                sock.sendall(struct.pack(">i", 5000) + b"half of it")
            if number % 2:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            sock.close()
        assert ask_versions(healthy)
        until(lambda: handles(broker) == before)
    assert "Traceback" not in broker.log()


def test_a_thousand_pipelined_requests_are_answered_in_order(module_broker: Any) -> None:
    broker = module_broker
    with connect(broker) as sock:
        frames = [struct.pack(">ihhih", 10, 18, 0, number, -1) for number in range(1000)]
        sock.sendall(b"".join(frames))
        for number in range(1000):
            (size,) = struct.unpack(">i", read(sock, 4))
            assert struct.unpack(">i", read(sock, size)[:4]) == (number,)


def test_client_address_over_its_connection_limit_is_refused_until_one_closes(broker: Any) -> None:
    broker.start(max_connections_per_ip=5)
    held = [connect(broker) for _ in range(5)]
    for sock in held:
        assert ask_versions(sock)
    with connect(broker) as extra:
        assert is_closed(extra)
    held.pop().close()
    time.sleep(0.1)
    with connect(broker) as again:
        assert ask_versions(again)
    for sock in held:
        sock.close()


def test_sigterm_ends_it_in_order_and_the_next_start_is_clean(broker: Any) -> None:
    broker.start()
    with connect(broker) as sock:
        assert ask_versions(sock)
        broker.stop()
        assert is_closed(sock)
    assert "stopped" in broker.log()
    assert (broker.data_dir / ".kafka_cleanshutdown").exists()
    broker.restart()
    with connect(broker) as sock:
        assert ask_versions(sock)


def serve_words(tmp_path: Path, redis_url: str, *more: str) -> list[str]:
    return ["serve", "--port", "0", "--data-dir", str(tmp_path / "data"), "--redis-url", redis_url, *more]


def test_serve_with_a_ready_file_that_cannot_be_written_refuses_to_start(yak: Any, broker: Any, tmp_path: Path) -> None:
    ready_file = tmp_path / "none" / "ready.json"
    child = yak.start(*serve_words(tmp_path, broker.redis_url, "--ready-file", str(ready_file)))
    said = child.communicate(timeout=30)[1]
    assert child.returncode == 1
    assert f"error[ready-file-not-written]: the ready file {ready_file} cannot be written" in said
    assert "Traceback" not in said


def test_the_ready_file_comes_with_the_first_accepted_connection_and_goes_at_the_end(
    yak: Any, broker: Any, tmp_path: Path
) -> None:
    ready_file = tmp_path / "ready.json"
    child = yak.start(*serve_words(tmp_path, broker.redis_url, "--ready-file", str(ready_file), "--log-format", "json"))
    until(ready_file.exists)
    ready = json.loads(ready_file.read_text())
    assert ready["pid"] == child.pid
    host, _, port = ready["address"].rpartition(":")
    with socket.create_connection((host, int(port)), timeout=5) as sock:
        assert ask_versions(sock)
    child.send_signal(signal.SIGINT)
    _, err = child.communicate(timeout=15)
    assert child.returncode == 0
    assert not ready_file.exists()
    assert {json.loads(line)["event"] for line in err.splitlines()} >= {"ready", "stopping", "stopped"}


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


def test_a_broker_listens_before_it_writes_its_ready_file(broker: Any, tmp_path: Path) -> None:
    ready_file = tmp_path / "ready.json"
    words = serve_words(tmp_path, broker.redis_url, "--ready-file", str(ready_file))
    child = subprocess.Popen([sys.executable, "-c", _CONNECTS_WHEN_READY, *words], stderr=subprocess.PIPE, text=True)
    try:
        until(lambda: ready_file.exists() or child.poll() is not None)
        assert child.poll() is None
    finally:
        child.send_signal(signal.SIGINT)
        _, err = child.communicate(timeout=15)
    assert "refused" not in err


def test_a_data_directory_in_use_is_refused_by_the_pid_that_holds_it(broker: Any, yak: Any) -> None:
    broker.start()
    ran = yak.run("serve", "--port", "0", "--data-dir", str(broker.data_dir), "--redis-url", broker.redis_url)
    assert ran.code == 1
    assert ran.err.splitlines()[0].startswith("error[data-dir-locked]")
    assert str(broker.pid) in ran.err


def test_a_port_in_use_is_refused(broker: Any, yak: Any, tmp_path: Path) -> None:
    broker.start()
    words = [
        "serve",
        "--port",
        str(broker.port),
        "--data-dir",
        str(tmp_path / "other"),
        "--redis-url",
        broker.redis_url,
    ]
    ran = yak.run(*words)
    assert ran.code == 2
    assert ran.err.startswith("error[address-in-use]")
    assert not (tmp_path / "other").exists()


def test_serve_waits_for_an_unreachable_store_and_then_reports_the_error(yak: Any, tmp_path: Path) -> None:
    url = f"redis://user:secret@127.0.0.1:{ports.find_free('127.0.0.1')}/0"
    ran = yak.run(*serve_words(tmp_path, url, "--redis-timeout", "2s"))
    assert ran.code == 3
    assert "waiting for the metadata store" in ran.err
    assert "error[redis-unreachable]" in ran.err
    assert "secret" not in ran.err


def test_sigterm_while_it_waits_for_the_store_ends_it_with_0(yak: Any, tmp_path: Path) -> None:
    url = f"redis://127.0.0.1:{ports.find_free('127.0.0.1')}/0"
    child = yak.start(*serve_words(tmp_path, url))
    assert child.stderr is not None
    while "waiting for the metadata store" not in child.stderr.readline():
        assert child.poll() is None
    os.kill(child.pid, signal.SIGTERM)
    child.communicate(timeout=15)
    assert child.returncode == 0
