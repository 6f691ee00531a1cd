"""`yak faults`: errors, delays and lagging replicas for tests of Kafka clients, on brokers that allow them."""

from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from yak.client.numbers import parse_long
from yak.commands.app import WHAT, CommandGroup, flag
from yak.commands.options import Globals
from yak.commands.parameters import argument, option
from yak.errors import Unreachable, UsageError, YakError

if TYPE_CHECKING:
    from collections.abc import Mapping

faults = CommandGroup(
    "faults",
    examples=(
        "yak faults add inject_error Produce NOT_LEADER_OR_FOLLOWER --times 1",
        "yak faults list",
        "yak faults clear",
    ),
)

_ARGUMENTS = {
    "inject_error": ("api", "error"),
    "disconnect_on": ("api",),
    "delay_on": ("api", "delay_ms"),
    "blackhole_client": ("client_id",),
    "lag_replica": ("topic", "partition", "broker", "delay_ms"),
    "freeze_isr": ("topic", "partition"),
}
_OPTIONAL = {"freeze_isr": 1, "lag_replica": 1}
_NUMBERS = ("delay_ms", "partition", "broker")
_COLUMNS = ("node_id", "id", "fault", "api", "error", "delay_ms", "client_id", "topic", "partition", "calls", "hits")
_WIDE = ("broker", "times", "on_call", "after")
NARROWED = "Which requests"

Broker: TypeAlias = Annotated[int | None, option("--broker", "This broker alone.  [all]", WHAT, metavar="ID")]


def _of_requests(name: str, metavar: str, help_: str) -> Any:
    return flag(name, help_, NARROWED, metavar=metavar)


@faults.command("list", examples=("yak faults list", "yak faults list --broker 2 -o json"))
def list_faults(g: Globals, broker: Broker = None) -> None:
    """List the faults of all brokers, with the calls that matched and that were hit. Faults of replicas have no counts."""
    from yak.client.faults import list_faults as list_of

    rows = [
        {"node_id": node_id, **rule}
        for node_id, address in _brokers(g, broker).items()
        for rule in list_of(address, timeout_s=g.timeout_s)
    ]
    for row in rows:
        row.update({name: None for name in (*_COLUMNS, *_WIDE) if name not in row})
    g.out.table(rows, _COLUMNS, _WIDE, empty="No faults. yak faults add --help shows how to add one.")


@faults.command(
    "add",
    examples=(
        "yak faults add inject_error Produce NOT_LEADER_OR_FOLLOWER --times 1",
        "yak faults add inject_error Produce REQUEST_TIMED_OUT --after --topic orders --partition 0",
        "yak faults add disconnect_on Fetch --on-call 3 --client-id billing",
        "yak faults add delay_on Metadata 2000",
        "yak faults add blackhole_client 'app-*'",
        "yak faults add lag_replica orders 0 2",
        "yak faults add lag_replica orders 0 2 500",
        "yak faults add freeze_isr orders",
    ),
)
def add(
    g: Globals,
    fault: Annotated[
        str,
        argument(
            "FAULT",
            "inject_error API ERROR, disconnect_on API, delay_on API MS, blackhole_client CLIENT_ID, lag_replica "
            "TOPIC PARTITION BROKER [MS], or freeze_isr TOPIC [PARTITION].",
        ),
    ],
    arguments: Annotated[list[str], argument("ARGUMENT", "What the fault takes.")],
    client_id: str | None = _of_requests(
        "--client-id", "ID", "Of this client id; with * at the end, of all that begin so."
    ),
    topic: str | None = _of_requests("--topic", "TOPIC", "That name this topic."),
    partition: int | None = _of_requests("--partition", "N", "That name this partition of it."),
    times: int | None = _of_requests("--times", "N", "So many of them, on each broker.  [all]"),
    on_call: int | None = _of_requests("--on-call", "N", "From the N-th on; without --times that one alone."),
    after: bool = flag("--after", "After the request had its effect.", NARROWED, default=False),
    broker: Broker = None,
) -> None:
    """Add a fault to all brokers, until it is cleared or they restart.

    The brokers need yak.fault.injection.enable=true, as those of yak up on this machine have.
    """
    from yak.client.faults import add_to_all, new_rule_id
    from yak.faults.rule import parse_rule
    from yak.protocol.versions import API_NAMES

    kind, values = _values(fault, arguments)
    options: dict[str, object] = {
        "client_id": client_id,
        "topic": topic,
        "partition": partition,
        "times": times,
        "on_call": on_call,
        "after": after or None,
    }
    given = {name: value for name, value in options.items() if value is not None}
    _refuse_twice(values, given)
    g.must_not_be_readonly("injecting faults")
    rule = {"id": new_rule_id(), "fault": kind, **values, **given}
    parse_rule(rule, API_NAMES)  # the brokers check it too, but this check needs no broker
    brokers = _brokers(g, values.get("broker", broker))
    add_to_all(brokers.values(), rule, timeout_s=g.timeout_s)
    if g.out.for_people or g.out.format == "raw":
        g.out.line(str(rule["id"]))
    else:
        g.out.object({"id": rule["id"], "brokers": list(brokers)})


