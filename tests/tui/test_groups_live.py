"""Groups and the metadata log of a real cluster: a group that reads, is refused, is moved, is deleted; a topic whose records come in."""

import asyncio
import time

from confluent_kafka import Consumer, Producer, TopicPartition
from driving import on_top, until
from textual.widgets import Button, Static

from yak.client.admin import Admin
from yak.tui.screens.groups import GroupScreen, ResetPreview
from yak.tui.widgets.dialogs import ConfirmDialog, FormDialog
from yak.tui.widgets.grid import Grid

PATIENCE_S = 20.0


def produce(bootstrap, topic, count):
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(count):
        producer.produce(topic, f"v{number}", partition=0)
    assert producer.flush(20) == 0


def read(bootstrap, group, topic, count):
    """A member that has read and committed `count` records, and stays."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap, "group.id": group, "client.id": "worker-1", "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )  # fmt: skip
    consumer.subscribe([topic])
    seen, deadline = 0, time.monotonic() + PATIENCE_S
    while seen < count:
        assert time.monotonic() < deadline
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            seen += 1
            consumer.commit(message, asynchronous=False)
    return consumer


def committed(bootstrap, group, topic):
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    try:
        return consumer.committed([TopicPartition(topic, 0)], timeout=20)[0].offset
    finally:
        consumer.close()


def cells(grid, key):
    index = grid.displayed.place_of(key)
    return None if index is None else [cell.text for cell in grid.displayed.at(index).cells]


async def test_a_group_is_seen_refused_moved_and_deleted(either, new_topic):
    topic, group = new_topic(), "tui-audit"
    Admin(either.bootstrap).create_topic(topic, partitions=1, replication_factor=3)
    produce(either.bootstrap, topic, 10)
    consumer = read(either.bootstrap, group, topic, 4)

    async with either.open_app(size=(120, 40), start="groups") as (app, pilot):
        grid = app.screen.query_one("#groups", Grid)
        await until(pilot, lambda: (cells(grid, group) or [""] * 8)[5] == "6", "lag of 6")
        assert cells(grid, group)[:4] == [group, "● Stable", "classic", "1"]
        app.go("groups", group)
        await until(pilot, lambda: isinstance(app.screen, GroupScreen) and app.screen.group.said, "group")
        parts = app.screen.query_one("#partitions", Grid)
        await until(pilot, lambda: "s" in cells(parts, f"{topic}:0")[5], "age of the oldest unread record")
        assert cells(parts, f"{topic}:0")[2:5] == ["4", "10", "6"]
        assert cells(parts, f"{topic}:0")[6] == "worker-1"

        await pilot.press("r")
        await on_top(pilot, FormDialog)
        await pilot.press("ctrl+s")
        await on_top(pilot, ResetPreview)
        refused = app.screen.query_one("#preview-refused", Static)
        await until(pilot, lambda: "worker-1 at 127.0.0.1" in str(refused.render()), "refusal")
        await pilot.press("R")
        assert isinstance(app.screen, ResetPreview)
        await asyncio.to_thread(consumer.close)
        await pilot.press("r")
        button = app.screen.query_one("#yes", Button)
        await until(pilot, lambda: not button.disabled, "plan that can be done")
        assert cells(app.screen.query_one("#steps", Grid), f"{topic}:0")[2:6] == ["4", "→", "0", "-4"]
        await pilot.press("R")
        await on_top(pilot, GroupScreen)
        assert await asyncio.to_thread(committed, either.bootstrap, group, topic) == 0
        await until(pilot, lambda: cells(parts, f"{topic}:0")[2] == "0", "new committed offset")

        await pilot.press("X")
        await on_top(pilot, ConfirmDialog)
        await pilot.press(*(each if each != "-" else "minus" for each in group), "enter")
        await until(pilot, lambda: app.screen.CRUMB == "groups", "list")
        await until(pilot, lambda: cells(app.screen.query_one("#groups", Grid), group) is None, "deleted group")
        commands = [line.message for line in app.picture.activity.lines if line.kind == "you"]
        assert commands == [
            f"yak groups reset {group} --topic {topic} --to-earliest --execute",
            f"yak groups delete {group} --yes",
        ]


async def test_log_follows_new_records_and_has_earlier_images(live, new_topic):
    topic = new_topic()

    async with live.open_app(size=(140, 40), start="metadata") as (app, pilot):
        screen = app.screen
        image = screen.query_one("#image", Grid)
        await until(pilot, lambda: image.row_count > 3, "cluster")
        end = screen.log_.end
        await pilot.press("equals_sign")
        await asyncio.to_thread(lambda: Admin(live.bootstrap).create_topic(topic, partitions=2, replication_factor=3))
        await until(pilot, lambda: cells(image, f"partition:{topic}:1") is not None, "new topic")
        assert screen.log_.end > end
        assert screen.mark == end
        assert cells(image, f"topic:{topic}") == [f"+ {topic}", "2 partitions"]
        await pilot.press("equals_sign", "T", *str(end), "enter")
        await until(
            pilot, lambda: f"after record {end}" in str(screen.query_one("#metadata-image").border_title), "title"
        )
        await until(pilot, lambda: cells(image, "controller") and not cells(image, f"topic:{topic}"), "cluster before")


async def test_a_context_of_a_real_cluster_answers_and_is_used(live, tmp_path):
    from yak.client.contexts import add_context, read_contexts

    path = str(tmp_path / "config.toml")
    add_context(path, "other", {"bootstrap_servers": live.bootstrap, "production": True})

    contexts = read_contexts(path)
    async with live.open_app(size=(100, 30), start="contexts", contexts=contexts, config_file=path) as (app, pilot):
        app._other_source = lambda _name: live.source()
        grid = app.screen.query_one("#contexts", Grid)
        await until(pilot, lambda: cells(grid, "other")[3] == "● answers", "answer")
        await pilot.press("enter")
        await until(pilot, lambda: app.current_mode == "dashboard" and app.picture.is_loaded, "other cluster")
        assert (app.context_name, app.is_production) == ("other", True)
        await pilot.press("6")
        await until(pilot, lambda: app.screen.CRUMB == "groups" and app.screen.groups.is_listed, "its groups")
