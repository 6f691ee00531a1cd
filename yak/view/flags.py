"""An option of a command line. Pure: Typer is imported where a command is made of the options."""

from dataclasses import field
from typing import Any


def flag(names: str, help_: str, panel: str | None = None, *, default: Any = None, **more: Any) -> Any:
    """An option, as the default of a parameter or of a dataclass's field: its names separated by commas, its line of the
    help, its group there (None: the general one), and further arguments of `typer.Option`."""
    return field(default=default, metadata={"names": names, "help_": help_, "panel": panel, **more})
