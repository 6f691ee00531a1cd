"""All instances of this broker: limits, exclusive use, expiry and closing.

An instance processes one exclusive request at a time (one that moves it); a second one gets 409 at once instead of
waiting for a long poll. Read-only requests are answered at any time, and DELETE ends a request in progress. Idle
instances are polled every second, so that rebalances need not wait for them, and instances unused for too long are
closed.
"""

import contextlib
import uuid
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple, TypeAlias, TypeVar

import trio

from yak.acls.bindings import Operation, ResourceType
from yak.cluster.image import Image
from yak.config.listeners import bracketed
from yak.errors import PeerError
from yak.groups.consumer.regexes import compiled
from yak.protocol.topic_names import is_internal
from yak.security.key_stores import PEM
from yak.security.scram import MECHANISMS
from yak.security.tls import TlsSettings
from yak.server import log
from yak.server.http.authentication import CALLER, Caller, user_and_password
from yak.server.http.consumers.bodies import Settings
from yak.server.http.consumers.failures import forbidden, refusal, unknown_instance, unprocessable
from yak.server.http.consumers.kafka_consumer import KafkaConsumer
from yak.server.http.context import Context
from yak.server.http.problems import Problem
from yak.server.http.rights import is_allowed


def connection_settings(context: Context) -> dict[str, str]:
    """librdkafka's settings for this broker's inter-broker listener. Raises Problem."""
    broker = context.broker
    listener = broker.identity.inter_broker
    protocol = listener.security_protocol
    host, port = broker.image.brokers[broker.node_id].endpoint_for(listener)
    settings = {"bootstrap.servers": f"{bracketed(host)}:{port}", "security.protocol": protocol.value}
    if protocol.uses_tls:
        settings |= _tls(TlsSettings.of_listener(listener.name, broker.config.static, uses_sasl=protocol.uses_sasl))
    if protocol.uses_sasl:
        settings |= _login(broker.config.sasl_enabled_mechanisms)
    return settings


def _tls(tls: TlsSettings) -> dict[str, str]:
    stores = (tls.key_store, tls.trust_store)
    if any(store.is_set and (store.location is None or store.type != PEM) for store in stores):
        raise _refused("the key store and the trust store of that listener must be files in PEM")
    found = {
        "ssl.ca.location": tls.trust_store.location,
        "ssl.certificate.location": tls.key_store.location,
        "ssl.key.location": tls.key_store.location,
        "ssl.key.password": tls.key_password,
        "ssl.endpoint.identification.algorithm": "https" if tls.checks_host_name else "none",
    }
    return {name: value for name, value in found.items() if value is not None}


def _login(enabled: tuple[str, ...]) -> dict[str, str]:
    scheme, _, given = (CALLER.get().authorization or "").partition(" ")
    mechanism = next((name for name in MECHANISMS if name in enabled), None)
    if scheme.lower() != "basic" or mechanism is None:
        raise _refused("create the instance with a user's name and password (yak.http.authentication=basic)")
    user, password = user_and_password(given)
    return {"sasl.mechanism": mechanism, "sasl.username": user, "sasl.password": password}


def _refused(hint: str) -> Problem:
    message = "consumers over HTTP connect to the brokers' listener, which requires TLS or a login"
    return refusal(501, 50101, "consumer-login", message, hint)


TEND_SECONDS: Final = 1.0
_CLOSE_SECONDS_MAX: Final = 5.0
_READERS_MAX: Final = 8
"""Read-only calls at once, over all instances: further ones wait only for each other."""
_TOPICS_A_SLICE: Final = 500
"""Topics whose ACLs are read before the loop serves others: 1 or 2 ms."""
Source: TypeAlias = Literal["nothing", "topics", "pattern", "partitions"]
_Key: TypeAlias = tuple[str, str]
_T = TypeVar("_T")


