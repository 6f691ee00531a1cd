"""Small scripts that replace a program that Spark starts: `java`, `python`."""

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path


def stand_in(program: str, text: str, environment: Mapping[str, str] | None = None) -> str | None:
    """Path of a shell script whose path ends with `program` (`bin/java`), created once under XDG_CACHE_HOME.

    Its folder's name is a digest of its text, so a script never changes while Spark runs it. None if it cannot be
    written, or outside of POSIX.
    """
    if os.name != "posix":
        return None
    env = os.environ if environment is None else environment
    cache = env.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    path = Path(cache, "yak", "stand-ins", hashlib.sha256(text.encode()).hexdigest()[:12], program)
    try:
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            fresh = path.with_name(f"{path.name}.{os.getpid()}")
            fresh.write_text(text)
            fresh.chmod(0o755)
            os.replace(fresh, path)
    except OSError:
        return None
    return str(path)


def quoted(word: str) -> str:
    """Quote a word for the shell."""
    return "'" + word.replace("'", "'\\''") + "'"
