"""Shares a machine out to the brokers of `yak serve --cores`: node ids, ports, data directories, memory. Starts nothing.

Broker I of N, counted from 0, has the given node id plus I. A listener with port P is shared by all of them: clients
bootstrap there. Broker I listens on, and advertises, P + 1 + I. Its data directories are `core-I` in the given ones.
"""

import os
import re
import socket
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from yak.cluster.placement import MACHINE
from yak.config.broker_configs import BrokerConfig
from yak.config.listeners import ANY_HOST, Listener, Listeners, bracketed
from yak.errors import StartRefused, UsageError
from yak.limits import REQUEST_MEMORY_BYTES_MIN
from yak.local import ports
from yak.server.listening_sockets import bind, bound_port
from yak.server.memory_limit import request_memory_bytes
from yak.server.options import ServeOptions
from yak.storage.names import META_PROPERTIES

if TYPE_CHECKING:
    from yak.quorum.voters import VoterSet

AUTO: Final = "auto"
CORES_MAX: Final = 64
_PORT_MAX: Final = 65_535
_NODE_ID_MAX: Final = 2**31 - 1
_DEDUPE_BYTES_MIN: Final = 1024 * 1024

HoldPort = Callable[[str, int, bool], int]
"""Reserves a port of a host, 0: any free one, and whether several processes may have it; returns the port."""


def hold_port(held: ExitStack, host: str, port: int, is_shared: bool) -> int:
    """Hold a port at every address of a host, 0: any free one, until the stack is closed.

    The supervisor does so for its brokers: one that is restarted finds its port free. Raises UsageError
    (`address-in-use`, `bad-address`).
    """
    host = host or ANY_HOST
    try:
        found = bind(host, port, is_shared=is_shared)
    except UsageError as error:
        if error.code != "address-in-use":
            raise
        raise UsageError(
            "address-in-use",
            f"cannot listen on {host}:{port}",
            why=f"{ports.holder(port)} has it; with --cores a listener takes its port and one for each broker",
            try_=("yak serve --cores 2 --port 0          take any free ports", f"ss -ltnp 'sport = :{port}'"),
        ) from error
    for each in found:
        held.enter_context(each)
    return bound_port(found)


@dataclass(frozen=True, slots=True)
class CoreBroker:
    """One broker of the machine. `http_port` 0: any free port; None: no HTTP."""

    index: int
    node_id: int
    listeners: Listeners
    http_port: int | None
    data_dirs: tuple[str, ...]
    ready_file: str

    @property
    def address(self) -> str:
        """The advertised host:port for other brokers."""
        return f"{bracketed(self.listeners.inter_broker.host)}:{self.listeners.inter_broker.port}"


@dataclass(frozen=True, slots=True)
class MachinePlan:
    """The brokers of one machine. `configs` are the same for all of them; `voters` and `secret_file` are of a quorum."""

    rack: str
    bootstrap: tuple[Listener, ...]
    brokers: tuple[CoreBroker, ...]
    configs: Mapping[str, str]
    voters: str | None = None
    secret_file: str | None = None


def parse_cores(text: str) -> int:
    """The number of brokers of `--cores`; `auto` is the number of cores that this process may use.

    Raises UsageError (`bad-cores`).
    """
    if text.strip().lower() == AUTO:
        return min(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1, CORES_MAX)
    if re.fullmatch("[0-9]{1,9}", text) and 1 <= int(text) <= CORES_MAX:
        return int(text)
    raise bad_cores(f"--cores {text} cannot be used", f"it is a number from 1 to {CORES_MAX}, or {AUTO}")


