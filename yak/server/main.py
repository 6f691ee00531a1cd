"""One broker process: open the data, connect to the metadata store, serve, drain, stop.

bind the port          a port in use is reported before any file is touched
open the data          in a thread, while the store's client connects
step the core          from here on everything is an event
Ready                  listen, report readiness, load the rest later
SIGHUP                 read the certificates and the users file again
SIGTERM, SIGINT        stop accepting, let the core flush and leave, exit with 0; a second signal exits at once
"""

import contextlib
import gc
import json
import os
import signal
import socket
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

import trio

from yak.broker.broker import Broker
from yak.config.broker_configs import BrokerConfig
from yak.config.listeners import Listener, bracketed
from yak.core.events import Event, StopRequested, StoreConnected, StoreLost, TimerDue
from yak.errors import StartRefused, Unreachable, YakError, first_in
from yak.private_files import replace_file
from yak.security.oauth_messages import OAUTHBEARER
from yak.security.redis_url import without_password
from yak.server import boot, listening_sockets, log
from yak.server.background import after_ready
from yak.server.clock import Clock
from yak.server.descriptors import DescriptorShares, raise_descriptor_limit, share_out
from yak.server.disk import RealDisk
from yak.server.exposure import exposure
from yak.server.latencies import Latencies
from yak.server.listener import Acceptor
from yak.server.memory_limit import request_memory_bytes
from yak.server.name_lookups import NameLookups
from yak.server.options import ServeOptions
from yak.server.reload import ListenerReloads, Terminal, reload_files
from yak.server.service_manager import report_ready
from yak.server.shell import ConnectionLimits, Shell, keep_store_running
from yak.server.sweeper import run_sweeper

if TYPE_CHECKING:
    from yak.quorum.quorum import Quorum
    from yak.server.http.http_server import HttpServer
    from yak.server.redis_store import RedisStore
    from yak.server.tls_listener import ListenerTls

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_STOP_SECONDS_MAX: Final = 60.0
_AS_KAFKA: Final = ": Kafka Server started, Transitioning from RECOVERY to RUNNING (testcontainers waits for this)"
_WAITING_SAID_EVERY_SECONDS: Final = 5.0


def run_server(options: ServeOptions) -> None:
    """Serve until a signal stops the broker. Raises YakError when it cannot start, or cannot continue."""
    stream = log.LastingStream(sys.stderr)
    # the brokers of one machine may have one log
    shares_log = {"node_id": options.node_id} if options.bootstrap_listeners() else None
    log.set_up(options.log_format, options.log_level, stream, shares_log)
    for warning in options.check():
        log.write("warning", "options", {"what": warning})
    BrokerConfig.from_settings(options.broker_settings())
    # A signal before Trio's receiver runs would end the process halfway.
    signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    gc.disable()
    try:
        server = Server(options, stream)
        trio.run(server.run)
    finally:
        gc.enable()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
    if server.failure is not None:
        raise server.failure


