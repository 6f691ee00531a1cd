"""`yak up`: starts and shows a cluster on this machine."""

import signal
from typing import TYPE_CHECKING, Any, Literal

from yak.commands.app import OUTPUT, START, WHAT, command, flag
from yak.commands.interrupts import held
from yak.commands.local_cluster import (
    bootstrap_servers,
    data_dir_flag,
    data_dir_of,
    local_cluster,
    print_access,
    print_status,
    roles_note,
)
from yak.commands.options import Globals
from yak.commands.parameters import DataDir
from yak.errors import UsageError, YakError
from yak.view.formats import numbered

if TYPE_CHECKING:
    from yak.local.cluster import LocalCluster, UpResult, UpSettings
    from yak.local.seed_topics import SeedTopic
    from yak.local.supervise import LogFollower

_BROKERS_MAX = 64


@command(
    examples=(
        "yak up",
        "yak up -d --brokers 3 --leaders 1 --seed-topic orders:3",
        "yak up --brokers 3 --metadata raft",
        "yak up --brokers 3 --cores 2",
        "yak up --as-kafka 2.8",
        "yak up --listen EXTERNAL://0.0.0.0:19092 --advertise EXTERNAL://localhost:19092",
        "yak up --tls --users-file users",
        "yak up --status -o json",
    )
)
def up(
    g: Globals,
    brokers: int | None = flag(
        "--brokers",
        "How many brokers.  [as before; 1, or 3 with --leaders]",
        WHAT,
        metavar="N",
        min=1,
        max=_BROKERS_MAX,
    ),
    cores: str | None = flag(
        "--cores",
        "Make each broker a machine of N brokers, or auto: one for each core.  [as before; 1]",
        WHAT,
        metavar="N",
    ),
    leaders: int | None = flag(
        "--leaders",
        "The first M brokers have the role leader, the others follower.  [as before; 1]",
        WHAT,
        metavar="M",
        min=1,
    ),
    data_dir: DataDir = None,
    ephemeral: bool = flag("--ephemeral", "Use a new directory, deleted at the end.", WHAT, default=False),
    keep: bool = flag("--keep", "Keep the data, also of an --ephemeral cluster.", WHAT, default=False),
    configs: list[str] | None = flag("-c", "A broker config; may be repeated.", WHAT, metavar="NAME=VALUE"),
    as_kafka: str | None = flag(
        "--as-kafka", "Answer clients as this Kafka, such as 2.8: its APIs and their versions.", WHAT, metavar="RELEASE"
    ),
    seed_topic: list[str] | None = flag(
        "--seed-topic", "Create this topic with N partitions.", WHAT, metavar="NAME[:N]"
    ),
    port: int | None = flag(
        "--port", "Listen here; 0 for any.  [9092, or any free]", START, metavar="PORT", min=0, max=65535
    ),
    http_port: int | None = flag(
        "--http-port",
        "HTTP port of the first broker; 0 for any.  [8080, or any free]",
        START,
        metavar="PORT",
        min=0,
        max=65535,
    ),
    no_http: bool = flag("--no-http", "Answer no HTTP.", START, default=False),
    listen: list[str] | None = flag(
        "--listen",
        "A further listener; broker K has PORT + K - 1. none removes them.  [as before]",
        START,
        metavar="NAME://HOST:PORT",
    ),
    advertise: list[str] | None = flag(
        "--advertise",
        "Address for clients of that listener, likewise.  [as --listen]",
        START,
        metavar="NAME://HOST:PORT",
    ),
    tls: bool | None = flag("--tls/--no-tls", "Encrypt, with certificates generated here.  [as before]", START),
    users_file: str | None = flag(
        "--users-file",
        "Clients log in as these users, NAME:PASSWORD a line. none removes them.  [as before]",
        START,
        metavar="FILE",
    ),
    metadata: Literal["redis", "raft"] | None = flag(
        "--metadata",
        "Metadata store: a Redis, or a quorum of the brokers without Redis.  [as before; redis]",
        START,
        metavar="redis|raft",
    ),
    redis_url: str | None = flag("--redis-url", "Use this Redis instead of starting one.", START, metavar="URL"),
    detach: bool = flag("--detach, -d", "Leave the cluster running and return.", START, default=False),
    status: bool = flag("--status", "Show the cluster, change nothing.", OUTPUT, default=False),
) -> None:
    """Start a cluster on this machine."""
    from yak.local.cluster import LocalCluster, UpSettings
    from yak.local.seed_topics import parse_seed_topic

    if keep and ephemeral:
        raise UsageError("usage", "--keep and --ephemeral exclude each other", why="one deletes, one does not")
    if status:
        if keep or ephemeral or (brokers, leaders, cores) != (None, None, None):
            raise UsageError("usage", "--status changes nothing", why="it goes with no option of a start")
        print_status(g, local_cluster(g, data_dir).status(), with_place=True)
        return
    redis = g.settings.get("redis_url", flag=redis_url)
    store = g.settings.get("metadata", flag=metadata)
    if store.value == "raft" and redis_url is not None:
        raise UsageError("usage", "--redis-url and --metadata raft exclude each other", why="a quorum needs no Redis")
    own_redis = redis.origin == "default" or store.value == "raft"
    own_port = g.settings.get("port", flag=port)
    answer_http = g.settings.get("http_port", flag=http_port)
    if ephemeral and not own_redis:
        raise UsageError(
            "ephemeral-redis",
            "--ephemeral goes with a Redis that yak up starts itself",
            why=f"the cluster's metadata would stay behind in {redis.value} ({redis.origin})",
            try_=("yak up --ephemeral",),
        )
    g.must_not_be_readonly("starting a cluster")
    settings = UpSettings(
        port=None if own_port.origin == "default" else int(own_port.value),
        redis_url=None if own_redis else str(redis.value),
        configs=_configs(configs or [], as_kafka),
        brokers=brokers,
        leaders=leaders,
        ephemeral=ephemeral,
        keep=keep,
        supervised=not detach,
        http_port=None if answer_http.origin == "default" else int(answer_http.value),
        no_http=no_http,
        metadata=None if store.origin == "default" else str(store.value),
        cores=_cores(cores, brokers),
        **_exposed(listen, advertise, tls, users_file),
    )
    topics = tuple(parse_seed_topic(text) for text in seed_topic or ())
    cluster = LocalCluster(_ephemeral_dir(data_dir) if ephemeral else data_dir_of(g, data_dir))
    _up(g, cluster, settings, topics)


