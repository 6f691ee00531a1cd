"""Options and arguments of commands, for `Annotated`."""

from typing import Any

import typer


def option(names: str, help_: str, panel: str | None = None, **more: Any) -> Any:
    """An option: its names separated by commas, its line of the help, and its group there (None: the general one)."""
    return typer.Option(*names.split(", "), help=help_, rich_help_panel=panel, **more)


def argument(name: str, help_: str, **more: Any) -> Any:
    """A positional argument: its name in the usage line, and its line of the help."""
    return typer.Argument(metavar=name, help=help_, **more)
