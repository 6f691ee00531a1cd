"""Prints Spark's rows: JSON Lines, CSV and raw as they arrive, a table when all widths are known."""

import datetime as dt
import decimal
import json
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from yak.commands.options import Globals


def print_rows(g: "Globals", schema: Any, rows: Iterator[Any]) -> None:
    """Print rows of a DataFrame with this schema in the chosen format."""
    from yak.commands.output import flat, to_json

    columns = list(schema.names)
    zones = [None if each.dataType.typeName() == "timestamp_ntz" else g.zone for each in schema.fields]

    def values_of(row: Any) -> list[Any]:
        return [plain(value, zone) for value, zone in zip(row, zones, strict=True)]

    if g.out.format == "json":
        for row in rows:
            g.out.line(to_json(dict(zip(columns, values_of(row), strict=True))))
    elif g.out.format == "csv":
        if g.out.headers:
            g.out.csv_row(columns)
        for row in rows:
            g.out.csv_row([_cell(value) for value in values_of(row)])
    elif g.out.format == "raw":
        for row in rows:
            g.out.line("\t".join(flat(_cell(value)) for value in values_of(row)))
    else:
        names = _names_apart(columns)
        made = [dict(zip(names, map(_cell, values_of(row)), strict=True)) for row in rows]
        g.out.table(made, names, empty="No rows.")


def plain(value: Any, zone: dt.tzinfo | None = dt.UTC) -> Any:
    """A Spark value for JSON: bytes as text or hex, times in ISO-8601, rows and maps as objects.

    PySpark returns instants as this machine's local time without a zone; `zone` None leaves a time unchanged.
    """
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, bytes | bytearray):
        try:
            return bytes(value).decode()
        except UnicodeDecodeError:
            return bytes(value).hex()
    if isinstance(value, dt.datetime):
        if zone is None:
            return value.isoformat(timespec="milliseconds")
        return value.astimezone(zone).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    if isinstance(value, decimal.Decimal):
        return float(value) if value.as_tuple().exponent else int(value)
    if hasattr(value, "asDict"):
        return {name: plain(each, zone) for name, each in value.asDict().items()}
    if hasattr(value, "toPython"):  # a VARIANT
        return plain(value.toPython(), zone)
    if isinstance(value, dict):
        return {str(plain(key, zone)): plain(each, zone) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each, zone) for each in value]
    return str(value)


def _cell(value: Any) -> Any:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else value


def _names_apart(names: list[str]) -> list[str]:
    """Unique column names for a dictionary: a repeated name gets a number."""
    seen: dict[str, int] = {}
    apart = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        apart.append(name if seen[name] == 1 else f"{name} {seen[name]}")
    return apart
