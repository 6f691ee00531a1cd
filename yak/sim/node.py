"""One simulated broker: the shipped `Broker` on a simulated disk, its effects carried out as things to come.

A crash loses power: what was not synced may be gone. A kill ends the process alone. Either way every job, call and
connection of that life is void: things still on their way carry the number of the life they belong to.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from yak.broker import events
from yak.broker.broker import Broker, Parts
from yak.cluster.image_log import ImageLog
from yak.cluster.membership import Identity, MembershipSettings
from yak.config.broker_configs import BrokerConfig
from yak.config.topic_configs import resolve_log_config
from yak.seams.metadata_store import StoreOutcome, StoreRequest
from yak.sim.dice import SeededDice
from yak.sim.disk import SimDisk
from yak.sim.world import World
from yak.storage.log_store import LogStore

if TYPE_CHECKING:
    from yak.sim.store import SimStore

DATA_DIRECTORY = "/data"
IMAGE_FOLDER = "__yak_metadata"


class SimNode:
    """A broker that can be started, killed, crashed and stopped, and whose connections the network drives."""

    def __init__(
        self,
        world: World,
        dice: SeededDice,
        store: SimStore,
        *,
        node_id: int,
        settings: dict[str, str],
        directories: tuple[str, ...] = (DATA_DIRECTORY,),
    ) -> None:
        self.world = world
        self.node_id = node_id
        self.directories = directories
        self.disk = SimDisk()
        self.disk.make_directory("/")
        self.job_delays_us: dict[str, int] = {}
        """How long the jobs of a kind take, instead of what the dice say."""
        self.broker: Broker | None = None
        self.is_ready = False
        self.starts_count = 0
        self.crashes_count = 0
        self.notices: list[events.Notice] = []
        self.on_reply: Callable[[int, bytes], None] = lambda _connection, _frame: None
        self.on_close: Callable[[int], None] = lambda _connection: None
        self.on_ready: Callable[[], None] = lambda: None
        self.on_stopped: Callable[[], None] = lambda: None
        self.bug: BaseException | None = None
        self._dice = dice
        self._store = store
        self._settings = settings
        self._life = 0
        self._next_connection = 0
        self._timer_at: int | None = None
        self._tail: Callable[[], None] | None = None
        self._store_is_up = True

    # -------------------------------------------------------------------------------------------------- its life

    def start(self) -> None:
        """Boot on what the disk has; listening begins when the broker says that it is ready."""
        assert self.broker is None, "the node runs already"
        self._life += 1
        self.starts_count += 1
        config = BrokerConfig.from_settings(self._settings)
        disk, dice, now_ms = self.disk, self._dice, self.world.now_ms
        for directory in self.directories:
            disk.make_directory(directory)
        image_log, image = ImageLog.open(disk, f"{self.directories[0]}/{IMAGE_FOLDER}")

        def config_for(topic: str) -> Any:
            info = image.topics.get(topic)
            return resolve_log_config(
                {} if info is None else info.configs,
                image.broker_configs.get(self.node_id, {}),
                image.default_broker_configs,
                config.static,
            )

        log_store = LogStore.open(disk, self.directories, self.node_id, dice.uuid4, now_ms, config_for)
        identity = Identity(
            node_id=self.node_id,
            boot_id=str(dice.uuid4()),
            directories=tuple(str(directory_id) for directory_id in log_store.directory_ids()),
            host="sim",
            port=9092,
            rack=None,
            role="leader",
            cluster_id=log_store.cluster_id,
        )
        self.broker = Broker(
            Parts(
                identity=identity,
                config=config,
                membership=MembershipSettings(),
                log_store=log_store,
                image=image,
                image_log=image_log,
                dice=dice,
            ),
            now_ms,
        )
        self.world.say(f"node {self.node_id} starts, life {self._life}")
        if self._store_is_up:
            self._later(self._delay(), lambda: self.post(events.StoreConnected(self._store.process_id, ())))
        self._arm_timer()

    def crash(self) -> None:
        """Lose power."""
        self.world.say(f"node {self.node_id} loses power")
        self._end()
        self.crashes_count += 1
        self.disk.crash(self._dice)

    def kill(self) -> None:
        """End the process; the page cache lives on."""
        self.world.say(f"node {self.node_id} is killed")
        self._end()
        self.disk.kill()

    def stop(self) -> None:
        """Ask for an orderly stop; `on_stopped` follows."""
        self.world.say(f"node {self.node_id} is asked to stop")
        self.post(events.StopRequested())

    def _end(self) -> None:
        self._life += 1
        self.broker = None
        self.is_ready = False
        self._tail = None
        self._timer_at = None

    # ---------------------------------------------------------------------------------------------- connections

    def connect(self) -> int | None:
        """A new connection, None while the node does not listen."""
        if self.broker is None or not self.is_ready:
            return None
        self._next_connection += 1
        self.post(events.ConnectionOpened(self._next_connection, f"client:{self._next_connection}"))
        return self._next_connection

    def receive(self, connection_id: int, frames: list[bytes]) -> None:
        """One read's frames arrive."""
        if self.broker is None:
            return
        for frame in frames:
            self.world.trace("request", frame)
            self._step(events.FrameReceived(connection_id, memoryview(frame)))
            if self.broker is None:
                return
        self.post(events.TurnEnd())

    def disconnect(self, connection_id: int) -> None:
        """The client went away."""
        if self.broker is not None:
            self.post(events.ConnectionClosed(connection_id))

    # ---------------------------------------------------------------------------------------------------- store

    def store_goes_down(self) -> None:
        """The metadata store stops answering this node."""
        self.world.say("the metadata store goes down")
        self._store_is_up = False
        self._tail = None
        if self.broker is not None:
            self.post(events.StoreLost("simulated outage"))

    def store_comes_up(self) -> None:
        """It answers again."""
        self.world.say("the metadata store is back")
        self._store_is_up = True
        if self.broker is not None:
            self.post(events.StoreConnected(self._store.process_id, ()))

    def tail_moves(self) -> None:
        """The metadata log may have new records: bring them."""
        if self._tail is not None:
            self._tail()

    # --------------------------------------------------------------------------------------------------- effects

    def post(self, event: events.Event) -> None:
        """Step the broker, then end the turn."""
        if self.broker is None:
            return
        self._step(event)
        if self.broker is not None and type(event) is not events.TurnEnd:
            self._step(events.TurnEnd())
        self._arm_timer()

    def _step(self, event: events.Event) -> None:
        assert self.broker is not None
        for effect in self.broker.step(event, self.world.now_ms):
            self._carry_out(effect)
            if self.broker is None:
                return

    def _carry_out(self, effect: events.Effect) -> None:
        match effect:
            case events.Reply(connection_id, parts):
                frame = b"".join(bytes(part) for part in parts)
                self.world.trace("answer", frame)
                self.on_reply(connection_id, frame)
            case events.CloseConnection(connection_id, reason):
                self.world.trace("close", reason.encode())
                self.world.say(f"closes connection {connection_id}: {reason}")
                self.on_close(connection_id)
                self.disconnect(connection_id)
            case events.RunJob(job_id, kind, run):
                self._later(self._job_delay(kind), lambda: self._run_job(job_id, run))
            case events.CallStore(nonce, request):
                self._later(self._delay(), lambda: self._call_store(nonce, request))
            case events.TailStore(after):
                self._start_tail(after)
            case events.Notice():
                self.notices.append(effect)
                self.world.say(f"{effect.level} {effect.event} {effect.fields}")
            case events.Ready():
                self.is_ready = True
                self.on_ready()
            case events.Refused(code, message, why, _):
                raise AssertionError(f"the broker refused to join: {code}: {message} ({why})")
            case events.Stopped():
                self._end()
                self.disk.kill()
                self.on_stopped()

    def _run_job(self, job_id: int, run: Callable[[], object]) -> None:
        result: object = None
        error: BaseException | None = None
        try:
            result = run()
        except Exception as raised:  # noqa: BLE001  (whatever a job raises goes to the core, as in the shell)
            error = raised
        self._later(self._delay(), lambda: self.post(events.JobDone(job_id, result, error)))

    def _call_store(self, nonce: int, request: StoreRequest) -> None:
        if not self._store_is_up:
            return
        outcome = self._store.call(request, self.world.now_ms)
        self.world.trace("store", f"{request.script} {outcome.code} {outcome.offset}".encode())
        self._later(self._delay(), lambda: self._store_answers(nonce, outcome))
        self._later(self._delay(), self.tail_moves)

    def _store_answers(self, nonce: int, outcome: StoreOutcome) -> None:
        if self._store_is_up:
            self.post(events.StoreReplied(nonce, outcome))

    def _start_tail(self, after: int) -> None:
        position = after

        def bring() -> None:
            nonlocal position
            records = self._store.records_after(position)
            if records and self._store_is_up:
                position = records[-1].offset
                self.post(events.RecordsTailed(records))

        self._tail = bring
        self._later(self._delay(), self.tail_moves)

    def _arm_timer(self) -> None:
        if self.broker is None:
            return
        due_ms = self.broker.next_due()
        if due_ms is None or (self._timer_at is not None and self._timer_at <= due_ms):
            return
        self._timer_at = due_ms
        self._later(due_ms * 1000 - self.world.now_us, lambda: self._timer_fires(due_ms))

    def _timer_fires(self, due_ms: int) -> None:
        if self._timer_at == due_ms:
            self._timer_at = None
        self.post(events.TimerDue())

    def _later(self, delay_us: int, action: Callable[[], object]) -> None:
        life = self._life

        def happen() -> None:
            if self._life == life:
                action()

        self.world.after(delay_us, happen)

    def _delay(self) -> int:
        return self._dice.between(20, 2_000)

    def _job_delay(self, kind: str) -> int:
        if kind in self.job_delays_us:
            return self.job_delays_us[kind]
        slow = self._dice.chance(5)
        if kind == "flush":
            return self._dice.between(100, 200_000 if slow else 4_000)
        return self._dice.between(50, 50_000 if slow else 1_000)
