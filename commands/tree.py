"""The complete command tree, for shell completion and `yak help --json`. Imports every command."""

from typing import TYPE_CHECKING, Any

from yak.commands import registry
from yak.commands.app import CommandGroup, Leaf, add_leaf, load
from yak.commands.options import Flags

if TYPE_CHECKING:
    import typer


def full_app() -> "typer.Typer":
    """All commands in one Typer application."""
    import typer

    from yak.commands.help_format import YakCommand

    app = typer.Typer(name="yak", add_completion=True, rich_markup_mode=None, no_args_is_help=True)
    app.callback()(_nothing)
    for entry in registry.ENTRIES:
        found = load(entry)
        if isinstance(found, Leaf):
            add_leaf(app, entry.name, found, Flags(), [], YakCommand)
            continue
        group = typer.Typer(name=entry.name, help=found.summary, rich_markup_mode=None)
        group.callback()(_nothing)
        for name, leaf in found.leaves.items():
            add_leaf(group, name, leaf, Flags(), [], YakCommand, hidden=name in found.hidden)
        app.add_typer(group, name=entry.name)
    return app


def _nothing() -> None:
    """A Kafka-compatible log broker and its tools."""


def command_tree() -> list[dict[str, Any]]:
    """Every command with its parameters, as `yak help --json` prints it."""
    tree: list[dict[str, Any]] = []
    for entry in registry.ENTRIES:
        found = load(entry)
        node: dict[str, Any] = {"name": entry.name, "summary": entry.summary}
        if isinstance(found, CommandGroup):
            node["commands"] = [
                {"name": name, "summary": leaf.summary, **_described(leaf)} for name, leaf in found.visible().items()
            ]
        else:
            node |= _described(found)
        tree.append(node)
    return tree


def _described(leaf: Leaf) -> dict[str, Any]:
    from typer.main import get_command

    from yak.commands.app import typer_app
    from yak.commands.options import PREFIX

    parameters = []
    for parameter in get_command(typer_app(leaf)).params:
        if parameter.name is None or parameter.name.startswith(PREFIX) or getattr(parameter, "hidden", False):
            continue
        parameters.append(
            {
                "name": parameter.name,
                "kind": parameter.param_type_name,
                "names": [*parameter.opts, *parameter.secondary_opts],
                "help": getattr(parameter, "help", None) or "",
                "required": parameter.required,
                "repeatable": bool(parameter.multiple or parameter.nargs == -1),
                "flag": bool(getattr(parameter, "is_flag", False)),
            }
        )
    return {"examples": list(leaf.examples), "parameters": parameters}