def plan_machine(options: ServeOptions, cores: int, hold: HoldPort, *, secret_file: str | None = None) -> MachinePlan:
    """Plan the brokers of a machine with these options. `secret_file` is the given one of a quorum.

    Raises UsageError (`bad-cores`, `bad-listeners`, and the errors of `hold`), StartRefused (`cores-data`).
    """
    _check(options, cores)
    rack = options.rack or f"{MACHINE}{socket.gethostname()}"
    check_data(options.data_dirs, cores)
    given = options.all_listeners()
    for_clients = {each.name for each in given.advertised}
    shared = tuple(
        replace(each, port=hold(each.host, each.port, True)) for each in given.bound if each.name in for_clients
    )
    brokers = tuple(_broker(options, given, index, hold) for index in range(cores))
    _check_ports([("bootstrap", each.port) for each in shared], brokers)
    configs = {"yak.bootstrap.listeners": ",".join(map(str, shared)), **_memory(options, cores)}
    if not options.has_quorum:
        return MachinePlan(rack, shared, brokers, configs)
    return MachinePlan(
        rack,
        shared,
        brokers,
        configs,
        _voters(options.voters, brokers),
        secret_file or os.path.join(options.data_dirs[0], "cluster.secret"),
    )


def check_data(data_dirs: Iterable[str], cores: int) -> None:
    """Refuse directories with the data of another number of brokers. Raises StartRefused (`cores-data`)."""
    for folder in data_dirs:
        path = folder.rstrip("/") or "/"
        alone = os.path.exists(os.path.join(path, META_PROPERTIES))
        indices = _cores_with_data(path)
        if cores > 1 and alone:
            raise StartRefused(
                "cores-data",
                f"{path} has the data of one broker, and {cores} brokers have data in {path}/core-0 and so on",
                why="the first of them must find its data",
                try_=(f"mkdir {path}.new && mv {path} {path}.new/core-0 && mv {path}.new {path}",),
            )
        left_out = [index for index in indices if index >= cores] if cores > 1 else indices
        if left_out and not alone:
            has = max(indices) + 1
            if has == 1:
                raise StartRefused(
                    "cores-data",
                    f"{path}/core-0 has the data of a machine's first broker, and one broker has its data in {path}",
                    why="it must find its data",
                    try_=(f"yak serve --data-dir {path}/core-0          with --port of that broker",),
                )
            raise StartRefused(
                "cores-data",
                f"{path} has the data of {has} brokers, and {cores} would start",
                why="the brokers that are left out may have the only replica of a partition",
                try_=(
                    f"yak serve --cores {has}",
                    f"yak node remove NODE -b HOST:PORT && rm -r {path}/core-{has - 1}          of the last broker",
                ),
            )


def bad_cores(what: str, why: str, *try_: str) -> UsageError:
    """The error for a machine that cannot be shared out so."""
    return UsageError("bad-cores", what, why=why, try_=try_ or ("yak serve --cores 2",))


def _check(options: ServeOptions, cores: int) -> None:
    if not hasattr(socket, "SO_REUSEPORT") or not hasattr(os, "sched_getaffinity"):
        raise bad_cores(
            "--cores needs Linux", "other systems do not spread the connections of one port over processes", "yak serve"
        )
    if options.node_id + cores - 1 > _NODE_ID_MAX:
        raise bad_cores(f"node id {options.node_id} leaves no ids for {cores} brokers", "broker I has it plus I")
    if options.rack is not None and not options.rack.startswith(MACHINE):
        raise bad_cores(
            f"rack {options.rack} and --cores exclude each other",
            "the machine is the rack of its brokers, so that no partition has two replicas on it",
            f"yak serve --cores {cores} --rack {MACHINE}NAME          name the machine",
        )
    if "yak.bootstrap.listeners" in options.configs:
        raise bad_cores("yak.bootstrap.listeners and --cores exclude each other", "--cores sets it for its brokers")


