"""What SIGHUP reads again, and how a closed terminal differs from it."""

import errno
import os
import pty
import signal
import sys
import threading
import time
from unittest.mock import Mock

import pytest
import trio

from tests.unit.security.identities import make
from tests.unit.server.threads import start_no_thread
from yak.core.events import OwnUsersChanged
from yak.security.scram import SCRAM_SHA_256, ScramCredential
from yak.server import reload
from yak.server.reload import ListenerReloads, Terminal, reload_files
from yak.server.tls_listener import ListenerTls
from yak.server.users_file import read_users_file


def write_users(path, text):
    path.write_text(text)
    path.chmod(0o600)
    return str(path)


async def test_reload_reads_the_users_file_and_every_certificate(tmp_path, caplog):
    caplog.set_level("INFO")
    own = make(tmp_path / "certs")
    listeners = [ListenerTls(name, own.configs) for name in ("SSL", "EXTERNAL")]
    before = [each.contexts for each in listeners]
    posted = []
    await reload_files(
        listeners, write_users(tmp_path / "users", "ann:first\nbob:second\n"), posted.append, trio.Lock()
    )
    assert all(each.contexts is not old for each, old in zip(listeners, before, strict=True))
    (event,) = posted
    assert isinstance(event, OwnUsersChanged)
    credential = ScramCredential.parse(event.users["bob"]["SCRAM-SHA-256"])
    assert credential.is_password(SCRAM_SHA_256, "second")
    assert "users-reloaded" in caplog.messages
    assert "bob" not in repr(event)


async def test_newest_listener_configs_win_whatever_task_runs_first():
    class Listener:
        used = None

        def reload(self, configs):
            self.used = configs["name"]

    listener = Listener()
    reloads = ListenerReloads([listener])
    for _ in range(20):  # Trio runs two tasks of one turn in either order
        async with trio.open_nursery() as nursery:
            reloads.begin(nursery, {"name": "older"})
            reloads.begin(nursery, {"name": "newer"})
        assert listener.used == "newer"


async def test_reload_of_a_bad_users_file_posts_nothing_and_logs_the_reason(tmp_path, caplog):
    posted = []
    await reload_files(
        [], write_users(tmp_path / "users", "ann-without-a-password-secret\n"), posted.append, trio.Lock()
    )
    assert posted == []
    assert caplog.messages == ["users-reload-failed"]
    assert "line 1" in caplog.records[0].yak_fields["why"]
    assert "secret" not in str(caplog.records[0].yak_fields)


async def test_users_removed_while_a_reload_runs_do_not_come_back(tmp_path, monkeypatch):
    """The hashes of a hundred users take a second."""
    path, posted, is_slow = tmp_path / "users", [], threading.Event()

    def read(path):
        users = read_users_file(path)
        if "bob" in users:
            is_slow.set()
            time.sleep(0.5)
        return users

    monkeypatch.setattr(reload, "read_users_file", read)
    turn = trio.Lock()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(reload_files, [], write_users(path, "ann:first\nbob:second\n"), posted.append, turn)
        await trio.to_thread.run_sync(is_slow.wait)
        nursery.start_soon(reload_files, [], write_users(path, "ann:first\n"), posted.append, turn)
    assert [set(event.users) for event in posted] == [{"ann", "bob"}, {"ann"}]


@pytest.mark.parametrize("kind", ["watch", "configs", "certificates", "users"])
async def test_file_that_cannot_be_read_to_its_end_does_not_delay_the_stop(tmp_path, monkeypatch, kind):
    """The server of a network file system may be gone."""
    tls = ListenerTls("SSL", make(tmp_path / "certs").configs)
    begun, over = threading.Event(), threading.Event()

    def read(*_arguments):
        begun.set()
        over.wait(5)

    for owner, name in ((tls, "reload"), (tls, "reload_if_changed"), (reload, "read_users_file")):
        monkeypatch.setattr(owner, name, read)
    async with trio.open_nursery() as nursery:
        if kind == "watch":
            nursery.start_soon(tls.watch, 0.01)
        elif kind == "configs":
            ListenerReloads([tls]).begin(nursery, {})
        else:
            users = None if kind == "certificates" else "users"
            nursery.start_soon(reload_files, [] if users else [tls], users, lambda _: None, trio.Lock())
        await trio.to_thread.run_sync(begun.wait)
        cancelled_at = trio.current_time()
        nursery.cancel_scope.cancel()
    over.set()
    assert trio.current_time() - cancelled_at < 4


