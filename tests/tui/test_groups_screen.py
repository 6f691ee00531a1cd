"""Groups on the recorded cluster: what is asked and when, the wizard, what is refused."""

import asyncio

from driving import answered, drawn, on_recorded, on_top, press, until
from pictures import recorded_source
from textual.widgets import Button, Input, Static

from yak.client.groups.descriptions import active_group
from yak.client.groups.reset import ResetPlan, Step
from yak.errors import YakError
from yak.ids import TopicPartition
from yak.tui.screens.groups import GroupScreen, GroupsScreen, ResetPreview
from yak.tui.widgets.dialogs import ConfirmDialog, FormDialog
from yak.tui.widgets.frame import Panel
from yak.tui.widgets.grid import Grid
from yak.view.groups import Group, Member

O0, O1 = TopicPartition("orders", 0), TopicPartition("orders", 1)
EMPTY = {
    "group": "billing", "coordinator": 1, "type": "classic", "state": "Empty", "protocol_type": "consumer", "assignor": None,
    "epoch": None, "members": [], "lag": 5,
    "partitions": [{"topic": "orders", "partition": 0, "committed": 5, "metadata": "", "log_start_offset": 0,
                    "high_watermark": 10, "lag": 5, "member_id": None}],
}  # fmt: skip
LIVE = Group("billing", "classic", "Stable", "consumer", 1, (Member("m", "worker-1", "/10.0.0.1"),), "range")
PLAN = ResetPlan(None, [Step(O0, 5, 0), Step(O1, 3, 3)], None)


def empty_group(**calls):
    """The recorded cluster, its group billing without members."""
    source = recorded_source()
    source.answers["GET /api/groups/billing"] = EMPTY
    source.calls = {**source.calls, "plan_group_reset": PLAN, **calls}
    return source


async def at_group(pilot):
    """In billing's own screen."""
    pilot.app.go("groups", "billing")
    await until(pilot, lambda: isinstance(pilot.app.screen, GroupScreen) and pilot.app.screen.group.said, "the group")
    await answered(pilot)


async def test_only_visible_groups_are_requested():
    source = recorded_source()
    names = [f"g{number:04}" for number in range(500)]
    listed = [{"group": name, "type": "classic", "state": "Empty", "coordinator": 1} for name in names]
    source.answers["GET /api/groups"] = {"groups": listed, "silent": []}
    for name in names:
        source.answers[f"GET /api/groups/{name}"] = {**EMPTY, "group": name}
    async with on_recorded(source=source, start="groups") as (app, pilot):
        requested = {path for _method, path, _body in source.requests if path.startswith("/api/groups/")}
        assert "/api/groups/g0000" in requested
        assert 10 < len(requested) < 30
        await pilot.press("G")
        app.screen.ask_again()
        await answered(pilot)
        assert "/api/groups/g0499" in {path for _method, path, _body in source.requests}
        assert app.screen.query_one("#groups", Grid).row_count == 500


async def test_hidden_screen_sends_no_requests(monkeypatch):
    monkeypatch.setattr("yak.tui.screens.groups.GroupsScreen.EVERY_S", 0.05)

    source = recorded_source()
    async with on_recorded(source=source, start="groups") as (app, pilot):
        screen, ticks = app.screen, []
        await until(pilot, lambda: sum(each[1] == "/api/groups" for each in source.requests) > 2, "repeated requests")
        await press(pilot, "0")
        source.requests.clear()
        screen.set_interval(screen.EVERY_S, lambda: ticks.append(None))
        await until(pilot, lambda: len(ticks) > 2, "times at which it would ask")
        assert source.requests == []


async def test_enter_opens_a_group_and_escape_comes_back():
    async with on_recorded(start="groups") as (app, pilot):
        await press(pilot, "j", "enter")
        screen = app.screen
        assert isinstance(screen, GroupScreen)
        assert screen.crumbs() == ["groups", "billing"]
        assert screen.query_one("#members", Grid).row_count == 2
        row = screen.query_one("#partitions", Grid).cursor_row
        assert [cell.text for cell in row.cells[:2]] == ["orders", "0"]
        assert row.cells[5].text == "1.0 s"
        await press(pilot, "escape")
        assert app.screen.CRUMB == "groups"


