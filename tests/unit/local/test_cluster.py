"""A local cluster's life with a stand-in for the broker: quick, and able to fail in every way one wants."""

import contextlib
import errno
import json
import os
import shutil
import signal
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.errors import raises_error
from tests.unit.local.local_clusters import watch
from yak.errors import StartRefused, UsageError, WaitTimeout, YakError
from yak.local import cluster_start
from yak.local.broker_process import BrokerSpec, StartingBroker
from yak.local.cluster import LocalCluster, UpSettings
from yak.local.processes import end_processes_of, identify, is_running, processes_of
from yak.local.signal_event import SignalEvent
from yak.local.state import load, locked, save, state_path
from yak.local.status import ClusterStatus
from yak.local.supervise import LogFollower

pytestmark = pytest.mark.usefixtures("stand_in")


def running(status: ClusterStatus) -> bool:
    return status.redis_running is True and [each.state for each in status.brokers] == ["running"]


def test_up_starts_redis_and_broker_and_down_stops_both(cluster):
    result = cluster.up(UpSettings(port=0))
    assert result.started == (1,)
    assert running(result.status)
    assert result.status.cluster_id == "stand-in"
    state = load(cluster.data_dir)
    assert state is not None
    redis, broker = state.redis.process, state.brokers[0].process
    assert redis is not None
    assert broker is not None
    assert cluster.down() == ()
    assert not is_running(redis)
    assert not is_running(broker)
    assert [each.state for each in cluster.status().brokers] == ["stopped"]


def test_up_twice_starts_nothing_the_second_time(cluster):
    first = cluster.up(UpSettings(port=0))
    second = cluster.up(UpSettings())
    assert second.started == ()
    assert second.status == first.status


def test_other_settings_for_a_running_cluster_are_refused(cluster):
    cluster.up(UpSettings(port=0))
    for settings in (UpSettings(port=1), UpSettings(configs=("a=b",)), UpSettings(redis_url="redis://h:1/0")):
        with raises_error(UsageError, "cluster-running"):
            cluster.up(settings)


def test_a_killed_broker_is_dead_and_up_or_restart_brings_it_back(cluster):
    address = cluster.up(UpSettings(port=0)).status.brokers[0].address
    cluster.kill(1)
    assert cluster.status().brokers[0].state == "dead"
    with pytest.raises(YakError, match="does not run"):
        cluster.kill(1)
    assert cluster.restart(1).state == "running"
    cluster.kill(1)
    assert cluster.up(UpSettings()).started == (1,)
    assert cluster.status().brokers[0].address == address


@pytest.mark.parametrize("hard", [False, True])
def test_restart_on_a_full_disk_leaves_the_broker_running(cluster, monkeypatch, hard):
    before = cluster.up(UpSettings(port=0)).status

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("yak.local.state.replace_file", refuse)
    with pytest.raises(OSError, match="No space left on device"):
        cluster.restart(1, hard=hard)
    assert cluster.status() == before


def test_restart_of_a_node_that_is_not_there_names_those_that_are(cluster):
    cluster.up(UpSettings(port=0))
    with pytest.raises(UsageError, match="no node 7") as caught:
        cluster.restart(7)
    assert caught.value.why == "its nodes: 1"


@pytest.mark.parametrize(("how", "slug"), [("refuses", "data-dir-locked"), ("crashes", "broker-ended")])
def test_a_broker_that_ends_leaves_no_redis_running_and_its_reason_is_raised(cluster, monkeypatch, how, slug):
    monkeypatch.setenv("STAND_IN", how)
    with raises_error(StartRefused, slug) as caught:
        cluster.up(UpSettings(port=0))
    assert caught.value.why
    state = load(cluster.data_dir)
    assert state is not None
    assert state.redis.process is None
    assert state.brokers[0].process is None
    monkeypatch.setenv("STAND_IN", "well")
    assert running(cluster.up(UpSettings(port=0)).status)


def test_a_broker_that_is_never_ready_is_killed(tmp_path, monkeypatch):
    monkeypatch.setenv("STAND_IN", "hangs")
    spec = BrokerSpec(1, "127.0.0.1", 0, str(tmp_path / "d"), "redis://unused:1/0")
    starting = StartingBroker(spec, log_path=str(tmp_path / "log"), ready_file=str(tmp_path / "run" / "ready.json"))
    with pytest.raises(WaitTimeout) as caught:
        starting.wait_ready(0.3)
    assert caught.value.code == "broker-not-ready"
    assert not is_running(starting.process)


