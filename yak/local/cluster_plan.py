"""Plan a local cluster: how many brokers, which roles they have, where they listen. Starts nothing.

Nodes are numbered from 1. The first ones have the role of a leader. Node K uses the first node's port plus K - 1 if
that is free. A cluster grows and never shrinks: a removed broker may have the only replica of a partition.

With several cores a machine has so many brokers, and all brokers share one bootstrap port, the first one; the brokers'
own ports follow. `brokers` and `leaders` of the settings then count machines.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from shlex import quote
from typing import Final

from yak.config.broker_configs import is_sensitive
from yak.config.listeners import is_loopback
from yak.errors import UsageError
from yak.local import layout, listeners, ports, quorum
from yak.local.machines import check_cores, machine_number
from yak.local.processes import is_running
from yak.local.state import BrokerState, ClusterState, ListenerOptions, RedisState
from yak.local.status import is_alive
from yak.security.redis_url import refuse_password, without_password

HOST: Final = "127.0.0.1"
"""Where every broker listens; `yak up --listen` adds listeners beside that."""
DEFAULT_PORT: Final = 9092
DEFAULT_HTTP_PORT: Final = 8080
BROKERS_OF_MANY: Final = 3
"""Size of a new cluster when leaders are given and no number of brokers."""
_PORTS_OF_THE_SYSTEM_FROM: Final = 32_768
"""Linux assigns ephemeral ports from here on, so the port next to a given one may be taken at any moment."""
_PORT_MAX: Final = 65_535
_REPLICAS: Final = 3


@dataclass(frozen=True, slots=True)
class UpSettings:
    """Settings for starting a cluster. `metadata` is redis or raft; None: as before, and redis for a new cluster.

    `brokers` None: as many as it has, and one for a new cluster (three when `leaders` is given). `leaders` None: roles
    stay; one leader in a new cluster. `port` None means 9092, or any free port when that is taken; 0 any free port.
    `ports` gives each broker's port to a caller that holds them (`ports.hold`); `port` is then ignored. `ephemeral`:
    the data is deleted when the cluster stops; `keep` makes an ephemeral cluster permanent.
    """

    port: int | None = None
    redis_url: str | None = None
    configs: tuple[str, ...] = ()
    brokers: int | None = None
    leaders: int | None = None
    ephemeral: bool = False
    keep: bool = False
    supervised: bool = False
    ports: tuple[int, ...] = ()
    http_port: int | None = None
    """The first broker's HTTP port; the others follow it. None: as before, 8080 in a new cluster; 0: any free port."""
    no_http: bool = False
    metadata: str | None = None
    listen: tuple[str, ...] | None = None
    """Further listeners of broker 1, `NAME://HOST:PORT`; None: as before."""
    advertise: tuple[str, ...] = ()
    tls: bool | None = None
    """None: as before."""
    users_file: str | None = None
    """The file of the users that may log in; None: as before, `listeners.NONE`: no logins."""
    cores: int | None = None
    """How many brokers a machine has; None: as before, one in a new cluster."""


def plan(known: ClusterState, settings: UpSettings) -> tuple[int, ...]:
    """Update `known` to the planned brokers; returns the default ports that were taken.

    Raises UsageError for changes that an existing or running cluster cannot take, and for a taken port.
    """
    running = any(map(is_alive, known.brokers))
    refuse_password(settings.redis_url)
    _refuse_secrets(settings.configs)
    if known.cluster_id is None and not running and not quorum.has_begun(known):
        known.brokers.clear()  # it never started successfully
    _set_metadata(known, settings)
    check_cores(known, settings.cores)
    if running:
        _refuse_changes(known, settings)
    known.ephemeral = (known.ephemeral or settings.ephemeral) and not settings.keep
    _set_redis(known, settings)
    _set_size(known, settings)
    if known.metadata == quorum.RAFT and not known.voters:
        known.voters = first_voters(known)
    for broker in known.brokers:
        if not is_alive(broker) and (settings.configs or not broker.wanted):
            broker.configs = settings.configs
    if not running:
        known.exposed = _exposed(known, settings)
    listeners.check(known, settings.port)
    taken = (*_choose_shared_port(known, settings), *_choose_ports(known, settings))
    _choose_http_ports(known, settings)
    for broker in known.brokers:
        if not is_alive(broker):
            listeners.check_free(known, broker)
    return taken