async def test_text_of_a_group_without_members_fits_the_smallest_window():
    async with on_recorded(source=empty_group()) as (app, pilot):
        await at_group(pilot)
        text = drawn(app)
        assert "No members. The next member continues from the committed offsets." in text
        assert "in 1 partition ·" in text


async def test_group_that_does_not_exist_is_refused_once_and_the_list_stays():
    source = recorded_source()
    missing = YakError("group-id-not-found", "group 'nosuch' does not exist", why="HTTP 404")
    source.answers["GET /api/groups/nosuch"] = missing
    async with on_recorded(source=source, start="groups") as (app, pilot):
        app.go("groups", "nosuch")
        await until(pilot, lambda: app.notices, "the notice")
        await answered(pilot)
        assert isinstance(app.screen, GroupsScreen)
        assert [str(text) for _, text, _ in app.notices] == ["there is no group nosuch"]


async def test_reset_moves_the_offsets_of_its_plan():
    moved = []

    def move(group, changes):
        moved.append((group, dict(changes)))
        return dict.fromkeys(changes)

    async with on_recorded(source=empty_group(move_group_offsets=move), size=(100, 40)) as (app, pilot):
        await at_group(pilot)
        await press(pilot, "r")
        assert isinstance(app.screen, FormDialog)
        assert app.screen.query_one("#field-topics", Input).value == "orders"
        command = str(app.screen.query_one("#form-command", Static).render())
        assert command == "$ yak groups reset billing --topic orders --to-earliest"
        await press(pilot, "ctrl+s")
        preview = app.screen
        assert isinstance(preview, ResetPreview)
        rows = [[cell.text for cell in preview.query_one("#steps", Grid).displayed.at(n).cells[2:5]] for n in range(2)]
        assert rows == [["5", "→", "0"], ["3", "→", "3"]]
        assert moved == []
        await press(pilot, "R")
        assert isinstance(app.screen, GroupScreen)
        assert moved == [("billing", {O0: 0})]
        assert app.picture.activity.lines[-1].message.endswith(
            "yak groups reset billing --topic orders --to-earliest --execute"
        )


async def test_reset_that_is_under_way_is_not_left_as_if_nothing_were_done():
    release, moved = asyncio.Event(), []

    async with on_recorded(source=empty_group(), size=(100, 40)) as (app, pilot):
        await at_group(pilot)
        await press(pilot, "r", "ctrl+s")
        preview = app.screen

        async def move(_function, _group, changes):
            await release.wait()
            moved.append(dict(changes))
            return dict.fromkeys(changes)

        app.source.kafka = move
        await pilot.press("R", "escape")
        await pilot.pause()
        assert app.screen is preview
        release.set()
        await answered(pilot)
        assert moved == [{O0: 0}]
        assert app.picture.activity.lines[-1].message.endswith("--execute")


async def test_offset_reset_of_a_group_with_members_is_refused_with_their_names():
    refused = active_group(LIVE.group_id, LIVE.members, "no")

    source = empty_group(plan_group_reset=ResetPlan(LIVE, [Step(O0, 5, 0)], refused))
    async with on_recorded(source=source, size=(100, 40)) as (app, pilot):
        await at_group(pilot)
        await press(pilot, "r", "ctrl+s")
        text = str(app.screen.query_one("#preview-refused", Static).render())
        assert "1 member is connected: worker-1 at 10.0.0.1" in text
        assert app.screen.query_one("#yes", Button).disabled
        await press(pilot, "R", "ctrl+s")
        assert isinstance(app.screen, ResetPreview)
        source.calls["plan_group_reset"] = PLAN
        await press(pilot, "r")
        assert not app.screen.query_one("#yes", Button).disabled
        await press(pilot, "escape")
        assert isinstance(app.screen, GroupScreen)


async def test_readonly_reset_has_a_plan_and_moves_nothing():
    async with on_recorded(source=empty_group(), is_readonly=True, size=(100, 40)) as (app, pilot):
        await at_group(pilot)
        await press(pilot, "X", "D")
        assert isinstance(app.screen, GroupScreen)
        await press(pilot, "r", "ctrl+s")
        assert "Changes are not allowed" in str(app.screen.query_one("#preview-refused", Static).render())
        await press(pilot, "R", "ctrl+s")  # move_group_offsets is not recorded: it would be an error
        assert isinstance(app.screen, ResetPreview)
        assert not app.notices


