import contextlib
import ctypes
import errno
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import Mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from yak.limits import PEERS_RESERVED
from yak.ports.disk import Disk, DiskFull
from yak.server import cached_reads, descriptors, write_back
from yak.server.descriptors import DescriptorPool, PooledFile, share_out
from yak.server.disk import RealDisk


@pytest.fixture
def disk() -> Iterator[RealDisk]:
    real = RealDisk(max_open_files=8)
    yield real
    real.pool.close_all()


@pytest.fixture
def eager() -> Iterator[RealDisk]:
    """A disk that writes back every 1,000 bytes."""
    real = RealDisk(max_open_files=8, write_back_every_bytes=1000)
    yield real
    real.pool.close_all()


def pooled(disk: RealDisk, path: Path) -> PooledFile:
    file = disk.open(str(path), create=True)
    assert isinstance(file, PooledFile)
    return file


def test_real_disk_implements_the_disk_port(disk):
    port: Disk = disk
    assert port is disk


def test_appended_buffers_are_read_back_in_order(disk, tmp_path):
    file = disk.open(f"{tmp_path}/a.log", create=True)
    assert file.append([b"one", memoryview(b"two"), bytearray(b"three")]) == 11
    assert file.append([b"4"]) == 1
    assert file.size() == 12
    assert file.read(100, 0) == b"onetwothree4"
    assert file.read(3, 3) == b"two"
    assert file.read(5, 12) == b""


def test_more_buffers_than_iov_max_are_all_written(disk, tmp_path):
    file = disk.open(f"{tmp_path}/a.log", create=True)
    pieces = [bytes([index % 251]) * 3 for index in range(descriptors.IOV_MAX * 2 + 5)]
    assert file.append(pieces) == len(pieces) * 3
    assert file.read(1 << 20, 0) == b"".join(pieces)


def test_an_absent_file_is_not_opened_without_create(disk, tmp_path):
    with pytest.raises(FileNotFoundError):
        disk.open(f"{tmp_path}/absent")


def test_many_files_live_on_few_descriptors(disk, tmp_path):
    files = [disk.open(f"{tmp_path}/{number}", create=True) for number in range(50)]
    for round_number in range(3):
        for number, file in enumerate(files):
            file.append([f"{round_number}:{number};".encode()])
    assert len(disk.pool._open) <= 8
    for number, file in enumerate(files):
        assert file.read(100, 0) == f"0:{number};1:{number};2:{number};".encode()
    assert len(disk.pool._open) <= 8


def test_a_descriptor_in_use_is_never_closed(disk, tmp_path):
    """Readers and appenders of many files in threads, with a pool far too small: no byte lands in another file."""
    files = [disk.open(f"{tmp_path}/{number}", create=True) for number in range(24)]
    errors: list[BaseException] = []

    def work(mine: int) -> None:
        try:
            for round_number in range(150):
                number = mine + 3 * (round_number % 8)
                files[number].append([bytes([number]) * 64])
                other = files[(number + round_number) % 24]
                data = other.read(4096, 0)
                assert not data or set(data) == {files.index(other)}
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(mine,)) for mine in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    for number, file in enumerate(files):
        assert set(file.read(1 << 20, 0)) == {number}


def test_a_closed_file_opens_again(disk, tmp_path):
    file = disk.open(f"{tmp_path}/a", create=True)
    file.append([b"x"])
    file.close()
    assert len(disk.pool._open) == 0
    assert file.size() == 1
    file.append([b"y"])
    assert file.read(10, 0) == b"xy"


def test_renamed_file_remains_usable_under_its_new_name(disk, tmp_path):
    file = disk.open(f"{tmp_path}/a", create=True)
    file.append([b"x"])
    disk.rename(f"{tmp_path}/a", f"{tmp_path}/b")
    assert file.path == f"{tmp_path}/b"
    file.close()
    file.append([b"y"])
    assert (tmp_path / "b").read_bytes() == b"xy"
    assert disk.open(f"{tmp_path}/b") is file


