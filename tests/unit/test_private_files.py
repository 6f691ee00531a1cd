"""Files and folders for their owner alone: their modes, planted links, and what another user of the machine may do."""

import errno
import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from yak import private_files
from yak.client.checkpoint import Checkpoint
from yak.client.contexts import add_context
from yak.errors import StartRefused
from yak.local import layout, redis_child, state
from yak.local.spawn import open_log
from yak.local.state import ClusterState, RedisState
from yak.server.disk import RealDisk
from yak.storage.names import META_PROPERTIES

NOBODY = 65_534


def mode(path: Path | str) -> int:
    return stat.S_IMODE(os.stat(path).st_mode)


@pytest.fixture(params=[0o000, 0o022, 0o077])
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def as_nobody(code: str, *arguments: str) -> str:
    """What a program of another user prints."""
    if os.geteuid():
        pytest.skip("only root can be another user")
    ran = subprocess.run(
        [sys.executable, "-I", "-c", f"import os, socket, sys; os.setgroups([]); os.setgid({NOBODY}); os.setuid({NOBODY})\n{code}", *arguments],
        capture_output=True, text=True, check=True, cwd="/",
    )  # fmt: skip
    return ran.stdout.strip()


# ------------------------------------------------------------------------------------------------------------ modes


@pytest.mark.usefixtures("umask")
def test_broker_files_are_for_their_owner_alone(tmp_path: Path) -> None:
    data = tmp_path / "data"
    disk = RealDisk()
    try:
        disk.make_directory(str(data))
        disk.make_directory(str(data / "orders-0"))
        disk.open(str(data / "orders-0" / "a.log"), create=True).append([b"x"])
        disk.write_file(str(data / META_PROPERTIES), b"version=1\n")
        disk.write_file_lazily(str(data / "checkpoint"), b"0\n")
        disk.lock(str(data / ".lock")).release()
    finally:
        disk.pool.close_all()
    for path in (data, *data.rglob("*")):
        assert mode(path) == (0o700 if path.is_dir() else 0o600), path


@pytest.mark.usefixtures("umask")
def test_cluster_files_are_for_their_owner_alone(tmp_path: Path) -> None:
    data = tmp_path / "deep" / "yak-data"
    layout.prepare(str(data))
    state.save(ClusterState(str(data), RedisState("redis://user:secret@host/0")))
    os.close(open_log(layout.log_path(str(data), "node-1")))
    for path in (data, *data.rglob("*")):
        assert mode(path) == (0o700 if path.is_dir() else 0o600), path


def test_data_directory_of_an_earlier_version_is_tightened(tmp_path: Path) -> None:
    data, cluster, logs = tmp_path / "data", tmp_path / "yak-data", tmp_path / "yak-data" / "logs"
    for folder in (data, cluster, logs):
        folder.mkdir(mode=0o755)
        folder.chmod(0o755)
    (data / META_PROPERTIES).write_text("version=1\n")
    (cluster / state.STATE_FILE).write_text("{}")
    (logs / "node-1.log").write_text("line\n")
    (logs / "node-1.log").chmod(0o640)
    disk = RealDisk()
    disk.make_directory(str(data))
    disk.pool.close_all()
    layout.prepare(str(cluster))
    os.close(open_log(str(logs / "node-1.log")))
    assert [mode(each) for each in (data, cluster, logs, logs / "node-1.log")] == [0o700, 0o700, 0o700, 0o600]
    assert (logs / "node-1.log").read_text() == "line\n"


def test_directory_with_other_files_or_a_sticky_bit_keeps_its_mode(tmp_path: Path) -> None:
    shared, sticky = tmp_path / "shared", tmp_path / "sticky"
    shared.mkdir()
    (shared / "index.html").touch()
    shared.chmod(0o755)
    sticky.mkdir()
    sticky.chmod(0o1777)
    for folder, wanted in ((shared, 0o755), (sticky, 0o1777)):
        layout.prepare(str(folder))
        assert mode(folder) == wanted
        assert mode(folder / state.LOCK_FILE) == 0o600


