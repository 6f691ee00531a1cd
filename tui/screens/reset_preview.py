"""A preview of an offset reset, partition by partition, and its execution."""

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal, Vertical
from textual.screen import ModalScreen
from textual.widgets import Button, Static

from yak.client.groups.offsets_file import parse_offsets, read_text
from yak.client.groups.resetting import ResetPlan
from yak.errors import YakError
from yak.ids import TopicPartition
from yak.tui.keys import keys
from yak.tui.rows.resetting import COLUMNS, command, plan_words, step_rows, target, topics_of
from yak.tui.source.group_calls import move_group_offsets, plan_group_reset
from yak.tui.widgets.grid import Grid
from yak.tui.widgets.plain import title

if TYPE_CHECKING:
    from yak.tui.app import YakApp


class ResetPreview(ModalScreen[bool]):
    """Old and new offsets; returns whether the reset was done. A group with members is refused, and they are listed."""

    BINDINGS = [*keys("reset.apply", "reset.again"), Binding("escape,q", "leave", "no")]
    AUTO_FOCUS = "Grid"
    app: "YakApp"

    def __init__(self, group: str, values: Mapping[str, str]) -> None:
        super().__init__()
        self._group, self._values = group, values
        self._plan: ResetPlan | None = None
        self._results: Mapping[TopicPartition, YakError | None] | None = None
        self._is_busy = False

    def compose(self) -> ComposeResult:
        """Build the plan, the command, the buttons."""
        with Vertical(id="dialog", classes="preview") as dialog:
            dialog.border_title = title(f"Move the offsets of {self._group}: the plan")
            if self.app.is_production:
                yield Static(f"This is {self.app.source.title}: PROD", classes="dialog-prod", markup=False)
            yield Static("asking the brokers ...", id="preview-words", markup=False)
            yield Grid(id="steps")
            yield Static("", id="preview-refused", markup=False)
            line = command(self._group, self._values, self.app.look, is_done=True)
            yield Static(f"$ {line}", classes="dialog-command", markup=False)
            with Horizontal(classes="dialog-buttons"):
                yield Button("Move them (R)", variant="error", id="yes", disabled=True)
                yield Button("Look again (r)", id="again")
                yield Button("No (esc)", id="no")

    def on_mount(self) -> None:
        """Request the plan at once."""
        self.action_again()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Disable the reset in read-only mode."""
        if action == "apply" and self.app.is_readonly:
            return False
        return super().check_action(action, parameters)

    @on(Button.Pressed, "#again")
    def action_again(self) -> None:
        """Request the plan again."""
        if not self._is_busy and self._results is None:
            self._is_busy = True
            self._look()

    @work(group="preview")
    async def _look(self) -> None:
        app = self.app
        try:
            offsets = {}
            if self._values["to"] == "file":
                path = self._values["value"]
                offsets = parse_offsets(await asyncio.to_thread(read_text, path), self._group, path)
            wanted = target(self._values, app.now_ms(), app.look, offsets)
            self._plan = await app.source.kafka(plan_group_reset, self._group, wanted, topics_of(self._values))
        except YakError as error:
            self._plan = None
            self._say(error.message, f"{error.why}")
        else:
            self._show()
        finally:
            self._is_busy = False

    def _show(self) -> None:
        plan, look = self._plan, self.app.look
        if plan is None:
            return
        self.query_one("#steps", Grid).show(COLUMNS, step_rows(plan.steps, self._results, look))
        words = plan_words(plan.steps, look)
        if plan.group is None:
            words += " There is no such group yet: it will be made."
        refused = ""
        if plan.refused is not None:
            refused = f"{look.sign('bad')} This cannot be done now: {plan.refused.why}. Stop what reads with it, then press r."
        elif self.app.is_readonly:
            refused = f"{look.sign('warn')} Only looking is allowed here (--readonly)."
        self._say(words, refused)
        self.query_one("#yes", Button).disabled = not self._may_apply()

    def _say(self, words: str, refused: str) -> None:
        self.query_one("#preview-words", Static).update(words)
        self.query_one("#preview-refused", Static).update(refused)

    def _may_apply(self) -> bool:
        plan = self._plan
        is_whole = plan is not None and plan.refused is None and bool(plan.changes)
        return is_whole and self._results is None and not self.app.is_readonly

    @on(Button.Pressed, "#yes")
    def action_apply(self) -> None:
        """Reset the offsets."""
        if self._may_apply() and not self._is_busy:
            self._is_busy = True
            self._apply()

    @work(group="preview")
    async def _apply(self) -> None:
        app, plan = self.app, self._plan
        assert plan is not None
        line = command(self._group, self._values, app.look, is_done=True)
        try:
            results = await app.source.kafka(move_group_offsets, self._group, plan.changes)
        except YakError as error:
            app.show_error(error)
            return
        finally:
            self._is_busy = False
        failed = [error for error in results.values() if error is not None]
        app.note_command(line, f"{len(failed)} partitions failed" if failed else "")
        if failed:
            self._results = results
            self._show()
            app.show_error(failed[0])
            return
        app.notice(f"{len(results)} partitions of group {self._group} moved")
        self.dismiss(True)

    @on(Button.Pressed, "#no")
    def action_leave(self) -> None:
        """Close without a reset."""
        self.dismiss(False)
