"""When a connection imports kio: before it connects, and one thread at a time, since Python may see a deadlock in imports."""

import subprocess
import sys
from collections.abc import Callable

import kio.index
import pytest
from fake_brokers import FakeBroker

from yak.client import raw_connection
from yak.client.raw_connection import RawConnection
from yak.protocol import response_encoder


@pytest.mark.parametrize(
    ("module", "name"), [(response_encoder, "request_writer"), (kio.index, "load_response_schema")]
)
def test_messages_are_imported_by_one_thread_at_a_time(monkeypatch, module, name):
    load: Callable[..., object] = getattr(module, name)
    held = []

    def note(*api: int) -> object:
        held.append(raw_connection._ONE_AT_A_TIME.locked())
        return load(*api)

    monkeypatch.setattr(module, name, note)
    broker = FakeBroker({35: lambda _request: bytes(8)})
    with RawConnection(broker.address, timeout_s=5) as connection:
        assert connection.call((35, 1), {"topics": None}).results == ()
    broker.close()
    assert held == [True]
    assert not raw_connection._ONE_AT_A_TIME.locked()


SCRIPT = """
import socket, sys
from yak.client.raw_connection import RawConnection

def connect(*_arguments, **_options):
    print("kio.serial" in sys.modules, "yak.protocol.response_encoder" in sys.modules)
    raise OSError

socket.create_connection = connect
try:
    RawConnection("127.0.0.1:1", timeout_s=1OPTION)
except OSError:
    pass
"""


@pytest.mark.parametrize(("option", "imported"), [("", "True True\n"), (", only_login=True", "False False\n")])
def test_kio_is_imported_before_a_connection_is_opened_unless_it_only_logs_in(option, imported):
    script = SCRIPT.replace("OPTION", option)
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (ran.stdout, ran.stderr) == (imported, "")
