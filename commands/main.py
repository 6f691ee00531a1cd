"""The `yak` program: finds the subcommand, imports only that, and converts every outcome to an exit code.

`EXIT_CODES` in `yak.commands.help` lists them. A traceback is never printed: it is written to `last-error.txt` under
`XDG_STATE_HOME`, or to a separate file for a bug.
"""

import errno
import gc
import io
import os
import sys
from typing import TYPE_CHECKING, Any, Final, NoReturn, TextIO

if TYPE_CHECKING:
    import re

    from yak.commands.app import CommandGroup, Leaf
    from yak.commands.options import Flags, Globals
    from yak.commands.output import Output
    from yak.errors import YakError

_BUG = "bug-"
_BUG_REPORTS_MAX = 20


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run one command line and exit."""
    argv = sys.argv[1:] if arguments is None else arguments
    _repair_streams()
    sys.exit(run(argv))


def _repair_streams() -> None:
    """Give a process without a standard stream an empty one, and show what a terminal's encoding cannot express as `?`.

    Otherwise the first file or socket would get the descriptor of the missing stream, and what is printed.
    """
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        stream = getattr(sys, name)
        if stream is None:
            null = os.open(os.devnull, os.O_RDWR)
            if null != number:
                os.dup2(null, number)
                os.close(null)
            setattr(sys, name, os.fdopen(number, mode, encoding="utf-8", closefd=False))
        elif isinstance(stream, io.TextIOWrapper) and name != "stdin" and stream.encoding.lower() != "utf-8":
            stream.reconfigure(errors="replace")


def run(argv: list[str]) -> int:
    """Run one command line; return the exit code."""
    made: list[Globals] = []
    try:
        try:
            code = _dispatch(argv, made)
        finally:
            _flush()
    except BrokenPipeError:
        return _reader_gone()
    except KeyboardInterrupt:
        return 130
    except SystemExit as stop:
        if isinstance(stop.__context__, BrokenPipeError):  # Typer handled it first and requests exit code 1
            return _reader_gone()
        return stop.code if isinstance(stop.code, int) else 1
    except Exception as error:  # noqa: BLE001  (the border of the program)
        from yak.errors import YakError

        # a `finally` block failed on the same closed pipe; the cause of a YakError is a broker's connection
        if isinstance(error.__context__, BrokenPipeError) and not isinstance(error, YakError):
            return _reader_gone()
        if isinstance(error, SystemError):
            from yak.commands import interrupts

            if code := interrupts.exit_code():
                return code
        return _report(error, argv, made)
    return code


def _flush() -> None:
    """Flush stdout. A closed pipe hides neither the exit code nor the error of the command, which has ended."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _reader_gone()
    except OSError:
        _discard(sys.stdout)
        raise


def _reader_gone() -> int:
    """The reader of stdout is gone (`yak … | head`)."""
    _discard(sys.stdout)
    return 0


