"""Open what a broker needs before it serves: data directories, its copy of the metadata, hot message schemas."""

import errno
import functools
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TextIO

from yak.broker.apis import API_TABLE
from yak.broker.broker import Broker
from yak.broker.parts import Parts
from yak.cluster.image import Image
from yak.cluster.image_log import ImageLog
from yak.cluster.payload import BadRecord
from yak.cluster.registration import Identity
from yak.cluster.settings import ClusterSettings
from yak.config.broker_configs import BrokerConfig
from yak.config.log_config import LogConfig
from yak.core.events import Plan
from yak.errors import LogDirectoryFailure, StartRefused
from yak.ids import BrokerEpoch, TopicPartition
from yak.lifecycle.secret_file import SecretFile
from yak.protocol import codec
from yak.protocol.topic_names import METADATA_TOPIC
from yak.security.oauth_messages import OAUTHBEARER
from yak.server import log
from yak.server.clock import Clock
from yak.server.disk import RealDisk
from yak.server.options import ServeOptions
from yak.server.random_source import SystemRandomSource
from yak.storage.checkpoints import id_to_text
from yak.storage.log_store import LogStore

if TYPE_CHECKING:
    from yak.server.quorum_files import OpenedQuorum

METADATA_FOLDER: Final = "__yak_metadata"
"""Below the first data directory; no topic's folder can have this name, for it has no partition number."""
_KERNEL_BOOT_ID: Final = "/proc/sys/kernel/random/boot_id"
"""Linux generates a new one at each start of the machine (random(4))."""
_PROGRESS_EVERY_SECONDS: Final = 1.0
_HOT: Final = {18: (3,), 3: (13,), 22: (5,)}
"""Versions of ApiVersions, Metadata and InitProducerId, which clients send first: these are prepared before the first
request, other versions after it. Produce and Fetch have hand-written codecs and need no schema."""


@dataclass(slots=True)
class LoadedState:
    """The state loaded from disk."""

    log_store: LogStore
    image_log: ImageLog
    image: Image
    secret_file: SecretFile
    quorum: "OpenedQuorum | None" = None


def open_data(
    disk: RealDisk, options: ServeOptions, config: BrokerConfig, clock: Clock, progress: Callable[[int, int], None]
) -> LoadedState:
    """Lock, check and load the data directories; waits for the device.

    The copy of the metadata is read only after the directories are known to be this node's: reading truncates an
    incomplete tail. Raises StartRefused.
    """
    directories = [os.path.abspath(path) for path in options.data_dirs]  # what DescribeLogDirs answers in Kafka
    metadata_path = f"{directories[0]}/{METADATA_FOLDER}"
    metadata = functools.cache(functools.partial(_open_metadata, disk, metadata_path))

    def config_for(topic: str) -> LogConfig:
        image = metadata()[1]
        return image.log_config(image.topics.get(topic), options.node_id, config.static)

    def is_replicated(place: TopicPartition) -> bool:
        return metadata()[1].is_replicated(place)

    def last_epoch() -> BrokerEpoch:
        return own.broker_epoch if (own := metadata()[1].brokers.get(options.node_id)) is not None else 0

    try:
        log_store = LogStore.open(
            disk,
            directories,
            options.node_id,
            SystemRandomSource().uuid4,
            clock.now_ms(),
            config_for,
            progress,
            kernel_boot_id=kernel_boot_id(),
            is_replicated=is_replicated,
            last_epoch=last_epoch,
        )
    except (LogDirectoryFailure, OSError) as error:
        raise _cannot_open(error, options) from error
    except StartRefused as refused:
        raise _naming_the_holder(refused) from refused.__cause__
    try:
        image_log, image = metadata()
    except StartRefused:
        log_store.leave()
        raise
    secret_file = SecretFile(disk, metadata_path)
    try:
        quorum = _open_quorum(disk, metadata_path, options, secret_file, image, log_store, clock.now_ms())
    except (StartRefused, OSError) as error:
        log_store.leave()
        raise error if isinstance(error, StartRefused) else _cannot_open(error, options) from error
    if image_log.truncated_bytes:
        log.write("warning", "metadata-tail-truncated", {"bytes": image_log.truncated_bytes})
    for event in log_store.report.events:
        log.write(event.level, event.event, event.fields)
    return LoadedState(log_store, image_log, image, secret_file, quorum)


def _open_quorum(
    disk: RealDisk,
    path: str,
    options: ServeOptions,
    secret_file: SecretFile,
    image: Image,
    log_store: LogStore,
    now_ms: int,
) -> "OpenedQuorum | None":
    """The quorum's files; None with Redis alone. Raises StartRefused, OSError."""
    if not options.has_quorum and not disk.exists(f"{path}/{METADATA_TOPIC}-0"):
        return None
    from yak.server.quorum_files import check_not_in_quorum, open_quorum

    if options.has_quorum:
        stayed_up, cluster_id = log_store.directories[0].machine_stayed_up, log_store.cluster_id or ""
        return open_quorum(disk, path, options, secret_file, image, now_ms, cluster_id, machine_stayed_up=stayed_up)
    check_not_in_quorum(disk, path, now_ms)
    return None