@faults.command("clear", examples=("yak faults clear", "yak faults clear 5f0c21ab", "yak faults clear --broker 2"))
def clear(
    g: Globals,
    rule_id: Annotated[str | None, argument("ID", "The fault's id.  [all faults]")] = None,
    broker: Broker = None,
) -> None:
    """Clear one fault, or all, on all brokers."""
    from contextlib import suppress

    from yak.client.faults import clear_faults

    g.must_not_be_readonly("clearing faults")
    gone: set[str] = set()
    if broker is None:
        # a fault may keep this client from learning the brokers' addresses; the request that clears it gets through
        for address in g.bootstrap_servers.split(","):
            with suppress(Unreachable):
                gone |= set(clear_faults(address.strip(), rule_id, timeout_s=g.timeout_s))
    for address in _brokers(g, broker).values():
        gone |= set(clear_faults(address, rule_id, timeout_s=g.timeout_s))
    if rule_id is not None and not gone:
        raise YakError("no-fault", f"there is no fault {rule_id}", try_=("yak faults list",))
    g.out.note(f"{len(gone)} fault{'' if len(gone) == 1 else 's'} cleared")


def _values(fault: str, arguments: list[str]) -> tuple[str, dict[str, Any]]:
    """The kind of a fault and its arguments by name. Raises UsageError (`bad-fault`)."""
    kind = fault.replace("-", "_").lower()
    names = _ARGUMENTS.get(kind)
    if names is None:
        why = f"there are {', '.join(_ARGUMENTS)}"
        raise UsageError("bad-fault", f'there is no fault "{fault}"', why=why, try_=("yak faults add --help",))
    required = len(names) - _OPTIONAL.get(kind, 0)
    if not required <= len(arguments) <= len(names):
        usage = [name.upper() if at < required else f"[{name.upper()}]" for at, name in enumerate(names)]
        why = f"it takes {' '.join(usage)}"
        raise UsageError("bad-fault", f"{kind} got {len(arguments)} arguments", why=why)
    values: dict[str, Any] = {}
    for name, text in zip(names, arguments, strict=False):
        value = parse_long(text) if name in _NUMBERS else text
        if value is None:
            raise UsageError("bad-fault", f'{name.upper()} "{text}" is not a whole number')
        values[name] = value
    return kind, values


def _refuse_twice(values: "Mapping[str, object]", given: "Mapping[str, object]") -> None:
    twice = sorted(set(values) & set(given))
    if twice:
        flag = f"--{twice[0].replace('_', '-')}"
        raise UsageError("bad-fault", f"{twice[0]} is given twice", why=f"as an argument and as {flag}")


def _brokers(g: Globals, chosen: int | None) -> dict[int, str]:
    """The addresses of the brokers, or of one. Raises Unreachable, YakError (`unknown-broker`)."""
    from yak.client.metadata import unknown_broker
    from yak.client.replica_offsets import read_metadata

    found = read_metadata(g.bootstrap_servers, timeout_s=g.timeout_s)
    addresses = {node_id: each.address for node_id, each in sorted(found.brokers.items())}
    if chosen is None:
        return addresses
    if chosen not in addresses:
        raise unknown_broker(chosen, addresses)
    return {chosen: addresses[chosen]}
