"""`yak serve`: runs one broker in the foreground; `serving` evaluates its options."""

from typing import Annotated

import typer

from yak.commands.app import CONNECTION, OUTPUT, START, STOP, WHAT, command
from yak.commands.options import Globals


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
        typer.Option("--role", help="Preferred role: leader or follower.  [leader]", rich_help_panel=WHAT),
    ] = None,
    node_id: Annotated[
        str | None,
        typer.Option("--node-id", help="Node id in the cluster; a name becomes a number.  [1]", rich_help_panel=WHAT),
    ] = None,
    rack: Annotated[
        str | None,
        typer.Option("--rack", metavar="R", help="Rack or zone; replicas are spread over racks.", rich_help_panel=WHAT),
    ] = None,
    cores: Annotated[
        str | None,
        typer.Option(
            "--cores",
            metavar="N",
            help="Run N brokers as one machine, or auto: one for each core.  [1]",
            rich_help_panel=WHAT,
        ),
    ] = None,
    data_dir: Annotated[
        list[str] | None,
        typer.Option("--data-dir", help="Log directory; repeat for more disks.  [./yak-data]", rich_help_panel=WHAT),
    ] = None,
    configs: Annotated[
        list[str] | None,
        typer.Option(
            "--config-override", "-c", metavar="NAME=VALUE", help="A Kafka broker config.", rich_help_panel=WHAT
        ),
    ] = None,
    properties: Annotated[
        str | None,
        typer.Option(
            "--properties", metavar="FILE", help="Kafka broker configs, as server.properties.", rich_help_panel=WHAT
        ),
    ] = None,
    kafka_env: Annotated[
        bool,
        typer.Option(
            "--kafka-env", help="Take configs from KAFKA_* variables, as Kafka's image.", rich_help_panel=WHAT
        ),
    ] = False,
    min_insync_replicas: Annotated[
        str | None,
        typer.Option(
            "--min-insync-replicas", metavar="N", help="Short for -c min.insync.replicas=N.", rich_help_panel=WHAT
        ),
    ] = None,
    default_replication_factor: Annotated[
        str | None,
        typer.Option(
            "--default-replication-factor",
            metavar="N",
            help="Short for -c default.replication.factor=N.",
            rich_help_panel=WHAT,
        ),
    ] = None,
    as_kafka: Annotated[
        str | None,
        typer.Option(
            "--as-kafka",
            metavar="RELEASE",
            help="Short for -c yak.as.kafka=RELEASE: the APIs and versions of that Kafka, such as 2.8.",
            rich_help_panel=WHAT,
        ),
    ] = None,
    host: Annotated[
        str | None, typer.Option("--host", help="Listen on this address.  [127.0.0.1]", rich_help_panel=CONNECTION)
    ] = None,
    port: Annotated[
        str | None,
        typer.Option("--port", metavar="N", help="Listen on this port; 0 for any.  [9092]", rich_help_panel=CONNECTION),
    ] = None,
    http_port: Annotated[
        str | None,
        typer.Option(
            "--http-port",
            metavar="N",
            help="Serve HTTP on this port; 0 for any.  [8080, or any free]",
            rich_help_panel=CONNECTION,
        ),
    ] = None,
    no_http: Annotated[bool, typer.Option("--no-http", help="Answer no HTTP.", rich_help_panel=CONNECTION)] = False,
    advertised: Annotated[
        str | None,
        typer.Option(
            "--advertised", metavar="HOST[:PORT]", help="Address that clients connect to.", rich_help_panel=CONNECTION
        ),
    ] = None,
    listen: Annotated[
        list[str] | None,
        typer.Option(
            "--listen",
            metavar="NAME://HOST:PORT",
            help="A named listener; repeat for more. Instead of --host and --port.",
            rich_help_panel=CONNECTION,
        ),
    ] = None,
    advertise: Annotated[
        list[str] | None,
        typer.Option(
            "--advertise",
            metavar="NAME://HOST:PORT",
            help="Address for clients of that listener.  [as --listen]",
            rich_help_panel=CONNECTION,
        ),
    ] = None,
    metadata: Annotated[
        str | None,
        typer.Option(
            "--metadata",
            help="Where the metadata are: redis, raft (a quorum of brokers), or both while they move.  [redis]",
            rich_help_panel=CONNECTION,
        ),
    ] = None,
    voters: Annotated[
        str | None,
        typer.Option(
            "--voters",
            metavar="ID@HOST:PORT,...",
            help="First voters of the quorum.  [this broker]",
            rich_help_panel=CONNECTION,
        ),
    ] = None,
    cluster_secret_file: Annotated[
        str | None,
        typer.Option(
            "--cluster-secret-file",
            metavar="FILE",
            help="Secret that the quorum's brokers share.",
            rich_help_panel=CONNECTION,
        ),
    ] = None,
    users_file: Annotated[
        str | None,
        typer.Option(
            "--users-file",
            metavar="FILE",
            help="Users of this broker alone, NAME:PASSWORD a line; mode 0600.",
            rich_help_panel=CONNECTION,
        ),
    ] = None,
    project_redis: Annotated[
        str | None,
        typer.Option(
            "--project-redis",
            metavar="URL",
            help="With raft: also write ISR and offsets to this Redis, to look at.",
            rich_help_panel=CONNECTION,
        ),
    ] = None,
    redis_url: Annotated[
        str | None,
        typer.Option("--redis-url", help="The metadata store.  [redis://127.0.0.1:6379/0]", rich_help_panel=CONNECTION),
    ] = None,
    redis_timeout: Annotated[
        str, typer.Option("--redis-timeout", help="Time to wait for it at start.", rich_help_panel=CONNECTION)
    ] = "30s",
    allow_unsafe_redis: Annotated[
        bool,
        typer.Option(
            "--allow-unsafe-redis",
            help="Also one with replicas: a failover to them may lose metadata.",
            rich_help_panel=CONNECTION,
        ),
    ] = False,
    followers: Annotated[
        str | None,
        typer.Option(
            "--followers",
            metavar="HOST:PORT,...",
            help="The followers this leader waits for before it makes replicated topics.",
            rich_help_panel=CONNECTION,
        ),
    ] = None,
    followers_timeout: Annotated[
        str | None,
        typer.Option("--followers-timeout", help="How long to wait for them.  [30s]", rich_help_panel=CONNECTION),
    ] = None,
    lease_time: Annotated[
        str | None,
        typer.Option(
            "--lease-time", help="Session timeout of brokers and controller lease.  [6s]", rich_help_panel=CONNECTION
        ),
    ] = None,
    renew_interval: Annotated[
        str | None,
        typer.Option("--renew-interval", help="Heartbeat interval.  [0.5s]", rich_help_panel=CONNECTION),
    ] = None,
    ready_file: Annotated[
        str | None,
        typer.Option(
            "--ready-file", metavar="PATH", help="Write JSON here once the broker is ready.", rich_help_panel=START
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the settings and their origins, and exit.", rich_help_panel=STOP)
    ] = False,
    log_format: Annotated[
        str | None, typer.Option("--log-format", help="text or json.  [text]", rich_help_panel=OUTPUT)
    ] = None,
    log_level: Annotated[
        str | None,
        typer.Option("--log-level", help="debug, info, warning or error.  [info]", rich_help_panel=OUTPUT),
    ] = None,
) -> None:
    """Run one broker in the foreground."""
    from yak.commands.serving import ServeFlags, run

    run(
        g,
        ServeFlags(
            role=role,
            node_id=node_id,
            rack=rack,
            cores=cores,
            data_dir=data_dir or [],
            configs=configs or [],
            properties=properties,
            kafka_env=kafka_env,
            min_insync_replicas=min_insync_replicas,
            default_replication_factor=default_replication_factor,
            as_kafka=as_kafka,
            host=host,
            port=port,
            http_port=http_port,
            no_http=no_http,
            advertised=advertised,
            listen=listen or [],
            advertise=advertise or [],
            metadata=metadata,
            voters=voters,
            cluster_secret_file=cluster_secret_file,
            users_file=users_file,
            project_redis=project_redis,
            redis_url=redis_url,
            redis_timeout=redis_timeout,
            allow_unsafe_redis=allow_unsafe_redis,
            followers=followers,
            followers_timeout=followers_timeout,
            lease_time=lease_time,
            renew_interval=renew_interval,
            ready_file=ready_file,
            dry_run=dry_run,
            log_format=log_format,
            log_level=log_level,
        ),
    )
