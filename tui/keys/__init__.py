"""All keys, in one table by the id of the action: bindings, help, key bar, palette and `[keys]` of the config are made from it.

A screen says `BINDINGS = keys("topics.create", ...)`; the action that is called is `action_` and the id's last part, unless the entry names one.
Keys that browsers keep for themselves (Ctrl+W, T, N, function keys) are used by none; who changes the cluster is a capital letter.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from yak.errors import UsageError
from yak.tui.keys import cluster, contexts, everywhere, failover, groups, messages, metadata, producer
from yak.tui.keys.key import Key

if TYPE_CHECKING:
    from textual.binding import BindingType

_PARTS = (everywhere, cluster, messages, producer, groups, metadata, failover, contexts)
KEYS: dict[str, Key] = {key.id: key for part in _PARTS for key in part.KEYS}
EVERYWHERE = frozenset(key.id for key in everywhere.KEYS)


def keys(*ids: str) -> "list[BindingType]":
    """Textual's bindings for actions, in the order in which the key bar shows them. Raises KeyError for an unknown id."""
    from textual.binding import Binding

    return [
        Binding(
            KEYS[each].keys,
            KEYS[each].action or each.rpartition(".")[2].replace("-", "_"),
            KEYS[each].label,
            show=KEYS[each].is_shown,
            id=each,
            tooltip=KEYS[each].help,
            priority=KEYS[each].is_priority,
        )
        for each in ids
    ]


def change_actions() -> frozenset[str]:
    """Names of the actions that change something: not bound when only looking is allowed."""
    return frozenset(
        key.action or key.id.rpartition(".")[2].replace("-", "_") for key in KEYS.values() if key.is_change
    )


def check_keymap(keymap: Mapping[str, str]) -> dict[str, str]:
    """The `[keys]` of a config, checked: ids that exist, and no key for two actions that can be pressed on one screen.

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
    for scope in {key.scope for key in KEYS.values()}:
        _check_scope([key for key in KEYS.values() if key.scope == scope or key.id in EVERYWHERE], keymap)
    return dict(keymap)


def _check_scope(scope: Iterable[Key], keymap: Mapping[str, str]) -> None:
    taken: dict[str, str] = {}
    for key in scope:
        for pressed in _split(keymap.get(key.id, key.keys)):
            other = taken.setdefault(pressed, key.id)
            if other != key.id and (key.id in keymap or other in keymap):
                raise UsageError(
                    "key-clash",
                    f'the key "{pressed}" would do two things: {other} and {key.id}',
                    why="[keys] of the config gives it to both, or to one that stands beside the other",
                    try_=("give one of them another key",),
                )


def clashes(scopes: Sequence[str] | None = None) -> list[tuple[str, str, str]]:
    """Keys that two actions of one scope have by default, as (key, id, id): none, which a test sees to."""
    found: list[tuple[str, str, str]] = []
    for scope in scopes or sorted({key.scope for key in KEYS.values()}):
        taken: dict[str, str] = {}
        for key in KEYS.values():
            if key.scope == scope or key.id in EVERYWHERE:
                for pressed in _split(key.keys):
                    other = taken.setdefault(pressed, key.id)
                    if other != key.id:
                        found.append((pressed, other, key.id))
    return found


def _split(pressed: str) -> list[str]:
    return [each.strip() for each in pressed.split(",") if each.strip()]