def add_broker(known: ClusterState, role: str, configs: tuple[str, ...] | None) -> BrokerState:
    """Add one broker, with the next number and port, to a cluster that has brokers."""
    first, node_id = known.brokers[0], _next_number(known)
    added = _new_broker(known, node_id, role, first.configs if configs is None else configs)
    known.brokers.append(added)
    listeners.check(known)
    listeners.check_free(known, added)
    _choose_ports(known, UpSettings(), only=node_id)
    _choose_http_ports(known, UpSettings(), only=node_id)
    return added


def first_voters(known: ClusterState) -> tuple[int, ...]:
    """The first broker of each of the first machines: a machine's death takes the votes of all its brokers."""
    firsts = list({machine_number(known, each.node_id): each.node_id for each in reversed(known.brokers)}.values())[
        ::-1
    ]
    return tuple(firsts[: quorum.voters_of(len(firsts))])


def replication_configs(machines: int, given: Sequence[str]) -> tuple[str, ...]:
    """Broker configs that replicate topics in a cluster of so many machines, unless `given` sets them.

    Three replicas with min.insync.replicas 2, or two with 1: the cluster tolerates the loss of one machine.
    """
    names = dict(pair.partition("=")[::2] for pair in given)
    text = names.get("default.replication.factor", str(min(machines, _REPLICAS))).strip()
    replicas = int(text) if text.isascii() and text.isdigit() else 1
    derived = {
        "default.replication.factor": str(replicas),
        "min.insync.replicas": "2" if replicas >= _REPLICAS else "1",
    }
    return tuple(f"{name}={value}" for name, value in derived.items() if machines > 1 and name not in names)


def fault_configs(known: ClusterState, broker: BrokerState) -> tuple[str, ...]:
    """The config that lets tests inject faults, where only this machine reaches the broker and its configs do not say."""
    name = "yak.fault.injection.enable"
    is_reached = known.exposed.listen or known.exposed.advertise or not is_loopback(broker.host)
    return () if is_reached or any(pair.startswith(f"{name}=") for pair in broker.configs) else (f"{name}=true",)


def _set_metadata(known: ClusterState, settings: UpSettings) -> None:
    """Choose the metadata store of a new cluster. Raises UsageError (`metadata-elsewhere`, `bad-metadata`)."""
    wanted = settings.metadata
    if wanted not in {None, quorum.REDIS, quorum.RAFT}:
        raise UsageError(
            "bad-metadata",
            f"no such metadata store: {wanted}",
            why="it is redis, or raft: a quorum of brokers",
            try_=("yak up --metadata raft",),
        )
    if known.brokers:
        if wanted not in {None, known.metadata}:
            raise quorum.metadata_elsewhere(known)
        return
    known.metadata, known.voters = wanted or quorum.REDIS, ()


def _set_redis(known: ClusterState, settings: UpSettings) -> None:
    """Choose the Redis of a cluster. Raises UsageError (`metadata-elsewhere`) for one that began with its own."""
    if not known.has_redis:
        known.redis = RedisState("")
    elif settings.redis_url is not None:
        is_running_here = known.redis.process is not None and is_running(known.redis.process)
        if known.redis.is_ours and (known.brokers or is_running_here):
            folder = quote(known.data_dir)
            raise UsageError(
                "metadata-elsewhere",
                f"the metadata of the cluster in {known.data_dir} are in its own Redis, not in {settings.redis_url}",
                why="yak up does not move them; nothing was changed",
                try_=(f"yak up --data-dir {folder}", "yak up --data-dir OTHER          make another cluster"),
            )
        known.redis = RedisState(settings.redis_url)
    if known.metadata == quorum.REDIS and not known.redis.url:
        known.redis.is_ours = True


def _refuse_secrets(configs: Sequence[str]) -> None:
    """Refuse configs with passwords or keys. Raises UsageError (`secret-config`)."""
    for name in (pair.partition("=")[0].strip() for pair in configs):
        if is_sensitive(name):
            tls = ("yak up --tls",) if "ssl" in name.split(".") else ()
            raise UsageError(
                "secret-config",
                f"yak up takes no {name}",
                why="it would be stored in the cluster's state and stand on command lines, which other users see",
                try_=(*tls, "yak serve --properties FILE          a broker with it"),
            )


def _exposed(known: ClusterState, settings: UpSettings) -> ListenerOptions:
    before = known.exposed
    users_file = before.users_file if settings.users_file is None else settings.users_file
    return ListenerOptions(
        before.listen if settings.listen is None else settings.listen,
        before.advertise if settings.listen is None and not settings.advertise else settings.advertise,
        before.tls if settings.tls is None else settings.tls,
        None if users_file == listeners.NONE else users_file,
    )


