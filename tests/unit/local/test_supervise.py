"""What `yak up` in the foreground tells of its brokers, and when it starts one again that halted."""

import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.unit.local.local_clusters import watch
from yak.errors import YakError
from yak.local.signal_event import SignalEvent
from yak.local.supervise import HEALTHY_SECONDS, RESTART_SECONDS, RESTART_SECONDS_MAX, LogFollower, Restarts

TEXT = "2026-01-31T12:00:00.123Z ERROR   broker-halted during=TimerDue in=TimerDue exit_code=6"
JSON = '{"time": "2026-01-31T12:00:00.123Z", "level": "error", "event": "broker-halted", "during": "TimerDue", "exit_code": 6}'


@pytest.mark.parametrize("line", [TEXT, JSON])
def test_restart_of_a_halted_broker_is_due_once_and_later_each_time(line):
    now = [100.0]
    restarts = Restarts(lambda _name: None, lambda: now[0])
    pause = RESTART_SECONDS
    for _ in range(10):
        restarts.note_line("node-2", line)
        now[0] += pause - 0.01
        assert restarts.take_due() == []
        now[0] += 0.02
        assert restarts.take_due() == ["node-2"]
        assert restarts.take_due() == []
        pause = min(2 * pause, RESTART_SECONDS_MAX)
    assert pause == RESTART_SECONDS_MAX


def test_restart_of_a_broker_that_was_healthy_for_a_minute_has_the_first_pause_again():
    now = [100.0]
    restarts = Restarts(lambda _name: None, lambda: now[0])

    def halt_and_restart(pause: float) -> None:
        restarts.note_line("node-2", TEXT)
        now[0] += pause - 0.01
        assert restarts.take_due() == []
        now[0] += 0.01
        assert restarts.take_due() == ["node-2"]

    halt_and_restart(RESTART_SECONDS)
    halt_and_restart(2 * RESTART_SECONDS)
    now[0] += HEALTHY_SECONDS - 0.5
    halt_and_restart(4 * RESTART_SECONDS)
    now[0] += HEALTHY_SECONDS
    halt_and_restart(RESTART_SECONDS)
    halt_and_restart(2 * RESTART_SECONDS)


def test_restart_is_not_due_for_a_broker_that_was_killed_or_names_the_event():
    restarts = Restarts(lambda _name: None, lambda: 0.0)
    restarts.note_line("node-1", 'INFO    connection-closed peer=1.2.3.4:5 reason="broker-halted"')
    restarts.note_line("node-1", "INFO    stopped node_id=1")
    assert restarts.take_due() == []


class HaltedCluster:
    """A cluster whose only broker has halted. `pids` are its processes at each look, the last one at all later looks."""

    def __init__(self, log: Path, pids: list[int | None]) -> None:
        self._log, self._pids = log, pids
        self.restarted: list[int] = []

    def log_paths(self) -> dict[str, str]:
        return {"node-1": str(self._log)}

    def status(self) -> SimpleNamespace:
        pid = self._pids.pop(0) if len(self._pids) > 1 else self._pids[0]
        state = "dead" if pid is None else "running"
        return SimpleNamespace(brokers=[SimpleNamespace(node_id=1, state=state, pid=pid)], redis_running=True)

    def restart(self, node_id: int) -> None:
        self.restarted.append(node_id)


@pytest.mark.parametrize(
    ("pids", "is_old", "restarted"),
    [([None], False, [1]), ([41, 41, 41, None], False, [1]), ([41, 42, 42, None], False, []), ([None], True, [])],
    ids=["gone", "still-there", "restarted-and-killed-by-a-user", "of-an-earlier-run"],
)
def test_broker_that_halts_before_the_first_check_is_restarted_once_its_process_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pids: list[int | None], is_old: bool, restarted: list[int]
) -> None:
    monkeypatch.setattr("yak.local.supervise.RESTART_SECONDS", 0.05)
    log = tmp_path / "node-1.log"
    log.write_text(f"INFO    ready\n{TEXT}\n" if is_old else "INFO    ready\n", "utf-8")
    cluster, stop_requested = HaltedCluster(log, list(pids)), SignalEvent()
    follower = LogFollower(cluster.log_paths())
    if not is_old:
        with log.open("a", encoding="utf-8") as more:
            more.write(f"{TEXT}\n")
    timer = threading.Timer(10.0 if restarted else 1.0, stop_requested.set)
    timer.start()
    watch(cluster, stop_requested, follower, on_restart=lambda *_: stop_requested.set())
    timer.cancel()
    assert cluster.restarted == restarted


def test_restart_that_the_disk_refuses_is_reported_and_does_not_end_the_cluster(tmp_path, monkeypatch):
    monkeypatch.setattr("yak.local.supervise.RESTART_SECONDS", 0.05)
    log = tmp_path / "node-1.log"
    log.write_text(f"{TEXT}\n", "utf-8")
    cluster, stop_requested = HaltedCluster(log, [None]), SignalEvent()
    reported: list[str] = []

    def refuse(_node_id: int) -> None:
        raise OSError(28, "No space left on device", "cluster.json")

    def restarted(_node_id: int, error: YakError | None) -> None:
        reported.append(error.message if error else "")
        stop_requested.set()

    monkeypatch.setattr(cluster, "restart", refuse)
    follower = LogFollower(cluster.log_paths())
    follower._positions["node-1"] = 0
    assert watch(cluster, stop_requested, follower, on_restart=restarted)
    assert reported == ["cluster.json: No space left on device"]


def test_log_that_is_put_aside_while_it_is_read_does_not_end_the_cluster(tmp_path, monkeypatch):
    follower = LogFollower({"node-1": str(tmp_path / "node-1.log")})
    monkeypatch.setattr("yak.local.supervise.log_file.size", lambda _: 5)
    assert follower.new_lines() == []


def test_broker_that_ended_before_the_first_check_is_reported():
    stop_asked = SignalEvent()
    reported: list[tuple[int, str]] = []
    dead = SimpleNamespace(node_id=1, state="dead", pid=None)
    cluster = SimpleNamespace(log_paths=dict, status=lambda: SimpleNamespace(brokers=[dead], redis_running=True))

    def changed(node_id: int, condition: str) -> None:
        reported.append((node_id, condition))
        stop_asked.set()

    timer = threading.Timer(5, stop_asked.set)
    timer.start()
    watch(cluster, stop_asked, on_change=changed)
    timer.cancel()
    assert reported == [(1, "dead")]