def test_a_ready_file_of_an_earlier_start_is_not_believed(tmp_path, monkeypatch):
    monkeypatch.setenv("STAND_IN", "hangs")
    ready = tmp_path / "ready.json"
    ready.write_text(json.dumps({"node_id": 1, "address": "127.0.0.1:1", "pid": os.getpid()}))
    spec = BrokerSpec(1, "127.0.0.1", 0, str(tmp_path / "d"), "redis://unused:1/0")
    with pytest.raises(WaitTimeout):
        StartingBroker(spec, log_path=str(tmp_path / "log"), ready_file=str(ready)).wait_ready(0.2)


def test_taken_default_port_is_replaced_and_taken_requested_port_is_refused(cluster, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        taken = listener.getsockname()[1]
        monkeypatch.setattr("yak.local.cluster_plan.DEFAULT_PORT", taken)
        with raises_error(UsageError, "port-in-use"):
            cluster.up(UpSettings(port=taken))
        result = cluster.up(UpSettings())
    assert result.taken_ports == (taken,)
    assert result.status.bootstrap != f"127.0.0.1:{taken}"


def test_an_ephemeral_cluster_is_deleted_when_it_is_stopped(cluster):
    cluster.up(UpSettings(port=0, ephemeral=True))
    cluster.down()
    assert not os.path.exists(cluster.data_dir)


def test_discarded_cluster_is_killed_and_not_waited_for(cluster, monkeypatch):
    """A second Ctrl+C during an orderly stop left a broker and Redis of yak demo running."""
    cluster.up(UpSettings(port=0, brokers=2))
    monkeypatch.setattr("yak.local.processes.stop_all", lambda *_, **__: pytest.fail("waits for an orderly stop"))
    cluster.discard()
    assert processes_of(cluster.data_dir) == []
    assert not os.path.exists(cluster.data_dir)


def test_a_file_in_place_of_the_directory_is_refused(tmp_path):
    (tmp_path / "file").write_text("mine")
    cluster = LocalCluster(str(tmp_path / "file"))
    LogFollower(cluster.log_paths())  # as `yak up` makes it before it starts the cluster
    with raises_error(StartRefused, "data-dir-not-writable"):
        cluster.up(UpSettings(port=0))
    assert (tmp_path / "file").read_text() == "mine"


def test_external_redis_is_used_and_never_stopped(cluster):
    result = cluster.up(UpSettings(port=0, redis_url="redis://redis.example:6379/3"))
    assert result.status.redis_url == "redis://redis.example:6379/3"
    assert result.status.redis_running is None
    assert "with redis://redis.example:6379/3" in Path(cluster.log_path("node-1")).read_text()
    cluster.down()


def test_external_redis_is_refused_for_a_cluster_with_its_own(cluster):
    """It was ignored without a word. After a first start that failed there is nothing to keep."""
    cluster.up(UpSettings(port=0))
    cluster.down()
    with raises_error(UsageError, "metadata-elsewhere") as caught:
        cluster.up(UpSettings(redis_url="redis://redis.example:6379/3"))
    assert "its own Redis, not in redis://redis.example:6379/3" in caught.value.message
    state = load(cluster.data_dir)
    assert state is not None
    state.cluster_id = None
    save(state)
    assert cluster.up(UpSettings(port=0, redis_url="redis://redis.example:6379/3")).status.redis_running is None


def test_supervisor_prints_lines_reports_deaths_and_ends_on_request(cluster):
    cluster.up(UpSettings(port=0, supervised=True))
    lines: list[tuple[str, str]] = []
    changes: list[tuple[int, str]] = []
    stop_requested = SignalEvent()
    follower = LogFollower(cluster.log_paths())

    def changed(node_id: int, condition: str) -> None:
        changes.append((node_id, condition))
        with open(cluster.log_path("node-1"), "a") as log:
            log.write("a new line\nhalf")

    def line(name: str, text: str) -> None:
        lines.append((name, text))
        stop_requested.set()

    cluster.kill(1)
    state_seen_alive = cluster.restart(1)
    assert state_seen_alive.pid is not None
    threading.Timer(0.3, os.kill, (state_seen_alive.pid, signal.SIGKILL)).start()
    assert watch(cluster, stop_requested, on_line=line, on_change=changed)
    assert changes == [(1, "dead")]
    assert ("node-1", "a new line") in lines
    assert ("node-1", "a new line") in follower.new_lines()
    assert identify(state_seen_alive.pid) is None


def test_the_supervisor_ends_by_itself_when_everything_was_stopped_elsewhere(cluster):
    cluster.up(UpSettings(port=0))
    cluster.down()
    nothing: list[object] = []
    assert not watch(cluster, SignalEvent(), on_change=lambda *change: nothing.append(change))
    assert nothing == []


def test_processes_of_a_deleted_directory_are_stopped_by_the_supervisor(cluster):
    """yak up in the foreground said that they stopped, and left them running."""
    broker = cluster.up(UpSettings(port=0)).status.brokers[0]
    redis_pid = cluster.redis_pid()
    assert not cluster.end_orphans()
    shutil.rmtree(cluster.data_dir)
    assert not watch(cluster, SignalEvent())
    assert cluster.end_orphans()
    assert [identify(pid or 0) for pid in (broker.pid, redis_pid)] == [None, None]
    assert not cluster.end_orphans()


def test_a_copied_directory_is_another_cluster_and_never_stops_the_first(cluster, tmp_path):
    first = cluster.up(UpSettings(port=0)).status.brokers[0]
    copy = LocalCluster(str(tmp_path / "copy"))
    shutil.copytree(cluster.data_dir, copy.data_dir, ignore=shutil.ignore_patterns("*.sock"))
    assert [broker.state for broker in copy.status().brokers] == ["dead"]
    copy.discard()
    assert cluster.status().brokers[0] == first
    assert first.state == "running"


def test_cluster_of_a_directory_that_was_moved_while_it_ran_is_stopped_there(cluster, tmp_path):
    """yak down said that it stopped, the brokers ran on, and yak up started a second Redis on the same file."""
    before = cluster.up(UpSettings(port=0)).status.brokers
    moved = LocalCluster(str(tmp_path / "moved"))
    os.rename(cluster.data_dir, moved.data_dir)
    try:
        assert moved.status().brokers == before
        assert moved.up(UpSettings()).started == ()
        moved.down()
        assert identify(before[0].pid or 0) is None
        again = moved.up(UpSettings()).status
        assert (running(again), again.redis_url) == (True, f"unix://{moved.data_dir}/redis/redis.sock")
    finally:
        end_processes_of(cluster.data_dir)
        moved.discard()


@pytest.mark.parametrize(
    ("data_dir", "node_dir", "node_id"), [("/other", "/other/..", 1), ("", "", 1), ("", "", "x/../..")]
)
def test_no_other_folder_is_deleted_for_a_cluster_that_names_it(cluster, tmp_path, data_dir, node_dir, node_id):
    """yak down --purge deleted what the file of a cluster from elsewhere calls a broker's directory."""
    cluster.up(UpSettings(port=0))
    cluster.down()
    keep = tmp_path / "keep"
    keep.mkdir()
    Path(cluster.data_dir, "node-x").mkdir()
    known = json.loads(state_path(cluster.data_dir).read_text())
    known["data_dir"] = data_dir or cluster.data_dir
    known["brokers"][0] |= {"data_dir": node_dir or str(keep), "node_id": node_id}
    state_path(cluster.data_dir).write_text(json.dumps(known))
    with contextlib.suppress(StartRefused):
        cluster.down(purge=True)
    state_path(cluster.data_dir).unlink(missing_ok=True)
    assert keep.exists()


def test_redis_is_killed_and_started_again_and_no_broker_is_touched(cluster):
    cluster.up(UpSettings(port=0))
    before = cluster.status().brokers
    pid = cluster.redis_pid()
    assert cluster.stop_redis() == pid
    assert cluster.status().redis_running is False
    with pytest.raises(YakError, match="does not run"):
        cluster.stop_redis()
    assert cluster.start_redis() is True
    assert cluster.status().redis_running is True
    assert cluster.redis_pid() != pid
    assert cluster.start_redis() is False
    assert cluster.status().brokers == before
    cluster.down()


def test_a_dead_broker_stays_dead_when_only_redis_is_started(cluster):
    cluster.up(UpSettings(port=0))
    cluster.kill(1)
    cluster.stop_redis()
    cluster.start_redis()
    assert [each.state for each in cluster.status().brokers] == ["dead"]
    cluster.down()


def killed_up(cluster: LocalCluster, where: str, settings: UpSettings) -> None:
    """`yak up` in a process that ends as by `kill -9` once it comes to this function."""
    pid = os.fork()
    if not pid:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(where, lambda *_arguments: os._exit(9))
            cluster.up(settings)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 9


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10.0
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_broker_whose_up_was_killed_runs_once_it_is_ready(cluster):
    killed_up(cluster, "yak.local.cluster_start.wait_all_ready", UpSettings(port=0))
    wait_for(lambda: os.path.exists(os.path.join(cluster.data_dir, "run", "node-1.json")))
    (broker,) = cluster.status().brokers
    assert (broker.state, broker.address.endswith(":0")) == ("running", False)
    again = cluster.up(UpSettings())
    assert again.started == ()
    assert again.status.brokers == (broker,)


def test_broker_whose_up_was_killed_and_that_is_not_ready_is_started_again(cluster, monkeypatch):
    monkeypatch.setenv("STAND_IN", "hangs")
    killed_up(cluster, "yak.local.cluster_start.wait_all_ready", UpSettings(port=0))
    (hanging,) = cluster.status().brokers
    assert hanging.state == "starting"
    monkeypatch.setenv("STAND_IN", "well")
    again = cluster.up(UpSettings())
    assert (again.started, running(again.status)) == ((1,), True)
    assert identify(hanging.pid or 0) is None


@pytest.mark.parametrize("is_stopped", [True, False], ids=["stopped", "power-lost"])
def test_cluster_whose_up_was_killed_keeps_its_brokers(cluster, is_stopped):
    """The state did not have the cluster's id yet: the next start made a cluster of one broker of it."""
    killed_up(cluster, "yak.local.cluster_start.wait_all_ready", UpSettings(port=0, brokers=3))
    wait_for(lambda: [each.state for each in cluster.status().brokers] == ["running"] * 3)
    if is_stopped:
        cluster.down()
    else:
        end_processes_of(cluster.data_dir)
    assert [each.state for each in cluster.up(UpSettings()).status.brokers] == ["running"] * 3


def test_redis_whose_up_was_killed_is_not_started_a_second_time(cluster):
    """Two servers on one folder would both append to its file."""
    folder = os.path.join(cluster.data_dir, "redis")

    def servers() -> list[int]:
        return [pid for pid in processes_of(cluster.data_dir) if psutil.Process(pid).cwd() == folder]

    try:
        killed_up(cluster, "yak.local.redis_child._answers", UpSettings(port=0))
        wait_for(lambda: len(servers()) == 1)
        first = servers()
        again = cluster.up(UpSettings())
        assert servers() == first
        assert running(again.status)
        cluster.down()
        assert servers() == []
    finally:
        end_processes_of(cluster.data_dir)


def test_halted_broker_is_started_again_after_the_command_that_changes_the_cluster(cluster, monkeypatch):
    monkeypatch.setattr("yak.local.supervise.RESTART_SECONDS", 0.05)
    cluster.up(UpSettings(port=0, supervised=True))
    restarts: list[YakError | None] = []
    stop_requested = SignalEvent()

    def halt_while_another_command_works() -> None:
        time.sleep(0.2)
        with locked(cluster.data_dir):
            cluster.kill(1)
            with open(cluster.log_path("node-1"), "a") as log:
                log.write("ERROR   broker-halted during=TimerDue exit_code=6\n")
            time.sleep(0.5)

    def restarted(_node_id: int, error: YakError | None) -> None:
        restarts.append(error)
        if error is None:
            stop_requested.set()

    other = threading.Thread(target=halt_while_another_command_works)
    other.start()
    limit = threading.Timer(10.0, stop_requested.set)
    limit.start()
    watch(cluster, stop_requested, on_restart=restarted)
    limit.cancel()
    other.join()
    assert restarts == [None]
    assert cluster.status().brokers[0].state == "running"


@pytest.mark.parametrize("starts_again", [False, True])
def test_broker_of_a_start_that_was_killed_before_it_noted_it_is_ended(cluster, monkeypatch, starts_again):
    spawn = cluster_start._spawn

    def spawn_and_die(*arguments: Any, **more: Any) -> Any:
        spawn(*arguments, **more)
        os.kill(os.getpid(), signal.SIGKILL)

    child = os.fork()
    if not child:
        monkeypatch.setattr(cluster_start, "_spawn", spawn_and_die)
        cluster.up(UpSettings(port=0))
    os.waitpid(child, 0)
    (stray,) = processes_of(cluster.data_dir)
    if starts_again:
        cluster.up(UpSettings(port=0))
        assert identify(stray) is None
    cluster.down()
    assert processes_of(cluster.data_dir) == []