def _cores(text: str | None, machines: int | None) -> int | None:
    """The brokers of a machine. Raises UsageError (`bad-cores`)."""
    if text is None:
        return None
    from yak.local.cores.plan import bad_cores, parse_cores

    cores = parse_cores(text)
    if cores * (machines or 1) > _BROKERS_MAX:
        raise bad_cores(f"{machines} machines of {cores} brokers are too many", f"a cluster has {_BROKERS_MAX} at most")
    return cores


def _configs(pairs: list[str], as_kafka: str | None) -> tuple[str, ...]:
    """The broker configs. Raises UsageError (`bad-config`) for an unknown Kafka release, before anything starts."""
    if as_kafka is None:
        return tuple(pairs)
    from yak.config.kafka_releases import RELEASES

    if as_kafka not in RELEASES:
        why = f"they are {RELEASES[0]} to {RELEASES[-1]}"
        what = f"--as-kafka {as_kafka} is no Kafka release that YAK can answer as"
        raise UsageError("bad-config", what, why=why, try_=(f"yak up --as-kafka {RELEASES[-1]}",))
    return (*pairs, f"yak.as.kafka={as_kafka}")


def _exposed(
    listen: list[str] | None, advertise: list[str] | None, tls: bool | None, users_file: str | None
) -> dict[str, Any]:
    """The settings of the listeners. Raises UsageError (`usage`, `users-file`)."""
    from yak.local.listeners import NONE

    if listen is not None and NONE in listen:
        if listen != [NONE] or advertise:
            raise UsageError("usage", "--listen none goes alone", why="it takes back all further listeners")
        listen = []
    for text in (*(listen or ()), *(advertise or ())):
        if "://" not in text:
            why = "a listener is NAME://HOST:PORT"
            raise UsageError("up-listeners", f"{text} lacks NAME://", why=why, try_=(f"EXTERNAL://{text}",))
    if users_file not in (None, NONE):
        import os

        from yak.server.users_file import read_users_file

        users_file = os.path.abspath(str(users_file))
        read_users_file(users_file)  # a bad file is refused before anything starts
    return {
        "listen": None if listen is None else tuple(listen),
        "advertise": tuple(advertise or ()),
        "tls": tls,
        "users_file": users_file,
    }


def _ephemeral_dir(data_dir: str | None) -> str:
    import tempfile

    if data_dir is not None:
        raise UsageError(
            "ephemeral-data-dir",
            "--ephemeral makes its own directory",
            why=f"--data-dir {data_dir} was given too, and --ephemeral deletes its directory at the end",
            try_=("yak up --ephemeral", f"yak up --data-dir {data_dir}"),
        )
    return tempfile.mkdtemp(prefix="yak-")


def _up(g: Globals, cluster: "LocalCluster", settings: "UpSettings", topics: "tuple[SeedTopic, ...]") -> None:
    from yak.local.seed_topics import make_topics
    from yak.local.supervise import LogFollower

    started: tuple[int, ...] = ()
    follower = LogFollower(cluster.log_paths())
    try:
        try:
            with held() as signalled:  # no process is left that nothing knows of; a second Ctrl+C ends the start
                result = cluster.up(settings)
                started = result.started
        finally:
            # also in place of an error: a Ctrl+C that comes while a broker is forked ends that broker
            if signalled.signal is not None:
                raise KeyboardInterrupt if signalled.signal == signal.SIGINT else SystemExit(signalled.exit_code)
        _connect(result, settings.users_file)
        made = make_topics(result.status.bootstrap, topics, timeout_ms=g.timeout_ms)
        print_status(g, result.status, with_state=False)
        _say_what_happened(g, result, made)
        if not settings.supervised:
            g.out.note(f"stop it: yak down{data_dir_flag(cluster.data_dir)}")
        elif result.supervisor_pid is not None:
            g.out.note(f"another yak up (pid {result.supervisor_pid}) watches this cluster; stop it there")
        else:
            _watch(g, cluster, follower)
    except BaseException:
        if settings.ephemeral:
            cluster.discard()
        elif started and (settings.supervised or signalled.signal is not None):
            cluster.down()
        raise


