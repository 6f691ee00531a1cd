"""The layout of `--help`: usage, what it does, examples, then the options by panel. Plain text, 100 columns at most."""

from typing import Any

from typer.core import TyperCommand

from yak.commands.app import CONNECTION, PANELS

OTHER = "Other"


class YakCommand(TyperCommand):
    """A Typer command with our help. Its epilog holds the examples, one a line."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the whole help text."""
        self.format_usage(ctx, formatter)
        self.format_help_text(ctx, formatter)
        if self.epilog:
            formatter.write_paragraph()
            formatter.write("Examples:\n")
            for line in self.epilog.splitlines():
                formatter.write(f"  {line}\n")
        self.format_options(ctx, formatter)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments, then options under their panels."""
        panels: dict[str, list[tuple[str, str]]] = {"Arguments": [], **{panel: [] for panel in PANELS}}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is None:
                continue
            if parameter.param_type_name == "argument":
                panel = "Arguments"
            else:
                panel = getattr(parameter, "rich_help_panel", None) or OTHER
            panels.setdefault(panel, []).append(record)
        connection = panels.pop(CONNECTION)
        other = panels.pop(OTHER, [])
        for panel, records in [*panels.items(), (CONNECTION, connection), (OTHER, other)]:
            if records:
                with formatter.section(panel):
                    formatter.write_dl(records, col_max=34)
