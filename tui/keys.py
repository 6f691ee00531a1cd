"""All keys, in one table by action id, for bindings, help, key bar, palette and `[keys]` of the config.

A screen declares `BINDINGS = keys("topics")`, or single ids. The action is `action_` plus the id's last part, unless the
entry names another. No binding uses keys that browsers reserve (Ctrl+W, T, N, function keys). Capital letters change
the cluster. In text fields letters are text: `ctrl+s` sends from there too, and escape leaves the field.
"""

import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from textual.binding import Binding, BindingType
from textual.content import Content

from yak.errors import UsageError, YakError

if TYPE_CHECKING:
    from yak.tui.formatter import Formatter
    from yak.tui.screens.base import YakScreen


@dataclass(frozen=True, slots=True)
class Key:
    """An action by its id, `scope.name`: its keys, a word for the key bar, a sentence for the help.

    `scope` is the part before the first dot. Actions of one scope and of `everywhere` never share a key.
    """

    id: str
    keys: str
    label: str
    help: str
    is_change: bool = False
    in_key_bar: bool = True
    action: str = ""

    @property
    def action_name(self) -> str:
        return self.action or self.id.rpartition(".")[2].replace("-", "_")

    @property
    def scope(self) -> str:
        return self.id.partition(".")[0]


@dataclass(frozen=True, slots=True)
class Entry:
    """A screen, in the module of its name. `digit` may be empty, and `what`, the help of the digit.

    `aliases` are other words after `:`. With `has_tabs` each opens the tab of its name.
    """

    name: str
    digit: str
    what: str
    aliases: tuple[str, ...]
    has_tabs: bool = False
    title: str = ""

    @property
    def label(self) -> str:
        return self.title or self.name.title()

    def opens(self, word: str, argument: str | None) -> str | None:
        """What one of its words and an argument open in it."""
        return argument or (word if self.has_tabs and word in self.aliases else None)

    def make(self) -> "YakScreen":
        made: YakScreen = getattr(import_module(f"yak.tui.screens.{self.name}"), f"{self.name.title()}Screen")()
        return made


SCREENS: Final = (
    Entry("dashboard", "1", "cluster health, brokers, rates, activity", ("brokers", "cluster", "home")),
    Entry("topics", "2", "topics and their partitions", ("topic", "t")),
    Entry("messages", "3", "browse and tail records", ("m", "tail", "browse")),
    Entry("producer", "4", "send records, one or a file", ("produce", "send")),
    Entry("consumer", "5", "several subscriptions side by side", ("consume", "c")),
    Entry("groups", "6", "consumer groups, members, lag", ("group",)),
    Entry("metadata", "7", "the metadata log, and the cluster as it was", ("log",), title="Metadata log"),
    Entry("failover", "8", "move leaders, kill or pause brokers, see the effect", ("chaos", "drill")),
    Entry("replication", "9", "every partition: replicas, lag, elections", ("isr", "partitions", "replicas")),
    Entry("activity", "0", "all events, and all that you did", ("events", "history")),
    Entry("security", "", "", ("users", "acls", "quotas"), has_tabs=True),
    Entry("contexts", "", "", ("ctx", "context")),
)


# A quiet key is not in the key bar.
_change = partial(Key, is_change=True)
_quiet = partial(Key, in_key_bar=False)
_quiet_change = partial(Key, is_change=True, in_key_bar=False)
_RESET: Final = ("r", "move offsets", "Reset committed offsets: to earliest, latest, a time, ... Shows a plan first.")

