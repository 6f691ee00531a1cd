"""Configs of a topic as rows. Pure."""

from collections.abc import Iterable
from typing import Final

from yak.client.admin import ConfigValue
from yak.tui.look import Look, span
from yak.tui.rows.cells import Cell, Column, Row

COLUMNS: Final = (
    Column("CONFIG", 20, most=42),
    Column("VALUE", 10, most=34, flex=1, flash=True),
    Column("FROM", 7),
    Column("DEFAULT", 8, most=24, rank=1),
    Column("WHAT IT IS FOR", 12, most=200, flex=3, rank=2),
)
_NEVER: Final = 2**63 - 1


def config_rows(configs: Iterable[ConfigValue], look: Look) -> list[Row]:
    """Configs set for the topic first, then by name."""
    from yak.config.topic_config_table import TOPIC_CONFIGS

    rows = []
    for each in sorted(configs, key=lambda each: (each.source != "topic", each.name)):
        definition = TOPIC_CONFIGS.get(each.name)
        is_own = each.source == "topic"
        default = definition.default if definition is not None else None
        rows.append(
            Row(
                each.name,
                (
                    Cell(each.name, "strong" if is_own else ""),
                    Cell(in_words(each.name, each.value, look), "accent" if is_own else ""),
                    Cell(each.source, "accent" if is_own else "dim"),
                    Cell(in_words(each.name, default, look), "dim"),
                    Cell(documentation(each.name), "dim"),
                ),
            )
        )
    return rows


def documentation(name: str) -> str:
    """A config's documentation; empty if this version does not know it."""
    from yak.config.topic_config_table import TOPIC_CONFIGS

    definition = TOPIC_CONFIGS.get(name)
    return "" if definition is None else definition.documentation


def in_words(name: str, value: str | None, look: Look) -> str:
    """A value with a readable form: `604800000 (7 d)`, `1048588 (1.0 MiB)`."""
    if value is None or value == "":
        return look.sign("none")
    try:
        number = int(value)
    except ValueError:
        return value
    if number == _NEVER:
        return "never" if name.endswith(".ms") else "no limit"
    if number == -1 and name.startswith("retention."):
        return "-1 (no limit)"
    if name.endswith(".ms") and number >= 1000:
        return f"{value} ({span(number)})"
    if "bytes" in name and number >= 1024:
        return f"{value} ({look.size(number)})"
    return value


def config_words(config: ConfigValue, look: Look) -> list[list[Cell]]:
    """The config under the cursor in two lines."""
    changes = "read-only" if config.is_read_only else "E changes it"
    return [
        [
            Cell(config.name, "strong"),
            Cell(in_words(config.name, config.value, look)),
            Cell(f"from: {config.source}", "dim"),
            Cell(changes, "accent"),
        ],
        [Cell(documentation(config.name) or "this version of yak ui does not know it", "dim")],
    ]