class Matchable(NamedTuple):
    """The topics that a pattern may match: the names that its owner may read."""

    seen: tuple[object, object]
    """The image's topics and its ACLs."""
    names: list[str]

    def is_of(self, image: Image) -> bool:
        """Whether the image still has these topics and ACLs."""
        return self.seen[0] is image.topics and self.seen[1] is image.acls


@dataclass(eq=False, slots=True)
class Instance:
    """One consumer of a group."""

    group: str
    name: str
    settings: Settings
    consumer: KafkaConsumer
    owner: Caller
    """The caller that created it: at the brokers the consumer has this user's rights."""
    used_at: float
    """When the last request began or ended, on Trio's clock."""
    polled_at: float = 0.0
    """When librdkafka was last polled, on the same clock."""
    source: Source = "nothing"
    topics: tuple[str, ...] = ()
    """The subscribed topics; for a pattern, the topics that it matches now."""
    pattern: str | None = None
    matched: Matchable | None = None
    """The topics to which the pattern was last applied."""
    is_open: bool = False
    is_busy: bool = False
    """An exclusive request is in progress."""
    is_gone: bool = False
    readers: int = 0
    """Threads in read-only calls to the consumer, besides the one that holds `turn`."""
    turn: trio.Lock = field(default_factory=trio.Lock)
    unused: trio.Event = field(default_factory=trio.Event)
    closed: trio.Event = field(default_factory=trio.Event)


