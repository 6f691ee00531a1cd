"""`yak users`: the users that may log in on listeners with SASL."""

import sys
from shlex import quote
from typing import Annotated

from yak.commands.app import WHAT, CommandGroup, flag
from yak.commands.options import Globals
from yak.commands.parameters import argument, option
from yak.errors import UsageError, YakError

users = CommandGroup(
    "users",
    examples=("yak users add ann", "yak users add ann --password-file ann.secret", "yak users list"),
)

Name = Annotated[str, argument("NAME", "Name of the user.")]
Mechanism = Annotated[
    list[str] | None, option("--mechanism", "SCRAM-SHA-256 or SCRAM-SHA-512; repeatable.  [both]", WHAT)
]
_BOTH = ("SCRAM-SHA-256", "SCRAM-SHA-512")


@users.command("list", examples=("yak users list", "yak users list -o json"))
def list_users(g: Globals) -> None:
    """List users with their mechanisms; never their keys."""
    from yak.client.users import user_rows

    admin = g.admin()
    g.out.table(user_rows(admin), ("user", "mechanism", "iterations"), empty="No users. yak users add NAME adds one.")


@users.command(
    "add", examples=("yak users add ann", "yak users add ann --mechanism SCRAM-SHA-512 --password-file ann.secret")
)
def add(
    g: Globals,
    name: Name,
    mechanism: Mechanism = None,
    iterations: int = flag(
        "--iterations", "4096 to 16384; more make guesses slower.", WHAT, default=4096, min=4096, max=16384
    ),
    password_file: str | None = flag(
        "--password-file",
        "Read the password from this file; - is the standard input.  [asked for]",
        WHAT,
        metavar="FILE",
    ),
) -> None:
    """Add a user, or change its password."""
    from yak.client.users import set_password

    g.must_not_be_readonly(f"add user {name}")
    mechanisms = _mechanisms(mechanism)
    password = read_password(password_file, f"Password of {name}: ", f"yak users add {quote(name)}", twice=True)
    admin = g.admin()
    set_password(admin, name, password, mechanisms, iterations)
    g.out.note(f"user {name} can log in with {' and '.join(mechanisms)}")


@users.command("remove", examples=("yak users remove ann", "yak users remove ann --mechanism SCRAM-SHA-256"))
def remove(g: Globals, name: Name, mechanism: Mechanism = None) -> None:
    """Remove a user; its open connections stay."""
    from yak.client.users import remove_user, user_rows

    g.must_not_be_readonly(f"remove user {name}")
    admin = g.admin()
    present = [row["mechanism"] for row in user_rows(admin) if row["user"] == name]
    chosen = _mechanisms(mechanism) if mechanism else present
    if not present:
        raise YakError("unknown-user", f"user {name} does not exist", try_=("yak users list",))
    # the list may be of a broker whose metadata lag: with a credential that is left the user could still log in
    unlisted = () if mechanism else tuple(each for each in _BOTH if each not in present)
    is_partial = bool(set(present) - set(chosen))
    what = f"{' and '.join(chosen)} of user {name}" if is_partial else f"user {name}"
    g.confirm(f"Remove {what}?")
    remove_user(admin, name, chosen)
    remove_user(admin, name, unlisted, if_exists=True)
    g.out.note(f"removed {what}")


def _mechanisms(given: list[str] | None) -> tuple[str, ...]:
    """The mechanisms of an option. Raises UsageError (`usage`)."""
    for name in given or ():
        if name not in _BOTH:
            raise UsageError("usage", f'"{name}" is no SCRAM mechanism', why=f"they are {' and '.join(_BOTH)}")
    return tuple(given or _BOTH)


def read_password(path: str | None, prompt: str, command: str, *, twice: bool = False) -> str:
    """A password from a file, from the standard input (`-`, or when it is no terminal), or typed without echo.

    `command` is what an error advises, with a file. Raises UsageError (`password`).
    """
    try:
        if path is None and sys.stdin.isatty():
            import getpass

            password = getpass.getpass(prompt)
            if twice and getpass.getpass("The same again: ") != password:
                raise UsageError("password", "the two passwords differ", try_=("type it again",))
        elif path in (None, "-"):
            password = sys.stdin.readline().rstrip("\r\n")
        else:
            with open(str(path), encoding="utf-8") as file:
                password = file.readline().rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        why = str(error.strerror).lower() if isinstance(error, OSError) else "it is not UTF-8"
        raise UsageError("password", f"no password in {path}", why=why, try_=(f"ls -l {path}",)) from None
    if not password:
        raise UsageError("password", "the password is empty", try_=(f"{command} --password-file FILE",))
    return password
