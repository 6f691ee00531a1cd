"""All keys, in one table by action id, for bindings, help, key bar, palette and `[keys]` of the config.

A screen declares `BINDINGS = keys("topics.create", ...)`. The action is `action_` plus the id's last part, unless the
entry names another. No binding uses keys that browsers reserve (Ctrl+W, T, N, function keys). Capital letters change
the cluster.
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
    """Textual's bindings for actions, in the order of the key bar. Raises KeyError for an unknown id."""
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
    """Names of the actions that change something: disabled in read-only mode."""
    return frozenset(
        key.action or key.id.rpartition(".")[2].replace("-", "_") for key in KEYS.values() if key.is_change
    )


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
    """Default keys that two actions of one scope share, as (key, id, id). A test checks that there are none."""
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
