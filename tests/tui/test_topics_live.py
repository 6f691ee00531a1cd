"""Topics and replication on a cluster that runs: what is done on the screen is done to the cluster, and seen."""

import asyncio

import pytest
from driving import fill_in, on_top, texts, until, words

from yak.client.admin import Admin
from yak.client.produce import open_producer, producer_settings
from yak.errors import YakError
from yak.tui.screens.topic import TopicScreen
from yak.tui.source.kafka import delete_topic
from yak.tui.widgets.dialogs import ConfirmDialog
from yak.tui.widgets.frame import Lines
from yak.tui.widgets.grid import Grid

PATIENCE_S = 20.0


def write(servers, topic, count):
    """Records with the key `k`."""
    producer = open_producer(producer_settings(servers))
    for number in range(count):
        producer.produce(topic, b"%d" % number, b"k")
    assert producer.flush(PATIENCE_S) == 0


async def test_a_topic_is_made_filled_changed_moved_and_deleted(either, new_topic):
    name = new_topic()

    async with either.open_app(size=(140, 40), start="topics") as (app, pilot):
        await until(pilot, lambda: app.picture.is_loaded, "picture")
        await pilot.press("a", *name, "ctrl+s")
        grid = app.screen_below().query_one("#topics", Grid)
        await until(pilot, lambda: name in [row[0] for row in texts(grid)], "new topic")
        await asyncio.to_thread(write, either.bootstrap, name, 10)
        grid.move_to(name)
        await until(pilot, lambda: "10" in next(row for row in texts(grid) if row[0] == name), "messages counted")
        await pilot.press("enter")
        screen = await on_top(pilot, TopicScreen)
        meaning = screen.query_one("#meaning-beside", Lines)
        await until(pilot, lambda: "acks=all: accepted (ISR 3" in words(meaning), "meaning")
        await until(pilot, lambda: screen.query_one("#tail-beside", Grid).row_count == 10, "tail")
        await pilot.press("E")
        await fill_in(pilot, retention_ms="60000", partitions="4")
        await on_top(pilot, ConfirmDialog)
        await pilot.press("y")
        partitions = screen.query_one("#partitions", Grid)
        await until(pilot, lambda: partitions.row_count == 4, "fourth partition")
        await until(pilot, lambda: app.screen is screen, "topic again")
        partition = screen.chosen_partition()
        before = partition.leader
        await pilot.press("F")
        await until(pilot, lambda: app.screen.query("#field-to"), "choice of leader")
        to = int(app.screen.query_one("#field-to").value)
        await pilot.press("ctrl+s")
        await until(pilot, lambda: partition.leader == to != before, "other leader")
        await until(pilot, lambda: app.screen is screen, "topic again")
        await pilot.press("X")
        await on_top(pilot, ConfirmDialog)
        await pilot.press(*name, "enter")
        await until(pilot, lambda: name not in app.picture.topics, "deletion")
        commands = [line.message for line in app.picture.activity.lines if line.kind == "you"]
        assert commands[0].startswith(f"yak topics create {name} -p 3 -r 3")
        assert commands[1] == f"yak topics alter {name} -p 4 -c retention.ms=60000"
        assert commands[2].startswith(f"yak failover {name}:{partition.partition} --to {to}  moved in")
        assert commands[3] == f"yak topics delete {name} --yes"
    assert name not in Admin(either.bootstrap).metadata().topics


async def test_topic_that_was_created_again_is_not_deleted_by_the_id_of_the_one_before(either, new_topic):
    name, admin = new_topic(), Admin(either.bootstrap)
    admin.create_topic(name, partitions=1, replication_factor=1)

    async with either.open_app(size=(120, 40)) as (app, pilot):
        await until(pilot, lambda: name in app.picture.topics, "topic")
        before = app.picture.topics[name][0].topic_id
        admin.delete_topic(name)
        admin.create_topic(name, partitions=1, replication_factor=1)
        await until(
            pilot, lambda: {each.topic_id for each in app.picture.topics.get(name, ())} - {before}, "the other topic"
        )
        with pytest.raises(YakError) as refused:
            await app.source.kafka(delete_topic, name, before)
        assert refused.value.code == "unknown-topic"
        assert name in admin.metadata().topics


async def test_killed_leader_has_a_timeline_and_is_restarted(either, new_topic):
    name = new_topic()
    Admin(either.bootstrap).create_topic(name, partitions=1, replication_factor=3)

    async with either.open_app(size=(120, 40), start="replication") as (app, pilot):
        await until(pilot, lambda: name in app.picture.topics, "topic")
        # of what happens before all are listened to only the outcome is seen
        await until(pilot, lambda: all(b.in_history for b in app.picture.brokers.values()), "rates of all")
        grid = app.screen.query_one("#replication", Grid)
        await until(pilot, lambda: grid.row_count, "rows")
        grid.move_to(f"{name}-0")
        partition = app.picture.partitions[name, 0]
        leader = partition.leader
        await pilot.press("K")
        await on_top(pilot, ConfirmDialog)
        assert f"broker {leader}" in app.screen._title
        await pilot.press("y")
        await until(pilot, lambda: partition.leader not in (leader, None), "other leader")
        await until(pilot, lambda: leader not in partition.isr, "smaller ISR")
        lines = app.screen_below().query_one("#failovers", Lines)
        await until(pilot, lambda: f"broker {leader} lost" in words(lines), "failover in the time line")
        # a writer goes on: of one write the figures may come before the election that it followed
        deadline = asyncio.get_running_loop().time() + PATIENCE_S
        while "write +" not in words(lines):
            assert asyncio.get_running_loop().time() < deadline, words(lines)
            await asyncio.to_thread(write, either.bootstrap, name, 1)
            await pilot.pause(0.2)  # five writes a second are enough
        row = next(row for row in texts(grid) if row[2] == f"{name}-0")
        assert row[0] == "▲ at min ISR"
        assert any(cell.startswith(f"{leader}✗") for cell in row[7:])
        await pilot.press("U")
        await on_top(pilot, ConfirmDialog)
        await pilot.press("y")
        await until(pilot, lambda: not partition.replication.is_under_replicated, "whole ISR")
        await until(pilot, lambda: "back after" in words(lines), "return")