def test_pipe_is_not_replaced_by_a_file(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(OSError, match="no file but a pipe or a device"):
        private_files.replace_file(str(pipe), b"secret")
    assert [stat.S_ISFIFO(os.stat(path).st_mode) for path in tmp_path.iterdir()] == [True]


# ------------------------------------------------------------------------------------------------------ planted links


def test_planted_link_to_the_temporary_state_file_is_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    data = tmp_path / "data"
    data.mkdir()
    (data / f"{state.STATE_FILE}.tmp").symlink_to(victim)
    state.save(ClusterState(str(data), RedisState("redis://r")))
    assert victim.read_text() == "precious"
    assert state.load(str(data)) is not None


@pytest.mark.parametrize("name", [state.LOCK_FILE, "log"])
def test_planted_link_in_the_place_of_a_file_is_refused(tmp_path: Path, name: str) -> None:
    victim, data = tmp_path / "victim", tmp_path / "data"
    data.mkdir()
    (data / name).symlink_to(victim)
    if name == state.LOCK_FILE:
        with pytest.raises(StartRefused) as refused:
            layout.prepare(str(data))
        assert refused.value.code == "data-dir-not-writable"
    else:
        with pytest.raises(OSError) as failed:  # noqa: PT011 - the number is looked at
            open_log(str(data / name))
        assert failed.value.errno == errno.ELOOP
    assert not victim.exists()


def test_planted_link_to_a_temporary_file_of_the_broker_is_replaced(tmp_path: Path) -> None:
    victim, target = tmp_path / "victim", tmp_path / "checkpoint"
    victim.write_text("precious")
    (tmp_path / "checkpoint.tmp").symlink_to(victim)
    disk = RealDisk()
    disk.write_file(str(target), b"0\n")
    disk.pool.close_all()
    assert (victim.read_text(), target.read_bytes()) == ("precious", b"0\n")


def test_contexts_and_checkpoints_leave_no_temporary_file(tmp_path: Path) -> None:
    for name in (f"config.toml.{os.getpid()}", "rows.tmp"):
        (tmp_path / name).symlink_to(tmp_path / "victim")
    add_context(str(tmp_path / "config.toml"), "a", {"http_token": "secret"})
    (tmp_path / "in.csv").write_text("a\n1\n")
    checkpoint = Checkpoint(str(tmp_path / "rows"), str(tmp_path / "in.csv"), "orders")
    checkpoint.read()
    checkpoint.write(1)
    assert mode(tmp_path / "config.toml") == mode(tmp_path / "rows") == 0o600
    assert not (tmp_path / "victim").exists()


def test_file_that_cannot_be_put_in_place_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "folder" / "full").mkdir(parents=True)
    with pytest.raises(OSError, match="folder"):
        private_files.replace_file(str(tmp_path / "folder"), b"x")
    assert os.listdir(tmp_path) == ["folder"]


# -------------------------------------------------------------------------------------------------------- other users


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user may enter; pytest's own is closed to them."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        yield Path(folder)


def test_another_user_reaches_neither_files_nor_the_metadata_store(open_folder: Path) -> None:
    data = open_folder / "d"
    layout.prepare(str(data))
    folder = layout.redis_dir(str(data))
    path = redis_child.socket_for(folder)
    running = redis_child.start(folder, 0, layout.log_path(str(data), "redis"), socket_path=path)
    try:
        code = (
            "try:\n    socket.socket(socket.AF_UNIX).connect(sys.argv[1]); print('in')\n"
            "except OSError as error:\n    print(type(error).__name__)\n"
            "try:\n    print(os.listdir(sys.argv[2]))\nexcept OSError as error:\n    print(type(error).__name__)"
        )
        assert as_nobody(code, path, str(data)).split() == ["PermissionError", "PermissionError"]
        assert all(mode(each) & 0o077 == 0 for each in Path(folder).rglob("*"))
        assert running.url.startswith("unix:")
    finally:
        redis_child.stop(running.process)
        redis_child.forget_socket(path, folder)


def test_socket_with_a_long_path_is_placed_in_a_private_folder(tmp_path: Path) -> None:
    folder = tmp_path / ("x" * 120)
    path = redis_child.socket_for(str(folder))
    try:
        assert len(path) <= 100
        assert mode(os.path.dirname(path)) == 0o700
        assert redis_child.socket_path(redis_child.socket_url(path)) == path
    finally:
        redis_child.forget_socket(path, str(folder))
    assert not os.path.exists(os.path.dirname(path))


def test_socket_folder_that_others_may_write_to_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "planted"
    folder.mkdir()
    folder.chmod(0o1777)
    with pytest.raises(StartRefused) as refused:
        redis_child.start(str(tmp_path / "r"), 0, str(tmp_path / "r.log"), socket_path=str(folder / "redis.sock"))
    assert refused.value.code == "redis-socket-folder"


def test_folder_of_a_user_without_a_home_is_not_in_the_working_directory(monkeypatch):
    monkeypatch.delenv("HOME")
    monkeypatch.setattr(os, "getuid", lambda: 54_321)
    assert private_files.user_folder("XDG_STATE_HOME", ".local/state", {}) == "/nonexistent/yak"
    assert private_files.user_folder("XDG_STATE_HOME", ".local/state", {"XDG_STATE_HOME": "/state"}) == "/state/yak"
    monkeypatch.setenv("HOME", "/h")
    assert private_files.user_folder("XDG_STATE_HOME", ".local/state", {}) == "/h/.local/state/yak"
