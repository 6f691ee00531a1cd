"""`yak quotas`: how much clients may use, by user, client id and ip."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from yak.commands.app import Bundle, CommandGroup, flag
from yak.commands.options import Globals
from yak.commands.parameters import DryRun, argument
from yak.commands.units import key_values, parse_size_bytes
from yak.errors import UsageError, YakError, closest

if TYPE_CHECKING:
    from yak.quotas.entity import Entity

quotas = CommandGroup(
    "quotas",
    examples=(
        "yak quotas list",
        "yak quotas set --client-id loader producer_byte_rate=1MB",
        "yak quotas remove --client-id loader",
    ),
)

WHOSE = "Whose quotas"


@dataclass(frozen=True)
class EntityOptions(Bundle):
    """The entity of the quotas."""

    user: str | None = flag("--user", "This user.", WHOSE, metavar="NAME")
    user_default: bool = flag("--user-default", "Each user without a quota of its own.", WHOSE, default=False)
    client_id: str | None = flag("--client-id", "This client id; with a user: of that user.", WHOSE, metavar="NAME")
    client_id_default: bool = flag(
        "--client-id-default", "Each client id without a quota of its own.", WHOSE, default=False
    )
    ip: str | None = flag("--ip", "This ip, or host.", WHOSE, metavar="IP")
    ip_default: bool = flag("--ip-default", "Each ip without a quota of its own.", WHOSE, default=False)


_COLUMNS = ("entity", "quota", "value")


@quotas.command("list", examples=("yak quotas list", "yak quotas list -o json"))
def list_quotas(g: Globals) -> None:
    """List all quotas."""
    g.out.table(_rows(g, None), _COLUMNS, empty="No quotas. yak quotas set --help shows how to set one.")


@quotas.command(
    "describe",
    examples=("yak quotas describe --user ann", "yak quotas describe --user-default --client-id loader"),
)
def describe(
    g: Globals,
    whose: EntityOptions,
) -> None:
    """Show the quotas of one entity.

    These are the entity's own. yak quotas list also shows the defaults, which apply to clients without their own.
    """
    entity = _entity(whose)
    g.out.table(_rows(g, entity), _COLUMNS, empty="No quotas of its own.")


@quotas.command(
    "set",
    examples=(
        "yak quotas set --client-id loader producer_byte_rate=1MB",
        "yak quotas set --user-default request_percentage=50",
        "yak quotas set --ip-default connection_creation_rate=20",
    ),
)
def set_quotas(
    g: Globals,
    values: Annotated[list[str], argument("QUOTA=VALUE", "Quotas and their values.")],
    whose: EntityOptions,
    dry_run: DryRun = False,
) -> None:
    """Set quotas of one entity: they apply at once, on each broker for itself.

    producer_byte_rate and consumer_byte_rate are sizes a second. request_percentage is processor time in percent of a
    thread. controller_mutation_rate is partitions created and deleted a second. connection_creation_rate, of an ip, is
    connections a second.
    """
    entity = _entity(whose)
    pairs = key_values(values, "producer_byte_rate=1MB")
    if len(pairs) < len(values):
        raise UsageError("usage", "a quota is given twice", why="each quota is given once, with its value")
    changes = {name: _value(name, text) for name, text in pairs.items()}
    for name in changes:
        _check_owner(entity, name)
    _alter(g, entity, changes, "set", dry_run=dry_run)


@quotas.command(
    "remove",
    examples=("yak quotas remove --client-id loader", "yak quotas remove --user ann producer_byte_rate"),
)
def remove(
    g: Globals,
    names: Annotated[list[str] | None, argument("QUOTA", "Quotas; all of the entity when none is given.")] = None,
    *,
    whose: EntityOptions,
    dry_run: DryRun = False,
) -> None:
    """Remove quotas of one entity."""
    from yak.quotas.entity import encode_entity

    entity = _entity(whose)
    present = [row["quota"] for row in _rows(g, entity)]
    chosen = names or present
    missing = sorted(set(chosen) - set(present))
    if missing or not chosen:
        what = " and ".join(missing) or "a quota"
        raise YakError("no-quota", f"{encode_entity(entity)} does not have {what}", try_=("yak quotas list",))
    _alter(g, entity, dict.fromkeys(chosen), "removed", dry_run=dry_run)


def _entity(whose: EntityOptions) -> "Entity":
    """The entity that the options name. Raises UsageError (`usage`, `bad-quota`)."""
    from yak.quotas.quota_types import CLIENT_ID, IP, USER

    parts: list[tuple[str, str | None]] = []
    for kind, name, is_default in (
        (USER, whose.user, whose.user_default),
        (CLIENT_ID, whose.client_id, whose.client_id_default),
        (IP, whose.ip, whose.ip_default),
    ):
        if name is not None and is_default:
            raise UsageError("usage", f"--{kind} and --{kind}-default exclude each other", try_=(f"--{kind}-default",))
        if name is not None or is_default:
            parts.append((kind, name))
    kinds = [kind for kind, _name in parts]
    if not parts:
        why = "quotas belong to a user, a client id, both, or an ip"
        raise UsageError("usage", "no entity is given", why=why, try_=("--client-id loader", "--user-default"))
    if IP in kinds and len(kinds) > 1:
        raise UsageError(
            "usage",
            "an ip has quotas of its own",
            why="it does not go with a user or client id",
            try_=("--ip 10.0.0.1",),
        )
    if whose.ip is not None:
        from yak.client.quotas import address_of

        return ((IP, address_of(whose.ip)),)
    return tuple(parts)


def _value(name: str, text: str) -> float:
    """The value of a quota: a size for byte rates. Raises UsageError (`bad-size`, `bad-quota`)."""
    from yak.quotas.quota_types import QuotaType

    if name not in tuple(QuotaType):
        guess = closest(name, QuotaType)
        raise UsageError(
            "bad-quota",
            f'there is no quota "{name}"',
            why=f"there are {', '.join(QuotaType)}",
            try_=(f"{guess}={text}",) if guess else ("yak quotas set --help",),
        )
    if name in (QuotaType.PRODUCE, QuotaType.FETCH):
        return float(parse_size_bytes(text.removesuffix("/s")))
    try:
        value = float(text.removesuffix("%") if name == QuotaType.REQUEST else text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise UsageError("bad-quota", f'"{text}" is no value of {name}', why="it is a number")
    return value


def _check_owner(entity: "Entity", name: str) -> None:
    """Raise UsageError (`bad-quota`) if entities of this type do not have the quota."""
    from yak.quotas.quota_types import IP, IP_QUOTAS

    is_of_ips = name in IP_QUOTAS
    if is_of_ips == (entity[0][0] == IP):
        return
    whose = "ips" if is_of_ips else "users and client ids"
    try_ = ("--ip 10.0.0.1", "--ip-default") if is_of_ips else ("--client-id loader", "--user ann")
    raise UsageError("bad-quota", f"{name} is a quota of {whose}", why="no other entity has it", try_=try_)


def _alter(g: Globals, entity: "Entity", changes: dict[str, Any], done: str, *, dry_run: bool) -> None:
    from yak.client.quotas import alter_quotas
    from yak.quotas.entity import encode_entity

    named = encode_entity(entity)
    if not dry_run:
        g.must_not_be_readonly(f"changing quotas of {named}")
    address, timeout_s = g.broker_that_answers()
    alter_quotas(address, entity, changes, validate_only=dry_run, timeout_s=timeout_s)
    verb = "could be" if dry_run else "was" if len(changes) == 1 else "were"
    g.out.note(f"{', '.join(changes)} of {named} {verb} {done}")


def _rows(g: Globals, entity: "Entity | None") -> list[dict[str, Any]]:
    from yak.client.quotas import describe_quotas
    from yak.quotas.entity import encode_entity
    from yak.quotas.quota_types import format_quota

    address, timeout_s = g.broker_that_answers()
    return [
        {
            "entity": encode_entity(each.entity),
            "quota": name,
            "value": format_quota(name, value) if g.out.for_people else value,
        }
        for each in describe_quotas(address, entity, timeout_s=timeout_s)
        for name, value in sorted(each.quotas.items())
    ]
