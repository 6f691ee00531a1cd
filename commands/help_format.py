"""The layout of `--help`: usage, description, examples, then the options by panel. Plain text, at most 100 columns."""

import re
from typing import Any

from typer.core import TyperCommand

from yak.commands.app import PANELS, WHAT

OTHER = "Other"
_TYPE_NAME = re.compile(r" ?<(str|int|float)[^>]*>")
_VALUES = {"str": "TEXT", "int": "N", "float": "N"}


class YakCommand(TyperCommand):
    """A Typer command with the help layout of yak. Its epilog holds the examples, one per line."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        self.format_usage(ctx, formatter)
        self.format_help_text(ctx, formatter)
        if self.epilog:
            formatter.write_paragraph()
            formatter.write("Examples:\n")
            for line in self.epilog.splitlines():
                formatter.write(f"  {line}\n")
        self.format_options(ctx, formatter)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """The usage line's arguments; Typer shows no ellipsis after a named argument that may be repeated."""
        pieces = [self.options_metavar or ""]
        for parameter in self.get_params(ctx):
            dots = "..." if parameter.nargs == -1 else ""
            pieces += [piece.removesuffix(dots) + dots for piece in parameter.get_usage_pieces(ctx)]
        return pieces

    def records_by_panel(self, ctx: Any) -> list[tuple[str, list[tuple[str, str]]]]:
        """Arguments, then options under their panels: their names with a word for the value, and their lines of the help."""
        panels: dict[str, list[tuple[str, str]]] = {"Arguments": [], WHAT: []}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is None:
                continue
            is_argument = parameter.param_type_name == "argument"
            panel = "Arguments" if is_argument else getattr(parameter, "rich_help_panel", None) or OTHER
            names = _TYPE_NAME.sub("" if is_argument else _value_name, record[0])
            panels.setdefault(panel, []).append((names, record[1]))
        last = [(panel, panels.pop(panel, [])) for panel in (*PANELS[1:], OTHER)]
        return [(panel, records) for panel, records in (*panels.items(), *last) if records]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments and options by panel."""
        for panel, records in self.records_by_panel(ctx):
            with formatter.section(panel):
                formatter.write_dl(records, col_max=34)


def _value_name(match: re.Match[str]) -> str:
    return " " + _VALUES[match.group(1)]