def test_file_renamed_while_it_is_opened_is_not_the_one_that_takes_its_name(disk, tmp_path, monkeypatch):
    """Compaction and moves put another file in the place of one that threads read."""
    old, new = (disk.open(f"{tmp_path}/{name}", create=True) for name in ("0.log", "0.log.swap"))
    old.append([b"old"])
    new.append([b"new"])
    old.close()
    real_open = os.open

    def open_late(path: str, *arguments: int) -> int:
        monkeypatch.undo()
        disk.rename(f"{tmp_path}/0.log", f"{tmp_path}/0.log.deleted")
        disk.rename(f"{tmp_path}/0.log.swap", f"{tmp_path}/0.log")
        return real_open(path, *arguments)

    monkeypatch.setattr(os, "open", open_late)
    assert old.read(3, 0) == b"old"
    assert new.read(3, 0) == b"new"


def test_files_below_a_renamed_directory_remain_usable(disk, tmp_path):
    disk.make_directory(f"{tmp_path}/t-0/deep")
    shallow = disk.open(f"{tmp_path}/t-0/a", create=True)
    deep = disk.open(f"{tmp_path}/t-0/deep/b", create=True)
    disk.rename(f"{tmp_path}/t-0", f"{tmp_path}/t-0.deleted")
    shallow.close()
    deep.close()
    shallow.append([b"s"])
    deep.append([b"d"])
    assert (tmp_path / "t-0.deleted" / "a").read_bytes() == b"s"
    assert (tmp_path / "t-0.deleted" / "deep" / "b").read_bytes() == b"d"


def test_removed_file_is_not_found_by_its_handle_and_new_for_the_next_handle(disk, tmp_path):
    old = disk.open(f"{tmp_path}/a", create=True)
    old.append([b"old"])
    disk.remove(f"{tmp_path}/a")
    disk.remove(f"{tmp_path}/a")
    with pytest.raises(FileNotFoundError):
        old.read(10, 0)
    new = disk.open(f"{tmp_path}/a", create=True)
    new.append([b"new"])
    assert new.read(10, 0) == b"new"
    with pytest.raises(FileNotFoundError):
        old.append([b"ghost"])


def test_removing_a_tree_gives_back_its_descriptors(disk, tmp_path):
    disk.make_directory(f"{tmp_path}/t-0")
    file = disk.open(f"{tmp_path}/t-0/a", create=True)
    file.append([b"x"])
    disk.remove_tree(f"{tmp_path}/t-0")
    disk.remove_tree(f"{tmp_path}/t-0")
    assert len(disk.pool._open) == 0
    assert not disk.exists(f"{tmp_path}/t-0")


def test_replacing_a_file_is_seen_by_a_new_handle(disk, tmp_path):
    path = f"{tmp_path}/checkpoint"
    disk.write_file(path, b"1")
    assert disk.open(path).read(10, 0) == b"1"
    disk.write_file_lazily(path, b"22")
    assert disk.open(path).read(10, 0) == b"22"
    assert disk.read_file(path) == b"22"
    assert disk.names(str(tmp_path)) == ["checkpoint"]


def test_truncate_shortens_the_file_and_appends_continue_from_there(disk, tmp_path):
    file = disk.open(f"{tmp_path}/a", create=True)
    file.append([b"0123456789"])
    file.truncate(4)
    file.append([b"x"])
    assert file.read(100, 0) == b"0123x"


def test_a_short_write_is_finished(disk, tmp_path, monkeypatch):
    file = disk.open(f"{tmp_path}/a", create=True)
    real_writev = os.writev
    monkeypatch.setattr(os, "writev", lambda fd, buffers: real_writev(fd, [bytes(memoryview(buffers[0])[:2])]))
    assert file.append([b"abc", b"", b"defgh"]) == 8
    monkeypatch.undo()
    assert file.read(100, 0) == b"abcdefgh"


def test_a_failed_write_is_cut_back(disk, tmp_path, monkeypatch):
    file = disk.open(f"{tmp_path}/a", create=True)
    file.append([b"kept"])
    real_writev = os.writev
    calls = []

    def full_after_two_bytes(fd: int, buffers: list[bytes]) -> int:
        calls.append(1)
        if len(calls) > 1:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real_writev(fd, [buffers[0][:2]])

    monkeypatch.setattr(os, "writev", full_after_two_bytes)
    with pytest.raises(OSError, match="No space"):
        file.append([b"lost", b"too"])
    monkeypatch.undo()
    assert file.read(100, 0) == b"kept"
    file.append([b"!"])
    assert file.read(100, 0) == b"kept!"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full")
