"""The failover screen on a real cluster: what it breaks is broken, and what the cluster does then is seen."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from driving import fill_in, on_top, until, words

from yak.client.admin import Admin
from yak.ids import TopicPartition
from yak.local.failover import WriteProbe
from yak.tui.rows.failover import broker_rows
from yak.tui.widgets.dialogs import ConfirmDialog
from yak.tui.widgets.frame import Lines
from yak.tui.widgets.grid import Grid

PATIENCE_S = 30.0


def cells(app: Any, key: str) -> list[str]:
    rows = broker_rows(app.picture, app.screen_below().processes, app.fmt)
    return next(([cell.text for cell in row.cells] for row in rows if row.key == key), [])


def lines(app: Any) -> str:
    return words(app.screen_below().query_one("#failover-lines", Lines))


async def press_and_agree(pilot: Any, key: str) -> None:
    await pilot.press(key)
    await on_top(pilot, ConfirmDialog)
    await pilot.press("y")


@asynccontextmanager
async def on_failover(live: Any, topic: str) -> AsyncIterator[Any]:
    """The app, its pilot, and a partition on all three brokers that a client writes to."""
    Admin(live.bootstrap).create_topic(topic, partitions=1, replication_factor=3, configs={"min.insync.replicas": "2"})
    probe = WriteProbe(live.bootstrap, TopicPartition(topic, 0))
    probe.start()
    try:
        async with live.open_app(size=(120, 40), start="failover", fps=8.0) as (app, pilot):
            await until(pilot, lambda: (topic, 0) in app.picture.partitions and cells(app, "redis"))
            yield app, pilot, app.picture.partitions[topic, 0]
    finally:
        probe.end()


async def test_failover_screen_kills_a_leader_shows_the_election_and_restarts_the_broker(live, new_topic):
    topic = new_topic()

    async with on_failover(live, topic) as (app, pilot, partition):
        leader = partition.leader
        app.screen.query_one("#brokers", Grid).move_to(str(leader))
        assert cells(app, str(leader))[5].endswith("running")
        await press_and_agree(pilot, "K")
        await until(pilot, lambda: cells(app, str(leader))[5].endswith("dead"))
        await until(pilot, lambda: partition.leader not in (leader, None))
        await until(pilot, lambda: "first write" in lines(app))
        said = lines(app)
        for word in (f"kill -9 of broker {leader}", "detected", "fenced", "elected", f"{topic}-0  {leader} →"):
            assert word in said
        assert app.screen.drills.last.led >= {f"{topic}-0"}
        (found,) = app.screen._timelines(app.now_ms())
        times = [step.after_ms for step in found.steps()]
        assert times == sorted(times)
        assert found.first_write_ms < PATIENCE_S * 1000
        await press_and_agree(pilot, "U")
        await until(pilot, lambda: cells(app, str(leader))[5].endswith("running"))
        await until(pilot, lambda: leader in partition.isr)
        done = [line.message for line in app.picture.activity.lines if line.kind == "you"]
        where = f"--data-dir {live.local.data_dir}"
        assert done == [f"yak node kill {leader} {where}", f"yak node restart {leader} {where}"]


async def test_a_leadership_is_moved_in_order_with_writes_going_on(live, new_topic):
    topic = new_topic()

    async with on_failover(live, topic) as (app, pilot, partition):
        leader, to = partition.leader, next(node for node in partition.isr if node != partition.leader)
        app.screen.query_one("#brokers", Grid).move_to(str(leader))
        await pilot.press("F")
        await fill_in(pilot, what=f"{topic}:0", to=str(to))
        await until(pilot, lambda: partition.leader == to)
        await until(pilot, lambda: "first write" in lines(app))
        assert f"planned failover of 1 from broker {leader}" in lines(app)
        assert "moved" in lines(app)
        command = app.picture.activity.lines[-1].message
        assert any(
            line.message.startswith(f"yak failover {topic}:0 --from {leader} --to {to}  moved 1 in")
            for line in app.picture.activity.lines
        ), command


async def test_paused_broker_resumes(live, new_topic):
    async with on_failover(live, new_topic()) as (app, pilot, _partition):
        await pilot.press("j")
        await press_and_agree(pilot, "P")
        await until(pilot, lambda: cells(app, "2")[5].endswith("paused"))
        await press_and_agree(pilot, "U")
        await until(pilot, lambda: cells(app, "2")[5].endswith("running"))