_TABLE: Final = (
    *(
        _quiet(f"go.{each.name}", each.digit, each.name, f"Go to {each.what}.", action=f"go('{each.name}')")
        for each in SCREENS
        if each.digit
    ),
    Key("app.command", "colon", "command", "Type a command: a screen or an action."),
    Key(
        "app.find",
        "slash",
        "filter",
        "Show only lines with a text; !text: without it; ~text: a regular expression.",
    ),
    Key("app.help", "question_mark", "help", "List the keys of this screen."),
    _quiet("app.palette", "ctrl+p", "palette", "All commands, found by any part of their name."),
    _quiet("app.back", "escape,q", "back", "Go back; a filter is cleared first."),
    _quiet("app.leave", "Q", "quit", "Quit yak ui."),
    _quiet("app.last", "minus", "last", "The previous screen."),
    _quiet("app.zone", "Z", "zone", "Show times in UTC, in local time, or as ages."),
    _quiet("app.wide", "w", "wide", "Show all columns, also those that do not fit."),
    _quiet("app.zoom", "z", "zoom", "Zoom this panel to the whole window, and back."),
    _quiet("app.notices", "exclamation_mark", "notices", "List all notices and errors."),
    _quiet("app.explain", "i", "explain", "Explain the numbers on this screen."),
    _quiet("app.jump", "apostrophe", "jump", "Show a letter on each panel; type it to go there."),
    _quiet("app.freeze", "space", "pause", "Pause or resume the display; no event is lost."),
    _quiet("app.panel-next", "tab,l", "panel", "The next panel.", action="focus_next"),
    _quiet("app.panel-before", "shift+tab,h", "panel", "The panel before.", action="focus_previous"),
    _quiet("app.tab-before", "H", "tab", "The tab before.", action="tab(-1)"),
    _quiet("app.tab-next", "L", "tab", "The next tab.", action="tab(1)"),
    _quiet("grid.down", "j,down", "down", "Down.", action="cursor(1)"),
    _quiet("grid.up", "k,up", "up", "Up.", action="cursor(-1)"),
    _quiet("grid.top", "g,home", "top", "The first line."),
    _quiet("grid.bottom", "G,end", "bottom", "The last line."),
    _quiet("grid.page-down", "ctrl+d,pagedown", "half a page", "Half a page down.", action="page(1)"),
    _quiet("grid.page-up", "ctrl+u,pageup", "half a page", "Half a page up.", action="page(-1)"),
    Key("grid.open", "enter", "open", "Open the line under the cursor."),
    _quiet("grid.sort", "s", "sort", "Sort by the next column; click on a heading for that one."),
    _quiet("grid.left", "left", "left", "Columns to the left.", action="across(-8)"),
    _quiet("grid.right", "right", "right", "Columns to the right.", action="across(8)"),
    Key("dashboard.produce", "p", "produce", "Send records.", action="go('producer')"),
    Key("dashboard.consume", "c", "consume", "Read records.", action="go('messages')"),
    Key("dashboard.failover", "F", "failover", "Move leaders, or kill or pause a broker.", action="go('failover')"),
    Key("activity.copy", "y", "copy", "Copy the line; for your own changes, the command."),
    _change("topics.create", "a", "create", "Create a topic."),
    _change("topics.alter", "E", "edit", "Change configs, or add partitions."),
    _change("topics.delete", "X", "delete", "Delete the topic and its records."),
    Key("topics.browse", "m", "messages", "Its records."),
    Key("topics.produce", "p", "produce", "Produce to the topic."),
    Key("topics.describe", "d", "describe", "Describe the topic."),
    _quiet("topics.copy", "y", "copy", "Copy its name, or the line."),
    _quiet("topics.internal", "I", "internal", "Show internal topics too."),
    _change("partitions.move", "F", "move", "Elect another in-sync replica as leader."),
    _quiet("partitions.before", "left_square_bracket", "partition", "The partition before.", action="step(-1)"),
    _quiet("partitions.next", "right_square_bracket", "partition", "The next partition.", action="step(1)"),
    _change("replication.move", "F", "move", "Elect another in-sync replica as leader."),
    _change("replication.kill", "K", "kill", "kill -9 the broker that leads this partition."),
    _change("replication.pause", "P", "pause", "SIGSTOP the broker that leads this partition: it stops answering."),
    _change("replication.heal", "U", "resume", "Resume paused brokers, start dead ones.", action="resume"),
    Key("replication.problems", "o", "problems", "Show only partitions with problems, or all."),
    _quiet_change("replication.restart", "T", "restart", "Restart the leader after a controlled shutdown."),
    _quiet("replication.internal", "I", "internal", "Show internal topics too."),
    _quiet("replication.copy", "y", "copy", "Copy the line."),
    Key("records.view", "J", "view", "Show JSON, plain text or hex."),
    Key("records.copy", "y", "copy", "Copy the key, the value, the headers, the record, or the command that sends it."),
    Key("records.export", "x", "export", "Export the listed or marked records to a file: NDJSON or CSV."),
    Key("records.resend", "p", "resend", "Edit this record in the producer, and send it again."),
    _quiet("records.mark", "v", "mark", "Mark or unmark the record, and go to the next one."),
    _quiet("records.unmark", "V", "unmark", "Remove all marks."),
    _quiet(
        "records.next",
        "n",
        "next",
        "The next record that matches the last filter, or the next mark.",
        action="hit(1)",
    ),
    _quiet("records.before", "N", "before", "The previous match or mark.", action="hit(-1)"),
    Key("records.detail", "d", "detail", "Open or close the detail of the record."),
    Key("messages.seek", "o", "seek", "Read other topics or from another position: a time, an offset, the last N."),
    _quiet("messages.more", "m", "more", "Read on after the buffer was full: the older half is dropped."),
    _quiet("messages.consume", "c", "consume", "Add this as a subscription of the consumer screen."),
    Key("consumer.add", "a", "add", "Add a subscription, with or without a group.", action="add_tile"),
    Key("consumer.merge", "m", "merge", "Merge all subscriptions into one list by arrival, and back."),
    _change("consumer.commit", "C", "commit", "Commit the offsets that this tile has read."),
    Key("consumer.close", "X", "close", "Close this subscription; its member leaves the group.", action="close_tile"),
    Key("consumer.seek", "o", "seek", "Change this subscription."),
    _change("producer.send", "S,ctrl+s", "send", "Send the record, or the file."),
    _change("producer.repeat", "R", "repeat", "Send it repeatedly: a number of times, at a rate, or until stopped."),
    Key("producer.stop", "X", "stop", "Stop sending and wait for acknowledgements; again: do not wait."),
    Key("producer.value", "e", "edit", "Go to the value."),
    Key("producer.file", "f", "file", "Choose a CSV file."),
    Key("groups.reset", *_RESET),
    _change("groups.delete", "X", "delete", "Delete the group and its committed offsets."),
    Key("groups.consume", "c", "consume", "Read with a group.", action="go('consumer')"),
    _quiet("groups.copy", "y", "copy", "Copy its name."),
    Key("group.reset", *_RESET),
    _change("group.forget", "D", "forget", "Delete the group's committed offsets of the topic under the cursor."),
    _change("group.delete", "X", "delete", "Delete the group and its committed offsets."),
    Key("group.age", "t", "time lag", "Read the first unread records now: how old they are."),
    Key("group.messages", "m", "messages", "Records of the topic under the cursor."),
    _quiet("group.copy", "y", "copy", "Copy the line."),
    _change("reset.apply", "R,ctrl+s", "move", "Reset the offsets as planned."),
    Key("reset.again", "r", "again", "Compute the plan again."),
    Key("metadata.older", "left_square_bracket", "back", "One record back.", action="step(-1)"),
    Key("metadata.newer", "right_square_bracket", "on", "One record on.", action="step(1)"),
    Key("metadata.time", "T", "time", "Go to a time, or to a record by its number."),
    Key(
        "metadata.mark",
        "equals_sign",
        "mark",
        "Mark this record to compare it with the one under the cursor; again: unmark.",
    ),
    _quiet("metadata.copy", "y", "copy", "Copy the record as JSON."),
    _change("failover.move", "F", "failover", "Move the broker's leaders to other in-sync replicas."),
    _change("failover.kill", "K", "kill", "kill -9 the broker, or the metadata store."),
    _change("failover.pause", "P", "pause", "SIGSTOP: the broker stops answering, its connections stay open."),
    _change("failover.heal", "U", "resume", "Undo: resume paused brokers, start dead ones.", action="resume"),
    _change("failover.repeat", "R", "repeat", "Repeat the last action with the same choices."),
    _quiet_change("failover.restart", "T", "restart", "Restart the broker after a controlled shutdown."),
    _quiet_change("failover.add", "A", "add", "Add a broker."),
    _quiet("failover.copy", "y", "copy", "Copy the command of the last action."),
    _change("security.create", "a", "add", "Add an ACL, or set a quota; yak users add adds a user."),
    _change("security.delete", "X", "remove", "Remove the user, the ACL or the quota."),
    Key("security.again", "r", "refresh", "Refresh now."),
    _quiet("security.copy", "y", "copy", "Copy the line."),
    Key("contexts.add", "a", "add", "Add a context to the config file."),
    Key("contexts.remove", "X", "forget", "Remove the context from the config file; the cluster is not touched."),
    Key("contexts.again", "r", "try again", "Check now which clusters answer."),
    _quiet("contexts.copy", "y", "copy", "Copy the addresses."),
)
KEYS: Final = {key.id: key for key in _TABLE}
_SCOPES: Final = {scope: [key for key in _TABLE if key.scope == scope] for scope in {key.scope for key in _TABLE}}
CHANGE_ACTIONS: Final = frozenset(key.action_name for key in _TABLE if key.is_change)
"""Actions that change something: disabled in read-only mode."""
LOCAL_ACTIONS: Final = frozenset(
    KEYS[name].action_name for name in ("producer.file", "contexts.add", "contexts.remove")
)
"""Actions that read or change files of this machine."""
EVERYWHERE: Final = frozenset(key.id for key in _TABLE if key.scope in ("go", "app", "grid"))


