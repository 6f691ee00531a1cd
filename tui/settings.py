"""Settings of `yak ui`, from options, environment and the `[ui]` and `[keys]` tables of the config."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

UPLOADS: Final = "YAK_UI_UPLOADS"
"""The environment's name for the directory of uploads in browser mode."""
PUBLIC: Final = "YAK_UI_PUBLIC"
"""The environment's name for a tab that any client may open: read-only, and without a token."""


@dataclass(frozen=True, slots=True)
class UiSettings:
    """Appearance and permissions. `contexts` maps a name to the addresses of its brokers and its other settings."""

    is_readonly: bool = False
    is_public: bool = False
    """Whether any client may use it (`PUBLIC`): it shows one cluster, and no file of this machine."""
    is_ascii: bool = False
    is_production: bool = False
    theme: str = "yak-dark"
    zone: str = "utc"
    fps: float = 4.0
    keymap: Mapping[str, str] = field(default_factory=dict)
    contexts: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    context: str = ""
    config_file: str = ""
    """The config file with the contexts; empty if unknown."""
    accent: str = ""
    """A colour that marks this cluster; empty if it has none."""
    token: str = ""
    start: str = "dashboard"
    start_with: str | None = None
