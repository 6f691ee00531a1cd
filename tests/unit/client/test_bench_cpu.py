"""CPU of processes, and which process listens where."""

import os
import socket
import time

import psutil
import pytest

from yak.local.bench.fleet import listeners, process_cpu_seconds, used_between


def test_a_busy_process_uses_cpu_time() -> None:
    before = process_cpu_seconds(os.getpid())
    until = time.process_time() + 0.05
    while time.process_time() < until:
        pass
    assert 0.05 <= process_cpu_seconds(os.getpid()) - before < 5


def test_ended_process_has_no_cpu_clock() -> None:
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    with pytest.raises(OSError, match=r"."):
        process_cpu_seconds(child)


def test_use_is_counted_by_name_and_from_the_start_of_what_is_new() -> None:
    assert used_between({"a": 1.0, "gone": 5.0}, {"a": 1.5, "new": 0.25}) == {"a": 0.5, "new": 0.25}


def test_the_listener_of_a_local_address_is_found_and_no_other() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        found = listeners({"here": ("127.0.0.1", port), "elsewhere": ("192.0.2.1", port), "nobody": ("127.0.0.1", 1)})
    assert found == {"here": os.getpid()}


def test_benchmark_on_a_system_that_shows_no_listeners_goes_on_without_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """On macOS only root sees them, and yak bench replication -b ended with a bug."""

    def refuse(**_: str) -> None:
        raise psutil.AccessDenied

    monkeypatch.setattr(psutil, "net_connections", refuse)
    assert listeners({"here": ("127.0.0.1", 9092)}) == {}
