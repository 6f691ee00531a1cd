"""One simulated broker: the shipped `Broker` on a simulated disk, with its effects scheduled as future events.

A crash is a power loss: unsynced data may be lost. A kill ends the process alone. Either way all jobs, calls and
connections of that incarnation are void: pending events carry the number of their incarnation. A pause stops the
process (SIGSTOP): time goes on, and events that arrive meanwhile wait for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from yak.broker.apis import API_TABLE
from yak.broker.broker import Broker
from yak.broker.parts import Parts
from yak.broker.quorum_node import QuorumParts
from yak.cluster.image_log import ImageLog
from yak.cluster.registration import Identity
from yak.cluster.settings import ClusterSettings
from yak.config.broker_configs import BrokerConfig
from yak.core import events
from yak.errors import FailStop, LogDirectoryFailure
from yak.lifecycle.secret_file import SecretFile
from yak.partitions.metadata_loader import PARTITIONS_A_SLICE
from yak.protocol.peer_proof import SECRET_BYTES, ClusterSecret
from yak.quorum.config import QuorumConfig
from yak.quorum.election_state import ElectionState
from yak.quorum.raft_log import RaftLog
from yak.replication.replica_fetchers import PARTITIONS_A_FETCH
from yak.sim.checks.clean_marks_hold import check_clean_marks
from yak.sim.disk import Death, ProcessEnded, SimDisk
from yak.sim.jobs import MARKS_US, Jobs
from yak.sim.peers import Peers
from yak.sim.planted_bugs import PlantedBugs
from yak.sim.seeded_random import SeededRandom
from yak.sim.step_probe import StepProbe
from yak.sim.store import CommittedStore, MovingStore, committed_part
from yak.sim.store_line import StoreLine
from yak.sim.world import World
from yak.storage.log_creation import FEW_LOGS
from yak.storage.log_store import LogStore
from yak.storage.names import BOOT_MARK

if TYPE_CHECKING:
    from yak.ports.disk import Part
    from yak.quorum.voters import VoterSet
    from yak.sim.disk import Names
    from yak.sim.network import Line, Network
    from yak.sim.store import SimStore

DATA_DIRECTORY = "/data"
IMAGE_FOLDER = "__yak_metadata"
QUORUM_SECRET = ClusterSecret(b"s" * SECRET_BYTES)
QUORUM_CLUSTER_ID = "simulated"
PORT = 9092
_TURN_END = events.TurnEnd()


class SimNode:
    """A broker that can be started, killed, crashed, paused and stopped. The network drives its connections."""

    skew_ms = 0
    """This broker's clock minus the world's. It changes only while the broker does not run."""
    ahead_ms = 0
    """How far the wall clock of the machine was moved since the broker's start."""
    is_clock_steady = True
    """Whether its wall clock never moved."""
    few_logs = FEW_LOGS
    """More logs than this are closed with one sync of the file system."""
    image_records: int | None = None
    """How many records of the metadata the broker has on its disk before it writes a snapshot, and how many are moved
    to another store; None as in the shell.
    """

    def __init__(
        self,
        world: World,
        rng: SeededRandom,
        store: SimStore | CommittedStore | MovingStore,
        *,
        node_id: int,
        settings: dict[str, str],
        directories: tuple[str, ...],
        cluster_settings: ClusterSettings,
        network: Network,
        role: str,
        rack: str | None,
        voters: VoterSet | None,
    ) -> None:
        self.world = world
        self.node_id = node_id
        self.party = f"n{node_id}"
        self.host, self.port = f"node{node_id}", PORT
        self.directories, self.disk = directories, SimDisk()
        self.disk.make_directory("/")
        self.disk.clock = lambda: self.wall_ms
        self.disk.observe_failure = self._disk_failed
        self.counts: Counter[str] = Counter()
        """For the run's report: jobs, files that a power loss tore, failures of the disk, requests that a bug failed."""
        self.jobs = Jobs(self.disk, rng, self._later, self._post, self.counts)
        self.partitions_a_slice = PARTITIONS_A_SLICE
        """How many partitions the broker brings to a new image in one turn."""
        self.partitions_a_fetch = PARTITIONS_A_FETCH
        """How many partitions a follower's fetch names."""
        self.broker: Broker | None = None
        self.is_ready = False
        self.is_paused = False
        self.is_powered = True
        self.starts_count = 0
        self.crashes_count = self.disks_count = 0
        self.kernel_boot_id = "boot 0"
        self.notices: list[events.Notice] = []
        self.on_stopped: Callable[[], None] = lambda: None
        self.on_refused: Callable[[events.Refused], None] = _cannot_join
        self.on_disks_lost: Callable[[], None] = lambda: None
        """The last log directory failed: the shell ends the process.

        A rig's node goes on, so tests see its responses.
        """
        self.on_frozen: Callable[[str], None] = lambda _code: None
        """The broker froze its metadata, for the reason with this code."""
        self.on_ended_inside: Callable[[], None] = self.kill
        self.bugs = PlantedBugs(self)
        self._probe = StepProbe()
        self.on_fail_stop: Callable[[FailStop], None] = self.bugs.stopped
        self.on_request_failed: Callable[[events.Notice], None] = self.bugs.request_failed
        self.after_step: Callable[[], None] = lambda: None
        self.cluster_settings = cluster_settings
        redis = store.redis if isinstance(store, MovingStore) else store
        self._quorum_store = committed_part(store)
        # with a quorum alone it is not started
        self.store_line = StoreLine(world, rng, cast("SimStore", redis), self.post, party=self.party, network=network)
        self._rng = rng
        self._settings = settings
        self._role = role
        self.rack = rack
        self._network = network
        self._store, self._voters = store, voters
        """`voters` are those of the metadata quorum; None with the simulated Redis alone."""
        self.peers = Peers(self, network)
        self._lines: dict[int, Line] = {}
        self._held: list[Callable[[], object]] = []
        self._mutes: Counter[int] = Counter()
        """By connection: the reasons to leave its requests in its socket."""
        self._unread: dict[int, list[bytes]] = {}
        """By connection: the requests that wait in its socket."""
        self._life = 0
        self._next_connection = 0
        self._timer_at: int | None = None

    @property
    def now_ms(self) -> int:
        return self.world.now_ms + self.skew_ms

    @property
    def wall_ms(self) -> int:
        return self.now_ms + self.ahead_ms

    def move_clock(self, ahead_ms: int) -> None:
        """Set the wall clock so far ahead of the broker's steps."""
        self.world.say(f"node {self.node_id}: its wall clock is now {ahead_ms} ms ahead")
        self.ahead_ms, self.is_clock_steady = ahead_ms, False
        self.post(events.WallClockMoved(ahead_ms))

    @property
    def is_listening(self) -> bool:
        """Whether the kernel accepts connections for the broker, also while its process is paused."""
        return self.broker is not None and (self.is_ready or self._voters is not None)

    @property
    def has_old_boot_mark(self) -> bool:
        """Whether a directory's mark is of an earlier boot of the machine: an unclean end is then reported as a loss."""
        marks = [path for folder in self.directories if (path := f"{folder}/{BOOT_MARK}") in self.disk.contents()]
        return any(self.disk.peek(path, 0).decode().strip() != self.kernel_boot_id for path in marks)

    # ------------------------------------------------------------------------------------------------- lifecycle

    def start(self) -> None:
        """Start on the present disk content. The node listens once the broker reports that it is ready."""
        assert self.broker is None, "the node runs already"
        self._life += 1
        self.starts_count += 1
        self.is_powered = True
        self.skew_ms, self.ahead_ms = self.skew_ms + self.ahead_ms, 0
        config = BrokerConfig.from_settings(self._settings)
        disk, rng, now_ms = self.disk, self._rng, self.now_ms
        for directory in self.directories:
            disk.make_directory(directory)
        image_log, image = ImageLog.open(disk, f"{self.directories[0]}/{IMAGE_FOLDER}")
        image_log.records_max = self.image_records

        def config_for(topic: str) -> Any:
            return image.log_config(image.topics.get(topic), self.node_id, config.static)

        log_store = LogStore.open(
            disk,
            self.directories,
            self.node_id,
            rng.uuid4,
            now_ms,
            config_for,
            kernel_boot_id=self.kernel_boot_id,
            is_replicated=image.is_replicated,
            last_epoch=lambda: own.broker_epoch if (own := image.brokers.get(self.node_id)) is not None else 0,
        )
        self.notices += [events.Notice(each.level, each.event, each.fields) for each in log_store.report.events]
        quorum = self._quorum_parts(log_store)
        identity = Identity(
            node_id=self.node_id,
            boot_id=str(rng.uuid4()),
            directories=tuple(str(directory_id) for directory_id in log_store.directory_ids()),
            host=self.host,
            port=self.port,
            rack=self.rack,
            role=self._role,
            cluster_id=log_store.cluster_id if quorum is None else quorum.config.cluster_id,
            lossy=log_store.report.lossy,
            min_isr=config.min_insync_replicas,
        )
        self.broker = Broker(
            Parts(
                apis=API_TABLE,
                identity=identity,
                config=config,
                cluster_settings=self.cluster_settings,
                log_store=log_store,
                image=image,
                image_log=image_log,
                secret_file=SecretFile(disk, f"{self.directories[0]}/{IMAGE_FOLDER}"),
                rng=rng,
                quorum=quorum,
                has_redis=self._has_redis,
            ),
            now_ms,
        )
        self._set_slices(self.broker)
        self.world.say(f"node {self.node_id} starts, life {self._life}{', lossy' if identity.lossy else ''}")
        self._connect_store(self.broker)
        self._arm_timer()

    def _connect_store(self, broker: Broker) -> None:
        """Connect to the simulated Redis, and begin to take part in the quorum, as far as there are any."""
        if self._has_redis:
            self.store_line.start()
        if broker.quorum is not None:
            assert self._quorum_store is not None
            self._quorum_store.watch(broker.quorum.quorum, self.node_id)
            self._later(0, lambda: self._post(events.TimerDue()))

    @property
    def _has_redis(self) -> bool:
        return not isinstance(self._store, CommittedStore)

    def _quorum_parts(self, log_store: LogStore) -> QuorumParts | None:
        """As `yak.server.quorum_files` opens them."""
        if self._voters is None:
            return None
        folder = f"{self.directories[0]}/{IMAGE_FOLDER}"
        secret_file = SecretFile(self.disk, folder)
        if secret_file.read() is None:
            secret_file.write_plan(QUORUM_SECRET).run(self.disk)
        config = QuorumConfig(
            self.node_id,
            log_store.directory_ids()[0],
            QUORUM_CLUSTER_ID,
            self.host,
            self.port,
            self._voters,
            creates_cluster=not self._has_redis,
        )
        state_path = f"{folder}/quorum-state"
        stayed_up = log_store.directories[0].machine_stayed_up
        log = RaftLog.open(self.disk, folder, self.now_ms, keeps_written=stayed_up)
        return QuorumParts(config, log, ElectionState.read(self.disk, state_path), state_path)

    def _set_slices(self, broker: Broker) -> None:
        broker.metadata_loader.partitions_a_slice = self.partitions_a_slice
        broker.maintenance.logs_a_slice = self.partitions_a_slice
        broker.log_store.few_logs = self.few_logs
        broker.replica_fetchers.partitions_a_fetch = self.partitions_a_fetch
        broker.fetches.follower_partitions_max = self.partitions_a_fetch
        choice = None if broker.quorum is None else broker.quorum.choice
        if choice is not None and self.image_records is not None:
            choice.migration.log_records = self.image_records

    def crash(self) -> None:
        """Lose power: unsynced data may be lost, and the next start is in a new kernel boot."""
        self.world.say(f"node {self.node_id} loses power")
        self.is_powered = False
        self._network.power_lost(self.party)
        self._end()
        self.crashes_count += 1
        self.kernel_boot_id = f"boot {self.crashes_count}"
        lost = self.disk.crash(self._rng)
        for what, count in lost.items():
            self.world.say(f"node {self.node_id}: {count} files or names lost what was not synced: {what}")
            self.counts[f"torn: {what}"] += count

    def _disk_failed(self, operation: str, path: str) -> None:
        self.world.say(f"node {self.node_id}: {operation} fails on {path}")
        self.counts[f"disk failures: {operation}"] += 1

    def kill(self) -> None:
        """End the process. The page cache survives."""
        self.world.say(f"node {self.node_id} is killed")
        self._end_process()

    def stop(self) -> None:
        self.world.say(f"node {self.node_id} is stopped")
        self.post(events.StopRequested())

    def wipe(self) -> None:
        """Empty the data directories. The node must not run."""
        assert self.broker is None, "the node runs"
        self.world.say(f"node {self.node_id}: its data directories are emptied")
        self.disk.remove_tree("/data")
        for directory in self.directories:
            self.disk.remove_tree(directory)

    def take_disk(self, saved: Names) -> None:
        """Put an earlier disk in the place of the present one. The node must not run."""
        assert self.broker is None, "the node runs"
        self.world.say(f"node {self.node_id}: its disk is one of an earlier time")
        self.disks_count += 1
        self.disk.bring_back(saved)

    def forget_metadata(self) -> None:
        """Remove the copy of the metadata. The node must not run."""
        folder = f"{self.directories[0]}/{IMAGE_FOLDER}"
        for name, _size in self.disk.file_sizes(folder):
            if name == "snapshot" or name.endswith(".log"):
                self.disk.remove(f"{folder}/{name}")
        self.disk.sync_file_system("/")

    def pause(self) -> None:
        """Stop the process (SIGSTOP): nothing ends, and no event reaches it."""
        self.world.say(f"node {self.node_id} is paused")
        self.is_paused = True

    def resume(self) -> None:
        """Continue the process, and deliver the events that arrived meanwhile."""
        self.world.say(f"node {self.node_id} goes on")
        self.is_paused = False
        held, self._held = self._held, []
        for action in held:
            self.enter(action)

    def _end_process(self) -> None:
        self._network.process_ended(self.party)
        self._end()
        self.disk.kill()

    def _end(self) -> None:
        self.jobs.end()
        self._life += 1
        self.broker = None
        self.bugs.process_ended()
        self.is_ready = False
        self.is_paused = False
        self._held.clear()
        self._mutes.clear()
        self._unread.clear()
        self._timer_at = None
        self._lines.clear()
        self.peers.end()
        self.store_line.end()

    # ---------------------------------------------------------------------------------------------- connections

    def accept(self, line: Line) -> int:
        self._next_connection += 1
        self._lines[self._next_connection] = line
        self.post(events.ConnectionOpened(self._next_connection, f"client:{self._next_connection}"))
        return self._next_connection

    def receive(self, connection_id: int, frames: list[bytes]) -> None:
        self.enter(partial(self._receive, connection_id, frames))

    def _receive(self, connection_id: int, frames: list[bytes]) -> None:
        frames = [*self._unread.pop(connection_id, ()), *frames]
        for index, frame in enumerate(frames):
            if self._mutes[connection_id]:
                self._unread[connection_id] = frames[index:]
                break
            if self.broker is not None:
                self.world.trace("request", frame)
                self._step(events.FrameReceived(connection_id, memoryview(frame)))
        if self.broker is not None:
            self._post(_TURN_END)

    def disconnect(self, connection_id: int) -> None:
        self._lines.pop(connection_id, None)
        del self._mutes[connection_id]
        self._unread.pop(connection_id, None)
        self.post(events.ConnectionClosed(connection_id))

    # --------------------------------------------------------------------------------------------------- effects

    def post(self, event: events.Event) -> None:
        """Step the broker, then end the turn."""
        self.enter(partial(self._post, event))

    def enter(self, action: Callable[[], object]) -> None:
        """Deliver an event to the process: now, or once it continues."""
        if self.is_paused:
            self._held.append(action)
        elif self.broker is not None:
            try:
                action()
            except ProcessEnded:
                self.on_ended_inside()

    def _post(self, event: events.Event) -> None:
        self._step(event)
        if self.broker is not None and type(event) is not events.TurnEnd:
            self._step(_TURN_END)
        self._arm_timer()
        self.after_step()

    def _step(self, event: events.Event) -> None:
        assert self.broker is not None
        bugs, disk = self.bugs, self.disk
        bugs.is_stepping = True
        disk.on_call = self._probe.called
        try:
            effects = self.broker.step(event, self.world.now_us // 1000 + self.skew_ms)
        except FailStop as failure:
            self.on_fail_stop(failure)
            return
        finally:
            bugs.is_stepping = False
            disk.on_call = None
            if self._quorum_store is not None:
                self._quorum_store.take()
        self._probe.check()
        for effect in effects:
            self._carry_out(effect)
            if self.broker is None:
                return
        bugs.check_noticed(event)
        if type(disk.writing) is Death or bugs.is_planted:
            self.after_step()  # the checks see its responses even if the process ends in this turn's next step

    def _carry_out(self, effect: events.Effect) -> None:
        match effect:
            case events.Reply(connection_id, parts):
                self._reply(connection_id, _joined(parts))
            case events.SendPeer(peer_id, parts):
                self.peers.send(peer_id, _joined(parts))
            case events.ConnectPeer(peer_id, host, port):
                self.peers.connect(peer_id, host, port)
            case events.ClosePeer(peer_id):
                self.peers.close(peer_id)
            case events.CloseConnection() | events.MuteConnection() | events.UnmuteConnection():
                self._change_connection(effect)
            case events.RunJob():
                self.jobs.start(effect)
            case events.DropJob():
                pass  # as if it had begun
            case events.CallStore(nonce, request):
                self.store_line.call(nonce, request)
            case events.TailStore(after):
                self.store_line.tail(after)
            case events.Notice():
                self._notice(effect)
            case events.Ready():
                self.is_ready = True
                self._later(MARKS_US, self._renew_marks)
            case events.Refused():
                self.on_refused(effect)
            case events.DisksLost():
                self.world.say(f"node {self.node_id}: its last log directory failed")
                self.on_disks_lost()
            case events.Stopped():
                check_clean_marks(self.disk, self.directories)
                self._end_process()
                self.on_stopped()

    def _notice(self, notice: events.Notice) -> None:
        if notice.error is not None:
            self.on_request_failed(notice)
        self.notices.append(notice)
        if notice.event == "metadata-frozen":
            self.on_frozen(str(notice.fields["code"]))
        self.world.say(f"n{self.node_id} {notice.level} {notice.event} {notice.fields}")

    def _reply(self, connection_id: int, frame: bytes) -> None:
        self.world.trace("answer", frame)
        line = self._lines.get(connection_id)
        if line is not None:
            line.reply(frame)

    def _close(self, connection_id: int, reason: str) -> None:
        self.world.trace("close", reason.encode())
        self.world.say(f"n{self.node_id} closes connection {connection_id}: {reason}")
        line = self._lines.get(connection_id)
        if line is not None:
            line.node_closes()
        self.disconnect(connection_id)

    def _change_connection(
        self, effect: events.CloseConnection | events.MuteConnection | events.UnmuteConnection
    ) -> None:
        """Close a connection, leave its requests in its socket, or read those that are there."""
        connection_id = effect.connection_id
        if isinstance(effect, events.CloseConnection):
            self._close(connection_id, effect.reason)
        elif connection_id in self._lines:
            self._mutes[connection_id] += 1 if isinstance(effect, events.MuteConnection) else -1
            if not self._mutes[connection_id] and connection_id in self._unread:
                self._later(0, partial(self._receive, connection_id, []))

    def _renew_marks(self) -> None:
        """As `yak.server.background` does it, in a thread."""
        assert self.broker is not None
        with suppress(LogDirectoryFailure):
            self.broker.log_store.renew_boot_marks()

    def _arm_timer(self) -> None:
        if self.broker is None:
            return
        due_ms = self.broker.next_due()
        if due_ms is None or (self._timer_at is not None and self._timer_at <= due_ms):
            return
        self._timer_at = due_ms
        self._later((due_ms - self.skew_ms) * 1000 - self.world.now_us, lambda: self._timer_fires(due_ms))

    def _timer_fires(self, due_ms: int) -> None:
        if self._timer_at == due_ms:
            self._timer_at = None
        self._post(events.TimerDue())

    def _later(self, delay_us: int, action: Callable[[], object]) -> None:
        life = self._life

        def happen() -> None:
            if self._life == life:
                self.enter(action)

        self.world.after(delay_us, happen)


def _joined(parts: list[Part]) -> bytes:
    """The bytes of a frame; those of a file are read here, as the kernel does for the shell."""
    return b"".join([part if isinstance(part, (bytes, bytearray, memoryview)) else bytes(part) for part in parts])


def _cannot_join(refused: events.Refused) -> None:
    raise AssertionError(f"the broker refused to join: {refused.code}: {refused.message} ({refused.why})")
