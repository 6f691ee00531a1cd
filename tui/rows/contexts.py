"""Contexts as rows: clusters by name, and which of them answer. Pure."""

import shlex
from collections.abc import Mapping
from typing import Any, Final

from yak.client.addresses import parse_addresses
from yak.client.contexts import LAST
from yak.errors import UsageError
from yak.tui.formatter import Formatter
from yak.tui.rows.cells import Cell, Column, Row

COLUMNS: Final = (
    Column("", 1),
    Column("CONTEXT", 10, most=40),
    Column("MARKS", 6, most=24),
    Column("ANSWERS", 10, most=44),
    Column("ADDRESSES", 16, most=400, flex=1),
)
NO_ACCENT: Final = "none"


def context_rows(
    contexts: Mapping[str, Mapping[str, Any]], used: str, answers: Mapping[str, str | None], fmt: Formatter
) -> list[Row]:
    """One row per context.

    `answers` by name: empty if a broker answers, else the reason; None while the request is under way.
    """
    return [_row(name, contexts[name], name == used, answers.get(name), fmt) for name in sorted(contexts)]


def _row(name: str, values: Mapping[str, Any], is_used: bool, why: str | None, fmt: Formatter) -> Row:
    if why is None:
        answer = Cell("asking ...", "dim")
    elif why:
        answer = Cell(f"{fmt.sign('down')} no: {why}", "bad")
    else:
        answer = Cell(f"{fmt.sign('up')} answers", "good")
    is_production = is_set(values, "production")
    marks = ["PROD"] if is_production else []
    marks += [str(values["accent"])] if values.get("accent") else []
    return Row(
        name,
        Cell(fmt.sign("here") if is_used else "", "accent"),
        Cell(name, "strong"),
        Cell(" ".join(marks), "bad" if is_production else "dim"),
        answer,
        Cell(str(values.get("bootstrap_servers", ""))),
    )


def is_set(values: Mapping[str, Any], name: str) -> bool:
    """Whether a setting of a context is true; `yak context add --set production=true` writes a text."""
    said = values.get(name, False)
    return said.strip().lower() in ("1", "true", "yes", "on") if isinstance(said, str) else bool(said)


def values_of(form: Mapping[str, str]) -> dict[str, Any]:
    """The values for the config file. Raises UsageError."""
    if form["name"] == LAST or form["name"] != form["name"].strip():
        raise UsageError("usage", f'"{form["name"]}" cannot be the name of a context')
    try:
        values: dict[str, Any] = {"bootstrap_servers": parse_addresses(form["servers"])}
    except ValueError as error:
        raise UsageError("usage", "the brokers are host:port, with commas between them", why=str(error)) from None
    if form["production"] == "true":
        values["production"] = True
    if form["accent"] != NO_ACCENT:
        values["accent"] = form["accent"]
    if form["token"]:
        values["http_token"] = form["token"]
    return values


def add_command(form: Mapping[str, str]) -> str:
    """`yak context add`, without the token, which is secret. Raises UsageError."""
    argv = ["yak", "context", "add", form["name"], "-b", values_of(form)["bootstrap_servers"]]
    for name, value in values_of(form).items():
        if name != "bootstrap_servers":
            text = "TOKEN" if name == "http_token" else str(value).lower()
            argv += ["--set", f"{name}={text}"]
    return shlex.join(argv)
