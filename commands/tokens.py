"""`yak tokens`: delegation tokens, with which programs log in as their owner for a limited time."""

from typing import TYPE_CHECKING, Annotated, Any

from yak.commands.app import WHAT, CommandGroup, flag
from yak.commands.options import Globals
from yak.commands.parameters import argument, option
from yak.commands.units import format_time, parse_duration_ms
from yak.errors import UsageError

if TYPE_CHECKING:
    from yak.client.delegation_tokens import TokenInfo

tokens = CommandGroup(
    "tokens",
    examples=("yak tokens create --token-file job.token", "yak tokens list", "yak tokens renew ID"),
)

Id = Annotated[str, argument("ID", "Id of the token.")]
_COLUMNS = ("id", "owner", "renewers", "issued", "expires", "latest")


@tokens.command("list", examples=("yak tokens list", "yak tokens list -o json"))
def list_tokens(g: Globals) -> None:
    """List the tokens that you own or may renew; never their passwords."""
    from yak.client.delegation_tokens import describe_tokens

    rows = [_row(g, token) for token in describe_tokens(_address(g), timeout_s=g.timeout_s)]
    g.out.table(rows, _COLUMNS, empty="No tokens. yak tokens create --token-file FILE creates one.")


@tokens.command(
    "create",
    examples=("yak tokens create --token-file job.token", "yak tokens create --token-file - --renewer bob --for 12h"),
)
def create(
    g: Globals,
    token_file: Annotated[
        str,
        option(
            "--token-file",
            "Write id and password there, as ID:PASSWORD, for you alone; - is the standard output.",
            WHAT,
            metavar="FILE",
        ),
    ],
    renewer: list[str] | None = flag(
        "--renewer", "User that may renew it beside the owner; repeatable.", WHAT, metavar="USER"
    ),
    owner: str | None = flag("--owner", "Its owner.  [your user]", WHAT, metavar="USER"),
    lifetime: str | None = flag("--for", "How long it can be renewed.  [the broker's limit]", WHAT, metavar="DURATION"),
) -> None:
    """Create a token, with which a program logs in as its owner by SCRAM with tokenauth=true."""
    from yak.client.delegation_tokens import create_token, expire_token
    from yak.private_files import replace_file

    g.must_not_be_readonly("create a token")
    lifetime_ms = _milliseconds(lifetime)
    address = _address(g)
    token = create_token(address, renewer or (), lifetime_ms, owner=owner, timeout_s=g.timeout_s)
    secret = f"{token.token_id}:{token.password}"
    if token_file == "-":  # noqa: S105 - the name of a file
        g.out.line(secret)
    else:
        try:
            replace_file(token_file, f"{secret}\n".encode())
        except OSError as error:
            expire_token(address, token, None, timeout_s=g.timeout_s)  # nobody has its password
            why = f"{error.strerror or error}; the new token was ended again"
            raise UsageError(
                "cannot-write", f"{token_file} was not written", why=why, try_=("name another --token-file",)
            ) from None
        g.out.table([_row(g, token)], _COLUMNS)
    g.out.note(f"token {token.token_id} of {token.owner} is valid until {_time(g, token.expires_ms)}")


@tokens.command("renew", examples=("yak tokens renew ID", "yak tokens renew ID --for 12h"))
def renew(
    g: Globals,
    token_id: Id,
    period: str | None = flag("--for", "How long from now.  [the broker's limit]", WHAT, metavar="DURATION"),
) -> None:
    """Renew a token."""
    from yak.client.delegation_tokens import find_token, renew_token

    g.must_not_be_readonly(f"renew token {token_id}")
    address, timeout_s, period_ms = _address(g), g.timeout_s, _milliseconds(period)
    token = find_token(address, token_id, timeout_s=timeout_s)
    expires_ms = renew_token(address, token, period_ms, timeout_s=timeout_s)
    g.out.note(f"token {token_id} is valid until {_time(g, expires_ms)}")


@tokens.command("expire", examples=("yak tokens expire ID", "yak tokens expire ID --in 1h"))
def expire(
    g: Globals,
    token_id: Id,
    delay: str | None = flag("--in", "When.  [at once]", WHAT, metavar="DURATION"),
) -> None:
    """End a token; connections that logged in with it stay until the end that it had."""
    from yak.client.delegation_tokens import expire_token, find_token

    g.must_not_be_readonly(f"expire token {token_id}")
    address, timeout_s, delay_ms = _address(g), g.timeout_s, _milliseconds(delay)
    token = find_token(address, token_id, timeout_s=timeout_s)
    g.confirm(f"Expire token {token_id} of {token.owner}?")
    expires_ms = expire_token(address, token, delay_ms, timeout_s=timeout_s)
    ends = "has ended" if delay_ms is None else f"ends at {_time(g, expires_ms)}"
    g.out.note(f"token {token_id} {ends}")


def _address(g: Globals) -> str:
    """A broker that answers. Raises Unreachable."""
    from yak.client.connection import check_reachable

    return check_reachable(g.bootstrap_servers, g.timeout_ms)


def _row(g: Globals, token: "TokenInfo") -> dict[str, Any]:
    times = {"issued": token.issued_ms, "expires": token.expires_ms, "latest": token.max_ms}
    formatted = {name: _time(g, value) for name, value in times.items()}
    return {"id": token.token_id, "owner": token.owner, "renewers": ",".join(token.renewers), **formatted}


def _time(g: Globals, time_ms: int) -> str:
    return format_time(time_ms, g.zone)


def _milliseconds(duration: str | None) -> int | None:
    return None if duration is None else parse_duration_ms(duration, bare_unit="s")
