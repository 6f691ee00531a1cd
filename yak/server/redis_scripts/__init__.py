"""The metadata store's Lua scripts. `load()` gives each with the shared prologue in front."""

import functools
import hashlib
from importlib.resources import files

NAMES = (
    "acquire_lease",
    "alloc_pid",
    "alter_configs",
    "alter_isr",
    "barrier",
    "begin_stop",
    "bootstrap",
    "create_partitions",
    "create_topic",
    "delete_topic",
    "elect",
    "fence",
    "heartbeat",
    "register",
    "renew_lease",
    "report_hw",
    "trim",
    "unfence",
    "unregister",
    "verify",
)


@functools.cache
def load() -> dict[str, tuple[str, str]]:
    """Script name to (SHA-1 for EVALSHA, source)."""
    folder = files(__name__)
    prologue = (folder / "prologue.lua").read_text(encoding="utf-8")
    scripts = {}
    for name in NAMES:
        source = prologue + (folder / f"{name}.lua").read_text(encoding="utf-8")
        scripts[name] = (hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest(), source)
    return scripts
