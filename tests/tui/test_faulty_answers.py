"""What `yak ui` does with answers that it cannot read, and with its own bugs: a sentence, and no traceback on the screen."""

import copy

import pytest
from driving import answered, drawn, press, until
from pictures import recorded_app, recorded_source

from yak.tui import launch
from yak.tui.app import YakApp
from yak.tui.settings import UiSettings
from yak.tui.source.base import UNREADABLE

MISSING = object()


def with_fault(answer, path, value):
    """A copy of a recorded answer, with another value in one place."""
    found = part = copy.deepcopy(answer)
    for name in path[:-1]:
        part = part[name]
    if value is MISSING:
        del part[path[-1]]
    else:
        part[path[-1]] = value
    return found


def reported(app):
    """The whole text of what the app could not read."""
    troubles = [app.screen_below().trouble] if hasattr(app.screen_below(), "trouble") else []
    errors = [*(said for _, said, _ in app.notices), *troubles]
    return [f"{each.message}: {each.why}" for each in errors if getattr(each, "code", "") == "bad-answer"]


async def shown(source, *screens):
    """What an app on this source reports after it showed these screens."""
    app = recorded_app(source=source)
    app.unreadable = UNREADABLE
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        for name in screens:
            app.go(name)
            await pilot.pause()
        return reported(app)


@pytest.mark.parametrize(
    ("kind", "path", "value", "why"),
    [
        ("progress", ("partitions", 0, "leader_epoch"), MISSING, "KeyError: 'leader_epoch'"),
        ("progress", ("partitions",), 2**70, "TypeError"),
        ("rates", ("topics", 0), None, "TypeError"),
        ("snapshot", ("cluster", "brokers", 0, "state"), "DREAMING", "ValueError: 'DREAMING'"),
        ("snapshot", ("partitions", 0, "replicas"), None, "TypeError"),
    ],
)
async def test_event_with_a_missing_field_or_another_type_is_reported_and_the_app_goes_on(kind, path, value, why):
    source = recorded_source()
    number = next(number for number, event in enumerate(source.events) if event["kind"] == kind)
    source.events = list(source.events)
    source.events[number] = with_fault(source.events[number], path, value)
    found = await shown(source, "topics", "dashboard")
    assert found
    assert found[0].startswith("an event of a broker cannot be read: a field is missing or has another type")
    assert why in found[0]


async def test_rate_that_is_no_number_is_reported_and_the_app_goes_on():
    source = recorded_source()
    source.events = [
        with_fault(event, ("bytes_out_per_second",), "much") if event["kind"] == "rates" else event
        for event in source.events
    ]
    assert await shown(source, "dashboard", "topics", "dashboard")


async def test_partitions_of_a_new_topic_with_a_missing_field_are_reported_and_the_app_goes_on():
    source = recorded_source()
    created = {"kind": "topic-created", "time_ms": source.events[-1]["time_ms"], "node_id": 1, "message": "m"}
    source.events = [*source.events, {**created, "topic": "new", "topic_id": "x", "partitions": 1}]
    source.answers["GET /api/isr?topic=new"] = [{"topic": "new", "partition": 0}]
    app = recorded_app(source=source)
    app.unreadable = UNREADABLE
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: any("KeyError: 'replicas'" in each for each in reported(app)))


@pytest.mark.parametrize(
    ("screen", "request_", "path", "value"),
    [
        ("groups", "GET /api/groups", ("groups",), 7),
        ("groups", "GET /api/groups", ("groups", 0, "group"), MISSING),
        ("groups", "GET /api/groups", ("groups", 0, "type"), None),
        ("groups", "GET /api/groups", ("silent",), None),
    ],
)
async def test_answer_with_a_missing_field_or_another_type_is_the_trouble_of_its_screen(screen, request_, path, value):
    source = recorded_source()
    source.answers[request_] = with_fault(source.answers[request_], path, value)
    (found,) = await shown(source, screen)
    assert found.startswith("an answer of a broker cannot be read: ")


async def test_group_with_a_faulty_partition_is_reported_when_the_cursor_moves_to_it():
    source = recorded_source()
    for name in ("audit", "billing"):
        request = f"GET /api/groups/{name}"
        source.answers[request] = with_fault(source.answers[request], ("partitions", 0, "partition"), MISSING)

    app = recorded_app(source=source)
    app.unreadable = UNREADABLE
    async with app.run_test(size=(120, 40)) as pilot:
        app.go("groups")
        await answered(pilot)
        await press(pilot, "j", "k")
        found = reported(app)

    assert any("KeyError: 'partition'" in each for each in found)


@pytest.mark.parametrize(
    ("path", "keys"),
    [(("brokerConfigs",), ()), (("topics", 0, "topicUUID"), ()), (("offset",), ("T", *"-1s", "enter"))],
)
async def test_metadata_image_with_a_missing_field_is_reported_and_the_app_goes_on(path, keys):
    source = recorded_source()
    source.answers["GET /metadata/image"] = with_fault(source.answers["GET /metadata/image"], path, MISSING)
    app = recorded_app(source=source)
    app.unreadable = UNREADABLE
    async with app.run_test(size=(120, 40)) as pilot:
        app.go("metadata")
        await answered(pilot)
        await press(pilot, *keys)
        await until(
            pilot, lambda: any("the metadata image cannot be read" in each for each in (drawn(app), *reported(app)))
        )


def test_bug_ends_the_app_with_its_exception_and_no_traceback_on_the_terminal(monkeypatch, capfd):
    source = recorded_source()

    async def fail():
        raise ZeroDivisionError("a bug")
        yield {}

    source.follow = fail
    in_terminal = YakApp.run_async
    monkeypatch.setattr(launch, "require_terminal", lambda: None)
    monkeypatch.setattr(YakApp, "run_async", lambda app: in_terminal(app, headless=True, size=(80, 24)))
    with pytest.raises(ZeroDivisionError, match="a bug"):
        launch.run_app(source, UiSettings())
    assert "Traceback" not in "".join(capfd.readouterr())