class Instances:
    """The instances by group and name."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._table: dict[_Key, Instance] = {}
        self._closing: dict[Instance, None] = {}
        self._matchable: dict[tuple[str, str] | None, Matchable] = {}
        """By the owner's principal and host; None without ACLs."""
        self._is_tending = False
        self._is_stopping = False
        # One thread for each instance, so that long polls do not wait for each other, and one to poll idle instances.
        self._threads = trio.CapacityLimiter(context.limits.consumers_max + 1)
        self._reader_threads = trio.CapacityLimiter(_READERS_MAX)
        context.at_stop.append(self.close_all)

    # ----------------------------------------------------------------------------------------- create and delete

    async def create(self, group: str, settings: Settings) -> Instance:
        """Create an instance. Raises Problem: 40902 for a name in use, 42901 when there are too many, 503."""
        name = settings.name or f"rest-consumer-{self._context.broker.node_id}-{uuid.uuid4()}"
        self._check_room(group, name)
        connect = {"group.id": group, "client.id": f"yak-http-{name}"[:255], **connection_settings(self._context)}
        instance = Instance(group, name, settings, KafkaConsumer(settings), CALLER.get(), trio.current_time())
        self._table[group, name] = instance
        try:
            async with instance.turn:
                await trio.to_thread.run_sync(instance.consumer.open, connect, limiter=self._threads)
        except BaseException:
            if not instance.is_gone:
                self._start_closing(instance)
            raise
        if instance.is_gone:  # the broker began to stop meanwhile
            raise _stopping()
        instance.is_open = True
        instance.used_at = trio.current_time()
        if not self._is_tending:
            self._is_tending = True
            self._context.shell.nursery.start_soon(self._tend)
        return instance

    def _check_room(self, group: str, name: str) -> None:
        limits = self._context.limits
        if self._is_stopping:
            raise _stopping()
        if (group, name) in self._table:
            raise refusal(
                409,
                40902,
                "instance-exists",
                "the group already has an instance of this name on this broker",
                "use another name or none, or DELETE the old instance first",
            )
        # Instances that are closing still have their threads and memory.
        if len(self._table) + len(self._closing) >= limits.consumers_max:
            raise _too_many(
                f"this broker has the maximum of {limits.consumers_max} instances", "use another broker, or DELETE some"
            )
        if sum(held == group for held, _ in self._table) >= limits.consumers_per_group_max:
            raise _too_many(
                f"the group has the maximum of {limits.consumers_per_group_max} instances on this broker", "DELETE some"
            )

    async def delete(self, group: str, name: str) -> None:
        """Remove an instance and end its request. Returns once it left its group, or after `_CLOSE_SECONDS_MAX`."""
        instance = self.find(group, name)
        self._start_closing(instance)
        with trio.move_on_after(_CLOSE_SECONDS_MAX):
            await instance.closed.wait()

    async def close_all(self) -> None:
        """The broker stops: every instance leaves its group, so that the group need not wait for a session timeout."""
        self._is_stopping = True
        for instance in list(self._table.values()):
            self._start_closing(instance)
        for instance in list(self._closing):
            await instance.closed.wait()

    def _start_closing(self, instance: Instance) -> None:
        instance.is_gone = True
        instance.consumer.is_ending = True
        del self._table[instance.group, instance.name]
        self._closing[instance] = None
        self._context.shell.nursery.start_soon(self._close, instance)

    async def _close(self, instance: Instance) -> None:
        try:
            async with instance.turn:
                if instance.readers:
                    await instance.unused.wait()
                await trio.to_thread.run_sync(instance.consumer.close, limiter=self._threads, abandon_on_cancel=True)
        except Exception as error:  # noqa: BLE001 - our bug: said in the log, the broker lives on
            self._note_bug(error)
        finally:
            del self._closing[instance]
            instance.closed.set()
            self._pass_on_log(instance)

    # ---------------------------------------------------------------------------------------------- requests

    def find(self, group: str, name: str) -> Instance:
        """The caller's instance; this counts as use. Raises Problem 40403; 40301 for another user's."""
        instance = self._table.get((group, name))
        if instance is None or not instance.is_open:
            raise unknown_instance()
        if instance.owner.principal != CALLER.get().principal:
            raise forbidden("this instance is another user's", "POST /consumers/{group} creates one")
        instance.used_at = trio.current_time()
        return instance

    def check_topics(self, topics: Iterable[str], operation: Operation = Operation.READ) -> None:
        """Raises Problem 40301 for a topic that the caller may not read, or describe.

        Its brokers may know the consumer by this broker's certificate, whose rights are others.
        """
        caller = CALLER.get()
        for topic in topics:
            if not is_allowed(self._context.broker, caller, operation, ResourceType.TOPIC, topic):
                message = f"{caller.principal} may not {operation.name} topic {topic}"
                raise forbidden(message, "ask an administrator for an ACL")

    @contextlib.asynccontextmanager
    async def exclusively(self, group: str, name: str) -> AsyncIterator[Instance]:
        """The instance, for an exclusive request. Raises Problem: 409 during another one, 40403."""
        instance = self.find(group, name)
        if instance.is_busy:
            raise refusal(
                409,
                409,
                "instance-busy",
                "another request of this instance is in progress",
                "an instance serves one request at a time: wait for the response, or create another instance",
            )
        instance.is_busy = True
        try:
            async with instance.turn:
                if instance.is_gone:
                    raise unknown_instance()
                yield instance
        finally:
            instance.is_busy = False
            instance.used_at = trio.current_time()
            self._pass_on_log(instance)

    async def move(self, work: Callable[..., _T], *args: Any) -> _T:
        """Run a call on the consumer in a thread; the caller holds the instance's `turn`."""
        return await trio.to_thread.run_sync(work, *args, limiter=self._threads)

    async def read_only(self, instance: Instance, work: Callable[..., _T], *args: Any) -> _T:
        """Run a read-only call in a thread, at any time. Raises Problem 40403 for an instance that was just removed."""
        if instance.is_gone:
            raise unknown_instance()
        instance.readers += 1
        instance.consumer.has_readers = True
        try:
            return await trio.to_thread.run_sync(work, *args, limiter=self._reader_threads)
        finally:
            instance.readers -= 1
            if not instance.readers:
                instance.consumer.has_readers = False
                instance.unused.set()
                instance.unused = trio.Event()

    # ------------------------------------------------------------------------------------ polling idle instances

    async def _tend(self) -> None:
        """The task that polls idle instances; it runs while there are instances."""
        try:
            while self._table:
                await trio.sleep(TEND_SECONDS)
                try:
                    await self._tend_all()
                except Exception as error:  # noqa: BLE001 - our bug: said in the log, the broker lives on
                    self._note_bug(error)
        finally:
            self._is_tending = False

    async def _tend_all(self) -> None:
        now = trio.current_time()
        idle_seconds_max = self._context.limits.consumer_idle_ms_max / 1000
        idle: list[Instance] = []
        for instance in list(self._table.values()):
            if instance.is_busy or not instance.is_open:
                continue
            if now - instance.used_at >= idle_seconds_max and not instance.readers:
                log.write("info", "rest-consumer-expired", {"group": instance.group, "instance": instance.name})
                self._start_closing(instance)
            elif now - instance.polled_at >= TEND_SECONDS and not instance.turn.locked():
                instance.polled_at = now
                instance.turn.acquire_nowait()
                idle.append(instance)
        try:
            matchable = [await self.matchable(each) for each in idle]
            await trio.to_thread.run_sync(self._tend_these, idle, matchable, limiter=self._threads)
        finally:
            for instance in idle:
                instance.turn.release()
                self._pass_on_log(instance)

    def _tend_these(self, idle: list[Instance], matchable: list[Matchable | None]) -> None:
        for instance, found in zip(idle, matchable, strict=True):
            with contextlib.suppress(Problem):
                self.follow_pattern(instance, found)
            instance.consumer.tend()

    async def matchable(self, instance: Instance) -> Matchable | None:
        """The topics for `follow_pattern`; None when the pattern was applied to them under these ACLs.

        For the event loop, in slices: it reads ACLs, for each topic.
        """
        broker = self._context.broker
        image = broker.image
        if instance.pattern is None or (instance.matched is not None and instance.matched.is_of(image)):
            return None
        owner = instance.owner
        key = (owner.principal, owner.host) if broker.authorization.is_active else None
        found = self._matchable.get(key)
        if found is None or not found.is_of(image):
            names: list[str] = []
            for count, name in enumerate(image.topics, 1):
                if not is_internal(name) and is_allowed(broker, owner, Operation.READ, ResourceType.TOPIC, name):
                    names.append(name)
                if count % _TOPICS_A_SLICE == 0:
                    await trio.lowlevel.checkpoint()
            self._matchable = {each: held for each, held in self._matchable.items() if held.is_of(image)}
            found = self._matchable[key] = Matchable((image.topics, image.acls), names)
        return found

    def follow_pattern(self, instance: Instance, found: Matchable | None) -> None:
        """Subscribe to the topics that the pattern matches now, if there is one. Runs in a thread. Raises Problem."""
        if instance.pattern is None or found is None:
            return
        try:
            topics = compiled(instance.pattern).matching(found.names)
        except PeerError as error:
            raise unprocessable(
                str(error).partition("` ")[2] or str(error), "a shorter pattern, or topics by name"
            ) from None
        if topics != instance.topics or instance.matched is None:
            instance.consumer.subscribe(topics)
        instance.topics, instance.matched = topics, found

    # --------------------------------------------------------------------------------------------------- the log

    def _pass_on_log(self, instance: Instance) -> None:
        lines = instance.consumer.log_lines
        while lines:
            fields: dict[str, object] = {"group": instance.group, "instance": instance.name, "what": lines.popleft()}
            self._context.shell.rate_limit.write("debug", "rest-consumer", fields)

    def _note_bug(self, error: Exception) -> None:
        self._context.shell.counters.bugs += 1
        self._context.shell.rate_limit.write("error", "rest-consumer-bug", {"what": type(error).__name__}, error=error)


def _stopping() -> Problem:
    return refusal(503, 50302, "stopping", "this broker is stopping", "use another broker")


def _too_many(message: str, hint: str) -> Problem:
    return refusal(429, 42901, "too-many-instances", message, hint)
