"""`yak serve`: runs one broker in the foreground; `serving` evaluates its options."""

from typing import Annotated, Any

from yak.commands.app import CONNECTION, OUTPUT, START, STOP, WHAT, command
from yak.commands.options import Globals
from yak.commands.parameters import option


@command(
    examples=(
        "yak serve",
        "yak serve --role follower --node-id 2 --port 9093 --data-dir ./yak-data-2",
        "yak serve --host 0.0.0.0 --advertised broker1.example:9092 -c num.partitions=6",
        "yak serve --listen EXTERNAL://0.0.0.0:19092 --advertise EXTERNAL://localhost:19092",
        "yak serve --cores auto --port 9092",
        "yak serve --properties server.properties --dry-run",
    )
)
def serve(
    g: Globals,
    role: Annotated[
        str | None,
        option("--role", "Preferred role.  [leader]", WHAT, metavar="leader|follower"),
    ] = None,
    node_id: Annotated[
        str | None,
        option("--node-id", "Node id in the cluster; a name becomes a number.  [1]", WHAT, metavar="N"),
    ] = None,
    rack: Annotated[
        str | None,
        option("--rack", "Rack or zone; replicas are spread over racks.", WHAT, metavar="R"),
    ] = None,
    cores: Annotated[
        str | None,
        option("--cores", "Run N brokers as one machine, or auto: one for each core.  [1]", WHAT, metavar="N"),
    ] = None,
    data_dir: Annotated[
        list[str] | None,
        option("--data-dir", "Log directory; repeat for more disks.  [./yak-data]", WHAT, metavar="DIR"),
    ] = None,
    configs: Annotated[
        list[str] | None,
        option("--config-override, -c", "A Kafka broker config.", WHAT, metavar="NAME=VALUE"),
    ] = None,
    properties: Annotated[
        str | None,
        option("--properties", "Kafka broker configs, as server.properties.", WHAT, metavar="FILE"),
    ] = None,
    kafka_env: Annotated[
        bool,
        option("--kafka-env", "Take configs from KAFKA_* variables, as Kafka's image.", WHAT),
    ] = False,
    min_insync_replicas: Annotated[
        str | None,
        option("--min-insync-replicas", "Short for -c min.insync.replicas=N.", WHAT, metavar="N"),
    ] = None,
    default_replication_factor: Annotated[
        str | None,
        option("--default-replication-factor", "Short for -c default.replication.factor=N.", WHAT, metavar="N"),
    ] = None,
    as_kafka: Annotated[
        str | None,
        option(
            "--as-kafka",
            "Short for -c yak.as.kafka=RELEASE: the APIs and versions of that Kafka, such as 2.8.",
            WHAT,
            metavar="RELEASE",
        ),
    ] = None,
    host: Annotated[
        str | None, option("--host", "Listen on this address.  [127.0.0.1]", CONNECTION, metavar="HOST")
    ] = None,
    port: Annotated[
        str | None,
        option("--port", "Listen on this port; 0 for any.  [9092]", CONNECTION, metavar="N"),
    ] = None,
    http_port: Annotated[
        str | None,
        option("--http-port", "Serve HTTP on this port; 0 for any.  [8080, or any free]", CONNECTION, metavar="N"),
    ] = None,
    no_http: Annotated[bool, option("--no-http", "Answer no HTTP.", CONNECTION)] = False,
    advertised: Annotated[
        str | None,
        option("--advertised", "Address that clients connect to.", CONNECTION, metavar="HOST[:PORT]"),
    ] = None,
    listen: Annotated[
        list[str] | None,
        option(
            "--listen",
            "A named listener; repeat for more. Instead of --host and --port.",
            CONNECTION,
            metavar="NAME://HOST:PORT",
        ),
    ] = None,
    advertise: Annotated[
        list[str] | None,
        option(
            "--advertise",
            "Address for clients of that listener.  [as --listen]",
            CONNECTION,
            metavar="NAME://HOST:PORT",
        ),
    ] = None,
    metadata: Annotated[
        str | None,
        option(
            "--metadata",
            "Where the metadata are: redis, raft (a quorum of brokers), or both while they move.  [redis]",
            CONNECTION,
            metavar="redis|raft|both",
        ),
    ] = None,
    voters: Annotated[
        str | None,
        option("--voters", "First voters of the quorum.  [this broker]", CONNECTION, metavar="ID@HOST:PORT,..."),
    ] = None,
    cluster_secret_file: Annotated[
        str | None,
        option("--cluster-secret-file", "Secret that the quorum's brokers share.", CONNECTION, metavar="FILE"),
    ] = None,
    users_file: Annotated[
        str | None,
        option(
            "--users-file", "Users of this broker alone, NAME:PASSWORD a line; mode 0600.", CONNECTION, metavar="FILE"
        ),
    ] = None,
    project_redis: Annotated[
        str | None,
        option(
            "--project-redis",
            "With raft: also write ISR and offsets to this Redis, to look at.",
            CONNECTION,
            metavar="URL",
        ),
    ] = None,
    redis_url: Annotated[
        str | None,
        option("--redis-url", "The metadata store.  [redis://127.0.0.1:6379/0]", CONNECTION, metavar="URL"),
    ] = None,
    redis_timeout: Annotated[
        str, option("--redis-timeout", "Time to wait for it at start.", CONNECTION, metavar="DURATION")
    ] = "30s",
    allow_unsafe_redis: Annotated[
        bool,
        option("--allow-unsafe-redis", "Also one with replicas: a failover to them may lose metadata.", CONNECTION),
    ] = False,
    followers: Annotated[
        str | None,
        option(
            "--followers",
            "The followers this leader waits for before it makes replicated topics.",
            CONNECTION,
            metavar="HOST:PORT,...",
        ),
    ] = None,
    followers_timeout: Annotated[
        str | None,
        option("--followers-timeout", "How long to wait for them.  [30s]", CONNECTION, metavar="DURATION"),
    ] = None,
    lease_time: Annotated[
        str | None,
        option(
            "--lease-time", "Session timeout of brokers and controller lease.  [6s]", CONNECTION, metavar="DURATION"
        ),
    ] = None,
    renew_interval: Annotated[
        str | None,
        option("--renew-interval", "Heartbeat interval.  [0.5s]", CONNECTION, metavar="DURATION"),
    ] = None,
    ready_file: Annotated[
        str | None,
        option("--ready-file", "Write JSON here once the broker is ready.", START, metavar="PATH"),
    ] = None,
    dry_run: Annotated[bool, option("--dry-run", "Print the settings and their origins, and exit.", STOP)] = False,
    log_format: Annotated[
        str | None, option("--log-format", "Format of the log.  [text]", OUTPUT, metavar="text|json")
    ] = None,
    log_level: Annotated[
        str | None,
        option("--log-level", "debug, info, warning or error.  [info]", OUTPUT, metavar="LEVEL"),
    ] = None,
) -> None:
    """Run one broker in the foreground."""
    given: dict[str, Any] = {name: value for name, value in locals().items() if name != "g" and value is not None}
    from yak.commands.serving import ServeFlags, run

    run(g, ServeFlags(**given))
