"""A stand-in for the broker: quick, and able to fail in every way one wants. Also the clock of tests that wait long."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import trio.testing

from yak.local import broker_process

if TYPE_CHECKING:
    from tests.unit.security.identities import Identities

STAND_IN = """
import json, os, signal, socket, sys, time
flags = dict(zip(sys.argv[2::2], sys.argv[3::2]))
how = os.environ.get("STAND_IN", "well")
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
print("started with", *sys.argv[1:])
print("node", flags["--node-id"], "with", flags.get("--redis-url", "a quorum"), flush=True)
if how == f"{flags['--node-id']} refuses":
    how = "refuses"
if how == "refuses":
    print("error[data-dir-locked]: node 1 cannot open it\\n  why:  pid 7 holds it\\n  try:  stop it", file=sys.stderr)
    sys.exit(1)
if how == "crashes":
    sys.exit("Traceback: boom")
if how == "hangs":
    time.sleep(60)
os.makedirs(flags["--data-dir"], exist_ok=True)
with open(os.path.join(flags["--data-dir"], "meta.properties"), "w") as meta:
    meta.write("version=1\\ncluster.id=stand-in\\n")
listener = socket.create_server((flags["--host"], int(flags["--port"])))
address = "%s:%d" % listener.getsockname()
with open(flags["--ready-file"] + ".new", "w") as ready:
    json.dump({"node_id": int(flags["--node-id"]), "address": address, "pid": os.getpid()}, ready)
os.replace(flags["--ready-file"] + ".new", flags["--ready-file"])
while True:
    time.sleep(60)
"""


@pytest.fixture
def autojump_clock() -> trio.testing.MockClock:
    """A clock that stands while a task can run, and jumps when all wait."""
    return trio.testing.MockClock(autojump_threshold=0)


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    script = tmp_path / "stand_in.py"
    script.write_text(STAND_IN)
    monkeypatch.setattr(broker_process, "yak_argv", lambda *arguments: [sys.executable, str(script), *arguments])


@pytest.fixture(scope="session")
def known(tmp_path_factory: pytest.TempPathFactory) -> "Identities":
    """Certificates of one authority for a broker and a client."""
    from tests.unit.security.identities import make

    return make(tmp_path_factory.mktemp("known") / "certs")


@pytest.fixture(scope="session")
def strange(tmp_path_factory: pytest.TempPathFactory) -> "Identities":
    """Those of another authority."""
    from tests.unit.security.identities import make

    return make(tmp_path_factory.mktemp("strange") / "certs")