async def test_reload_without_a_users_file_posts_nothing(caplog):
    posted = []
    await reload_files([], None, posted.append, trio.Lock())
    assert posted == []
    assert caplog.messages == []


def test_terminal_that_never_existed_is_not_detected_as_closed(tmp_path):
    assert not Terminal(str(tmp_path / "none")).is_gone


def test_terminal_is_not_detected_as_closed_without_file_handles(tmp_path, monkeypatch):
    path = tmp_path / "tty"
    path.touch()
    terminal = Terminal(str(path))
    monkeypatch.setattr(os, "open", Mock(side_effect=OSError(errno.EMFILE, "Too many open files")))
    assert not terminal.is_gone


@pytest.mark.parametrize(("handling", "then"), [("SIG_DFL", b"gone"), ("SIG_IGN", b"open")])
def test_closed_terminal_is_detected_except_behind_nohup(handling, then):
    """A child in a session of its own, whose controlling terminal this test closes. nohup(1) ignores SIGHUP."""
    program = (
        "import os, signal, sys\n"
        f"signal.signal(signal.SIGHUP, signal.{handling})\n"
        "from yak.server.reload import Terminal\n"
        "terminal = Terminal()\n"
        "signal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
        "os.write(int(sys.argv[1]), b'open' if not terminal.is_gone else b'gone')\n"
        "os.read(int(sys.argv[2]), 1)\n"
        "os.write(int(sys.argv[1]), b'gone' if terminal.is_gone else b'open')\n"
    )
    said, say = os.pipe()
    go, let = os.pipe()
    pid, terminal = pty.fork()
    if pid == 0:
        for each in (say, go):
            os.set_inheritable(each, True)
        os.execv(sys.executable, [sys.executable, "-c", program, str(say), str(go)])
    try:
        assert os.read(said, 4) == b"open"
        os.close(terminal)
        os.write(let, b"x")
        assert os.read(said, 4) == then
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        for each in (said, say, go, let):
            os.close(each)


@pytest.mark.parametrize("kind", ["configs", "certificates", "users"])
async def test_reload_waits_while_the_system_starts_no_thread(tmp_path, monkeypatch, caplog, kind):
    tls, users = Mock(), write_users(tmp_path / "users", "ann:first\n")
    failures = start_no_thread(monkeypatch, times=1)
    posted = []
    async with trio.open_nursery() as nursery:
        if kind == "configs":
            ListenerReloads([tls]).begin(nursery, {})
        else:
            nursery.start_soon(
                reload_files,
                [] if kind == "users" else [tls],
                users if kind == "users" else None,
                posted.append,
                trio.Lock(),
            )
    assert failures == []
    assert "job-thread-missing" in caplog.messages
    assert bool(posted) is (kind == "users")
    assert tls.reload.called is (kind != "users")


async def test_users_are_reloaded_while_a_certificate_cannot_be_read_to_its_end(tmp_path):
    """The server of its network file system may be gone."""
    path, posted, over, tls, turn = tmp_path / "users", [], threading.Event(), Mock(), trio.Lock()
    tls.reload = lambda: over.wait(5)
    async with trio.open_nursery() as nursery:
        for names in ("ann:first\nbob:second\n", "ann:first\n"):
            nursery.start_soon(reload_files, [tls], write_users(path, names), posted.append, turn)
            with trio.move_on_after(1):
                while not posted or len(posted[-1].users) != names.count("\n"):  # noqa: ASYNC110
                    await trio.sleep(0.01)
        over.set()
        assert [set(event.users) for event in posted] == [{"ann", "bob"}, {"ann"}]