def test_a_full_device_raises_enospc(disk):
    file = disk.open("/dev/full")
    with pytest.raises(OSError, match="No space") as caught:
        file.append([b"x"])
    assert caught.value.errno == errno.ENOSPC


def test_file_that_finds_no_room_at_its_creation_is_disk_full_and_can_be_created_later(disk, tmp_path, monkeypatch):
    def full(path: str, *_: object, **__: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)

    monkeypatch.setattr(os, "open", full)
    with pytest.raises(DiskFull):
        disk.open(f"{tmp_path}/a", create=True)
    monkeypatch.undo()
    assert disk.names(str(tmp_path)) == []
    disk.open(f"{tmp_path}/a", create=True).append([b"kept"])
    assert disk.read_file(f"{tmp_path}/a") == b"kept"


def test_cached_reads_equal_plain_ones(disk, tmp_path):
    file = disk.open(f"{tmp_path}/a", create=True)
    data = os.urandom(300_000)
    file.append([data])
    for size, position in ((10, 0), (16_384, 5), (200_000, 77), (400_000, 100), (10, 300_000)):
        assert file.read_cached(size, position) == data[position : position + size]


def test_cached_read_of_uncached_file_returns_none(disk, tmp_path, monkeypatch):
    file = disk.open(f"{tmp_path}/a", create=True)
    file.append([b"x" * 100])

    def cold(*_: object) -> int:
        raise BlockingIOError(errno.EAGAIN, "cold")

    monkeypatch.setattr(os, "preadv", cold)
    assert file.read_cached(10, 0) is None


def test_a_file_system_without_nowait_is_remembered(disk, tmp_path, monkeypatch):
    calls = []

    def unsupported(*_: object) -> int:
        calls.append(1)
        raise OSError(errno.EOPNOTSUPP, "no")

    monkeypatch.setattr(os, "preadv", unsupported)
    monkeypatch.setattr(cached_reads, "_plain_devices", set())
    for name in ("a", "b"):
        file = disk.open(f"{tmp_path}/{name}", create=True)
        file.append([b"hello"])
        assert file.read_cached(5, 0) == b"hello"
        assert file.read_cached(5, 0) == b"hello"
    assert len(calls) == 1


def test_the_lock_keeps_a_second_process_out(disk, tmp_path):
    lock = disk.lock(f"{tmp_path}/.lock")
    with pytest.raises(BlockingIOError, match=str(os.getpid())):
        disk.lock(f"{tmp_path}/.lock")
    probe = (
        "import sys\nfrom yak.server.disk import RealDisk\n"
        "try: RealDisk(max_open_files=4).lock(sys.argv[1])\n"
        "except BlockingIOError as error: print('held', error)\n"
    )
    output = subprocess.run([sys.executable, "-c", probe, f"{tmp_path}/.lock"], capture_output=True, text=True).stdout
    assert f"held by process {os.getpid()}" in output
    lock.release()
    lock.release()
    disk.lock(f"{tmp_path}/.lock").release()


def test_listings_are_sorted(disk, tmp_path):
    for name in ("b", "a", "c"):
        disk.write_file_lazily(f"{tmp_path}/{name}", name.encode() * 3)
    disk.make_directory(f"{tmp_path}/0")
    assert disk.names(str(tmp_path)) == ["0", "a", "b", "c"]
    assert disk.file_sizes(str(tmp_path)) == [("a", 3), ("b", 3), ("c", 3)]
    assert disk.is_directory(f"{tmp_path}/0")
    assert 0 < disk.free_bytes(str(tmp_path)) <= disk.total_bytes(str(tmp_path))


def test_append_succeeds_while_the_system_starts_no_thread(eager, tmp_path, monkeypatch):
    file = pooled(eager, tmp_path / "a.log")
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", Mock(side_effect=RuntimeError("can't start new thread")))
        assert file.append([bytes(1000)]) == 1000
    assert file.append([bytes(1000)]) == 1000
    wait_for_round(eager, 1)