class Server:
    """The life of one broker process."""

    def __init__(self, options: ServeOptions, stderr: log.LastingStream) -> None:
        self.failure: YakError | None = None
        self._stderr = stderr
        self._clock = Clock()
        self._terminal = Terminal()
        self._shell: Shell | None = None
        self._shell_made = trio.Event()
        self._reload_turn = trio.Lock()
        self._broker: Broker | None = None
        self._early: list[Event] = []
        self._store_seen = trio.Event()
        self._store_reason = ""
        self._store: RedisStore | None = None
        if options.has_redis:
            from yak.server import redis_store  # a broker starts faster without what it does not use

            self._store = redis_store.RedisStore(options.redis_url, allow_replicas=options.allow_unsafe_redis)
        elif options.project_redis is not None:
            from yak.server.redis_client import RedisAddress

            RedisAddress.parse(options.project_redis)  # an invalid one is reported before any file is touched
        listeners = options.all_listeners()
        _check_oauth(listeners.bound, options)
        self._tls = _tls_of(listeners.bound, options)
        self._http_tls = _tls_of_http(options)
        self._inter_broker_tls = self._tls.get(listeners.inter_broker_name)
        self._bound = listening_sockets.bind_all(listeners.bound)
        self._options = options = options.with_bound([each.listener for each in self._bound])
        self._shared = listening_sockets.bind_all(options.bootstrap_listeners(), is_shared=True)
        self._http_sockets = self._bind_http()
        self._http_port = listening_sockets.bound_port(self._http_sockets) if self._http_sockets else 0
        self._config = BrokerConfig.from_settings(options.broker_settings(self._http_port))
        self._accepting = trio.CancelScope()
        self._shared_listen = trio.Event()
        self._stopping = trio.Event()
        self._http: HttpServer | None = None
        self._opened: boot.LoadedState | None = None
        self._is_ready = False
        self._http_handles = 0

    async def run(self) -> None:
        """Run the broker; an error that ends it is left in `failure`."""
        trio.socket.set_custom_hostname_resolver(NameLookups())
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._watch_signals, nursery)
                await self._serve(nursery)
                nursery.cancel_scope.cancel()
        except* YakError as errors:
            failure = first_in(errors)
            assert isinstance(failure, YakError)
            self.failure = failure
        except* Exception as errors:
            if self._shell is None:
                raise
            self._shell.halt("a task of the shell", errors)
        finally:
            listening_sockets.close_all([*self._bound, *self._shared])
            listening_sockets.close(self._http_sockets)
            self._end()

    async def _serve(self, nursery: trio.Nursery) -> None:
        options = self._options
        shares = share_out(raise_descriptor_limit())
        disk = RealDisk(max_open_files=shares.files)
        if self._store is not None:
            nursery.start_soon(keep_store_running, self._store, self._post_early)
        # a stop does not wait for a recovery, which the next start repeats
        self._opened = opened = await trio.to_thread.run_sync(self._open, disk, abandon_on_cancel=True)
        boot.preload_hot()
        if self._http_sockets:
            from yak.server.http.context import handles_of_http

            self._http_handles = handles_of_http(shares.clients)
        self._broker = broker = boot.make_broker(opened, options, self._config, self._clock, self._http_port)
        self._shell = shell = Shell(
            broker,
            nursery,
            disk=disk,
            clock=self._clock,
            limits=_limits(self._config, shares, self._http_handles),
            store=self._store,
            on_ready=self._ready,
            latencies=Latencies(broker.counters),
        )
        self._shell_made.set()
        shell.on_listener_configs = partial(ListenerReloads(self._every_tls()).begin, nursery)
        for tls in self._every_tls():
            nursery.start_soon(tls.watch)
        if self._inter_broker_tls is not None:
            from yak.server.tls_peers import TlsPeerConnection

            shell.peers.make = partial(TlsPeerConnection, self._inter_broker_tls)
        for event in self._early:
            shell.post(event)
        self._early.clear()
        nursery.start_soon(shell.run_timer)
        nursery.start_soon(shell.selector.run)
        nursery.start_soon(run_sweeper, shell)
        if broker.quorum is None:
            nursery.start_soon(self._wait_for_store)
        else:
            # the quorum's nodes reach each other here, before this broker can join the cluster
            self._listen(shell)
            nursery.start_soon(self._wait_for_quorum)
            shell.post(TimerDue())  # carries out what the quorum's node began with
            if options.project_redis is not None:
                from yak.server.redis_projection import RedisProjection

                nursery.start_soon(RedisProjection(options.project_redis, broker).run)
        await shell.stopped.wait()
        if shell.refusal is not None:
            refused = shell.refusal
            raise StartRefused(refused.code, refused.message, why=refused.why, try_=refused.try_)

    def _bind_http(self) -> list[socket.socket]:
        options = self._options
        if options.http_port is None:
            return []
        from yak.server.http.http_server import bind

        return bind(options.host, options.http_port, may_move=options.http_port_may_move)

    def _open(self, disk: RealDisk) -> boot.LoadedState:
        return boot.open_data(disk, self._options, self._config, self._clock, boot.LoadProgress(self._stderr))

    # ------------------------------------------------------------------------------------------------- the store

    def _post_early(self, event: Event) -> None:
        """Keep events of the store's client until the core exists, since the client may connect earlier."""
        if isinstance(event, StoreConnected):
            self._store_seen.set()
        elif isinstance(event, StoreLost):
            self._store_reason = event.reason
        if self._shell is not None:
            self._shell.post(event)
        else:
            self._early.append(event)

    async def _wait_for_store(self) -> None:
        """Report that the broker waits for the metadata store, and stop with Unreachable if it never connects in time."""
        options = self._options
        waited = 0.0
        timeout = options.redis_timeout_ms / 1000
        while not self._store_seen.is_set():
            step = min(_WAITING_SAID_EVERY_SECONDS if waited else 1.0, timeout - waited)
            with trio.move_on_after(step):
                await self._store_seen.wait()
                return
            waited += step
            if waited >= timeout:
                self.failure = Unreachable(
                    "redis-unreachable",
                    f"no metadata store answered at {without_password(options.redis_url)}",
                    why=f"{self._store_reason or 'no answer'}, {timeout:g} s; nothing was changed",
                    try_=("yak up                          start a broker with its own", "yak serve --redis-url URL"),
                )
                await self._stop_in_time()  # without the mark of a clean stop, the next start may be a lossy one
                return
            where = without_password(options.redis_url)
            self._stderr.write(f"waiting for the metadata store at {where}: {self._store_reason or 'no answer yet'}\n")

    async def _wait_for_quorum(self) -> None:
        """Report what a broker with a quorum waits for: other brokers that must be started, or Redis as well.

        There is no time-out. A broker with both starts while either store has the metadata and answers.
        """
        await trio.sleep(_WAITING_SAID_EVERY_SECONDS)
        while not self._is_ready:
            assert self._broker is not None
            assert self._broker.quorum is not None
            if self._store is not None and not self._store_seen.is_set():
                where, reason = without_password(self._options.redis_url), self._store_reason or "no answer yet"
                self._stderr.write(f"waiting for the metadata store at {where}: {reason}\n")
            self._stderr.write(f"{_quorum_waited_for(self._broker.quorum.quorum, has_redis=self._store is not None)}\n")
            await trio.sleep(_WAITING_SAID_EVERY_SECONDS)

    def _listen(self, shell: Shell) -> None:
        for each in self._bound:
            listening_sockets.start_listening(each.sockets, each.listener.host)
        shell.nursery.start_soon(self._accept, shell)

    def _listen_shared(self) -> None:
        """Open the shared ports, which clients of other brokers of this machine use too: only a ready broker answers."""
        for each in self._shared:
            listening_sockets.start_listening(each.sockets, each.listener.host)
        self._shared_listen.set()

    async def _accept(self, shell: Shell) -> None:
        acceptor = Acceptor(shell, self._tls)
        with self._accepting:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(acceptor.run, self._bound)
                await self._shared_listen.wait()
                nursery.start_soon(acceptor.run, self._shared)

    # ------------------------------------------------------------------------------------------------- ready

    async def _ready(self) -> None:
        options = self._options
        shell, broker, opened = self._shell, self._broker, self._opened
        assert shell is not None
        assert broker is not None
        assert opened is not None
        if self._http_sockets:  # before readiness is reported
            from yak.server.http.context import limits_of
            from yak.server.http.http_server import make_http_server

            self._http = make_http_server(
                self._http_sockets,
                shell,
                broker,
                options,
                self._http_port,
                limits_of(self._http_handles),
                self._http_tls,
                self._inter_broker_tls,
            )
            shell.nursery.start_soon(self._http.run, self._stopping)
        if broker.quorum is None:
            self._listen(shell)  # before readiness is reported: a client that read the ready file connects at once
        self._listen_shared()
        self._is_ready = True
        host, port = options.advertised(options.port)
        address = f"{bracketed(host)}:{port}"
        epoch = broker.metadata.lifecycle.broker_epoch
        if options.ready_file is not None:
            ready = {
                "node_id": options.node_id,
                "address": address,
                "pid": os.getpid(),
                "broker_epoch": epoch,
                "http_host": self._http_sockets[0].getsockname()[0] if self._http_sockets else None,
                "http_port": self._http_port or None,
                "http_tls": options.http_has_tls,
            }
            _write_ready_file(options.ready_file, ready)
        listening, advertised = f"{bracketed(options.host)}:{options.port}", address
        if options.listeners is not None:
            listening = ", ".join(map(str, options.listeners.bound))
            advertised = ", ".join(map(str, options.listeners.advertised))
        http = options.http_address(self._http_port) if self._http_port else None
        if options.log_format == "text":
            self._stderr.write("".join(_banner(options, listening, advertised, address, http, epoch)))
        said: dict[str, object] = {"node_id": options.node_id, "listening": listening, "advertised": advertised}
        if options.http_port not in (None, 0, self._http_port):
            log.write("info", "http-port-taken", {"port": options.http_port, "instead": self._http_port})
        log.write("info", "ready", said if http is None else {**said, "http": http})
        for event, fields in exposure(options, self._http_port):
            log.write("warning", event, fields)
        if options.says_ready_as_kafka:
            self._stderr.write(f"[KafkaServer id={options.node_id}] started{_AS_KAFKA}\n")
        report_ready()
        shell.nursery.start_soon(after_ready, shell, opened.log_store)

    # ------------------------------------------------------------------------------------------------- the end

    async def _watch_signals(self, nursery: trio.Nursery) -> None:
        with trio.open_signal_receiver(*_SIGNALS) as received:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
            is_stopping = False
            async for number in received:
                name = signal.Signals(number).name
                if number == signal.SIGHUP and (is_stopping or not self._terminal.is_gone):
                    if not is_stopping:
                        log.write("info", "reload-requested", {"signal": name})
                        nursery.start_soon(self._reload)
                    continue
                if is_stopping:
                    log.write("warning", "stop-forced", {"signal": name})
                    os._exit(1)
                is_stopping = True
                log.write("info", "stopping", {"signal": name})
                self._accepting.cancel()
                self._stopping.set()
                if self._shell is None:
                    nursery.cancel_scope.cancel()
                else:
                    nursery.start_soon(self._stop_in_time)

    def _every_tls(self) -> "list[ListenerTls]":
        return [*self._tls.values(), *([] if self._http_tls is None else [self._http_tls])]

    async def _reload(self) -> None:
        await self._shell_made.wait()
        assert self._shell is not None
        await reload_files(self._every_tls(), self._options.users_file, self._shell.post, self._reload_turn)

    async def _stop_in_time(self) -> None:
        assert self._shell is not None
        if self._http is not None:  # HTTP consumers leave their groups while the brokers still answer
            await self._http.released.wait()
        self._shell.post(StopRequested())
        with trio.move_on_after(_STOP_SECONDS_MAX):
            await self._shell.stopped.wait()
            return
        raise YakError(
            "stop-timeout",
            f"node {self._options.node_id} did not stop in {_STOP_SECONDS_MAX:g} s",
            why="a write to the disk is stuck; the logs are checked at the next start, nothing acknowledged is lost",
        )

    def _end(self) -> None:
        if self._options.ready_file is not None and self._is_ready:
            with contextlib.suppress(OSError):
                os.unlink(self._options.ready_file)
        if self._opened is not None:
            self._opened.log_store.release()
        if self._is_ready and self.failure is None:
            log.write("info", "stopped", {"node_id": self._options.node_id})