async def test_a_plan_that_cannot_be_made_says_why():
    async with on_recorded(
        source=empty_group(plan_group_reset=YakError("x", "no such topic", why="it was deleted")), size=(100, 40)
    ) as (app, pilot):
        await at_group(pilot)
        await press(pilot, "r", "ctrl+s")
        assert str(app.screen.query_one("#preview-text", Static).render()) == "no such topic"
        assert str(app.screen.query_one("#preview-refused", Static).render()) == "it was deleted"
        assert app.screen.query_one("#yes", Button).disabled


async def test_a_group_is_deleted_once_its_name_is_typed():
    deleted = []

    async with on_recorded(source=empty_group(delete_group=deleted.append), size=(100, 40)) as (app, pilot):
        await at_group(pilot)
        await press(pilot, "X")
        assert isinstance(app.screen, ConfirmDialog)
        await press(pilot, *"billin", "enter")
        assert deleted == []
        await press(pilot, "g", "enter")
        assert deleted == ["billing"]
        assert app.screen.CRUMB == "groups"
        assert app.picture.activity.lines[-1].message == "yak groups delete billing --yes"


async def test_name_with_control_characters_is_confirmed_by_its_escaped_form():
    answers = []

    async with on_recorded(start="groups", size=(100, 40)) as (app, pilot):
        app.push_screen(ConfirmDialog("Delete group a\nb", "", typed="a\nb"), answers.append)
        await on_top(pilot, ConfirmDialog)
        await press(pilot, *"a\\nb", "enter")
        assert answers == [True]


async def test_group_with_members_is_not_deleted():
    async with on_recorded(start="groups", size=(100, 40)) as (app, pilot):
        await press(pilot, "X")
        error = app.notices[-1][1]
        assert error.code == "group-active"
        assert "1 member is connected: audit-" in error.why
        assert app.screen.CRUMB == "groups"


async def test_offsets_of_a_topic_are_forgotten_once_its_name_is_typed():
    forgotten = []

    def forget(group, topic):
        forgotten.append((group, topic))
        return 1

    async with on_recorded(source=empty_group(forget_group_topic=forget), size=(100, 40)) as (app, pilot):
        await at_group(pilot)
        await press(pilot, "D", *"orders", "enter")
        assert forgotten == [("billing", "orders")]
        assert app.picture.activity.lines[-1].message == "yak groups delete billing --topic orders --yes"


async def test_a_cluster_that_does_not_answer_leaves_the_old_picture_and_says_why():
    source = recorded_source()
    async with on_recorded(source=source, start="groups", size=(100, 40)) as (app, pilot):
        source.answers["GET /api/groups"] = YakError("no-broker", "no broker answered", why="it is dead")
        app.screen.ask_again()
        await answered(pilot)
        assert app.screen.query_one("#groups", Grid).row_count == 2
        assert "no broker answered: it is dead" in str(app.screen.query_one("#groups-panel").border_subtitle)
        assert not app.notices


async def test_text_of_clients_does_not_drive_the_terminal_and_is_no_markup():
    name = "[red]\x1b]0;t\x07\u202ex"
    source = empty_group()
    source.answers["GET /api/groups"] = {
        "groups": [{"group": name, "type": "classic", "state": "Empty", "coordinator": 1}],
        "silent": [],
    }
    async with on_recorded(source=source, start="groups", size=(100, 30)) as (app, pilot):
        app.screen.query_one(Panel).entitle(f"Group {name}")
        app.push_screen(ConfirmDialog(f"Delete {name}?", f"{name} goes."))
        await on_top(pilot, ConfirmDialog)
        await answered(pilot)
        strips = app.screen._compositor.render_strips()
        text = "\n".join("".join(each.text for each in strip if not each.control) for strip in strips)
        assert "[red]\\x1b]0;t\\x07" in text
        assert "Delete [red]\\x1b" in text
        assert not any(mark in text for mark in "\x1b\x07\u202e")
