"""The expressions of `consume --filter`.

    k:TEXT  v:TEXT  TEXT         the key, the value, or either holds the text
    k:~RE   v:~RE                … matches the regular expression
    h:NAME  h:NAME=TEXT          has the header; the header holds the text (or ~RE)
    v:.total > 10                a JSON path of the value compared: > >= < <= == != ~   (k: works too)
    !…                           not

A record must match all filters of a command. Up to three letters before a colon that are none of these are refused.
"""

import json
import operator
import re
from collections.abc import Callable
from typing import Any, TypeAlias

from yak.client.consumer import ConsumerRecord
from yak.errors import UsageError

Filter: TypeAlias = Callable[[ConsumerRecord], bool]
_COMPARED = re.compile(r"(\.[^\s=<>!~]*|\.)\s*(>=|<=|==|!=|=|>|<|~)\s*(.+)", re.DOTALL)
_STEP = re.compile(r"\.([^.\[\]]+)|\[(-?[0-9]{1,18})\]|\.(?=\[)")
_UNKNOWN_KIND = re.compile(r"[a-z]{1,3}:")
_ORDERS = {">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le}
_MISSING = object()


def parse_filter(text: str) -> Filter:
    """Parse one expression into a filter. Raises UsageError (`bad-filter`)."""
    if text.startswith("!"):
        inner = parse_filter(text[1:])
        return lambda record: not inner(record)
    kind, colon, rest = text.partition(":")
    if colon and kind in ("k", "key", "v", "value"):
        take = operator.attrgetter("key" if kind[0] == "k" else "value")
        if rest.lstrip().startswith("."):
            return _path_filter(take, rest.lstrip(), text)
        holds = _text_test(rest, text)
        return lambda record: holds(take(record))
    if colon and kind in ("h", "header"):
        return _header_filter(rest, text)
    if _UNKNOWN_KIND.match(text):
        raise _bad(text, f'"{kind}" is not k, v or h; to find this text, write v:{text}')
    holds = _text_test(text, text)
    return lambda record: holds(record.key) or holds(record.value)


def _text_test(wanted: str, whole: str) -> Callable[[bytes | None], bool]:
    if wanted.startswith("~"):
        pattern = _pattern(wanted[1:], whole)
        return lambda data: data is not None and pattern.search(data.decode(errors="replace")) is not None
    needle = wanted.encode("utf-8", "surrogateescape")
    return lambda data: data is not None and needle in data


def _header_filter(rest: str, whole: str) -> Filter:
    name, equals, wanted = rest.partition("=")
    if not name:
        raise _bad(whole, "a header filter needs a name: h:NAME or h:NAME=TEXT")
    if not equals:
        return lambda record: any(each == name for each, _ in record.headers)
    holds = _text_test(wanted, whole)
    return lambda record: any(each == name and holds(data) for each, data in record.headers)


def _path_filter(take: Callable[[ConsumerRecord], bytes | None], rest: str, whole: str) -> Filter:
    match = _COMPARED.fullmatch(rest.strip())
    if match is None:
        if any(character in " <>=~" for character in rest.strip()):
            raise _bad(whole, "a comparison is a path, one of > >= < <= == != ~, and a value")
        steps = parse_path(rest.strip(), whole)
        return lambda record: _find(take(record), steps) is not _MISSING
    path, sign, wanted = match.groups()
    steps = parse_path(path, whole)
    test = _comparison(sign, wanted.strip(), whole)
    return lambda record: test(_find(take(record), steps))


def parse_path(path: str, whole: str) -> list[str | int]:
    """`.a.b[0]` as steps; `.` is the whole value."""
    steps: list[str | int] = []
    at = 0
    while at < len(path) and path != ".":
        match = _STEP.match(path, at)
        if match is None:
            raise _bad(whole, f'"{path}" is not a path; one looks like .total or .lines[0].price')
        if match.group(1) is not None:
            steps.append(match.group(1))
        elif match.group(2) is not None:
            steps.append(int(match.group(2)))
        at = match.end()
    return steps


def _find(data: bytes | None, steps: list[str | int]) -> Any:
    try:
        found: Any = json.loads(data) if data is not None else _MISSING
    except (ValueError, RecursionError):
        return _MISSING
    for step in steps:
        try:
            found = found[step]
        except (KeyError, IndexError, TypeError):
            return _MISSING
    return found


def _comparison(sign: str, wanted: str, whole: str) -> Callable[[Any], bool]:
    if sign == "~":
        pattern = _pattern(wanted, whole)
        return lambda found: found is not _MISSING and pattern.search(_text_of(found)) is not None
    try:
        right = json.loads(wanted)
    except ValueError:
        right = wanted.strip("'")
    if sign in ("=", "=="):
        return lambda found: found is not _MISSING and _same(found, right)
    if sign == "!=":
        return lambda found: found is not _MISSING and not _same(found, right)
    return lambda found: _ordered(found, _ORDERS[sign], right)


def _same(found: Any, right: Any) -> bool:
    return bool(found == right) or _text_of(found) == _text_of(right)


def _text_of(found: Any) -> str:
    return found if isinstance(found, str) else json.dumps(found, ensure_ascii=False)


def _ordered(found: Any, holds: Callable[[Any, Any], bool], right: Any) -> bool:
    """Compare as numbers where both sides are numeric, even as text; else as text; missing or null never matches."""
    if found is _MISSING or found is None or isinstance(found, dict | list):
        return False
    try:
        return holds(float(found), float(right))
    except (TypeError, ValueError, OverflowError):
        return holds(_text_of(found), _text_of(right))


def _pattern(text: str, whole: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise _bad(whole, f"the regular expression is wrong: {error}") from None


def _bad(text: str, why: str) -> UsageError:
    return UsageError(
        "bad-filter",
        f'"{text}" is not a filter',
        why=why,
        try_=("--filter k:u1", "--filter 'v:.total > 10'", "--filter h:source=web"),
    )
