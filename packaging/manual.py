"""Write the man pages and the completions of bash, zsh and fish, from the commands themselves.

    python packaging/manual.py [--out build/share]

yak.1 has the commands, yak-COMMAND.1 a command with its subcommands. The folders below --out are those of /usr/share.
"""

import argparse
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from typer._completion_shared import get_completion_script
from typer.main import get_command

from yak.commands import overview, registry
from yak.commands.app import CommandGroup, Leaf, load, typer_app
from yak.commands.help import EXIT_CODES
from yak.version import __version__

ROOT = Path(__file__).resolve().parent.parent
COMPLETIONS = {
    "bash": "bash-completion/completions/yak",
    "zsh": "zsh/vendor-completions/_yak",
    "fish": "fish/vendor_completions.d/yak.fish",
}
_FILES = (
    ("./yak-data", "The data directory of yak up."),
    ("~/.config/yak/config.toml", "Named clusters and settings; yak config show prints which file is read."),
    ("~/.local/state/yak/", "Tracebacks of the last error, and of bugs."),
)


def escaped(text: str) -> str:
    """Text for roff: no character of it is a command, and hyphens can be copied as they are."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("~", "\\(ti").replace("^", "\\(ha")
    text = text.replace("'", "\\(aq").replace("`", "\\(ga")
    text = re.sub(r"[^\x00-\x7f]", lambda match: f"\\[u{ord(match[0]):04X}]", text)
    return re.sub(r"^([.'])", r"\\&\1", text, flags=re.MULTILINE)


def head(name: str, summary: str) -> list[str]:
    """Title and name of a page."""
    return [
        f'.TH {escaped(name).upper()} 1 "" "yak {escaped(__version__)}" "YAK"',
        ".SH NAME",
        f"{escaped(name)} \\- {escaped(summary[:1].lower() + summary[1:].rstrip('.'))}",
    ]


def literal(lines: list[str]) -> list[str]:
    """Lines that are printed as they are."""
    return [".PP", ".nf", ".RS 4", *map(escaped, lines), ".RE", ".fi"]


def options(command: Any, context: Any) -> Iterator[str]:
    """Arguments and options of a command by panel, in the order of --help."""
    for panel, records in command.records_by_panel(context):
        yield f".PP\n.I {escaped(panel)}:"
        for names, text in records:
            yield f".TP\n.B {escaped(names)}\n{escaped(' '.join(text.split()))}"


def described(leaf: Leaf, program: str) -> Iterator[str]:
    """Usage, description, examples and options of one runnable command."""
    command = get_command(typer_app(leaf))
    context: Any = command.make_context(program, [], resilient_parsing=True)
    usage = " ".join(command.collect_usage_pieces(context))
    yield f".PP\n.B {escaped(program)}\n{escaped(usage)}"
    for paragraph in (command.help or leaf.summary).split("\n\n"):
        yield f".PP\n{escaped(' '.join(paragraph.split()))}"
    yield from literal(list(leaf.examples))
    yield from options(command, context)


def page(entry: registry.Entry) -> str:
    """The page of one command."""
    found = load(entry)
    lines = head(f"yak-{entry.name}", entry.summary)
    if isinstance(found, CommandGroup):
        lines += [".SH SYNOPSIS", f".B yak {escaped(entry.name)}\n.I COMMAND\n[OPTIONS] [ARGS]..."]
        lines += [".SH DESCRIPTION", escaped(found.summary)]
        if found.default is not None:
            lines += [f"Without a command: {escaped(found.default)}."]
        lines += literal(list(found.examples)) if found.examples else []
        lines += [".SH COMMANDS"]
        for name, leaf in found.visible().items():
            lines += [f".SS {escaped(name)}", *described(leaf, f"yak {entry.name} {name}")]
    else:
        usage, *rest = described(found, f"yak {entry.name}")
        lines += [".SH SYNOPSIS", usage.removeprefix(".PP\n"), ".SH DESCRIPTION", *rest]
    lines += [".SH EXIT STATUS", "See\n.BR yak (1).", ".SH SEE ALSO", ".BR yak (1)"]
    return "\n".join(lines) + "\n"


def first_page() -> str:
    """The page of `yak` itself."""
    entries = registry.ENTRIES
    lines = head("yak", "A Kafka-compatible log broker and its tools.")
    lines += [".SH SYNOPSIS", ".B yak\n[OPTIONS]\n.I COMMAND\n[ARGS]...", ".SH DESCRIPTION"]
    lines += ["YAK is a replicated log broker that Kafka's clients can use.", ".SH EXAMPLES"]
    lines += literal([line for line, _ in overview.EXAMPLES])
    for section in registry.SECTIONS:
        lines += [f".SH {escaped(section).upper()}"]
        for entry in entries:
            if entry.section == section:
                lines += [f".TP\n.BR yak\\-{escaped(entry.name)} (1)\n{escaped(entry.summary)}"]
    lines += [".SH EXIT STATUS"]
    lines += [f".TP\n.B {code}\n{escaped(meaning[:1].upper() + meaning[1:])}." for code, meaning in EXIT_CODES]
    lines += [".SH FILES"]
    lines += [f".TP\n.I {escaped(path)}\n{escaped(text)}" for path, text in _FILES]
    see = ",\n".join(f".BR yak\\-{escaped(entry.name)} (1)" for entry in entries)
    return "\n".join([*lines, ".SH SEE ALSO", see.replace(",\n", " ,\n")]) + "\n"


def completion(shell: str) -> str:
    """The completion script of a shell; it gets the completions from `yak`."""
    script = get_completion_script(prog_name="yak", complete_var="_YAK_COMPLETE", shell=shell)
    if shell == "zsh":  # the first use of an autoloaded file calls the file itself, not the function in it
        script = script.replace("compdef _yak_completion yak", '_yak_completion "$@"')
    return script.rstrip() + "\n"


def files() -> dict[str, str]:
    """Every file by its path below /usr/share."""
    pages = {"man/man1/yak.1": first_page()}
    pages |= {f"man/man1/yak-{entry.name}.1": page(entry) for entry in registry.ENTRIES}
    return pages | {path: completion(shell) for shell, path in COMPLETIONS.items()}


def main(argv: list[str]) -> int:
    """Write the files; returns the exit code."""
    parser = argparse.ArgumentParser(description="Write man pages and shell completions.")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "share")
    out: Path = parser.parse_args(argv).out
    written = files()
    for name, text in written.items():
        path = out / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    print(f"{out}: {len(written) - len(COMPLETIONS)} man pages, completions of {', '.join(COMPLETIONS)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