def _broker(options: ServeOptions, given: Listeners, index: int, hold: HoldPort) -> CoreBroker:
    configured = {each.name: each.port for each in given.bound}
    bound = tuple(replace(each, port=hold(each.host, _shifted(each, each.port, index), False)) for each in given.bound)
    own = {each.name: each.port for each in bound}
    # a listener that is advertised at its own port, or at any, is advertised at the port that it has now
    advertised = tuple(
        replace(
            each, port=own[each.name] if each.port in (0, configured[each.name]) else _shifted(each, each.port, index)
        )
        for each in given.advertised
    )
    http_port = options.http_port
    if http_port:
        http_port = _http_port(options, http_port + index, hold)
    return CoreBroker(
        index,
        options.node_id + index,
        Listeners(bound, advertised, given.inter_broker_name),
        http_port,
        tuple(os.path.join(folder, f"core-{index}") for folder in options.data_dirs),
        os.path.join(options.data_dirs[0], f"core-{index}.ready"),
    )


def _shifted(listener: Listener, port: int, index: int) -> int:
    """The port of broker `index` for a shared or advertised port; 0 stays any."""
    if port + 1 + index > _PORT_MAX:
        raise bad_cores(f"broker {index} of the machine has no port for {listener}", "it has that port plus 1 plus I")
    return port and port + 1 + index


def _http_port(options: ServeOptions, port: int, hold: HoldPort) -> int:
    """The HTTP port; any free one where the user chose none and the usual one is taken."""
    if port > _PORT_MAX:
        raise bad_cores(
            f"no HTTP port for broker {port - _PORT_MAX} of the machine", "broker I has the given port plus I"
        )
    try:
        return hold(options.host, port, False)
    except UsageError:
        if options.http_port_may_move:
            return 0
        raise


def _check_ports(shared: list[tuple[str, int]], brokers: tuple[CoreBroker, ...]) -> None:
    seen: dict[int, str] = {}
    owned = [
        (f"broker {broker.node_id}", port)
        for broker in brokers
        for port in (*(each.port for each in broker.listeners.bound), broker.http_port or 0)
    ]
    for owner, port in [*shared, *owned]:
        if port and port in seen:
            raise bad_cores(
                f"port {port} would be of {seen[port]} and of {owner}",
                "a listener takes its port and one more for each broker, HTTP one for each",
            )
        seen[port] = owner


def _memory(options: ServeOptions, cores: int) -> dict[str, str]:
    """The configs that bound a broker's memory: each broker has its share of what one broker would have."""
    config = BrokerConfig.from_settings(options.broker_settings())
    requests = request_memory_bytes(config)
    return {
        "queued.max.request.bytes": str(max(requests // cores, min(requests, REQUEST_MEMORY_BYTES_MIN))),
        "log.cleaner.dedupe.buffer.size": str(max(config.log_cleaner_dedupe_buffer_size // cores, _DEDUPE_BYTES_MIN)),
    }


def _voters(given: "VoterSet | None", brokers: tuple[CoreBroker, ...]) -> str:
    """The first voters: without `given` ones the first broker, else these, of which at most one may be of this machine.

    A machine's death takes all its brokers, so a second voter there is a vote that is lost with the first.
    """
    first = brokers[0]
    if given is None:
        return f"{first.node_id}@{first.address}"
    ours = {broker.node_id: broker for broker in brokers}
    here = [voter for voter in given.voters if voter.node_id in ours]
    if len(here) > 1:
        named = ", ".join(str(voter.node_id) for voter in here)
        raise bad_cores(
            f"voters {named} would be on one machine", "its death would take their votes together; name one of them"
        )
    for voter in here:
        address, own = f"{bracketed(voter.host)}:{voter.port}", ours[voter.node_id].listeners.bound
        if voter.port not in {each.port for each in own}:
            raise bad_cores(
                f"voter {voter.node_id}@{address} does not listen there",
                f"its own port is {', '.join(str(each.port) for each in own)}; others answer on the bootstrap port too",
                f"--voters {voter.node_id}@{ours[voter.node_id].address}",
            )
    return ",".join(f"{voter.node_id}@{bracketed(voter.host)}:{voter.port}" for voter in given.voters)


def _cores_with_data(folder: str) -> list[int]:
    numbers = [path.parent.name.removeprefix("core-") for path in Path(folder).glob(f"core-*/{META_PROPERTIES}")]
    return sorted(int(number) for number in numbers if number.isascii() and number.isdigit())
