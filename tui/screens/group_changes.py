"""Changes to a group: reset its offsets, delete those of one topic, delete the group."""

import shlex
from collections.abc import Mapping
from typing import Any

from textual import work

from yak.errors import UsageError, YakError
from yak.tui.rows.group_detail import members_words
from yak.tui.rows.resetting import WAYS, command
from yak.tui.screens.asking import AskingScreen
from yak.tui.screens.reset_preview import ResetPreview
from yak.tui.source.group_calls import delete_group, forget_group_topic
from yak.tui.widgets.dialogs import ConfirmDialog, Field, FormDialog


class GroupChangesScreen(AskingScreen):
    """Actions on the group that `chosen_group()` names."""

    def chosen_group(self) -> tuple[str, Mapping[str, Any] | None]:
        """The group's name, empty without one, and its coordinator's answer, if any."""
        raise NotImplementedError

    def chosen_topic(self) -> str:
        """The topic under the cursor; empty without one."""
        return ""

    def group_is_gone(self, name: str) -> None:
        """Called after the group was deleted."""

    def action_reset(self) -> None:
        """Open the reset wizard, which shows a plan before it moves offsets."""
        name, said = self.chosen_group()
        if name:
            self._reset(name, said)

    @work(exclusive=True, group="change")
    async def _reset(self, name: str, said: Mapping[str, Any] | None) -> None:
        topics = self.chosen_topic()
        words = "Where shall the group go on reading? A plan is shown first; nothing is moved before you say so."
        if said is not None and said["members"]:
            words += f"\nIt has members now, which must be stopped first: {members_words(said)}."
        look = self.look
        values = await self.app.push_screen_wait(
            FormDialog(
                f"Move the offsets of {name}",
                (
                    Field("topics", "Topics", topics, "orders:0,2 payments; empty: all that it committed"),
                    Field("to", "To", WAYS[0], choices=WAYS),
                    Field("value", "Offset, time, file", "", "100, -15m, 2026-11-20T12:00Z, FILE.csv"),
                ),
                command=lambda found: command(name, found, look),
                words=words,
                yes="Show the plan",
            )
        )
        if values is not None:
            await self.app.push_screen_wait(ResetPreview(name, values))
            self.ask_again()

    def action_delete(self) -> None:
        """Delete the group and its offsets."""
        name, said = self.chosen_group()
        if name:
            self._delete(name, said)

    @work(exclusive=True, group="change")
    async def _delete(self, name: str, said: Mapping[str, Any] | None) -> None:
        if said is not None and said["members"]:
            self.app.show_error(_active(name, said))
            return
        done = f"yak groups delete {shlex.quote(name)} --yes"
        words = "What it committed is gone then: who reads with it again starts anew, where auto.offset.reset says."
        if await self.app.push_screen_wait(
            ConfirmDialog(f"Delete group {name}", words, command=done, typed=name, yes="Delete")
        ):
            try:
                await self.app.source.kafka(delete_group, name)
            except YakError as error:
                self.app.show_error(error)
            else:
                self.cli(done)
                self.app.notice(f"group {name} is deleted")
                self.group_is_gone(name)
            self.ask_again()

    def action_forget(self) -> None:
        """Delete the group's offsets of one topic."""
        name, _said = self.chosen_group()
        topic = self.chosen_topic()
        if name and topic:
            self._forget(name, topic)

    @work(exclusive=True, group="change")
    async def _forget(self, name: str, topic: str) -> None:
        done = f"yak groups delete {shlex.quote(name)} --topic {shlex.quote(topic)} --yes"
        words = f"What group {name} committed of {topic} is forgotten. It cannot be while a member is subscribed to it."
        if await self.app.push_screen_wait(
            ConfirmDialog(f"Forget offsets of {topic}", words, command=done, typed=topic, yes="Forget")
        ):
            try:
                count = await self.app.source.kafka(forget_group_topic, name, topic)
            except YakError as error:
                self.app.show_error(error)
            else:
                self.cli(done)
                self.app.notice(f"{count} offsets of {topic} are forgotten")
            self.ask_again()


def _active(name: str, said: Mapping[str, Any]) -> UsageError:
    count = len(said["members"])
    return UsageError(
        "group-active",
        f'group "{name}" was not deleted',
        why=f"{count} {'member is' if count == 1 else 'members are'} connected: {members_words(said)}",
        try_=("stop them, and try again",),
    )
