"""The privileges of docs/operations.md are those that the scripts and the clients use."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
CLIENTS = {"ping", "select", "info", "client|id", "client|unblock", "client|setinfo", "config|get", "eval", "evalsha"}
READERS = {"xread", "xrange", "xrevrange", "hgetall", "smembers", "exists", "hget"}


def documented() -> set[str]:
    page = (ROOT / "docs" / "operations.md").read_text()
    line = next(re.finditer(r"^ACL SETUSER yak .*$", page, re.MULTILINE))[0]
    return set(re.findall(r"\+(\S+)", line))


def used_by_scripts() -> set[str]:
    scripts = (ROOT / "yak" / "server" / "redis_scripts").glob("*.lua")
    found: set[str] = set()
    for path in scripts:
        found |= {name.lower() for name in re.findall(r"redis\.p?call\('([A-Z]+)'", path.read_text())}
    return found


def test_privileges_are_exactly_those_in_use():
    assert documented() == CLIENTS | READERS | used_by_scripts()
