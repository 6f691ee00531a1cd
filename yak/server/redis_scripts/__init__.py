"""The metadata store's Lua scripts, each with the shared parts it needs in front."""

import functools
import hashlib
from importlib.resources import files
from typing import NamedTuple

_PARTITION_SCRIPTS = (
    "alter_configs",
    "alter_isr",
    "alter_replicas",
    "create_partitions",
    "create_topic",
    "delete_topic",
    "elect",
    "leave_isr",
    "report_hw",
    "undo_half_made",
)
_SEED_SCRIPTS = ("seed_abort", "seed_commit")
_MIGRATION_SCRIPTS = ("cancel_export", "close_exported", "export_metadata", "import_metadata", "open_imported")
_SHARED = {"partitions": _PARTITION_SCRIPTS, "seeding": _SEED_SCRIPTS, "migration": _MIGRATION_SCRIPTS}
NAMES = (
    *_PARTITION_SCRIPTS,
    *_SEED_SCRIPTS,
    *_MIGRATION_SCRIPTS,
    "acquire_lease",
    "alloc_pid",
    "begin_stop",
    "bootstrap",
    "fence",
    "heartbeat",
    "register",
    "seed_offer",
    "trim",
    "unfence",
    "unregister",
    "verify",
)


class Script(NamedTuple):
    """A script: its SHA-1 for EVALSHA, and its source."""

    sha: str
    source: str


@functools.cache
def script(name: str) -> Script:
    """The script of that name, one of `NAMES`; read at first use, since a start needs only a few."""
    assert name in NAMES
    shared = [part for part, names in _SHARED.items() if name in names]
    parts = ["prologue", *shared, name]
    source = "".join(_read(part) for part in parts)
    return Script(hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest(), source)


@functools.cache
def _read(name: str) -> str:
    return (files(__name__) / f"{name}.lua").read_text(encoding="utf-8")
