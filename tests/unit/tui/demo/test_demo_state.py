"""The state of the demo by the lines of its supervisor."""

from dataclasses import asdict

from yak.local.demo.delivery_statistics import Counts
from yak.tui.demo.run import DemoRun
from yak.tui.demo.show import summary
from yak.tui.demo.state import DemoState


def counts(time_ms: int, acknowledged: int, kind: str = "counts", **more: object) -> dict[str, object]:
    fields = asdict(Counts(acknowledged=acknowledged, read=acknowledged))
    return {"kind": kind, "time_ms": time_ms, "gone": [], "last_error": "", **fields, **more}


def test_demo_state_has_the_step_then_the_addresses() -> None:
    state = DemoState()
    state.take({"kind": "step", "time_ms": 1, "step": "starting broker 2 of 3"})
    assert (state.phase, state.step) == ("starting", "starting broker 2 of 3")
    state.take({"kind": "ready", "time_ms": 2, "bootstrap": "b:1", "http": {"1": "http://b:2"}})
    assert (state.phase, state.bootstrap, state.http) == ("running", "b:1", {1: "http://b:2"})


def test_the_rate_is_of_the_last_two_seconds() -> None:
    state = DemoState()
    for second in range(6):
        state.take(counts(second * 1000, second * 500 if second < 3 else 1000))
    assert state.rate == 0.0
    assert state.counts.acknowledged == 1000
    state.take(counts(6000, 1300))
    assert state.rate == 150.0


def test_demo_state_records_pauses() -> None:
    state = DemoState()
    for partition, start, end in ((0, 1000.0, 1100.0), (1, 2000.0, 2300.0), (0, 3000.0, 3050.0)):
        state.take(
            {"kind": "pause", "time_ms": 1, "partition": f"orders-{partition}", "from_ms": start, "until_ms": end}
        )
    found = [(each.partition, each.length_ms) for each in state.pauses]
    assert found == [("orders-0", 100.0), ("orders-1", 300.0), ("orders-0", 50.0)]


def test_supervisor_error_and_unreported_end_fail_the_demo() -> None:
    state = DemoState()
    state.take({"kind": "error", "time_ms": 1, "code": "no-redis-server", "message": "m", "why": "w", "try_": ["t"]})
    state.take_end(1)
    assert state.phase == "failed"
    assert state.error is not None
    assert (state.error.code, state.error.why, state.error.try_) == ("no-redis-server", "w", ("t",))
    killed = DemoState()
    killed.take_end(-9)
    assert killed.error is not None
    assert killed.error.code == "demo-ended"
    assert "-9" in killed.error.why


def test_requested_end_is_no_error() -> None:
    state = DemoState()
    state.take(counts(1, 5, kind="ended"))
    state.take_end(0)
    assert (state.phase, state.error) == ("ended", None)


def test_summary_counts_unread_records_as_lost_only_after_a_full_read() -> None:
    run = DemoRun(data_dir="/nowhere")
    run.state.take(counts(1, 100, kind="ended", read=99, waiting=1, oldest_waiting_ms=2000.0))
    assert summary(run)[0] == (
        "demo: acknowledged 100, read 99, lost 0, duplicated 0, reordered 0, not read in the end 1"
    )
    run.state.take(counts(1, 100, kind="ended"))
    assert summary(run)[0] == "demo: acknowledged 100, read 100, lost 0, duplicated 0, reordered 0"
    assert summary(run)[-1] == "its cluster is stopped, and its data deleted"
    run.keep = True
    assert summary(run)[-1].endswith("yak down --purge --data-dir /nowhere")
