"""Named clusters (contexts): their file, read and changed as a whole.

    current = "local"
    [contexts.local]
    bootstrap_servers = "127.0.0.1:9092"

A context may hold further settings of `yak`'s commands; this module preserves them unchanged.
"""

import json
import os
import re
from collections.abc import Mapping
from shlex import quote
from typing import Any

from yak.errors import UsageError, closest
from yak.private_files import make_directory, replace_file, user_folder

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def dump_toml(document: dict[str, Any]) -> str:
    """The document as TOML. Raises TypeError for a value that TOML or the context file does not support."""
    lines: list[str] = []
    _table(document, [], lines)
    return "\n".join(lines).strip("\n") + "\n"


def _table(table: dict[str, Any], path: list[str], lines: list[str]) -> None:
    plain = {key: value for key, value in table.items() if not isinstance(value, dict)}
    nested = {key: value for key, value in table.items() if isinstance(value, dict)}
    if path and (plain or not nested):
        lines += ["", "[" + ".".join(_key(part) for part in path) + "]"]
    lines += [f"{_key(key)} = {_value(value)}" for key, value in plain.items()]
    for key, value in nested.items():
        _table(value, [*path, key], lines)


def _key(key: str) -> str:
    return key if _BARE_KEY.fullmatch(key) else _text(key)


def _text(text: str) -> str:
    # JSON's escapes are valid in TOML, except that JSON does not escape DEL.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, list):
        return "[" + ", ".join(_value(each) for each in value) + "]"
    raise TypeError(f"{type(value).__name__} cannot be written as TOML")


CURRENT, PREVIOUS, CONTEXTS = "current", "previous", "contexts"
KEYS = "keys"
"""The table of the terminal UI's keys."""
LAST = "-"
"""Used as a name: the previous context."""
ACCENTS = ("red", "orange", "yellow", "green", "cyan", "blue", "purple", "magenta")
"""Colours that a context may have by name."""


def config_path(flag: str | None, environment: Mapping[str, str]) -> str:
    """The contexts' file: the flag, `YAK_CONFIG`, or `yak/config.toml` under `XDG_CONFIG_HOME` (`~/.config`)."""
    if flag:
        return flag
    if named := environment.get("YAK_CONFIG"):
        return named
    return os.path.join(user_folder("XDG_CONFIG_HOME", ".config", environment), "config.toml")


def read_toml(path: str) -> dict[str, Any]:
    """The file's tables; empty when there is no file. Raises UsageError (`config-file`)."""
    try:
        with open(path, "rb") as file:
            import tomllib  # imported when there is a file: most brokers start without it

            return tomllib.load(file)
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise UsageError(
            "config-file", f"{path} cannot be read", why=why, try_=(f"correct or remove {path}",)
        ) from None


def contexts_in(document: Mapping[str, Any], path: str) -> dict[str, dict[str, Any]]:
    """The contexts of a document that was read from `path`. Raises UsageError (`config-file`, `unknown-setting`)."""
    for name in document:
        if name not in (CURRENT, PREVIOUS, CONTEXTS, KEYS):
            raise UsageError(
                "unknown-setting",
                f'"{name}" in {path} is not a setting',
                why="that file has contexts, each a table [contexts.NAME] of settings, and [keys] of yak ui",
                try_=("yak context add NAME -b HOST:PORT", "put settings of one folder into ./yak.toml"),
            )
    found = document.get(CONTEXTS, {})
    if not isinstance(found, dict) or not all(isinstance(context, dict) for context in found.values()):
        raise UsageError("config-file", f"{path} cannot be read", why="[contexts.NAME] must be tables")
    return found


def read_contexts(path: str) -> dict[str, dict[str, Any]]:
    """All contexts of a file. Raises UsageError (`config-file`)."""
    return contexts_in(read_toml(path), path)


def add_context(path: str, name: str, values: Mapping[str, Any], *, use: bool = False) -> bool:
    """Add or replace a context. The first one becomes current, others only with `use`. Returns whether it is current.

    Raises UsageError (`usage`, `config-file`).
    """
    if not name or name == LAST:
        raise UsageError(
            "usage", f'"{name}" cannot be the name of a context', why="yak context use - means the one before"
        )
    document = read_toml(path)
    contexts = contexts_in(document, path)
    document[CONTEXTS] = {**contexts, name: dict(values)}
    if use or not document.get(CURRENT):
        _switch(document, name)
    _write(path, document)
    return bool(document[CURRENT] == name)


def use_context(path: str, name: str) -> tuple[str, dict[str, Any]]:
    """Make a context current (`-`: the previous one); its name and values.

    Raises UsageError (`no-previous-context`, `unknown-context`, `config-file`).
    """
    document = read_toml(path)
    contexts = contexts_in(document, path)
    if name == LAST:
        name = document.get(PREVIOUS) or ""
        if not name:
            raise UsageError("no-previous-context", "there is no context before this one", try_=("yak context list",))
    if name not in contexts:
        raise unknown_context(name, sorted(contexts), path)
    _switch(document, name)
    _write(path, document)
    return name, contexts[name]


def remove_context(path: str, name: str) -> None:
    """Remove a context; the cluster is not affected. Raises UsageError (`unknown-context`, `config-file`)."""
    document = read_toml(path)
    contexts = contexts_in(document, path)
    if name not in contexts:
        raise unknown_context(name, sorted(contexts), path)
    del contexts[name]
    for key in (CURRENT, PREVIOUS):
        if document.get(key) == name:
            del document[key]
    _write(path, document)


def unknown_context(name: str, known: list[str], path: str) -> UsageError:
    """The error for a context that is not in the file."""
    guess = closest(name, known)
    return UsageError(
        "unknown-context",
        f'context "{name}" does not exist',
        why=f"{path} has: {', '.join(known) or 'none'}" + (f'; closest: "{guess}"' if guess else ""),
        try_=(
            f"yak context use {quote(guess)}" if guess else f"yak context add {quote(name)} -b HOST:PORT",
            "yak context list",
        ),
    )


def _switch(document: dict[str, Any], name: str) -> None:
    if document.get(CURRENT) not in (None, name):
        document[PREVIOUS] = document[CURRENT]
    document[CURRENT] = name


def _write(path: str, document: dict[str, Any]) -> None:
    """Replace the file atomically, readable by its owner only: a URL or a token in it may be a secret."""

    folder = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(folder):
        make_directory(folder)
    replace_file(path, dump_toml(document).encode())
