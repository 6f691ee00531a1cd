"""Shell completion: topics and groups of the cluster, contexts of the file.

A completion must neither print an error nor delay the shell. The broker has 300 ms, and its answers are cached on disk.
"""

import json
import os
import time
from collections.abc import Callable
from contextlib import suppress

from yak.commands.settings import Settings
from yak.private_files import replace_file, user_folder

BUDGET_S = 0.3
FRESH_S = 10.0


def complete_context(incomplete: str) -> list[str]:
    """Contexts with this prefix."""
    try:
        names = sorted(Settings.load({}).contexts)
    except Exception:  # noqa: BLE001  (a shell completion stays silent whatever is wrong)
        return []
    return [name for name in names if name.startswith(incomplete)]


def complete_topic(incomplete: str) -> list[str]:
    """Topics with this prefix, from the broker, or from the cache when it does not answer in time."""
    return _complete("topics", _ask_topics, incomplete)


def complete_group(incomplete: str) -> list[str]:
    """Groups with this prefix, as in `complete_topic`."""
    return _complete("groups", _ask_groups, incomplete)


def _complete(kind: str, ask: Callable[[str], list[str]], incomplete: str) -> list[str]:
    try:
        from yak.commands.options import Flags, Globals

        servers = Globals.resolve(Flags(quiet=2)).bootstrap_servers
        return [name for name in _names(kind, ask, servers) if name.startswith(incomplete)]
    except Exception:  # noqa: BLE001  (as above)
        return []


def _ask_topics(servers: str) -> list[str]:
    from yak.client.metadata import topic_names

    return topic_names(servers, timeout_s=BUDGET_S)


def _ask_groups(servers: str) -> list[str]:
    from yak.client.groups.descriptions import group_names

    return group_names(servers, timeout_s=BUDGET_S)


def _names(kind: str, ask: Callable[[str], list[str]], servers: str) -> list[str]:
    path = _cache_path(kind, servers)
    known, age_s = _read(path)
    if known is not None and 0 <= age_s < FRESH_S:  # it is below 0 after the clock was set back
        return known
    try:
        names = ask(servers)
    except Exception:  # noqa: BLE001  (an old answer is better than none)
        return known or []
    with suppress(OSError):  # a home that is full or read-only
        os.makedirs(os.path.dirname(path), exist_ok=True)
        replace_file(path, json.dumps(names).encode())
    return names


def _cache_path(kind: str, servers: str) -> str:
    import hashlib  # which loads OpenSSL; every command imports this module

    return os.path.join(
        user_folder("XDG_CACHE_HOME", ".cache"), f"{kind}-{hashlib.sha256(servers.encode()).hexdigest()[:16]}.json"
    )


def _read(path: str) -> tuple[list[str] | None, float]:
    try:
        with open(path, encoding="utf-8") as file:
            return [str(name) for name in json.load(file)], time.time() - os.stat(path).st_mtime
    except (OSError, ValueError):
        return None, 0.0