def _discard(stream: TextIO) -> None:
    """Keep Python's flush at exit from failing on what a stream still holds: it prints an error and exits with 120."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _dispatch(argv: list[str], made: "list[Globals]") -> int:
    if argv in (["--version"], ["-V"]):
        from yak import __version__

        print(f"yak {__version__}")
        return 0
    if "_YAK_COMPLETE" in os.environ or argv[:1] in (["--install-completion"], ["--show-completion"]):
        from yak.commands.tree import full_app

        full_app()(args=argv, prog_name="yak")
        return 0
    from yak.commands import lean_dataclasses

    lean_dataclasses.install()
    from yak.commands.options import split_before

    before, rest = split_before(argv)
    if not rest or rest[0] in ("-h", "--help"):
        from yak.commands.overview import overview

        print(overview())
        return 0
    if rest[0] == "--version":
        return _run_command(["version", *rest[1:]], before, made)
    if rest[0].startswith("-"):
        from yak.errors import UsageError

        raise UsageError("usage", f"no such option: {rest[0]}", try_=("yak --help",))
    return _run_command(rest, before, made)


def _run_command(rest: list[str], before: "Flags", made: "list[Globals]") -> int:
    from yak.commands import aliases, interrupts, registry
    from yak.commands.app import CommandGroup, load

    name, *after = aliases.resolve(rest)
    entry = registry.BY_NAME.get(name)
    if entry is None:
        raise _unknown_command(name, list(registry.BY_NAME), "yak", after)
    interrupts.install()
    if name == "serve" and _serve_at_once(after, before, made):
        return 0
    found = load(entry)
    if isinstance(found, CommandGroup):
        return _run_group(found, after, before, made)
    return _run_leaf(found, f"yak {name}", after, before, made)


def _serve_at_once(after: list[str], before: "Flags", made: "list[Globals]") -> bool:
    """Run a broker without Typer's imports (see `yak.commands.serve`); False when Typer must parse the arguments.

    The garbage collector would traverse the imported objects some 30 times; `run_server` turns it on again.
    """
    gc.disable()
    try:
        from yak.commands.options import Globals
        from yak.commands.serve import parse_arguments, run

        flags = parse_arguments(after)
        if flags is None:
            return False
        made.append(Globals.resolve(before))
        run(made[-1], flags)
        return True
    finally:
        gc.enable()


def _run_group(group: "CommandGroup", after: list[str], before: "Flags", made: "list[Globals]") -> int:
    from yak.commands.options import Flags, split_before

    if after and after[0] in group.aliases:
        after = [group.aliases[after[0]], *after[1:]]
    elif group.rewrite is not None:
        after = group.rewrite(after)
    between, rest = split_before(after)
    if rest[:1] in (["-h"], ["--help"]) or (not rest and group.default is None):
        from yak.commands.overview import group_overview

        print(group_overview(group))
        return 0 if rest else 2
    name = rest[0] if rest and not rest[0].startswith("-") else group.default
    if name is None:
        from yak.errors import UsageError

        raise UsageError("usage", f"no such option: {rest[0]}", try_=(f"yak {group.name} --help",))
    if rest and rest[0] == name:
        rest = rest[1:]
    else:
        # The default subcommand is used: its own options may have the names of global ones.
        between, rest = Flags(), after
    leaf = group.leaves.get(name)
    if leaf is None:
        raise _unknown_command(name, list(group.visible()), f"yak {group.name}", rest)
    return _run_leaf(leaf, f"yak {group.name} {name}", rest, before.overlaid_by(between), made)


def _run_leaf(leaf: "Leaf", program: str, argv: list[str], before: "Flags", made: "list[Globals]") -> int:
    from typer.main import get_command

    from yak.commands.app import typer_app

    command = get_command(typer_app(leaf, before, made))
    try:
        code = command.main(args=argv, prog_name=program, standalone_mode=False)
    except Exception as error:
        # The parser's error for an option without its value does not name its command.
        if callable(getattr(error, "format_message", None)) and getattr(error, "ctx", None) is None:
            error.ctx = command.context_class(command, info_name=program)  # type: ignore[attr-defined]
        raise
    return code if isinstance(code, int) else 0


def _unknown_command(name: str, known: list[str], program: str, after: list[str]) -> "YakError":
    import shlex

    from yak.errors import UsageError, closest

    guess = closest(name, known)
    return UsageError(
        "unknown-command",
        f'"{program} {name}" is not a command',
        why=f'closest: "{guess}"' if guess else f"commands are {', '.join(known)}",
        try_=((" ".join([program, guess, *map(shlex.quote, after)]),) if guess else ()) + (f"{program} --help",),
    )


def _report(error: Exception, argv: list[str], made: "list[Globals]") -> int:
    """Print an error; return its exit code."""
    from yak.errors import YakError

    out = made[-1].out if made else _early_output(argv)
    failure = error if isinstance(error, YakError) else _translate(error)
    is_bug = failure is not error and failure.code == "internal"
    if failure.meant is not None and (meant := _meant_command(argv, *failure.meant)):
        failure.try_ = (meant, *failure.try_)
    path = _keep_traceback(error, argv, is_bug=is_bug)
    if is_bug and path:
        failure.try_ = (f"less {path}", *failure.try_)
    try:
        out.error(failure)
        if path and out.verbose and out.quiet < 2:
            out.stderr.write(f"  traceback: {path}\n")
    except OSError:  # a full disk: only the exit code is left
        _discard(sys.stderr)
    return failure.exit_code


def _meant_command(argv: list[str], wrong: str, right: str) -> str:
    """The command line with another name for an argument, alone or in front of `:PARTITION`; empty if it has none.

    Without --yes: a guessed name is not deleted without a question.
    """
    import shlex

    argv = [argument for argument in argv if argument not in ("--yes", "-y")]
    for index, argument in enumerate(argv):
        name, colon, rest = argument.partition(":")
        if name == wrong:
            return shlex.join(["yak", *argv[:index], f"{right}{colon}{rest}", *argv[index + 1 :]])
    return ""


def _translate(error: Exception) -> "YakError":
    """A YakError for an exception of Typer, of the system, or of a bug."""
    from yak.errors import UsageError, YakError, first_in

    describe = getattr(error, "format_message", None)
    if callable(describe):
        context = getattr(error, "ctx", None)
        closest = _closest_options(error, context)
        program = context.command_path if context is not None else "yak"
        return UsageError(
            "usage",
            _sentence(describe(), getattr(error, "param", None)),
            why=f"closest: {', '.join(closest)}" if closest else "",
            try_=(f"{program} --help",),
        )
    if isinstance(error, UnicodeEncodeError) and error.reason == "surrogates not allowed":
        return UsageError("usage", "an argument is not UTF-8", why=f"it has {error.object[error.start]!a}")
    if type(error).__name__ == "Abort":
        return UsageError("not-confirmed", "nothing was changed", why="the question was not answered")
    if isinstance(error, OSError):
        try:
            os.getcwd()
        except FileNotFoundError:
            return YakError("system", "the working directory does not exist", why="it was deleted", try_=("cd /",))
        what = f"{error.filename}: {error.strerror}" if error.filename else error.strerror or str(error)
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        try_ = ("df -h          make room on that disk, and repeat the command",) if full else ()
        return YakError("system", what, why=f"the operating system refused ({type(error).__name__})", try_=try_)
    inner = first_in(error)  # a broker's tasks raise a group; the inner exception says more
    why = f"{type(inner).__name__}: {inner}".splitlines()[0]
    return YakError("internal", "yak has a bug", why=why, try_=("report it with its traceback",))


def _closest_options(error: Any, context: Any) -> list[str]:
    """The options that Typer suggests for an unknown one and that the help shows; they leave its message."""
    if context is None or not getattr(error, "possibilities", None):
        return []
    hidden = {name for each in context.command.params if getattr(each, "hidden", False) for name in each.opts}
    found = [each for each in error.possibilities if each not in hidden]
    error.possibilities = []
    return found


_PLAIN: Final = {
    r"Got unexpected extra arguments?(?:\(s\))? \((.*)\)": r"too many arguments: \1",
    "(?<=': ).* is not a valid int.*": "it is not a whole number",
    "(?<=': ).* is not a valid float.*": "it is not a number",
}
"""Phrases of the library that parses options, and those for a user."""
_OUTSIDE: Final = r"(?<=': )(-?).* is not in the range .*"


def _sentence(text: str, parameter: Any) -> str:
    """Typer's message on one line, without full stop, with a lower-case first letter."""
    import re

    line = " ".join(text.split()).rstrip(".")
    for typers, plain in _PLAIN.items():
        line = re.sub(typers, plain, line)
    limits: Any = getattr(parameter, "type", None)
    if (least := getattr(limits, "min", None)) is not None:
        line = re.sub(_OUTSIDE, lambda said: _outside(said, least, limits.max), line)
    return line[:1].lower() + line[1:]