def test_write_back_runs_in_its_thread_after_enough_bytes(eager, tmp_path):
    file = pooled(eager, tmp_path / "a")
    started: list[str] = []
    done = threading.Event()
    original = eager.write_back._write_out

    def noted(dirty: PooledFile) -> None:
        original(dirty)
        started.append(threading.current_thread().name)
        done.set()

    eager.write_back._write_out = noted  # type: ignore[method-assign]
    file.append([bytes(999)])
    assert not done.wait(0.02)
    file.append([bytes(2)])
    assert done.wait(60)
    assert started == ["write-back"]


def test_failed_write_back_fails_the_next_sync_and_append(disk, tmp_path):
    file = pooled(disk, tmp_path / "a")
    file.append([b"x"])
    file.failure = OSError(errno.EIO, "Input/output error")
    with pytest.raises(OSError, match="Input/output"):
        file.sync()
    with pytest.raises(OSError, match="Input/output"):
        file.append([b"y"])


def test_failed_write_back_is_found_after_a_sync_of_the_file_system(disk, tmp_path):
    file = pooled(disk, tmp_path / "a")
    file.append([b"x"])
    disk.sync_file_system(str(tmp_path))
    file.check_synced()
    file.failure = OSError(errno.EIO, "Input/output error")
    with pytest.raises(OSError, match="Input/output"):
        file.check_synced()
    disk.remove(str(tmp_path / "a"))
    with pytest.raises(FileNotFoundError):
        file.check_synced()


def test_sync_of_a_file_system_that_is_gone_fails(disk, tmp_path):
    with pytest.raises(OSError, match="gone"):
        disk.sync_file_system(str(tmp_path / "gone"))


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.EPERM, errno.EIO])
def test_write_back_where_the_system_call_is_refused_syncs_the_file(disk, tmp_path, monkeypatch, number):
    file, synced = pooled(disk, tmp_path / "a"), list[int]()
    file.append([b"x"])

    def refuse(*_: int) -> int:
        ctypes.set_errno(number)
        return -1

    monkeypatch.setattr(write_back, "_sync_file_range", refuse)
    monkeypatch.setattr(write_back, "sync_data", synced.append)
    disk.write_back.request()
    wait_for_round(disk, 1)
    assert (synced, file.failure is None) == (([], False) if number == errno.EIO else ([file.fd], True))


@pytest.mark.parametrize("fails", [False, True])
def test_descriptor_of_a_file_removed_during_an_append_is_closed_when_the_append_ends(
    disk, tmp_path, monkeypatch, fails
):
    file = pooled(disk, tmp_path / "a")
    file.append([b"x"])
    fd, real = file.fd, os.writev

    def removed_meanwhile(number: int, buffers: list[bytes]) -> int:
        disk.remove(file.path)
        assert file.fd == fd
        if fails:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return real(number, buffers)

    monkeypatch.setattr(descriptors.os, "writev", removed_meanwhile)
    with contextlib.suppress(OSError):
        file.append([b"y"])
    assert (file.fd, len(disk.pool._open)) == (-1, 0)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)


def fail_to_open(monkeypatch: pytest.MonkeyPatch, path: str, number: int) -> None:
    """Let the pool fail to open one file."""
    real = os.open

    def opened(name: str, flags: int, mode: int = 0o777) -> int:
        if name == path:
            raise OSError(number, os.strerror(number), name)
        return real(name, flags, mode)

    monkeypatch.setattr(descriptors.os, "open", opened)


def wait_for_round(disk: RealDisk, count: int) -> None:
    deadline = time.monotonic() + 30
    while disk.write_back.rounds < count:
        assert time.monotonic() < deadline, "the write-back thread ran no round"
        time.sleep(0.001)


def two_files(disk: RealDisk, tmp_path: Path) -> tuple[PooledFile, PooledFile]:
    """A file with appended bytes that lost its descriptor, and one for appends."""
    bad, good = pooled(disk, tmp_path / "bad"), pooled(disk, tmp_path / "good")
    bad.append([b"x"])
    bad.close()
    return bad, good