def _tls_of(listeners: Sequence[Listener], options: ServeOptions) -> "dict[str, ListenerTls]":
    """The TLS of the listeners that have it, by name. Raises UsageError (`tls-config`), StartRefused."""
    encrypted = [each for each in listeners if each.security_protocol.uses_tls]
    if not encrypted:
        return {}
    from yak.server.tls_listener import ListenerTls  # a plain broker starts without it

    return {
        each.name: ListenerTls(each.name, options.configs, uses_sasl=each.security_protocol.uses_sasl)
        for each in encrypted
    }


def _check_oauth(listeners: Sequence[Listener], options: ServeOptions) -> None:
    """Raise UsageError (`oauth-config`) unless listeners with OAUTHBEARER know how to verify tokens."""
    configs = options.broker_settings()
    if OAUTHBEARER in configs.get("sasl.enabled.mechanisms", ""):
        from yak.security.oauth_settings import OAuthSettings  # other brokers start without it

        for each in listeners:
            if each.security_protocol.uses_sasl:
                OAuthSettings.of_listener(each.name, configs)


def _tls_of_http(options: ServeOptions) -> "ListenerTls | None":
    """The TLS of the HTTP port; only its own prefix requests client certificates, since browsers have none.

    Raises UsageError (`tls-config`), StartRefused.
    """
    if options.http_port is None or not options.http_has_tls:
        return None
    from yak.server.tls_listener import ListenerTls

    return ListenerTls("HTTP", options.configs, uses_sasl=True)


