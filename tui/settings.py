"""What `yak ui` is told: by options, environment and the `[ui]` and `[keys]` tables of the config."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class UiSettings:
    """How it looks and what it may do. `contexts` by name: where the brokers are, and what else is set there."""

    is_readonly: bool = False
    is_ascii: bool = False
    is_production: bool = False
    theme: str = "yak-dark"
    zone: str = "utc"
    fps: float = 4.0
    keymap: Mapping[str, str] = field(default_factory=dict)
    contexts: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    context: str = ""
    config_file: str = ""
    """Where contexts are kept; empty where that is not known."""
    accent: str = ""
    """A colour that marks this cluster; empty where it has none."""
    token: str = ""
    start: str = "dashboard"
    start_with: str | None = None
