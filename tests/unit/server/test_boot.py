"""What a broker knows of its own start."""

import errno
import subprocess
from pathlib import Path

import pytest

from yak.config.broker_configs import BrokerConfig
from yak.errors import StartRefused
from yak.ports.disk import DiskFull
from yak.ports.metadata_store import StoreRequest
from yak.quorum.election_state import ElectionState
from yak.quorum.raft_log import RaftLog
from yak.quorum.state_machine import VolatileState, command_batch
from yak.server import boot
from yak.server.clock import Clock
from yak.server.disk import RealDisk
from yak.server.options import ServeOptions


def start(folder: Path, **options: object) -> tuple[boot.LoadedState, object]:
    given = ServeOptions(data_dirs=(str(folder),), **options)  # type: ignore[arg-type]
    config = BrokerConfig.from_settings(given.broker_settings())
    clock = Clock()
    opened = boot.open_data(RealDisk(), given, config, clock, lambda *_: None)
    try:
        return opened, boot.make_broker(opened, given, config, clock).identity
    finally:
        opened.log_store.release()


def test_kernel_boot_id_is_read_from_its_file(tmp_path):
    (tmp_path / "boot_id").write_text("some-id\n")
    assert boot.kernel_boot_id(str(tmp_path / "boot_id")) == "some-id"
    assert boot.kernel_boot_id(str(tmp_path / "absent")) is None


def test_log_directories_are_known_by_their_absolute_paths(tmp_path, monkeypatch):
    """As in Kafka's DescribeLogDirs and AlterReplicaLogDirs: a client may run in another folder."""
    monkeypatch.chdir(tmp_path)
    opened, _identity = start(Path("data"))
    assert [each.path for each in opened.log_store.usage()] == [str(tmp_path / "data")]


def test_a_start_after_the_machine_went_down_is_registered_as_lossy(tmp_path, monkeypatch):
    monkeypatch.setattr(boot, "kernel_boot_id", lambda: "first")
    opened, identity = start(tmp_path)
    assert not identity.lossy  # type: ignore[attr-defined]
    (tmp_path / "t-0").mkdir()
    monkeypatch.setattr(boot, "kernel_boot_id", lambda: "second")
    opened, identity = start(tmp_path)
    assert identity.lossy  # type: ignore[attr-defined]
    assert opened.log_store.report.lossy


def test_start_of_a_voter_on_a_full_disk_is_refused_with_the_advice_to_make_room(tmp_path, monkeypatch):
    """Its log is sound: an empty data directory, the advice for a damaged one, would lose its votes."""
    start(tmp_path, metadata="raft")
    raft_log = RaftLog.open(RealDisk(), str(tmp_path / "__yak_metadata"), 1_000)
    raft_log.append(command_batch(StoreRequest("bootstrap", {}), VolatileState(), 1_000), 1, 1_000)
    write_file = RealDisk.write_file

    def refuse(disk: RealDisk, path: str, data: bytes) -> None:
        if "leader-epoch-checkpoint" in path:
            raise DiskFull(errno.ENOSPC, "No space left on device", path)
        write_file(disk, path, data)

    monkeypatch.setattr(RealDisk, "write_file", refuse)
    with pytest.raises(StartRefused, match="cannot open") as refused:
        start(tmp_path, metadata="raft")
    assert refused.value.code == "data-dir"
    assert "No space left on device" in refused.value.why
    assert [advice.split()[0] for advice in refused.value.try_] == ["df"]


def test_damaged_entry_of_the_quorum_is_truncated_only_after_the_machine_went_down(tmp_path, monkeypatch):
    """If the process alone ended, only the last write can be incomplete: the entries behind the damage may be committed."""
    monkeypatch.setattr(boot, "kernel_boot_id", lambda: "first")
    start(tmp_path, metadata="raft")
    raft_log = RaftLog.open(RealDisk(), str(tmp_path / "__yak_metadata"), 1_000)
    for _ in range(3):
        raft_log.append(command_batch(StoreRequest("bootstrap", {}), VolatileState(), 1_000), 1, 1_000)
    [path] = Path(raft_log.folder).glob("*.log")
    damaged = bytearray(path.read_bytes())
    damaged[100] ^= 1
    path.write_bytes(damaged)
    with pytest.raises(StartRefused) as refused:
        start(tmp_path, metadata="raft")
    assert refused.value.code == "quorum-log-unreadable"
    assert path.read_bytes() == damaged
    monkeypatch.setattr(boot, "kernel_boot_id", lambda: "second")
    start(tmp_path, metadata="raft")
    assert path.read_bytes() == b""


def test_damaged_copy_of_the_metadata_is_moved_aside_without_the_votes_of_a_voter(tmp_path):
    start(tmp_path, metadata="raft")
    folder = tmp_path / "__yak_metadata"
    raft_log = RaftLog.open(RealDisk(), str(folder), 1_000)
    raft_log.append(command_batch(StoreRequest("bootstrap", {}), VolatileState(), 1_000), 1, 1_000)
    (folder / "quorum-state").write_bytes(ElectionState(5, 2).encode())
    for name in ("snapshot", f"{1:020d}.log"):
        (folder / name).write_bytes(b"damaged")
    with pytest.raises(StartRefused, match="cannot be read") as refused:
        start(tmp_path, metadata="raft")
    assert refused.value.code == "metadata-unreadable"
    advice = refused.value.try_[-1].partition("   ")[0]
    subprocess.run(advice, shell=True, check=True)
    quorum = start(tmp_path, metadata="raft")[0].quorum
    assert quorum is not None
    assert (quorum.election, quorum.log.end_offset) == (ElectionState(5, 2), 1)


def test_rack_is_part_of_the_broker_identity(tmp_path):
    _, identity = start(tmp_path, rack="zone-a", role="follower")
    assert (identity.rack, identity.role) == ("zone-a", "follower")  # type: ignore[attr-defined]