def _limits(config: BrokerConfig, shares: DescriptorShares, http_handles: int) -> ConnectionLimits:
    handles = max(16, shares.clients - http_handles)
    return ConnectionLimits(
        request_bytes_max=config.socket_request_max_bytes,
        login_request_bytes_max=config.sasl_server_max_receive_size,
        idle_ms_max=config.connections_max_idle_ms,
        connections_max=min(config.max_connections, handles),
        connections_possible=handles,
        connections_per_ip_max=config.max_connections_per_ip,
        peers_proving_max=shares.peers_proving,
        memory_bytes_max=request_memory_bytes(config),
    )


def _banner(
    options: ServeOptions, listening: str, advertised: str, address: str, http: str | None, epoch: int
) -> Iterator[str]:
    yield f"yak broker: node {options.node_id}, role {options.role}, broker epoch {epoch}\n"
    yield f"listening:  {listening}\n"
    yield f"advertised: {advertised}\n"
    if http is not None:
        yield f"http:       {http}\n"
    yield f"data:       {', '.join(map(os.path.abspath, options.data_dirs))}\n"
    yield f'try:        yak produce -b {address} -m "hello"\n'


def _quorum_waited_for(quorum: "Quorum", *, has_redis: bool) -> str:
    """Why a broker is not ready: the quorum has no leader; or it has one, and no controller yet, or other metadata."""
    voters = ", ".join(f"{each.node_id}@{bracketed(each.host)}:{each.port}" for each in quorum.voters.voters)
    nothing = "LIVE" if quorum.config.creates_cluster else "MOVED"
    if quorum.leader_id >= 0 and not has_redis and quorum.machine.state.cluster.get("state", nothing) == "MOVED":
        where = "they are in Redis (start with --metadata redis), or the voters lost them"
        return f"waiting for the metadata quorum: it has no metadata; {where}"
    if quorum.leader_id >= 0:
        return f"waiting for the controller: broker {quorum.leader_id} leads the metadata quorum"
    return f"waiting for the metadata quorum: {quorum.role} in epoch {quorum.epoch} of {voters}"


def _write_ready_file(path: str, ready: dict[str, object]) -> None:
    """Raises StartRefused: the program that waits for this file would wait in vain."""
    try:
        replace_file(path, f"{json.dumps(ready)}\n".encode())
    except OSError as error:
        raise StartRefused(
            "ready-file-not-written",
            f"the ready file {path} cannot be written",
            why=f"{error.strerror}; the program that started this broker waits for that file",
            try_=("make room on that disk, or give another --ready-file",),
        ) from error