def _connect(result: "UpResult", users_file: str | None) -> None:
    """Connect to the cluster's own listener, with TLS and as the first user, to make the seed topics."""
    from yak.client.login import ClientLogin, use_login
    from yak.client.security import ClientSecurity, use
    from yak.local.listeners import first_user

    status = result.status
    use(ClientSecurity(protocol=status.security_protocol, ca_location=status.ca_file))
    if status.security_protocol.startswith("SASL"):
        use_login(ClientLogin("SCRAM-SHA-256", *first_user(users_file or status.users_file or "")))


def _say_what_happened(g: Globals, result: "UpResult", made: tuple[str, ...]) -> None:
    from yak.security.redis_url import without_password

    status = result.status
    if not result.started:
        g.out.note("Redis was gone and runs again" if result.redis_started else "it ran already")
    else:
        where = (
            without_password(status.redis_url or "")
            if status.metadata == "redis"
            else f"a quorum of {numbered('node', status.voters)} without Redis"
        )
        g.out.note(f"ready in {result.took_ms:.0f} ms, metadata in {where}, data in {status.data_dir}")
    if result.taken_ports:
        ports = ", ".join(map(str, result.taken_ports))
        were = "port {} was" if len(result.taken_ports) == 1 else "ports {} were"
        g.out.note(f"{were.format(ports)} taken; clients connect to {status.bootstrap}")
    for broker in status.brokers:
        if broker.state == "paused":
            g.out.note(f"node {broker.node_id} is paused: yak node resume {broker.node_id}")
    answering = [broker.http_address for broker in status.brokers if broker.http_address]
    if answering:
        g.out.note(f"http:    {' '.join(answering)}")
    if roles := roles_note({broker.node_id: broker.role for broker in status.brokers}, status.voters):
        machines = {broker.machine or broker.node_id for broker in status.brokers}
        g.out.note(f"leaders: {roles}; yak up --leaders {len(machines)}, after yak down, spreads them")
    print_access(g, status)
    if status.moving_to is not None:
        g.out.note(f"a move of the metadata is not finished: yak cluster migrate --to {status.moving_to}")
    for name in made:
        g.out.note(f'created topic "{name}"')
    running = [broker.address for broker in status.brokers if broker.state == "running"]
    first = running[0] if running else status.brokers[0].address  # clients learn the other brokers from it
    if status.brokers[0].machine is not None:
        first = status.bootstrap
        g.out.note(f"every broker answers at {first}")
    flag = "" if first in str(bootstrap_servers(g.settings).value).split(",") else f" -b {first}"
    g.out.note(f"next:    yak produce -m hello{flag} && yak consume --from-beginning --exit{flag}")


def _watch(g: Globals, cluster: "LocalCluster", follower: "LogFollower") -> None:
    """Print logs until Ctrl+C or SIGTERM, then stop the cluster gracefully; also ends when another command stops it."""
    from yak.local.signal_event import SignalEvent
    from yak.local.supervise import supervise

    stop_requested = SignalEvent()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: stop_requested.set())
    g.out.note("Ctrl+C stops the cluster")

    def changed(node_id: int, condition: str) -> None:
        action = {"dead": "restart", "paused": "resume"}.get(condition)
        hint = f"; yak node {action} {node_id}{data_dir_flag(cluster.data_dir)} brings it back" if action else ""
        g.out.note(f"node {node_id} is {condition}{hint}")

    def restarted(node_id: int, error: YakError | None) -> None:
        if error is None:
            g.out.note(f"node {node_id} had halted and was started again; please report the traceback in its log")
        else:
            g.out.warn(f"node {node_id} halted and does not start: {error.message}")

    ended_here = supervise(
        cluster,
        follower,
        stop_requested,
        on_line=lambda name, line: g.out.note(f"{name:<6} | {line}"),
        on_change=changed,
        on_redis_gone=lambda: g.out.warn(f"Redis is gone; yak up{data_dir_flag(cluster.data_dir)} brings it back"),
        on_restart=restarted,
    )
    if ended_here:
        has_redis = cluster.status().metadata == "redis"
        g.out.note("stopping followers, then leaders, then Redis" if has_redis else "stopping followers, then leaders")
        for name in cluster.down():
            g.out.warn(f"{name} did not end in time and was killed")
    elif cluster.end_orphans():
        g.out.warn(f"{cluster.data_dir} was deleted or moved, and its processes were stopped")
    g.out.note("stopped")