def make_broker(
    opened: LoadedState, options: ServeOptions, config: BrokerConfig, clock: Clock, http_port: int = 0
) -> Broker:
    """The core, on the opened data."""
    rng = SystemRandomSource()
    listeners, (host, port) = options.all_listeners(), options.advertised(options.port)
    quorum = None if opened.quorum is None else opened.quorum.parts(options, opened.log_store, (host, port))
    identity = Identity(
        node_id=options.node_id,
        boot_id=str(rng.uuid4()),
        directories=tuple(id_to_text(each) for each in opened.log_store.directory_ids()),
        host=host,
        port=port,
        rack=config.broker_rack,
        role=options.role,
        cluster_id=opened.log_store.cluster_id if quorum is None else quorum.config.cluster_id,
        lossy=opened.log_store.report.lossy,
        min_isr=config.min_insync_replicas,
        http_port=http_port,
        inter_broker=listeners.inter_broker,
        endpoints=() if options.listeners is None else listeners.advertised,
    )
    parts = Parts(
        apis=API_TABLE,
        identity=identity,
        config=config,
        cluster_settings=ClusterSettings(
            session_timeout_ms=options.lease_ms,
            heartbeat_interval_ms=options.renew_interval_ms,
            auto_leader_rebalance=config.auto_leader_rebalance_enable,
            leader_imbalance_check_interval_ms=config.leader_imbalance_check_interval_seconds * 1000,
            unclean_leader_election=config.unclean_leader_election_enable,
        ),
        log_store=opened.log_store,
        image=opened.image,
        image_log=opened.image_log,
        secret_file=opened.secret_file,
        rng=rng,
        quorum=quorum,
        own_users=options.users,
        has_redis=options.has_redis,
        expected_followers=options.followers if options.role == "leader" else (),
        followers_timeout_ms=options.followers_timeout_ms,
        fetch_web=_fetch_web(config),
        processor_ns=time.thread_time_ns,
    )
    return Broker(parts, clock.now_ms())


def _fetch_web(config: BrokerConfig) -> Callable[[str], Plan] | None:
    """Makes plans that fetch the keys of OAUTHBEARER; other brokers do not import it."""
    if OAUTHBEARER not in config.sasl_enabled_mechanisms:
        return None
    from yak.http_fetch import WebFetch

    return WebFetch


def kernel_boot_id(path: str = _KERNEL_BOOT_ID) -> str | None:
    """An id of this start of the machine; None where the system has none."""
    try:
        with open(path, encoding="ascii") as file:
            return file.read().strip() or None
    except (OSError, UnicodeDecodeError):
        return None


def preload_hot() -> None:
    """Prepare the schemas of most clients' first requests; about 9 ms."""
    codec.preload(_HOT.items())


class LoadProgress:
    """Reports the progress of loading on stderr, at most once a second."""

    def __init__(self, stream: TextIO | log.LastingStream) -> None:
        self._stream = stream
        self._said_at = time.monotonic()

    def __call__(self, done: int, total: int) -> None:
        """Report that `done` of `total` logs are loaded."""
        now = time.monotonic()
        if now - self._said_at >= _PROGRESS_EVERY_SECONDS:
            self._said_at = now
            self._stream.write(f"loading logs: {done} of {total}\n")


def _open_metadata(disk: RealDisk, path: str) -> tuple[ImageLog, Image]:
    """The copy of the metadata. Raises StartRefused."""
    try:
        return ImageLog.open(disk, path)
    except (BadRecord, OSError) as error:
        raise StartRefused(
            "metadata-unreadable",
            f"{path} cannot be read",
            why=f"{error}; nothing was changed",
            # not the whole folder: it has the votes of a quorum's voter
            try_=(f"cd {path} && mkdir old && mv snapshot *.log old   the broker reads them again",),
        ) from error


def _naming_the_holder(refused: StartRefused) -> StartRefused:
    """Add the process that holds the lock, which only the real disk knows, to a refusal."""
    held = refused.__cause__
    if not isinstance(held, BlockingIOError) or not held.strerror:
        return refused
    return StartRefused(refused.code, refused.message, why=f"{refused.why}, {held.strerror}", try_=refused.try_)


def _cannot_open(error: LogDirectoryFailure | OSError, options: ServeOptions) -> StartRefused:
    number = error.error.errno if isinstance(error, LogDirectoryFailure) else error.errno
    is_full = number in (errno.ENOSPC, errno.EDQUOT)
    return StartRefused(
        "data-dir",
        f"node {options.node_id} cannot open {', '.join(options.data_dirs)}",
        why=str(error),
        try_=("df -h          make room on that disk, and start it again",)
        if is_full
        else ("yak serve --data-dir ANOTHER_DIRECTORY",),
    )
