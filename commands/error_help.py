"""`yak help SLUG`: every error's slug, with its meaning, its usual causes, and what to try. The texts are in error_help.toml."""

import tomllib
from dataclasses import dataclass
from importlib.resources import files
from typing import Final


@dataclass(frozen=True, slots=True)
class Explanation:
    """What happened, its usual causes, and what to try."""

    what: str
    why: str
    try_: tuple[str, ...]


def _read() -> dict[str, Explanation]:
    text = (files("yak.commands") / "error_help.toml").read_text(encoding="utf-8")
    return {
        slug: Explanation(entry["what"], entry["why"], tuple(entry["try"]))
        for slug, entry in tomllib.loads(text).items()
    }


EXPLANATIONS: Final = _read()
