"""`yak help`."""

import tomllib
from importlib.resources import files
from typing import Annotated, Final

from yak.commands.app import OUTPUT, CommandGroup, Leaf, command, flag
from yak.commands.options import Globals
from yak.commands.parameters import argument
from yak.errors import UsageError, YakError, closest

_TEXTS: Final = (files("yak.commands") / "error_help.toml").read_text(encoding="utf-8")
EXPLANATIONS: Final = {
    slug: YakError(slug, entry["what"], why=entry["why"], try_=tuple(entry["try"]))
    for slug, entry in tomllib.loads(_TEXTS).items()
}
"""Of each error what happened, its usual causes, and what to try."""

EXIT_CODES = (
    (0, "done"),
    (1, "the operation, or any item of it, failed"),
    (2, "wrong usage"),
    (3, "no broker reachable, or authentication failed"),
    (4, "a check failed (doctor, isr --check, demo, --assert, a seed of sim)"),
    (5, "no result within the timeout"),
    (6, "the broker halted on a bug of its own (broker-halted in its log); start it again"),
    (7, "the broker halted since its last log directory failed (log-directories-lost in its log)"),
    (129, "SIGHUP: the terminal was closed"),
    (130, "Ctrl+C"),
    (143, "SIGTERM; yak serve shuts down cleanly and returns 0"),
)


@command(examples=("yak help topics create", "yak help unknown-topic", "yak help exit-codes"))
def help_(
    g: Globals,
    names: Annotated[list[str] | None, argument("WHAT", "A command, an error's slug, errors, or exit-codes.")] = None,
    json_: bool = flag("--json", "The tree of all commands, for tools.", OUTPUT, default=False),
) -> None:
    """Explain a command, an error or a topic."""
    from yak.commands.overview import overview

    if json_:
        from yak.commands.tree import command_tree

        g.out.json({"commands": command_tree(), "exit_codes": {str(code): text for code, text in EXIT_CODES}})
    elif not names:
        for line in overview().splitlines():
            g.out.line(line)
    elif names == ["exit-codes"]:
        rows = [{"code": code, "meaning": meaning} for code, meaning in EXIT_CODES]
        g.out.table(rows, ("code", "meaning"))
    elif names == ["errors"]:
        rows = [{"slug": slug, "what": each.message} for slug, each in sorted(EXPLANATIONS.items())]
        g.out.table(rows, ("slug", "what"))
    elif len(names) == 1 and names[0] in EXPLANATIONS:
        _explain_error(g, names[0])
    else:
        _explain_command(g, names)


def _explain_error(g: Globals, slug: str) -> None:

    found = EXPLANATIONS[slug]
    if g.out.document({"code": slug, "what": found.message, "why": found.why, "try": list(found.try_)}):
        return
    g.out.line(f"error[{slug}]: {found.message}")
    g.out.line(f"  why:  {found.why}")
    for index, step in enumerate(found.try_):
        g.out.line(("  try:  " if index == 0 else "        ") + step)


def _explain_command(g: Globals, names: list[str]) -> None:
    from yak.commands import registry
    from yak.commands.app import load
    from yak.commands.overview import group_overview

    entry = registry.BY_NAME.get(names[0])
    if entry is None:
        raise _nothing_known(names[0])
    found: Leaf | CommandGroup | None = load(entry)
    for name in names[1:]:
        found = found.leaves.get(name) if isinstance(found, CommandGroup) else None
    if found is None:
        raise _nothing_known(" ".join(names))
    if isinstance(found, CommandGroup):
        for line in group_overview(found).splitlines():
            g.out.line(line)
    else:
        _print_help(found, "yak " + " ".join(names))


def _print_help(leaf: Leaf, program: str) -> None:
    from typer.main import get_command

    from yak.commands.app import typer_app

    get_command(typer_app(leaf)).main(args=["--help"], prog_name=program, standalone_mode=False)


def _nothing_known(word: str) -> Exception:
    from yak.commands import registry

    known = [*registry.BY_NAME, *EXPLANATIONS, "exit-codes", "errors"]
    guess = closest(word, known)
    return UsageError(
        "unknown-command",
        f'there is no help on "{word}"',
        why=f'closest: "{guess}"' if guess else "help is there for commands, errors and exit-codes",
        try_=(f"yak help {guess}" if guess else "yak help", "yak help errors"),
    )