def keys(*names: str) -> list[BindingType]:
    """Textual's bindings for actions, by id or by scope, in the order of the key bar. Raises KeyError for an unknown name."""
    return [
        Binding(key.keys, key.action_name, key.label, show=key.in_key_bar, id=key.id, tooltip=key.help)
        for each in names
        for key in (_SCOPES[each] if each in _SCOPES else [KEYS[each]])
    ]  # fmt: skip


def check_keymap(keymap: Mapping[str, str]) -> dict[str, str]:
    """The checked `[keys]` of a config: ids must exist, and two actions of one screen must not share a key.

    Raises UsageError: `unknown-action`, `key-clash`.
    """
    for each in keymap:
        if each not in KEYS:
            raise UsageError(
                "unknown-action",
                f'[keys] names "{each}", and there is no such action',
                why="actions are named as in yak ui's help (?)",
                try_=("yak ui, then :keys",),
            )
    for pressed, other, each in clashes(keymap):
        if other in keymap or each in keymap:
            raise UsageError(
                "key-clash",
                f'the key "{pressed}" would do two things: {other} and {each}',
                why="[keys] of the config gives it to both, or to one that stands beside the other",
                try_=("give one of them another key",),
            )
    return dict(keymap)


def clashes(keymap: Mapping[str, str]) -> list[tuple[str, str, str]]:
    """Keys that two actions of one scope share, as (key, id, id). The table itself has none."""
    found: list[tuple[str, str, str]] = []
    for scope in sorted({key.scope for key in KEYS.values()}):
        taken: dict[str, str] = {}
        for key in KEYS.values():
            if key.scope == scope or key.id in EVERYWHERE:
                for pressed in _split(keymap.get(key.id, key.keys)):
                    other = taken.setdefault(pressed, key.id)
                    if other != key.id:
                        found.append((pressed, other, key.id))
    return found


