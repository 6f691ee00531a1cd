"""One simulated node: a process with the real `Quorum`, on a machine with a simulated disk."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

from yak.core import events
from yak.core.context import Clock, Context
from yak.core.jobs import Jobs as CoreJobs
from yak.core.timers import Timers
from yak.errors import ErrorCode, FailStop
from yak.ids import LeaderEpoch, NodeId, Offset
from yak.quorum.config import QuorumConfig
from yak.quorum.election_state import ElectionState
from yak.quorum.quorum import Quorum
from yak.quorum.raft_log import RaftLog
from yak.quorum.store import decode_request, encode_outcome
from yak.quorum.transport import ENVELOPE, FETCH_SNAPSHOT, VERSIONS_SENT, Address
from yak.sim.deliveries import Violation
from yak.sim.disk import ProcessEnded, SimDisk
from yak.sim.jobs import Jobs
from yak.sim.quorum.network import Requests, Served
from yak.sim.seeded_random import SeededRandom
from yak.sim.world import World

if TYPE_CHECKING:
    from yak.cluster.image import Image
    from yak.config.broker_configs import BrokerConfig
    from yak.ports.metadata_store import StoreOutcome
    from yak.sim.network import Line, Network
    from yak.sim.quorum.checks import Checks
    from yak.sim.quorum.draws import Draws

DIRECTORY: Final = "/data"
STATE_PATH: Final = f"{DIRECTORY}/quorum-state"
CLUSTER_ID: Final = "quorum-of-a-seed"
EPOCH_BYTES: Final = 4
"""In an answer to Envelope, before the outcome: the epoch of the leader that answers."""


class QuorumNode:
    """A node that can be started, killed, paused and stopped, lose power, its disk, or its address."""

    def __init__(
        self, world: World, network: Network, draws: Draws, rng: SeededRandom, node_id: NodeId, checks: Checks
    ) -> None:
        self._world, self._network, self._draws, self._rng, self._checks = world, network, draws, rng, checks
        self.node_id, self.party = node_id, f"n{node_id}"
        self.host, self.port = f"h{node_id}", 9_000 + node_id
        self.requests = Requests(network, self, draws.request_timeout_ms)
        self._served: dict[int, Served] = {}
        self._last_connection = 0
        self.configured = draws.voters
        """The voters that count while the log names none."""
        self.disk = SimDisk()
        self.directory_id: uuid.UUID = rng.uuid4()
        self.is_powered = True
        self.is_paused = False
        self.incarnation = 0
        self.quorum: Quorum | None = None
        self.on_restart: Callable[[], None] = lambda: None
        self.on_end: Callable[[], None] = lambda: None
        self.on_vote: Callable[[], None] | None = None
        """Called once, when this node grants a vote."""
        self.slow_us = 0
        """Longest extra time of each job."""
        self.wall_ahead_ms = rng.between(-2_000, 2_000)
        self._skew_ms = rng.between(0, 60_000)
        """Clocks of two machines have different readings."""
        self._inbox: list[tuple[object, Callable[[], None]]] = []
        """What came while the process was paused, and from where."""
        self._effects: list[events.Effect] = []
        self._outbox: list[Callable[[], None]] = []
        """What a step sends leaves when it is over, as an effect does: a step in which the process ends sends nothing."""
        self._is_stepping = False
        self._paused_at_ms: int | None = None
        self._timers_from_us = 0
        self._wake_us: int | None = None
        self._jobs: Jobs | None = None
        self._core_jobs: CoreJobs
        self._timers: Timers
        self._clock = Clock(0)
        network.add(self)

    # ---------------------------------------------------------------------------------------------------- views

    @property
    def is_listening(self) -> bool:
        """Whether the process is there, stopped or not."""
        return self.quorum is not None

    @property
    def now_ms(self) -> int:
        """This machine's monotonic clock."""
        return self._world.now_ms + self._skew_ms

    def say(self, text: str) -> None:
        self._world.say(f"n{self.node_id} {text}")

    # ---------------------------------------------------------------------------------------------------- process

    def start(self) -> None:
        assert self.quorum is None
        self.incarnation += 1
        self.is_powered, self.is_paused = True, False
        self._effects, self._outbox, self._inbox, self._wake_us = [], [], [], None
        self._timers, self._core_jobs = Timers(), CoreJobs(self._effects.append)
        self._clock = Clock(self.now_ms, self.wall_ahead_ms)
        rng = self._rng.fork(f"jobs {self.incarnation}")
        self._jobs = Jobs(self.disk, rng, self._later_in_thread, self._job_done, Counter())
        if self._draws.has_job_pauses:
            self._jobs.pauses = self._rng.fork("pauses")
        self.disk.make_directory(DIRECTORY)
        log = RaftLog.open(self.disk, DIRECTORY, self.now_ms)
        config = QuorumConfig(
            self.node_id,
            self.directory_id,
            CLUSTER_ID,
            self.host,
            self.port,
            self.configured,
            fetch_timeout_ms=self._draws.fetch_timeout_ms,
            election_timeout_ms=self._draws.election_timeout_ms,
            snapshot_bytes=self._draws.snapshot_bytes,
        )
        no_config, no_image = cast("BrokerConfig", None), cast("Image", None)
        context = Context(self._clock, no_config, no_image, self._effects.append, self._core_jobs, self._timers)
        election = ElectionState.read(self.disk, STATE_PATH)
        self.quorum = Quorum(context, config, log, election, STATE_PATH, self, self._rng.fork("quorum"), self)
        self._world.trace(f"start {self.node_id}")
        self.say(f"started, epoch {election.leader_epoch}, log end {log.end_offset}, snapshot {log.snapshot_id}")
        self._checks.started(self)
        self.step(self.quorum.start)
        self.on_restart()

    def kill(self) -> None:
        """The process ends (SIGKILL): what it wrote stays, and its connections are reset."""
        self.say("is killed")
        self._end(resets=True)
        self.disk.kill()

    def lose_power(self, rng: SeededRandom) -> None:
        """The machine stops: unsynced data and names may be lost."""
        self.is_powered = False
        if self.quorum is not None:
            self._end(resets=False)
        lost = self.disk.crash(rng)
        self.say(f"loses power, and of its disk {lost}")

    def stop(self) -> None:
        """An orderly stop: resign, and end when that was sent."""
        if self.quorum is None or self.is_paused:
            return
        self.say("stops")
        self.step(self.quorum.stop)
        incarnation = self.incarnation

        def end() -> None:
            if self.quorum is not None and self.incarnation == incarnation:
                self.kill()

        self._world.after(self._rng.between(1_000, 50_000), end)

    def replace_disk(self) -> None:
        """A new, empty disk, with another directory id."""
        assert self.quorum is None
        self._checks.disk_is_lost(self)
        self.disk, self.directory_id = SimDisk(), self._rng.uuid4()
        self.say(f"has a new disk {self.directory_id}")

    def _end(self, *, resets: bool) -> None:
        self._checks.ends(self)
        self.quorum = None
        self.incarnation += 1
        self.is_paused, self._inbox = False, []
        if self._jobs is not None:
            self._jobs.end()
        self._world.trace(f"end {self.node_id}")
        if resets:
            self._network.process_ended(self.party)
        else:
            self._network.power_lost(self.party)
        self.requests.end()
        self._served.clear()
        self.on_end()

    def close(self) -> None:
        if self._jobs is not None:
            self._jobs.close()

    # ---------------------------------------------------------------------------------------------------- pauses

    def pause(self) -> None:
        if self.quorum is not None and not self.is_paused:
            self.say("is paused")
            self.is_paused, self._paused_at_ms = True, self.now_ms

    def resume(self) -> None:
        """SIGCONT: the step that was under way has read the clock before the pause."""
        if not self.is_paused:
            return
        self.say("is resumed")
        self.is_paused = False
        waiting, self._inbox = self._inbox, []
        delay_us = 0
        while waiting:
            # the order of one connection stays; which of them is read first is the kernel's choice
            source, _action = self._rng.choice(waiting)
            index = next(index for index, (other, _action) in enumerate(waiting) if other is source)
            delay_us += self._rng.between(1, 300)
            self._world.after(delay_us, waiting.pop(index)[1])
        # timers that are due run before or after what waits at the sockets
        self._timers_from_us = self._world.now_us + self._rng.between(0, delay_us + 1)
        self._wake()

    def _guarded(self, incarnation: int, action: Callable[[], None], source: object = None) -> None:
        """Run something in this process: at once, when it is resumed, or never if it has ended."""
        if self.incarnation != incarnation or self.quorum is None:
            return
        if self.is_paused:
            self._inbox.append((source or action, partial(self._guarded, incarnation, action, source)))
            return
        try:
            action()
        except ProcessEnded:
            self.kill()

    # ---------------------------------------------------------------------------------------------------- steps

    def deliver(self, incarnation: int, action: Callable[[], None], source: object = None) -> None:
        """Run `action` in a step. `source` is the connection that it came from."""
        self._guarded(incarnation, partial(self.step, action), source)

    def step(self, action: Callable[[], None]) -> None:
        """Run `action` as one step of the broker, and carry out its effects."""
        stale_ms, self._paused_at_ms = self._paused_at_ms, None
        self._clock.now_ms = max(self._clock.now_ms, self.now_ms if stale_ms is None else stale_ms)
        self._clock.ahead_ms = self.wall_ahead_ms
        self._is_stepping = True
        try:
            action()
        except ProcessEnded:
            self._outbox.clear()
            self.kill()
            return
        except FailStop as stop:
            if isinstance(stop.__cause__, Violation):
                raise stop.__cause__ from None
            raise
        finally:
            self._is_stepping = False
        self._carry_out()

    def after_step(self, action: Callable[[], None]) -> None:
        """Run `action`, which other processes can see, when the present step is over."""
        if self._is_stepping:
            self._outbox.append(action)
        else:
            action()

    def _carry_out(self) -> None:
        effects, outbox = self._effects[:], self._outbox[:]
        self._effects.clear()
        self._outbox.clear()
        for action in outbox:
            action()
        for effect in effects:
            if isinstance(effect, events.RunJob):
                assert self._jobs is not None
                self._jobs.start(effect)
            elif isinstance(effect, events.Notice):
                self._world.trace(f"notice {self.node_id} {effect.event} {effect.fields}")
                self.say(f"{effect.level} {effect.event} {effect.fields}")
        self._checks.stepped(self)
        self._wake()

    def _wake(self) -> None:
        due_ms = self._timers.next_due()
        if due_ms is None:
            return
        due_us = max((due_ms - self._skew_ms) * 1000, self._timers_from_us, self._world.now_us)
        if self._wake_us is not None and self._wake_us <= due_us:
            return
        self._wake_us = due_us
        incarnation = self.incarnation

        def run() -> None:
            if self._wake_us == due_us and self.incarnation == incarnation:
                self._wake_us = None
                if self._world.now_us < self._timers_from_us:
                    self._wake()
                    return
                self.deliver(incarnation, lambda: self._timers.run_due(self._clock.now_ms))

        self._world.after(due_us - self._world.now_us, run)

    def _later_in_thread(self, delay_us: int, action: Callable[[], object]) -> None:
        incarnation = self.incarnation
        if self.slow_us:
            delay_us += self._rng.between(0, self.slow_us)
        self._world.after(delay_us, lambda: self._guarded(incarnation, lambda: cast("None", action())))

    def _job_done(self, event: events.JobDone) -> None:
        self.step(lambda: self._core_jobs.on_done(event))

    # ------------------------------------------------------------------------------------- transport and listener

    def send(self, address: Address, api_key: int, fields: dict[str, Any], done: Callable[[Any | None], None]) -> None:
        self._checks.sends(self, address, api_key, fields)
        if api_key == FETCH_SNAPSHOT:
            fields = fields | {"max_bytes": self._draws.piece_bytes}
        self.after_step(lambda: self.requests.send(address, api_key, VERSIONS_SENT[api_key], fields, done))

    def forget(self, address: Address, api_key: int) -> None:
        """Close the connection of an API."""
        self.after_step(lambda: self.requests.forget(address, api_key))

    def accept(self, line: Line) -> int:
        self._last_connection += 1
        self._served[self._last_connection] = Served(self, line)
        return self._last_connection

    def receive(self, connection_id: int, frames: list[bytes]) -> None:
        served = self._served[connection_id]
        for frame in frames:
            served.receive(frame)

    def disconnect(self, connection_id: int) -> None:
        del self._served[connection_id]

    def handle(self, api_key: int, request: Any, respond: Callable[[dict[str, Any]], None]) -> None:
        """Hand a request to the quorum."""
        quorum = self.quorum
        assert quorum is not None
        if api_key != ENVELOPE:
            quorum.handle(api_key, request, respond)
            return
        epoch = quorum.epoch.to_bytes(EPOCH_BYTES, "big")

        def done(outcome: StoreOutcome | None) -> None:
            if outcome is None:
                respond({"response_data": None, "error_code": ErrorCode.not_controller})
            else:
                respond({"response_data": epoch + encode_outcome(outcome), "error_code": ErrorCode.none})

        quorum.propose(decode_request(request.request_data), done)

    @property
    def log_end(self) -> tuple[LeaderEpoch, Offset]:
        """The last epoch of the log, and its end."""
        assert self.quorum is not None
        return self.quorum.log.last_epoch, self.quorum.log.end_offset

    def observe_response(
        self, api_key: int, request: Any, fields: dict[str, Any], log_end: tuple[LeaderEpoch, Offset]
    ) -> None:
        """A response leaves; at its request the log was up to `log_end`."""
        if self._checks.responds(self, api_key, request, fields, log_end) and self.on_vote is not None:
            on_vote, self.on_vote = self.on_vote, None
            on_vote()

    def on_leader(self) -> None:
        """The quorum has another leader, or is ready."""

    def on_applied(self) -> None:
        """Commands were applied."""
