"""One broker's connection to the metadata store: calls and their results in order, and the tail of the log.

As in `yak/server/redis_store.py`: after five seconds without a response, or when the store goes down, the broker gets
`StoreLost`, and reconnects with growing pauses. A call in flight may still be executed later, from a socket that has no
reader any more (reliability F18); its result is lost.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from yak.core import events
from yak.sim.seeded_random import SeededRandom
from yak.sim.store import RECORDS_A_READ
from yak.sim.world import World

if TYPE_CHECKING:
    from yak.ports.metadata_store import StoreOutcome, StoreRequest
    from yak.sim.network import Network
    from yak.sim.store import SimStore

STORE = "store"
CALL_TIMEOUT_US = 5_000_000
FIRST_PAUSE_US = 20_000
LONGEST_PAUSE_US = 2_000_000
LATE_US = 8_000_000
_CALM = frozenset({"verify", "register", "heartbeat", "acquire_lease", "report_hw"})


class StoreLine:
    """Connects, calls and tails for one broker. `party` names the broker in `network`."""

    def __init__(
        self,
        world: World,
        rng: SeededRandom,
        store: SimStore,
        post: Callable[[events.Event], None],
        *,
        party: str,
        network: Network,
    ) -> None:
        self.late_percent = 0
        """The percentage of calls in flight at the end of a connection that are still executed."""
        self.break_percent = 0
        """The percentage of writing calls that lose their connection while the call or its result is in flight."""
        self.late_count = 0
        """How many calls were executed late so far."""
        self.slow_us = 0
        """How much longer a call takes at most."""
        self.is_blocked = False
        """The store does not answer this broker, which gets `StoreLost`; it reconnects as soon as that ends."""
        self.is_deaf = False
        """Whether it gets no new records; after that `store_moved` must be called."""
        self.on_call: Callable[[StoreRequest, StoreOutcome], None] = lambda _request, _outcome: self.store_moved()
        """Called after each executed call; it must notify all that tail the log."""
        self._world = world
        self._rng = rng
        self._store = store
        self._post = post
        self._party = party
        self._network = network
        self._runs = False
        self._connection: _Connection | None = None
        self._pause_us = FIRST_PAUSE_US
        self._attempts = 0
        network.on_reconnect.append(self._reconnected)

    # -------------------------------------------------------------------------------------------- called by the node

    def start(self) -> None:
        self._runs = True
        self._pause_us = FIRST_PAUSE_US
        self._connect_later(self.delay())

    def end(self) -> None:
        self._runs = False
        self._attempts += 1
        if self._connection is not None:
            self._connection.end()
            self._connection = None

    def call(self, nonce: int, request: StoreRequest) -> None:
        """Send a call; without a connection the broker has got `StoreLost` already."""
        connection = self._connection
        if connection is None:
            return
        connection.call(nonce, request)
        if self.break_percent and request.script not in _CALM and self._rng.chance(self.break_percent):

            def end() -> None:
                if self._connection is connection:
                    self.lose("simulated: reset")

            self._world.after(self._rng.between(0, 3_000), end)

    def tail(self, after: int) -> None:
        """(Re)start tailing after this offset."""
        if self._connection is not None:
            self._connection.tail(after)

    # ------------------------------------------------------------------------------------------------------- faults

    def block(self) -> None:
        """The store stops answering this broker, which gets `StoreLost`."""
        self.is_blocked = True
        self.lose("simulated outage")

    def unblock(self) -> None:
        """The store answers again."""
        self.is_blocked = False
        if self._runs and self._connection is None:
            self._attempt(self._attempts)

    def lose(self, reason: str) -> None:
        """End the connection; the broker reconnects by itself."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.end()
        if self._runs:
            self._pause_us = FIRST_PAUSE_US
            self._connect_later(self._pause())
            self._post(events.StoreLost(reason))

    def store_moved(self) -> None:
        if self._connection is not None:
            self._connection.bring_later()

    # ---------------------------------------------------------------------------------------------------- internals

    def reaches(self) -> bool:
        return self._store.up and not self.is_blocked and not self.is_cut_there() and not self.is_cut_back()

    def is_cut_there(self) -> bool:
        """Whether the direction from the broker to the store is blocked."""
        return self._network.is_cut((self._party, STORE))

    def is_cut_back(self) -> bool:
        """Whether the direction from the store to the broker is blocked."""
        return self._network.is_cut((STORE, self._party))

    def delay(self) -> int:
        """The delay of one direction, in µs."""
        delay_us = self._rng.between(20, 2_000)
        return delay_us + self._rng.between(0, self.slow_us) if self.slow_us else delay_us

    def _pause(self) -> int:
        pause_us = self._rng.between(self._pause_us // 2, self._pause_us)
        self._pause_us = min(self._pause_us * 2, LONGEST_PAUSE_US)
        return pause_us

    def _connect_later(self, delay_us: int) -> None:
        self._attempts += 1
        number = self._attempts
        self._world.after(delay_us, lambda: self._attempt(number))

    def _attempt(self, number: int) -> None:
        if number != self._attempts or not self._runs or self._connection is not None:
            return
        if not self.reaches():
            if not self.is_blocked:
                self._connect_later(self._pause())
                self._post(events.StoreLost("simulated: cannot connect"))
            return
        self._connection = _Connection(self, self._world, self._rng, self._store, self._post)
        self._post(events.StoreConnected(self._store.process_id, ()))

    def timed_out(self, connection: _Connection) -> None:
        """A call got no response in time."""
        if connection is self._connection:
            self.lose("simulated: no answer in time")

    def _reconnected(self) -> None:
        if self._connection is not None:
            self._connection.resume()


class _Connection:
    """One pair of connections, until it ends."""

    def __init__(
        self, line: StoreLine, world: World, rng: SeededRandom, store: SimStore, post: Callable[[events.Event], None]
    ) -> None:
        self.is_open = True
        self._line = line
        self._world = world
        self._rng = rng
        self._store = store
        self._post = post
        self._there_us = self._back_us = 0
        self._held_calls: list[tuple[int, StoreRequest]] = []
        self._held_answers: list[tuple[int, StoreOutcome]] = []
        self._position: int | None = None
        self._tails = 0
        self._is_bringing = False

    def call(self, nonce: int, request: StoreRequest) -> None:
        self._there_us = max(self._there_us, self._world.now_us + self._line.delay())
        wait_us = self._there_us - self._world.now_us
        self._world.after(wait_us, lambda: self._arrive(nonce, request))
        if wait_us > CALL_TIMEOUT_US:
            self._time_out()

    def _time_out(self) -> None:
        self._world.after(CALL_TIMEOUT_US, lambda: self._line.timed_out(self))

    def _arrive(self, nonce: int, request: StoreRequest) -> None:
        if not self.is_open:
            self._too_late(request)
        elif self._line.is_cut_there() or self._held_calls:
            if not self._held_calls:
                self._time_out_if_held()
            self._held_calls.append((nonce, request))
        elif self._store.up:
            outcome = self._execute(request)
            self._answer(nonce, outcome)

    def _time_out_if_held(self) -> None:
        """Time out calls and results that are still blocked after the call timeout."""

        def check() -> None:
            if self._held_calls or self._held_answers:
                self._line.timed_out(self)

        self._world.after(CALL_TIMEOUT_US, check)

    def _too_late(self, request: StoreRequest) -> None:
        """The connection ended with the call in flight: it is executed late, or never."""
        if self._rng.chance(self._line.late_percent):

            def execute() -> None:
                if self._store.up and not self._line.is_cut_there():
                    self._world.say(f"a call arrives late: {request.script}")
                    self._line.late_count += 1
                    self._execute(request)

            self._world.after(self._rng.between(0, LATE_US if self._rng.chance(30) else LATE_US // 100), execute)

    def _execute(self, request: StoreRequest) -> StoreOutcome:
        outcome = self._store.call(request, self._world.now_ms)
        self._world.trace("store", f"{request.script} {outcome.code} {outcome.offset}".encode())
        self._line.on_call(request, outcome)
        return outcome

    def _answer(self, nonce: int, outcome: StoreOutcome) -> None:
        self._back_us = max(self._back_us, self._world.now_us + self._line.delay())
        self._world.after(self._back_us - self._world.now_us, lambda: self._answered(nonce, outcome))

    def _answered(self, nonce: int, outcome: StoreOutcome) -> None:
        if not self.is_open:
            return
        if self._line.is_cut_back() or self._held_answers:
            if not self._held_answers:
                self._time_out_if_held()
            self._held_answers.append((nonce, outcome))
        else:
            self._post(events.StoreReplied(nonce, outcome))

    def end(self) -> None:
        """The connection is closed; blocked calls may still get through."""
        self.is_open = False
        held_calls, self._held_calls = self._held_calls, []
        for _nonce, request in held_calls:
            self._too_late(request)

    def resume(self) -> None:
        """The network reconnected: blocked calls and results go on."""
        if not self._line.is_cut_there():
            held_calls, self._held_calls = self._held_calls, []
            for nonce, request in held_calls:
                self.call(nonce, request)
        if not self._line.is_cut_back():
            held_answers, self._held_answers = self._held_answers, []
            for nonce, outcome in held_answers:
                self._answer(nonce, outcome)
            self.bring_later()

    def tail(self, after: int) -> None:
        self._position = after
        self._tails += 1
        self._is_bringing = False
        self.bring_later()

    def bring_later(self) -> None:
        if self._position is not None and not self._is_bringing:
            self._is_bringing = True
            number = self._tails
            self._world.after(self._line.delay(), lambda: self._bring(number))

    def _bring(self, number: int) -> None:
        if number != self._tails:
            return
        self._is_bringing = False
        if not self.is_open or self._position is None or not self._store.up:
            return
        if self._line.is_deaf or self._line.is_cut_back():
            return
        records = self._store.records_after(self._position)
        if records:
            self._position = records[-1].offset
            if len(records) == RECORDS_A_READ:
                self.bring_later()
            self._post(events.RecordsTailed(records))
