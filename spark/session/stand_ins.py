"""Small scripts that stand in for a program that Spark starts: `java`, `python`."""

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path


def stand_in(program: str, text: str, environment: Mapping[str, str] | None = None) -> str | None:
    """The path of a shell script that ends with `program` (`bin/java`), made once, under XDG_CACHE_HOME.

    Its folder's name is made of its text, so that nobody's script changes while Spark runs with it. None where it cannot be
    written, or is of no use: outside of POSIX.
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
    """A word for a shell, which takes it as it is."""
    return "'" + word.replace("'", "'\\''") + "'"
