"""Clusters by name: which of them answer, and switching to one."""

import asyncio
import os
import shlex
import time
from typing import Any, Final

from textual import on, work
from textual.app import ComposeResult

from yak.client.contexts import ACCENTS, add_context, read_contexts, remove_context
from yak.client.reach import BUDGET_S, probe
from yak.errors import UsageError, YakError
from yak.tui.keys import keys
from yak.tui.rows.contexts import COLUMNS, NO_ACCENT, add_command, context_rows, values_of
from yak.tui.screens.base import AskingScreen
from yak.tui.widgets.dialogs import Field
from yak.tui.widgets.frame import Panel
from yak.tui.widgets.grid import Grid

_NONE: Final = "No contexts. A context is a name for a cluster: its brokers, and how it is marked. Press a to add one."
_FIELDS: Final = (
    Field("name", "Name", "", "staging", is_needed=True),
    Field("servers", "Brokers", "", "kafka.example:9092, other.example:9092", is_needed=True),
    Field("accent", "Accent", NO_ACCENT, choices=(NO_ACCENT, *ACCENTS)),
    Field("token", "HTTP token", "", "only where the brokers ask for one"),
    Field("production", "production: a red header, and the word PROD", is_check=True),
)
_HINT: Final = "enter use   a add   X forget"


class ContextsScreen(AskingScreen):
    """The contexts of the config file. Each is tried in a thread, for at most 3 s."""

    CRUMB = "contexts"
    CLI_TWIN = "yak context list, yak context use NAME"
    EVERY_S = 10.0
    BINDINGS = keys("contexts")
    EXPLAINED = (
        ("Context", "A name for a cluster, with its brokers' addresses and its settings. Contexts are in the config file; yak context changes them too."),
        ("Answers", "Whether a broker at one of the addresses answers an ApiVersions request within 3 s."),
        ("PROD", "production = true: the header is red, and confirmations say PROD."),
        ("In use", "The context that yak ui shows. The commands keep theirs: yak context use changes that."),
    )  # fmt: skip

    def __init__(self) -> None:
        super().__init__()
        self._answers: dict[str, str | None] = {}

    def body(self) -> ComposeResult:
        yield Panel("Contexts", Grid(id="contexts"), id="contexts-panel", subtitle=_HINT)

    def paint(self, now_ms: int) -> None:  # noqa: ARG002 - nothing here has a time
        contexts = self.app.settings.contexts
        rows = context_rows(contexts, self.app.context_name, self._answers, self.fmt)
        self.show_table("#contexts", COLUMNS, rows, _NONE)
        where = self.app.settings.config_file
        self.query_one(Panel).entitle(
            f"Contexts: {len(contexts)}" + (f" in {_short(where)}" if where else ""), self.error_text() or _HINT
        )

    async def ask(self) -> None:
        contexts = {name: str(values["bootstrap_servers"]) for name, values in self.app.settings.contexts.items()}
        self._answers = {name: why for name, why in self._answers.items() if name in contexts}

        async def try_one(name: str, servers: str) -> None:
            self._answers[name] = await asyncio.to_thread(why_silent, servers)
            self.paint(0)

        await asyncio.gather(*(try_one(name, servers) for name, servers in contexts.items()))

    def opened(self, what: object) -> None:
        self._use(str(what))

    @on(Grid.Opened, "#contexts")
    def use_chosen(self, event: Grid.Opened) -> None:
        self._use(event.row.key)

    def _use(self, name: str) -> None:
        try:
            self.app.use_context(name)
        except YakError as error:
            self.app.show_error(error)
        else:
            self.app.note_command(f"yak ui --context {shlex.quote(name)}")

    def action_again(self) -> None:
        self._answers.clear()
        self.paint(0)
        super().action_again()

    def action_copy(self) -> None:
        name = self.query_one("#contexts", Grid).cursor_key
        if name is not None and name in self.app.settings.contexts:
            self.app.copy(str(self.app.settings.contexts[name]["bootstrap_servers"]), f"the addresses of {name}")

    @work(exclusive=True, group="change")
    async def action_add(self) -> None:
        """Ask for a context and write it to the config file, as `yak context add` does."""
        form = await self.fill_form("Add a context", _FIELDS, add_command, text="A name for a cluster.", yes="Add")
        if form is None:
            return
        name = form["name"]
        text = f"Context {name} exists: it will be replaced."
        if name in self.app.settings.contexts and not await self.confirmed(f"Replace {name}?", text, yes="Replace"):
            return
        await self._write(
            add_context, name, values_of(form), command=add_command(form), said=f"context {name} is there"
        )

    @work(exclusive=True, group="change")
    async def action_remove(self) -> None:
        name = self.query_one("#contexts", Grid).cursor_key
        if name is None:
            return
        command = f"yak context remove {shlex.quote(name)} --yes"
        text = "Its name and addresses are forgotten. The cluster is not touched."
        if await self.confirmed(f"Forget context {name}?", text, command=command):
            await self._write(remove_context, name, command=command, said=f"context {name} is forgotten")

    async def _write(self, change: Any, *arguments: Any, command: str, said: str) -> None:
        path = self.app.settings.config_file
        try:
            if not path:
                raise UsageError(
                    "config-file", "the location of the config file is unknown", try_=("yak ui --config FILE",)
                )
            await asyncio.to_thread(change, path, *arguments)
            found = await asyncio.to_thread(read_contexts, path)
        except (YakError, OSError) as error:
            if not isinstance(error, YakError):
                error = UsageError("config-file", f"{path} was not written", why=error.strerror or str(error))
            self.app.show_error(error)
            return
        self.app.take_contexts(found)
        self.app.note_command(command)
        self.app.notice(said)
        self.paint(0)
        super().action_again()


def why_silent(servers: str) -> str:
    """Why no broker answers; empty if one does. Blocks for at most 3 s, without retries: the screen asks again soon."""
    deadline = time.monotonic() + BUDGET_S
    addresses = servers.split(",")
    details: list[str] = []
    for number, address in enumerate(addresses):
        share_s = (deadline - time.monotonic()) / (len(addresses) - number)
        try:
            found = probe(address, max(share_s, 0.05))
        except ValueError:
            details.append(f"{address} is no HOST:PORT")
            continue
        if found.outcome == "kafka":
            return ""
        details.append(found.detail)
    return "; ".join(dict.fromkeys(details))


def _short(path: str) -> str:
    home = os.path.expanduser("~")
    return "~" + path.removeprefix(home) if path.startswith(home + os.sep) else path
