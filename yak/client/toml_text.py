"""Writes the small TOML of the context file: text, numbers, booleans, lists of them, and nested tables.

The standard library reads TOML but does not write it; tests check `tomllib.loads(dump_toml(x)) == x`.
"""

import json
import re
from typing import Any

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