def _outside(said: "re.Match[str]", least: float, most: float | None) -> str:
    if most is None or (said[1] and least == 0):
        return f"it is less than {least}"
    return f"it is not from {least} to {most}"


def _early_output(argv: list[str]) -> "Output":
    """The output before options are resolved: parses the few relevant options itself."""
    from yak.commands.output import Output

    wants_json = os.environ.get("YAK_OUTPUT") == "json"
    for argument, following in zip(argv, [*argv[1:], ""], strict=True):
        if argument in ("-ojson", "--output=json") or (argument in ("-o", "--output") and following == "json"):
            wants_json = True
    verbose = sum(argument in ("-v", "--verbose", "-vv") for argument in argv)
    quiet = 2 if "-qq" in argv else 0
    return Output("json" if wants_json else "table", verbose=verbose, quiet=quiet)


def state_dir() -> str:
    """`~/.local/state/yak`, or under XDG_STATE_HOME."""
    from yak.private_files import user_folder

    return user_folder("XDG_STATE_HOME", ".local/state")


def _keep_traceback(error: Exception, argv: list[str], *, is_bug: bool) -> str | None:
    """Write the traceback to a file; return its path, or None if it cannot be written.

    A bug has a separate file: when a bug ends a broker, its `yak up` fails too and would overwrite it.
    """
    import traceback

    from yak.private_files import open_file

    path = os.path.join(state_dir(), _name_of_bug() if is_bug else "last-error.txt")
    try:
        os.makedirs(state_dir(), exist_ok=True)
        descriptor = open_file(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        with open(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(f"yak {_without_secrets(argv)}\n\n")
            file.writelines(traceback.format_exception(error))
        for old in sorted(name for name in os.listdir(state_dir()) if name.startswith(_BUG))[:-_BUG_REPORTS_MAX]:
            os.unlink(os.path.join(state_dir(), old))
    except OSError:
        return None
    return path


def _without_secrets(argv: list[str]) -> str:
    """A command line as users may attach it to a report."""
    import re

    from yak.security.redis_url import without_password

    secret = re.compile(r"((?:password|secret|token|jaas\.config|\.key|\.chain|\.certificates)=).*", re.DOTALL)
    text = " ".join(secret.sub(r"\1(set)", argument) for argument in argv)
    return without_password(re.sub(r"(?<=--token )\S+", "(set)", text))


def _name_of_bug() -> str:
    """A new file name; names sort by time."""
    import time

    return f"{_BUG}{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{os.getpid()}.txt"


if __name__ == "__main__":
    main()
