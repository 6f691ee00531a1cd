"""A cluster's state survives a write and a read, and a broken file is refused with words."""

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from yak.errors import StartRefused, YakError
from yak.local import state
from yak.local.cluster import LocalCluster
from yak.local.processes import ProcessId, identify
from yak.local.state import BrokerState, ClusterState, RedisState
from yak.local.status import status_of


def example(folder: Path, process: ProcessId | None = None, **broker: object) -> ClusterState:
    return ClusterState(
        str(folder),
        RedisState("redis://127.0.0.1:4000/0", process, is_ours=True),
        "cluster-id",
        brokers=[
            BrokerState(1, "leader", "127.0.0.1", 9092, str(folder / "node-1"), ("a=b",), process=process, **broker)  # type: ignore[arg-type]
        ],
    )


def test_saved_local_state_is_loaded(tmp_path: Path) -> None:
    saved = example(tmp_path, ProcessId(42, "boot:7"), is_ready=True, epoch=5)
    state.save(saved)
    assert state.load(str(tmp_path)) == saved


@pytest.mark.parametrize(("port", "is_ours"), [(4000, True), (None, False)])
def test_a_directory_from_before_redis_had_a_unix_socket_opens(tmp_path: Path, port: int | None, is_ours: bool) -> None:
    state.save(example(tmp_path))
    path = state.state_path(str(tmp_path))
    written = json.loads(path.read_text())
    del written["redis"]["is_ours"]
    written["redis"]["port"] = port
    path.write_text(json.dumps(written))
    known = state.load(str(tmp_path))
    assert known is not None
    assert known.redis == RedisState("redis://127.0.0.1:4000/0", None, is_ours)


def test_a_directory_without_a_cluster_gives_none(tmp_path: Path) -> None:
    assert state.load(str(tmp_path)) is None
    assert state.load(str(tmp_path / "missing")) is None


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"{", b"[]", b"{}", b'{"version": 1}', b'{"version": 9}', b'{"version": 1, "redis": 3}'),
        *(b'{"version": "\xff"}', b"[" * 100_000),
        b'{"version": 1, "redis": {"url": "", "process": null, "is_ours": true}, "brokers": [], "supervisor": null, "exposed": []}',
    ],
)
def test_file_that_is_no_state_is_refused_and_left_unchanged(tmp_path: Path, content: bytes) -> None:
    path = state.state_path(str(tmp_path))
    path.write_bytes(content)
    with pytest.raises(StartRefused) as caught:
        state.load(str(tmp_path))
    assert caught.value.code == "cluster-state"
    assert caught.value.why
    assert path.read_bytes() == content


def test_two_commands_cannot_change_a_cluster_at_once(tmp_path: Path) -> None:
    code = (
        "import sys\nfrom yak.local import state\n"
        f"with state.locked({str(tmp_path)!r}):\n    print('held', flush=True)\n    sys.stdin.read()"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdin is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(YakError, match="another yak command") as caught, state.locked(str(tmp_path)):
            pass
        assert caught.value.code == "cluster-busy"
        holder.stdin.close()
    with state.locked(str(tmp_path)):
        pass


def test_the_status_keys_are_the_contract(tmp_path: Path) -> None:
    me = identify(os.getpid())
    document = status_of(str(tmp_path), example(tmp_path, me, is_ready=True)).as_json()
    assert json.loads(json.dumps(document)) == {
        "cluster": "cluster-id",
        "data_dir": str(tmp_path),
        "metadata": "redis",
        "redis": "redis://127.0.0.1:4000/0",
        "voters": [],
        "moving_to": None,
        "bootstrap": "127.0.0.1:9092",
        "listeners": [],
        "security_protocol": "PLAINTEXT",
        "ca_file": None,
        "brokers": [
            {
                "node_id": 1, "role": "leader", "pid": os.getpid(), "address": "127.0.0.1:9092", "http_address": None,
                "state": "running", "epoch": None, "machine": None,
            }
        ],
    }  # fmt: skip


def test_a_broker_is_running_starting_stopped_or_dead(tmp_path: Path) -> None:
    me = identify(os.getpid())
    gone = ProcessId(os.getpid(), "an earlier boot")

    def condition(process: ProcessId | None, **broker: object) -> str:
        return status_of(str(tmp_path), example(tmp_path, process, **broker)).brokers[0].state

    assert condition(me, is_ready=True) == "running"
    assert condition(me, is_ready=False) == "starting"
    assert condition(gone, is_ready=True) == "dead"
    assert condition(None, wanted=False) == "stopped"


def test_a_directory_where_nothing_was_started_has_an_empty_status(tmp_path: Path) -> None:
    status = status_of(str(tmp_path), None)
    assert status.as_json() == {
        "cluster": None,
        "data_dir": str(tmp_path),
        "metadata": "redis",
        "redis": None,
        "voters": [],
        "moving_to": None,
        "bootstrap": None,
        "listeners": [],
        "security_protocol": "PLAINTEXT",
        "ca_file": None,
        "brokers": [],
    }


def test_cluster_on_a_read_only_file_system_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system that the kernel made read-only after an error."""
    child = subprocess.Popen(["sleep", "60"], start_new_session=True)
    state.save(example(tmp_path, identify(child.pid)))
    (tmp_path / state.LOCK_FILE).touch()
    usual = state.open_file

    def refuse(path: str, *_: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)

    def open_file(path: str, flags: int) -> int:
        return usual(path, flags) if flags & os.O_ACCMODE == os.O_RDONLY else refuse(path)  # type: ignore[return-value]

    monkeypatch.setattr(state, "replace_file", refuse)
    monkeypatch.setattr(state, "open_file", open_file)
    assert LocalCluster(str(tmp_path)).down() == ()
    assert identify(child.pid) is None


def test_command_of_a_hint_can_be_typed_for_a_directory_with_blanks(tmp_path: Path) -> None:
    folder = tmp_path / "my data"
    folder.mkdir()
    with state.locked(str(folder)), pytest.raises(YakError) as busy, state.locked(str(folder)):
        pass
    assert busy.value.try_ == (f"yak up --status --data-dir '{folder}'          look without changing",)
