"""`yak context`: clusters by name."""

import os
from typing import Annotated, Any

import typer

from yak.commands.app import WHAT, CommandGroup
from yak.commands.completing import complete_context
from yak.commands.options import Globals

context = CommandGroup(
    "context",
    "Name clusters and switch between them.",
    examples=("yak context add staging -b kafka.example:9092", "yak context use staging", "yak context use -"),
)

Name = Annotated[str, typer.Argument(help="Context.", autocompletion=complete_context, metavar="NAME")]


@context.command("add", examples=("yak context add local -b 127.0.0.1:9092", "yak context add prod -b k:9092 --use"))
def add(
    g: Globals,
    name: Annotated[str, typer.Argument(help="Its name.", metavar="NAME")],
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", help="Another setting; repeatable.", metavar="NAME=VALUE", rich_help_panel=WHAT),
    ] = None,
    use: Annotated[bool, typer.Option("--use", help="Use it from now on.", rich_help_panel=WHAT)] = False,
) -> None:
    """Add a context, or replace one; -b says where its brokers are."""
    from yak.commands.settings import BY_NAME, closest
    from yak.commands.topic_arguments import key_values
    from yak.errors import UsageError

    if name == "-":
        raise UsageError("usage", '"-" cannot be a name', why="yak context use - means the one before")
    values: dict[str, Any] = {"bootstrap_servers": g.bootstrap_servers}
    for setting, value in key_values(set_).items():
        plain = setting.replace("-", "_")
        if plain not in BY_NAME or plain == "context":
            raise UsageError(
                "unknown-setting",
                f'"{setting}" is not a setting of a context',
                why=f'closest: "{closest(plain, list(BY_NAME))}"',
                try_=("yak config show",),
            )
        values[plain] = value
    document = _read(g)
    document.setdefault("contexts", {})[name] = values
    if use or not document.get("current"):
        _switch(document, name)
    _write(g, document)
    g.out.note(f"context {name}: {values['bootstrap_servers']}" + (" (in use)" if document["current"] == name else ""))


@context.command("list", examples=("yak context list",))
def list_contexts(g: Globals) -> None:
    """List contexts."""
    current = g.settings.current
    rows = [
        {"current": "*" if name == current else "", "name": name, **values}
        for name, values in sorted(g.settings.contexts.items())
    ]
    if not g.out.for_people:
        for row in rows:
            row["current"] = row["current"] == "*"
    g.out.table(
        rows,
        ("current", "name", "bootstrap_servers"),
        ("redis_url",),
        empty="No contexts. yak context add NAME -b HOST:PORT makes one.",
    )


@context.command("use", examples=("yak context use staging", "yak context use -"))
def use_context(
    g: Globals, name: Annotated[str, typer.Argument(help="Context; - is the one before.", metavar="NAME|-",
                                                    autocompletion=complete_context)]
) -> None:  # fmt: skip
    """Use a context from now on."""
    from yak.commands.settings import unknown_context
    from yak.errors import UsageError

    document = _read(g)
    if name == "-":
        name = document.get("previous") or ""
        if not name:
            raise UsageError("no-previous-context", "there is no context before this one", try_=("yak context list",))
    if name not in document.get("contexts", {}):
        raise unknown_context(name, sorted(document.get("contexts", {})), g.settings.config_file)
    _switch(document, name)
    _write(g, document)
    g.out.note(f"using {name}: {document['contexts'][name].get('bootstrap_servers', '')}")


@context.command("show", examples=("yak context show", "yak context show staging -o json"))
def show(
    g: Globals,
    name: Annotated[
        str | None, typer.Argument(help="Context; the one in use if not given.", autocompletion=complete_context)
    ] = None,
) -> None:
    """Show one context."""
    from yak.commands.settings import unknown_context

    chosen = name or g.settings.context_name()
    if chosen is None:
        g.out.note("No context is in use. yak context add NAME -b HOST:PORT makes one.")
        return
    if chosen not in g.settings.contexts:
        raise unknown_context(chosen, sorted(g.settings.contexts), g.settings.config_file)
    values = {"name": chosen, **g.settings.contexts[chosen]}
    if g.output in ("json", "yaml"):
        g.out.object(values)
    else:
        g.out.table([{"setting": key, "value": value} for key, value in values.items()], ("setting", "value"))


@context.command("remove", examples=("yak context remove staging",))
def remove(g: Globals, name: Name) -> None:
    """Forget a context; the cluster is not touched."""
    from yak.commands.settings import unknown_context

    document = _read(g)
    if name not in document.get("contexts", {}):
        raise unknown_context(name, sorted(document.get("contexts", {})), g.settings.config_file)
    g.confirm(f"Forget context {name}?")
    del document["contexts"][name]
    for key in ("current", "previous"):
        if document.get(key) == name:
            del document[key]
    _write(g, document)
    g.out.note(f"forgot {name}")


def _read(g: Globals) -> dict[str, Any]:
    from yak.commands.settings import read_toml

    return read_toml(g.settings.config_file)


def _switch(document: dict[str, Any], name: str) -> None:
    if document.get("current") not in (None, name):
        document["previous"] = document["current"]
    document["current"] = name


def _write(g: Globals, document: dict[str, Any]) -> None:
    """Replace the file as a whole, readable by its owner only: a URL in it may hold a password."""
    from yak.commands.toml_text import dump_toml

    path = g.settings.config_file
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    temporary = f"{path}.{os.getpid()}"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(descriptor, "w", encoding="utf-8") as file:
        file.write(dump_toml(document))
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