def _refuse_changes(known: ClusterState, settings: UpSettings) -> None:
    """Raise UsageError for settings that a running cluster cannot take."""
    first = known.brokers[0]
    wrong = None
    bootstrap_port = known.shared_port or first.port
    if settings.port not in {None, 0, bootstrap_port}:
        wrong = f"it listens on {first.host}:{bootstrap_port}, not on port {settings.port}"
    elif known.metadata == quorum.REDIS and settings.redis_url not in {None, known.redis.url}:
        wrong = f"its metadata is in {without_password(known.redis.url)}"
    elif settings.configs and any(is_alive(each) and each.configs != settings.configs for each in known.brokers):
        wrong = "it was started with other configs"
    elif _exposed(known, settings) != known.exposed:
        wrong = "it was started with other listeners, or with other TLS or users"
    if wrong is not None:
        raise _running(known, wrong)


def _running(known: ClusterState, why: str) -> UsageError:
    return UsageError(
        "cluster-running",
        f"the cluster in {known.data_dir} already runs",
        why=why,
        try_=(f"yak down --data-dir {quote(known.data_dir)}          stop it first",),
    )


def _set_size(known: ClusterState, settings: UpSettings) -> None:
    has = len(known.brokers)
    if settings.brokers is not None:
        wanted = settings.brokers * known.cores
    else:
        of_new = 1 if settings.leaders is None else max(BROKERS_OF_MANY, settings.leaders)
        wanted = has or of_new * known.cores
    if wanted < has:
        raise UsageError(
            "cluster-shrink",
            f"the cluster in {known.data_dir} has {has} brokers and cannot have {wanted}",
            why="a removed broker may have the only replica of a partition",
            try_=(
                f"yak up --brokers {has} --data-dir {quote(known.data_dir)}",
                f"yak down --purge --data-dir {quote(known.data_dir)}          delete all of it, then start again",
            ),
        )
    leaders = None if settings.leaders is None else settings.leaders * known.cores
    if leaders is not None and not 1 <= leaders <= wanted:
        raise UsageError(
            "bad-leaders",
            f"{leaders} of {wanted} brokers cannot be leaders",
            why="at least one has that role, and at most all",
            try_=(f"yak up --brokers {wanted} --leaders 1",),
        )
    configs = known.brokers[0].configs if known.brokers and not settings.configs else settings.configs
    first = _next_number(known)
    for node_id in range(first, first + wanted - has):
        known.brokers.append(_new_broker(known, node_id, "leader" if node_id <= known.cores else "follower", configs))
    if leaders is not None:
        _set_roles(known, leaders)


def _next_number(known: ClusterState) -> int:
    """A removed voter's number is not used again: the quorum's log names it."""
    return max((*known.voters, *(broker.node_id for broker in known.brokers)), default=0) + 1


def _new_broker(known: ClusterState, node_id: int, role: str, configs: tuple[str, ...]) -> BrokerState:
    return BrokerState(node_id, role, HOST, 0, layout.node_dir(known.data_dir, node_id), configs)


def _set_roles(known: ClusterState, leaders: int) -> None:
    for index, broker in enumerate(known.brokers):
        role = "leader" if index < leaders else "follower"
        if role != broker.role and is_alive(broker):
            raise _running(known, f"node {broker.node_id} has the role of a {broker.role}, not of a {role}")
        broker.role = role


class _Ports:
    """Chooses ports. `mine` are taken by this cluster; `missed` are the usual ones that were not free."""

    def __init__(self, mine: Iterable[int | None] = ()) -> None:
        self.mine = {0, *mine}
        self.missed: list[int] = []

    def choose(self, usual: int, *, is_requested: bool) -> int:
        """The usual port if it is free; else a free one that stays free while its broker restarts. 0 is no usual port.

        Raises UsageError (`port-in-use`) for a requested port that is taken.
        """
        if 0 < usual <= _PORT_MAX:
            is_free = usual not in self.mine and ports.is_free(HOST, usual)
            self.mine.add(usual)
            if is_free:
                return usual
            if is_requested:
                raise ports.port_taken_error(HOST, usual)
            self.missed.append(usual)
        port = 0
        while port in self.mine:
            port = ports.find_lasting(HOST)
        self.mine.add(port)
        return port


