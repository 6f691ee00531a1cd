"""`yak context`: named clusters."""

from shlex import quote
from typing import Annotated, Any

import typer

from yak.commands.app import WHAT, CommandGroup, flag
from yak.commands.options import Globals
from yak.commands.parameters import argument
from yak.commands.settings import BY_NAME, parsed, unknown_setting, without_secrets
from yak.commands.shell_completion import complete_context
from yak.errors import UsageError

context = CommandGroup(
    "context",
    examples=("yak context add staging -b kafka.example:9092", "yak context use staging", "yak context use -"),
)

_PASSWORDS = {"sasl_password": "--login USER", "ssl_key_password": "export YAK_SSL_KEY_PASSWORD=..."}
"""Settings that no command line may have, and what to use instead."""
Name = Annotated[str, argument("NAME", "Context.", autocompletion=complete_context)]


@context.command(
    "add",
    examples=(
        "yak context add local -b 127.0.0.1:9092",
        "yak context add prod -b k:9092 --use --readonly",
        "yak context add prod -b k:9092 --login ann --password-file ann.secret",
    ),
    contexts_for="writing",
)
def add(
    g: Globals,
    name: Annotated[str, argument("NAME", "Its name.")],
    set_: list[str] | None = flag("--set", "Another setting; repeatable.", WHAT, metavar="NAME=VALUE"),
    login: str | None = flag(
        "--login", "Log in as this user, or client id of OAUTHBEARER; asks for the password.", WHAT, metavar="USER"
    ),
    password_file: str | None = flag(
        "--password-file", "Read the password from this file; - is the standard input.", WHAT, metavar="FILE"
    ),
    use: bool = flag("--use", "Make it the current context.", WHAT, default=False),
) -> None:
    """Add or replace a context; -b names its brokers.

    With --readonly, commands and yak ui refuse to change this cluster.
    """
    from yak.client.contexts import add_context
    from yak.commands.units import key_values
    from yak.commands.users import read_password

    values: dict[str, Any] = {"bootstrap_servers": g.bootstrap_servers}
    if g.settings.get("readonly").origin.startswith("flag "):
        values["readonly"] = True
    for setting, value in key_values(set_, "--set security_protocol=SSL").items():
        plain = setting.replace("-", "_")
        if plain not in BY_NAME or plain == "context":
            raise unknown_setting(setting, "--set")
        if plain in _PASSWORDS:
            why = "other users of this machine see the command line"
            raise UsageError("usage", "a password cannot be given with --set", why=why, try_=(_PASSWORDS[plain],))
        parsed(plain, value, "--set")
        values[plain] = value
    if login is None and password_file is not None:
        raise UsageError("usage", "--password-file needs --login", why="a password is that of a user")
    if login is not None:
        password = read_password(
            password_file, f"Password of {login}: ", f"yak context add {quote(name)} --login {quote(login)}"
        )
        uses_tls = str(values.get("security_protocol", "")).upper().endswith("SSL")
        values["security_protocol"] = "SASL_SSL" if uses_tls else "SASL_PLAINTEXT"
        values |= {"sasl_username": login, "sasl_password": password}
    is_used = add_context(g.settings.config_file, name, values, use=use)
    g.out.note(f"context {name}: {values['bootstrap_servers']}" + (" (in use)" if is_used else ""))


@context.command("list", examples=("yak context list",), contexts_for="listing")
def list_contexts(g: Globals) -> None:
    """List contexts."""
    current = g.settings.current
    rows = [
        {"current": "*" if name == current else "", "name": name, **without_secrets(values)}
        for name, values in sorted(g.settings.contexts.items())
    ]
    if not g.out.for_people:
        for row in rows:
            row["current"] = row["current"] == "*"
    g.out.table(
        rows,
        ("current", "name", "bootstrap_servers"),
        ("redis_url",),
        empty="No contexts. yak context add NAME -b HOST:PORT adds one.",
    )


@context.command("use", examples=("yak context use staging", "yak context use -"), contexts_for="listing")
def use_context(
    g: Globals,
    name: Annotated[str, argument("NAME|-", "Context; - is the previous one.", autocompletion=complete_context)],
) -> None:
    """Switch to a context."""
    from yak.client.contexts import use_context as use_from_now_on

    name, values = use_from_now_on(g.settings.config_file, name)
    g.out.note(f"using {name}: {values.get('bootstrap_servers', '')}")


@context.command("show", examples=("yak context show", "yak context show staging -o json"))
def show(
    g: Globals,
    name: Annotated[
        str | None, typer.Argument(help="Context.  [the current one]", autocompletion=complete_context)
    ] = None,
) -> None:
    """Show one context."""
    from yak.client.contexts import unknown_context

    chosen = name or g.settings.context_name()
    if chosen is None:
        g.out.note("No context is in use. yak context add NAME -b HOST:PORT adds one.")
        return
    if chosen not in g.settings.contexts:
        raise unknown_context(chosen, sorted(g.settings.contexts), g.settings.config_file)
    values = {"name": chosen, **without_secrets(g.settings.contexts[chosen])}
    if not g.out.document(values):
        g.out.table([{"setting": key, "value": value} for key, value in values.items()], ("setting", "value"))


@context.command("remove", examples=("yak context remove staging",), contexts_for="listing")
def remove(g: Globals, name: Name) -> None:
    """Delete a context; the cluster is not changed."""
    from yak.client.contexts import remove_context, unknown_context

    if name not in g.settings.contexts:
        raise unknown_context(name, sorted(g.settings.contexts), g.settings.config_file)
    g.confirm(f"Remove context {name}?")
    remove_context(g.settings.config_file, name)
    g.out.note(f"context {name}: removed")
