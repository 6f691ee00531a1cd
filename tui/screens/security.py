"""Who may do what, and how much: users, ACLs and quotas, read and removed over the Kafka protocol."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from textual import on, work
from textual.app import ComposeResult
from textual.widgets import TabbedContent, TabPane

from yak.errors import YakError
from yak.quotas.quota_types import QuotaType
from yak.tui.keys import keys
from yak.tui.rows import security as rows
from yak.tui.rows.cells import Column, Row
from yak.tui.screens.base import AskingScreen
from yak.tui.source import security as requests
from yak.tui.widgets.dialogs import Field
from yak.tui.widgets.frame import Panel
from yak.tui.widgets.grid import Grid


@dataclass(frozen=True, slots=True)
class AddForm:
    """A form that adds an item: `item` makes it from the form, `command` is its command line."""

    title: str
    fields: Sequence[Field]
    item: Callable[[Mapping[str, str]], Any]
    command: Callable[[Any], str]
    create: Callable[[str, Any], None]


@dataclass(frozen=True, slots=True)
class Tab:
    """A tab and its table. `read` gives items by key, and `row`, `removal` and `remove` take both."""

    name: str
    label: str
    columns: Sequence[Column]
    read: Callable[[str], Mapping[str, Any]]
    row: Callable[[str, Any], Row]
    removal: Callable[[str, Any], rows.Removal]
    remove: Callable[[str, str, Any], None]
    needs: str
    """The operation on the cluster that reading needs."""
    adding: AddForm | None
    how: str
    """How to add one."""


_ADD_ACL: Final = AddForm(
    "Add an ACL",
    (
        Field("permission", "Permission", choices=rows.PERMISSIONS),
        Field("principal", "Principal", "", "User:ann, or ann; * is everyone", is_needed=True),
        Field("operation", "Operation", "read", choices=rows.OPERATIONS),
        Field("resource", "Resource", choices=rows.RESOURCES),
        Field("name", "Name", "", "orders; * is all; none for the cluster"),
        Field("prefixed", "prefixed: all whose names begin so", is_check=True),
        Field("host", "Host", "*", "an IP address, or *", is_needed=True),
    ),
    rows.acl_of,
    rows.acl_command,
    requests.add_acl,
)
_ADD_QUOTA: Final = AddForm(
    "Set a quota",
    (
        Field("user", "User", "", f"ann; {rows.DEFAULT}: each without its own"),
        Field("client-id", "Client id", "", f"loader; {rows.DEFAULT}; with a user: of that user"),
        Field("ip", "Ip", "", f"10.0.0.7; {rows.DEFAULT}"),
        Field("quota", "Quota", choices=tuple(QuotaType)),
        Field("value", "Limit", "", "1000000: a second, or percent of a thread", is_needed=True),
    ),
    rows.quota_of,
    rows.quota_command,
    requests.set_quota,
)
TABS: Final = (
    Tab(
        "users", "Users", rows.USER_COLUMNS, requests.list_users, rows.user_row, rows.user_removal,
        requests.delete_user, "describe", None, "yak users add NAME adds one: it asks for the password",
    ),
    Tab(
        "acls", "ACLs", rows.ACL_COLUMNS, requests.list_acls, rows.acl_row, rows.acl_removal,
        requests.delete_acl, "describe", _ADD_ACL, "a adds one",
    ),
    Tab(
        "quotas", "Quotas", rows.QUOTA_COLUMNS, requests.list_quotas, rows.quota_row, rows.quota_removal,
        requests.delete_quota, "describe-configs", _ADD_QUOTA, "a sets one",
    ),
)  # fmt: skip
_BY_NAME: Final = {tab.name: tab for tab in TABS}


class SecurityScreen(AskingScreen):
    """Three tables in tabs. Users are added by the command, so that no password is typed here."""

    CRUMB = "security"
    CLI_TWIN = "yak users list, yak acls list, yak quotas list"
    EVERY_S = 10.0
    BINDINGS = keys("security")
    EXPLAINED = (
        ("User", "A name that may log in with SCRAM, with the mechanisms that it has a password for. Brokers keep keys made from the password with so many iterations, and never show them."),
        ("ACL", "Allows or denies a principal an operation on resources, from a host. deny wins over allow. Without an ACL only super.users may do something."),
        ("Pattern", "literal: the resource of this name, * for all of its type. prefixed: all whose names begin so."),
        ("Quota", "A limit of an entity: a user, a client id, both, or an ip, on each broker for itself. <default> is the limit of those without their own."),
    )  # fmt: skip

    def __init__(self) -> None:
        super().__init__()
        self._items: dict[str, Mapping[str, Any]] = {}
        self._errors: dict[str, YakError] = {}

    def body(self) -> ComposeResult:
        with TabbedContent(id="security-tabs"):
            for tab in TABS:
                with TabPane(tab.label, id=f"tab-{tab.name}"):
                    yield Panel(tab.label, Grid(id=tab.name), id=f"{tab.name}-panel")

    async def ask(self) -> None:
        await asyncio.gather(*map(self._ask_tab, TABS))

    async def _ask_tab(self, tab: Tab) -> None:
        try:
            self._items[tab.name] = await self.app.source.kafka(tab.read)
            self._errors.pop(tab.name, None)
        except YakError as error:
            self._errors[tab.name] = error
            if rows.is_refusal(error):
                self._items.pop(tab.name, None)

    def paint(self, now_ms: int) -> None:  # noqa: ARG002 - nothing here has a time
        for tab in TABS:
            items, error = self._items.get(tab.name), self._errors.get(tab.name)
            empty = "asking ..."
            if error is not None:
                empty = rows.error_text(error, tab.needs)
            elif items is not None:
                empty = f"{tab.label}: none. {tab.how}."
            table = [tab.row(key, item) for key, item in (items or {}).items()]
            self.show_table(f"#{tab.name}", tab.columns, table, empty)
            title = tab.label if items is None else f"{tab.label}: {self.fmt.number(len(items))}"
            failed = "" if error is None or items is None else f"{self.fmt.sign('bad')} {error.message}"
            self.entitle(f"#{tab.name}-panel", title, failed or tab.how)

    def _tab(self) -> Tab:
        return _BY_NAME[self.query_one(TabbedContent).active.removeprefix("tab-")]

    def find_grid(self) -> Grid | None:
        return self.query_one(f"#{self._tab().name}", Grid)

    def opened(self, what: object) -> None:
        if str(what) in _BY_NAME:
            self.query_one(TabbedContent).active = f"tab-{what}"

    @on(TabbedContent.TabActivated)
    def tab_turned(self) -> None:
        self.query_one(f"#{self._tab().name}", Grid).focus()

    @work(exclusive=True, group="change")
    async def action_create(self) -> None:
        tab, adding = self._tab(), self._tab().adding
        if adding is None:
            self.app.notice(tab.how)
            return
        form = await self.fill_form(
            adding.title, adding.fields, lambda form: adding.command(adding.item(form)), yes=adding.title
        )
        if form is not None:
            item = adding.item(form)
            command = adding.command(item)
            if await self.carry_out(command, self.app.source.kafka(adding.create, item), f"done: {command}"):
                self.ask_again()

    @work(exclusive=True, group="change")
    async def action_delete(self) -> None:
        tab = self._tab()
        key = self.query_one(f"#{tab.name}", Grid).cursor_key
        item = self._items.get(tab.name, {}).get(key or "")
        if key is None or item is None:
            return
        title, text, command, typed = tab.removal(key, item)
        if await self.confirmed(title, text, command=command, typed=typed, yes="Remove"):
            removed = self.app.source.kafka(tab.remove, key, item)
            if await self.carry_out(command, removed, title.replace("Remove", "removed", 1), "warn"):
                self.ask_again()