def _choose_shared_port(known: ClusterState, settings: UpSettings) -> tuple[int, ...]:
    """Choose the bootstrap port of all brokers; returns the default port if it was taken. Raises UsageError."""
    if known.cores == 1 or any(map(is_alive, known.brokers)):
        return ()
    chooser, requested = _Ports(), settings.port
    usual = 0 if requested == 0 else requested or known.shared_port or DEFAULT_PORT
    known.shared_port = chooser.choose(usual, is_requested=bool(requested))
    return tuple(chooser.missed)


def _first_port(known: ClusterState, requested: int | None) -> int:
    """The usual port of the first broker: behind the bootstrap port, if there is one."""
    behind = 1 if known.shared_port else 0
    return requested + behind if requested else known.brokers[0].port or (known.shared_port or DEFAULT_PORT) + behind


def _choose_ports(known: ClusterState, settings: UpSettings, only: int | None = None) -> tuple[int, ...]:
    """Choose the ports of the brokers that do not run; those of a quorum must be known now, and stay the same.

    Returns the default ports that were taken. Raises UsageError: `port-in-use`, `quorum-port`.
    """
    if settings.ports:
        for broker, port in zip(known.brokers, settings.ports, strict=True):
            broker.host, broker.port = HOST, port
        return ()
    requested, lasts = settings.port, known.has_quorum or bool(known.voters)
    base = _first_port(known, requested)
    if lasts and requested:
        _refuse_other_port(known, base)
    mine = {broker.port for broker in known.brokers if lasts or is_alive(broker)} | listeners.taken_ports(known)
    chooser = _Ports({*mine, known.shared_port})
    for index, broker in _missing(known, only):
        if lasts and broker.port:
            if not ports.is_free(HOST, broker.port):
                raise _quorum_port_taken(known, broker)
            continue
        broker.host, usual = HOST, base + index
        if requested is None and broker.port:
            usual = broker.port
        elif requested == 0 or (base >= _PORTS_OF_THE_SYSTEM_FROM and index):
            usual = 0
        broker.port = chooser.choose(usual, is_requested=bool(requested) and not index)
    return tuple(chooser.missed)


def _missing(known: ClusterState, only: int | None) -> list[tuple[int, BrokerState]]:
    """The brokers that do not run, or `only` one, each with its index."""
    found = enumerate(known.brokers)
    return [(index, each) for index, each in found if not is_alive(each) and only in {None, each.node_id}]


def _refuse_other_port(known: ClusterState, base: int) -> None:
    """Refuse to move the first broker of a quorum to another port. Raises UsageError (`quorum-port`)."""
    first = known.brokers[0]
    if first.port not in {0, base}:
        raise UsageError(
            "quorum-port",
            f"the brokers of the cluster in {known.data_dir} keep their ports, node {first.node_id} port {first.port}",
            why="the voters of the metadata quorum are named by their addresses",
            try_=(f"yak up --data-dir {quote(known.data_dir)}",),
        )


def _quorum_port_taken(known: ClusterState, broker: BrokerState) -> UsageError:
    return UsageError(
        "quorum-port",
        f"node {broker.node_id} cannot listen on {broker.address}, its address in the metadata quorum",
        why=f"{ports.holder(broker.port)} listens there, and a voter keeps its address",
        try_=("stop the other program", f"yak up --status --data-dir {quote(known.data_dir)}"),
    )


def _choose_http_ports(known: ClusterState, settings: UpSettings, only: int | None = None) -> None:
    """Choose HTTP ports like client ports; a default port that is taken is replaced by any free one.

    A cluster whose first broker answers no HTTP stays without it until a port is requested.
    """
    requested = settings.http_port
    any_will_do = requested == 0 or (requested is None and (settings.port == 0 or bool(settings.ports)))
    base = requested or known.brokers[0].http_port or DEFAULT_HTTP_PORT
    mine = {broker.http_port for broker in known.brokers if is_alive(broker)} | listeners.taken_ports(known)
    chooser = _Ports(mine)
    for index, broker in _missing(known, only):
        is_as_before = requested is None and None in (broker.http_port, known.brokers[0].http_port)
        if settings.no_http or is_as_before:
            broker.http_port = None
            continue
        usual = broker.http_port if requested is None and broker.http_port else base + index
        usual = 0 if any_will_do and not broker.http_port else usual
        broker.http_port = chooser.choose(usual, is_requested=bool(requested) and not index)
