"""A state of the model, made of tuples, so that states can be compared, hashed and stored.

Sound reductions, which leave out only irrelevant differences:

- A record is its leader epoch: an epoch has one leader, so (offset, epoch) identifies a record.
- Partition epochs are positions in the store's history, which keeps only entries that a broker or call still refers to.
- Of one follower's acknowledgements in one epoch only the newest is in flight: an older one could have arrived before
  it was sent.
- Acknowledgements to a former leader are dropped, since no broker accepts them.
- A repeated call to the store has the effect of the first one or none (its nonce): it is there once.
- Names of brokers do not matter: of states that differ only by them one is visited (`canonical`).
"""

from __future__ import annotations

from itertools import permutations
from typing import Any, NamedTuple

NODES = (0, 1, 2)
NO_LEADER = -1
Member = tuple[int, int]
"""A node in one of its incarnations."""
Members = tuple[Member, ...]
Log = tuple[int, ...]
"""The epoch of each record."""


class Entry(NamedTuple):
    """The partition after one record of the metadata log."""

    epoch: int
    leader: int
    isr: Members
    elr: Members


class Proposal(NamedTuple):
    """A leader's ISR change, based on the history entry `base`; `answered` is the entry of the response, -1 before."""

    members: Members
    base: int
    answered: int


class Broker(NamedTuple):
    """One replica. `view` is its position in the store's history."""

    log: Log
    boot: int
    is_lossy: bool
    view: int
    high_watermark: int
    epoch_start: int
    pending: Proposal | None
    known: tuple[tuple[int, int], ...]
    """As the leader: log end and incarnation of each node, (-1, -1) before it fetched."""


class Call(NamedTuple):
    """An ISR change that may still be executed, even after its sender died."""

    node: int
    boot: int
    members: Members
    base: int


class Budget(NamedTuple):
    """The remaining budget of steps."""

    records: int
    crashes: int
    outages: int
    elections: int
    changes: int


class State(NamedTuple):
    """The whole state."""

    brokers: tuple[Broker, ...]
    history: tuple[Entry, ...]
    registered: tuple[int, ...]
    """The registered incarnation of each node, -1 for a fenced one."""
    acks: tuple[tuple[int, int, int, int], ...]
    """(follower, epoch, incarnation, log end), sorted."""
    calls: tuple[Call, ...]
    is_up: bool
    committed: Log
    """Everything that any high watermark ever passed."""
    left: Budget


UNKNOWN = ((-1, -1),) * len(NODES)


def first_state(left: Budget) -> State:
    """Three empty replicas in sync, the first of which leads."""
    everyone = tuple((node, 0) for node in NODES)
    brokers = tuple(Broker((), 0, False, 0, 0, 0, None, UNKNOWN) for _ in NODES)
    return State(brokers, (Entry(0, 0, everyone, ()),), (0,) * len(NODES), (), (), True, (), left)


def with_broker(state: State, node: int, broker: Broker) -> State:
    """The state with another broker in that place."""
    brokers = list(state.brokers)
    brokers[node] = broker
    return state._replace(brokers=tuple(brokers))


def tidy(state: State) -> State:
    """Drop history entries without references, and acknowledgements that no broker accepts."""
    brokers = state.brokers
    oldest = min(broker.view for broker in brokers)
    for broker in brokers:
        if broker.pending is not None:
            oldest = min(oldest, broker.pending.base)
    newest = len(state.history) - 1
    # a call based on an older entry is refused anyway
    calls = tuple(sorted(call if call.base == newest else call._replace(base=-1) for call in state.calls))
    if oldest:
        brokers = tuple(_shifted(broker, oldest) for broker in brokers)
        calls = tuple(call._replace(base=call.base - oldest) if call.base >= 0 else call for call in calls)
    history = state.history[oldest:]
    leading = {history[broker.view].epoch for node, broker in enumerate(brokers) if history[broker.view].leader == node}
    acks = tuple(ack for ack in state.acks if ack[1] in leading)
    return state._replace(brokers=brokers, history=history, calls=calls, acks=acks)


def _shifted(broker: Broker, by: int) -> Broker:
    pending = broker.pending
    if pending is not None:
        answered = pending.answered - by if pending.answered >= 0 else -1
        pending = pending._replace(base=pending.base - by, answered=answered)
    return broker._replace(view=broker.view - by, pending=pending)


def canonical(state: State) -> State:
    """The representative of all states that differ only by the brokers' names, ordered by each broker's content.

    If two brokers are equal so far, their references to each other decide: all orders are compared.
    """
    signs = [_sign(state, node) for node in NODES]
    order = sorted(NODES, key=signs.__getitem__)
    ordered = [signs[node] for node in order]
    if ordered[0] != ordered[1] and ordered[1] != ordered[2]:
        orders = [tuple(order)]
    else:
        orders = [each for each in permutations(NODES) if [signs[node] for node in each] == ordered]
    renamed = [_renamed(state, tuple(map(each.index, NODES))) for each in orders]
    return renamed[0] if len(renamed) == 1 else min(renamed, key=_order)


def _sign(state: State, node: int) -> tuple[object, ...]:
    broker = state.brokers[node]
    pending = broker.pending
    return (
        broker.log,
        broker.boot,
        broker.is_lossy,
        broker.view,
        broker.high_watermark,
        broker.epoch_start,
        () if pending is None else (len(pending.members), pending.base, pending.answered),
        state.registered[node],
        broker.known[node],
        tuple([entry.leader == node for entry in state.history]),
        tuple([[boot for each, boot in entry.isr if each == node] for entry in state.history]),
        sorted([ack[1:] for ack in state.acks if ack[0] == node]),
        sorted(broker.known),
    )


def _order(state: State) -> tuple[object, ...]:
    brokers = tuple((each.pending or (), each.known) for each in state.brokers)
    return (brokers, state.history, state.acks, state.calls)


def _renamed(state: State, names: tuple[int, ...]) -> State:
    def members(these: Members) -> Members:
        return tuple(sorted((names[node], boot) for node, boot in these))

    def placed(items: tuple[Any, ...]) -> list[Any]:
        result: list[Any] = [None] * len(items)
        for node, item in enumerate(items):
            result[names[node]] = item
        return result

    brokers = []
    for broker in state.brokers:
        pending = broker.pending
        if pending is not None:
            pending = pending._replace(members=members(pending.members))
        brokers.append(broker._replace(pending=pending, known=tuple(placed(broker.known))))
    return State(
        brokers=tuple(placed(tuple(brokers))),
        history=tuple(
            Entry(e.epoch, names[e.leader] if e.leader >= 0 else NO_LEADER, members(e.isr), members(e.elr))
            for e in state.history
        ),
        registered=tuple(placed(state.registered)),
        acks=tuple(sorted((names[node], epoch, boot, end) for node, epoch, boot, end in state.acks)),
        calls=tuple(
            sorted(call._replace(node=names[call.node], members=members(call.members)) for call in state.calls)
        ),
        is_up=state.is_up,
        committed=state.committed,
        left=state.left,
    )