def _split(pressed: str) -> list[str]:
    return [each.strip() for each in pressed.split(",") if each.strip()]


_SECTIONS = {"app": "Everywhere", "go": "Screens", "grid": "In tables"}
_WIDTH = 14
K9S_KEYS = {"grid.page-down": "ctrl+f,pagedown", "grid.page-up": "ctrl+b,pageup", "topics.delete": "X,ctrl+d"}


def keys_of_screen(screen: "YakScreen") -> Content:
    """The keys of one screen, its own first, and the command that shows the same."""
    groups: dict[str, dict[str, tuple[str, str]]] = {}
    for active in screen.active_bindings.values():
        binding = active.binding
        key = KEYS.get(binding.id or "")
        if key is None or not active.enabled:
            continue
        scope = _SECTIONS.get(key.scope, screen.CRUMB or key.scope)
        pressed, text = groups.setdefault(scope, {}).get(key.id, ("", key.help))
        display = screen.app.get_key_display(binding)
        groups[scope][key.id] = (f"{pressed} {display}".strip(), text)
    order = [name for name in groups if name not in _SECTIONS.values()] + [n for n in _SECTIONS.values() if n in groups]
    width = max(30, min(screen.app.size.width * 96 // 100, 100) - _WIDTH - 8)
    parts = []
    if screen.CLI_TWIN:
        parts.append(Content.assemble("The same as a command: ", (screen.CLI_TWIN, "bold"), "\n\n"))
    for name in order:
        parts.append(Content.styled(f"{name}\n", "bold $accent"))
        parts += [_line(pressed, text, width) for pressed, text in groups[name].values()]
        parts.append(Content("\n"))
    parts.append(
        Content.styled("ctrl+d is half a page down here, not delete as in k9s; :k9s-keys changes that.", "$dim")
    )
    return Content("").join(parts)


def all_keys() -> Content:
    """Every action by its id, the name that `[keys]` in the config uses."""
    parts = [
        Content.styled(
            '[keys] of the config gives an action other keys, for example:  "topics.create" = "A"\n\n', "$dim"
        )
    ]
    scope = ""
    for key in KEYS.values():
        if key.scope != scope:
            scope = key.scope
            parts.append(Content.styled(f"{scope}\n", "bold $accent"))
        parts.append(_line(key.keys.replace(",", " "), f"{key.id}: {key.help}"))
    return Content("").join(parts)


def _line(pressed: str, text: str, width: int = 60) -> Content:
    padded = f"  {pressed}".ljust(_WIDTH) if len(pressed) < _WIDTH - 3 else f"  {pressed}  "
    first, *rest = textwrap.wrap(text, width) or [""]
    more = "".join(f"{'':{_WIDTH}}{line}\n" for line in rest)
    return Content.assemble((padded, "bold"), f"{first}\n{more}")


def explained(screen: "YakScreen") -> Content:
    """The terms of a screen, explained in a sentence each."""
    if not screen.EXPLAINED:
        return Content("There are no explanations for this screen.")
    parts = [Content.assemble((term, "bold $accent"), f"\n  {text}\n\n") for term, text in screen.EXPLAINED]
    return Content("").join(parts)


def notices(entries: Iterable[tuple[int, YakError | str, str]], fmt: "Formatter", now_ms: int) -> Content:
    """Notices and errors with their why and try, newest first."""
    parts: list[Any] = []
    for time_ms, said, tone in reversed(list(entries)):
        when = fmt.time(time_ms, now_ms)
        if isinstance(said, YakError):
            parts.append(Content.assemble(f"{when}  ", (f"{fmt.sign('bad')} {said.message}", "bold $error"), "\n"))
            parts += [Content(f"            why: {said.why}\n")] if said.why else []
            parts += [Content(f"            try: {each}\n") for each in said.try_]
        else:
            parts.append(Content.assemble(f"{when}  ", (said, "$warning" if tone in ("warn", "bad") else ""), "\n"))
    return Content("").join(parts) if parts else Content("No notices so far.")