def test_write_back_of_a_file_that_fails_to_open_leaves_the_other_files_theirs(eager, tmp_path, monkeypatch):
    bad, good = two_files(eager, tmp_path)
    started: list[int] = []
    monkeypatch.setattr(write_back, "start_write_out", started.append)
    with monkeypatch.context() as patch:
        fail_to_open(patch, bad.path, errno.EIO)
        good.append([bytes(1000)])
        wait_for_round(eager, 1)
    good.append([bytes(1000)])
    wait_for_round(eager, 2)
    assert started == [good.fd, good.fd]
    with pytest.raises(OSError, match="Input/output"):
        bad.append([b"y"])


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
def test_write_back_without_a_free_descriptor_comes_in_a_later_round(disk, tmp_path, monkeypatch, number):
    bad, good = two_files(disk, tmp_path)
    good.append([b"y"])
    with monkeypatch.context() as patch:
        fail_to_open(patch, bad.path, number)
        disk.write_back.request()
        wait_for_round(disk, 1)
    assert bad.failure is None
    started: list[int] = []
    monkeypatch.setattr(write_back, "start_write_out", started.append)
    disk.write_back.request()
    wait_for_round(disk, 2)
    assert bad.fd in started


def test_write_back_of_a_removed_path_is_no_failure_of_the_file(disk, tmp_path):
    bad, _ = two_files(disk, tmp_path)
    os.unlink(bad.path)
    disk.write_back.request()
    wait_for_round(disk, 1)
    assert bad.failure is None


def test_append_during_its_write_back_is_written_back_by_the_next_round(disk, tmp_path, monkeypatch):
    file = pooled(disk, tmp_path / "a")
    started: list[int] = []

    def start(fd: int) -> None:
        started.append(fd)
        if len(started) == 1:
            file.append([b"y"])

    monkeypatch.setattr(write_back, "start_write_out", start)
    file.append([b"x"])
    for count in (1, 2, 3):
        disk.write_back.request()
        wait_for_round(disk, count)
    assert started == [file.fd, file.fd]


def test_append_between_its_write_and_its_count_is_written_back_by_a_later_round(disk, tmp_path, monkeypatch):
    """Another thread's append begins a round while this one has written and is not counted yet."""
    file = pooled(disk, tmp_path / "a")
    started: list[int] = []
    monkeypatch.setattr(write_back, "start_write_out", started.append)
    file.append([b"x"])

    class Files(type(disk.write_back.files)):  # type: ignore[misc]
        """Begins a round at the moment at which an append adds its file."""

        def __setitem__(self, key: PooledFile, value: None) -> None:
            disk.write_back.request()
            wait_for_round(disk, 1)
            super().__setitem__(key, value)

    disk.write_back.files = Files(disk.write_back.files)
    file.append([b"y"])
    disk.write_back.request()
    wait_for_round(disk, 2)
    assert started == [file.fd, file.fd]


@settings(max_examples=40)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 5), st.sampled_from(["append", "read", "cut", "close", "rename"]), st.binary(max_size=40)
        ),
        max_size=40,
    )
)
def test_files_behave_like_byte_strings(tmp_path_factory, actions):
    directory = tmp_path_factory.mktemp("disk")
    disk = RealDisk(max_open_files=2)
    files = [disk.open(f"{directory}/{number}", create=True) for number in range(6)]
    model = [b""] * 6
    for number, action, data in actions:
        if action == "append":
            files[number].append([data, data])
            model[number] += data + data
        elif action == "cut":
            size = len(model[number]) // 2
            files[number].truncate(size)
            model[number] = model[number][:size]
        elif action == "close":
            files[number].close()
        elif action == "rename":
            disk.rename(files[number].path, files[number].path + "x")
        assert files[number].read(1000, 0) == model[number]
        assert files[number].size() == len(model[number])
    disk.pool.close_all()


def test_the_descriptor_pool_without_the_interpreter_lock_is_refused(monkeypatch):
    monkeypatch.setattr(sys, "_is_gil_enabled", lambda: False, raising=False)
    with pytest.raises(AssertionError, match="PYTHON_GIL=1"):
        DescriptorPool(10)
    monkeypatch.setattr(sys, "_is_gil_enabled", lambda: True)
    DescriptorPool(10)


@pytest.mark.parametrize(
    ("limit", "files", "clients"), [(256, 72, 72), (1024, 432, 432), (4096, 1936, 1936), (524_288, 4096, 519_968)]
)
def test_open_files_are_shared_out_between_logs_and_clients_whatever_their_limit(limit, files, clients):
    shares = share_out(limit)
    assert (shares.files, shares.clients) == (files, clients)
    assert shares.files + shares.clients + shares.peers_proving + PEERS_RESERVED < limit
