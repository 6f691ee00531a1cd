"""Child programs get a clean environment, and ports are what the system says they are."""

import socket
import subprocess
import sys
from collections.abc import Callable

import pytest

from yak import __version__
from yak.commands import __main__ as module
from yak.commands.main import main
from yak.errors import UsageError
from yak.local import ports, spawn
from yak.server.listening_sockets import bind


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[str, str]], None]:
    """Sets the environment."""
    return lambda environment: monkeypatch.setattr(spawn.os, "environ", environment)


def test_a_child_broker_does_not_get_the_callers_settings(given):
    given({"PATH": "/bin", "YAK_PORT": "1", "YAK_LOG_LEVEL": "debug", "REDIS_HOST": "x", "BROKER_ID": "7"})
    environment = spawn.yak_environment()
    assert environment == {"PATH": "/bin", "YAK_LOG_LEVEL": "debug", "NO_COLOR": "1"}


def test_a_token_reaches_the_brokers_that_it_is_to_protect(given):
    given({"YAK_HTTP_TOKEN": "secret", "YAK_HTTP_PORT": "1"})
    environment = spawn.yak_environment()
    assert environment == {"YAK_HTTP_TOKEN": "secret", "NO_COLOR": "1"}


def test_the_frozen_executable_starts_itself_and_gives_strangers_their_own_libraries(monkeypatch, given):
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    bundle = {"LD_LIBRARY_PATH": "/tmp/_MEI1", "LD_LIBRARY_PATH_ORIG": "/opt/lib", "PATH": "/bin"}
    assert spawn.yak_argv("serve") == [sys.executable, "serve"]
    given({"LD_LIBRARY_PATH": "/tmp/_MEI1"})
    assert spawn.foreign_environment() == {}
    given(bundle)
    assert spawn.foreign_environment() == {"LD_LIBRARY_PATH": "/opt/lib", "PATH": "/bin"}
    assert spawn.yak_environment()["PYINSTALLER_RESET_ENVIRONMENT"] == "1"


def test_from_source_the_same_python_runs_the_same_yak():
    argv = spawn.yak_argv("serve", "--port", "0")
    assert argv[0] == sys.executable
    assert argv[-3:] == ["serve", "--port", "0"]
    ran = subprocess.run(spawn.yak_argv("--version"), capture_output=True, text=True)
    assert ran.stdout == f"yak {__version__}\n"
    assert module.main is main


def test_a_big_log_is_put_aside_at_the_next_start(tmp_path, monkeypatch):
    monkeypatch.setattr(spawn, "_LOG_ROTATE_BYTES", 10)
    path = tmp_path / "logs" / "node-1.log"
    path.parent.mkdir()
    path.write_text("x" * 11)
    child = spawn.spawn_detached([sys.executable, "-c", "print('new')"], log_path=str(path), environment={})
    child.wait(60)
    assert path.read_text() == "new\n"
    assert (tmp_path / "logs" / "node-1.log.1").read_text() == "x" * 11


def test_port_with_a_listener_is_not_free_and_its_holder_is_named():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        assert not ports.is_free("127.0.0.1", port)
        error = ports.port_taken_error("127.0.0.1", port)
        assert error.exit_code == 2
        assert f"127.0.0.1:{port}" in error.message
        assert error.try_
    assert ports.is_free("127.0.0.1", ports.find_free("127.0.0.1"))


def test_lasting_ports_of_servers_that_start_later_differ(monkeypatch):
    first = ports.find_lasting("127.0.0.1")
    monkeypatch.setattr(ports, "_LASTING", (first, first + 2))
    assert ports.find_lasting("127.0.0.1") != first


def test_an_address_that_is_not_this_machines_is_a_usage_error():
    with pytest.raises(UsageError, match=r"cannot listen on 192\.0\.2\.1"):
        ports.is_free("192.0.2.1", 9092)
    for name in ("no-such-host.invalid", "a..b"):
        with pytest.raises(UsageError) as caught:
            ports.is_free(name, 9092)
        assert caught.value.code == "unknown-host"


@pytest.mark.skipif(not ports.CAN_HOLD, reason="elsewhere a server cannot bind a port that is held")
def test_held_port_is_for_our_server_alone_and_stays_held_after_the_server_ends():
    with bind("127.0.0.1", 0)[0] as held:
        port = held.getsockname()[1]
        for _ in range(2):
            with socket.create_server(("127.0.0.1", port)), socket.create_connection(("127.0.0.1", port), timeout=5):
                pass
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(("127.0.0.1", port), timeout=5)
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind(("127.0.0.1", port))
    with socket.socket() as other:
        other.bind(("127.0.0.1", port))
