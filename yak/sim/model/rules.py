"""The steps of the model: those of brokers, controller and store, and faults.

`steps` yields every possible step of a state, with the state after it. `lacks` removes a single rule, as a mutant of
the broker does. Rule numbers are those of the protocol page (4.3 to 4.7); the follower's are KIP-101, KIP-279 and
KIP-320.
"""

from __future__ import annotations

from collections.abc import Iterator

from yak.sim.model.state import NO_LEADER, NODES, UNKNOWN, Broker, Call, Entry, Members, Proposal, State, with_broker

Step = tuple[object, ...]
"""A name, then the nodes concerned."""
RULES = {
    "maximal-isr": "the high watermark waits for every member of a change under way (4.4.3)",
    "min-isr": "a too small ISR commits nothing (KIP-966)",
    "isr-from-the-store": "a change of the ISR counts when the store agreed",
    "keep-pending": "a change without an answer is not forgotten (4.6)",
    "epoch-start": "the ISR is joined past the start of the leader's epoch (KIP-320)",
    "divergence": "a follower cuts its log to where it agrees with the leader's (KIP-279)",
    "no-cut-to-hw": "a follower does not cut to its high watermark (KIP-101)",
    "lossy-leaves": "a boot that lost its tail leaves ISR and ELR (4.7)",
    "boots-in-isr": "a follower joins the ISR in the broker epoch that it fetched in (KIP-903)",
}
SPARE = {
    "elr-cleared": "the ELR is empty once the ISR can commit again (KIP-966): while it is not, leaders commit nothing anyway",
    "cas": "a change is made on the newest state only (KIP-497): a replica of another broker epoch is refused anyway",
}
"""Rules whose removal led to no violation in any walk: each is backed by another rule."""


class Rules:
    """The protocol with `min_isr` of three replicas, without the rule in `lacks`."""

    def __init__(self, min_isr: int = 2, lacks: str = "") -> None:
        assert not lacks or lacks in RULES or lacks in SPARE, f"no rule is named {lacks}"
        self.min_isr = min_isr
        self.lacks = lacks

    # ---------------------------------------------------------------------------------------------- predicates

    def leads(self, state: State, node: int) -> bool:
        """Whether this broker acts as the leader: by its own view, in its present incarnation."""
        broker = state.brokers[node]
        entry = state.history[broker.view]
        return entry.leader == node and (node, broker.boot) in entry.isr

    def is_registered(self, state: State, node: int) -> bool:
        """Whether this incarnation is registered in the store and not fenced."""
        return state.registered[node] == state.brokers[node].boot

    def may_join(self, state: State, leader: int, node: int) -> bool:
        """Whether a follower outside of the ISR has everything that its leader requires."""
        broker = state.brokers[leader]
        end, boot = broker.known[node]
        if (node, boot) in state.history[broker.view].isr:
            return False
        start = 0 if self.lacks == "epoch-start" else broker.epoch_start
        return end >= max(broker.high_watermark, start)

    def violation(self, state: State) -> str:
        """The violated invariant of a state; empty if there is none."""
        newest, committed = state.history[-1], state.committed
        for node, boot in (*newest.isr, *newest.elr):
            broker = state.brokers[node]
            gone = broker.is_lossy and not self.is_registered(state, node)
            if gone or ((node, boot) in newest.isr and boot != broker.boot):
                # it must register before it can be elected, and then leaves ISR and ELR
                continue
            if broker.log[: len(committed)] != committed:
                return f"I1: broker {node} may be elected with {broker.log}, {committed} was committed"
        for node, broker in enumerate(state.brokers):
            if broker.high_watermark > len(broker.log):
                return f"I6: the high watermark {broker.high_watermark} of broker {node} is above its log's end"
            if list(broker.log) != sorted(broker.log):
                return f"I8: epochs fall in the log of broker {node}: {broker.log}"
        return ""

    # ------------------------------------------------------------------------------------------------ the steps

    def steps(self, state: State) -> Iterator[tuple[Step, State]]:
        for node in NODES:
            if self.leads(state, node):
                yield from self._as_leader(state, node)
            elif self.is_registered(state, node):
                yield from self._as_follower(state, node)
            if state.is_up and self.is_registered(state, node):
                for view in range(state.brokers[node].view + 1, len(state.history)):
                    yield ("adopt", node, view), self._adopt(state, node, view)
            yield from self._to_a_process(state, node)
        yield from self._deliveries(state)
        if state.is_up:
            yield from self._in_the_store(state)
            if state.left.outages:
                left = state.left._replace(outages=state.left.outages - 1)
                yield ("outage",), state._replace(is_up=False, left=left)
        else:
            yield ("back",), state._replace(is_up=True)

    def _as_leader(self, state: State, node: int) -> Iterator[tuple[Step, State]]:
        broker, left = state.brokers[node], state.left
        entry = state.history[broker.view]
        if left.records:
            grown = broker._replace(log=(*broker.log, entry.epoch))
            after = with_broker(state._replace(left=left._replace(records=left.records - 1)), node, grown)
            yield ("write", node), self._advance(after, node)
        pending = broker.pending
        if pending is None and left.changes:
            for member in entry.isr:
                if member[0] != node:
                    yield ("shrink", node, member[0]), self._propose(state, node, _without(entry.isr, member[0]))
            for other in NODES:
                end, boot = broker.known[other]
                if other != node and end >= 0 and self.may_join(state, node, other):
                    members = tuple(sorted((*_without(entry.isr, other), (other, boot))))
                    yield ("expand", node, other), self._propose(state, node, members)
        if pending is not None:
            is_answered = 0 <= pending.answered <= broker.view
            if is_answered or (self.lacks == "keep-pending" and not state.is_up):
                settled = with_broker(state, node, broker._replace(pending=None))
                yield ("settle", node), self._advance(settled, node)

    def _propose(self, state: State, node: int, members: Members) -> State:
        broker = state.brokers[node]
        left = state.left._replace(changes=state.left.changes - 1)
        call = Call(node, broker.boot, members, broker.view)
        pending = Proposal(members, broker.view, -1)
        after = with_broker(state, node, broker._replace(pending=pending))._replace(
            calls=(*state.calls, call), left=left
        )
        return self._advance(after, node) if self.lacks == "isr-from-the-store" else after

    def _as_follower(self, state: State, node: int) -> Iterator[tuple[Step, State]]:
        """A fetch: it reports the log end and brings the next record, or truncates at the divergence."""
        broker = state.brokers[node]
        entry = state.history[broker.view]
        leader = entry.leader
        if leader in (NO_LEADER, node) or not self.leads(state, leader):
            return
        source = state.brokers[leader]
        if state.history[source.view].epoch != entry.epoch:
            return
        agreed = _agreement(broker.log, source.log)
        if agreed < len(broker.log) and self.lacks != "divergence":
            cut = broker._replace(log=broker.log[:agreed], high_watermark=min(broker.high_watermark, agreed))
            yield ("cut", node, agreed), with_broker(state, node, cut)
            return
        end = len(broker.log)
        log = (*broker.log, source.log[end]) if end < len(source.log) else broker.log
        high_watermark = max(broker.high_watermark, min(source.high_watermark, len(log)))
        others = [ack for ack in state.acks if ack[:3] != (node, entry.epoch, broker.boot)]
        is_news = source.known[node] != (end, broker.boot)
        acks = tuple(sorted([*others, (node, entry.epoch, broker.boot, end)])) if is_news else state.acks
        fetched = with_broker(state, node, broker._replace(log=log, high_watermark=high_watermark))._replace(acks=acks)
        if fetched != state:
            yield ("fetch", node, leader), fetched

    def _deliveries(self, state: State) -> Iterator[tuple[Step, State]]:
        for ack in state.acks:
            follower, epoch, boot, end = ack
            for node in NODES:
                broker = state.brokers[node]
                if self.leads(state, node) and state.history[broker.view].epoch == epoch:
                    after = state._replace(acks=tuple(each for each in state.acks if each != ack))
                    if boot >= broker.known[follower][1]:
                        known = tuple((end, boot) if each == follower else broker.known[each] for each in NODES)
                        after = self._advance(with_broker(after, node, broker._replace(known=known)), node)
                    yield ("acknowledge", node, follower, boot, end), after

    def _adopt(self, state: State, node: int, view: int) -> State:
        broker = state.brokers[node]
        before, entry = state.history[broker.view], state.history[view]
        broker = broker._replace(view=view)
        if (before.epoch, before.leader) != (entry.epoch, entry.leader):
            broker = broker._replace(pending=None, known=UNKNOWN)
            if entry.leader == node:
                broker = broker._replace(epoch_start=len(broker.log))
            elif self.lacks == "no-cut-to-hw":
                broker = broker._replace(log=broker.log[: broker.high_watermark])
        after = with_broker(state, node, broker)
        return self._advance(after, node) if self.leads(after, node) else after

    def _advance(self, state: State, node: int) -> State:
        """Move a leader's high watermark as far as the rules allow."""
        broker = state.brokers[node]
        entry, pending = state.history[broker.view], broker.pending
        isr, needed = entry.isr, dict.fromkeys(entry.isr)
        elr = entry.elr
        if pending is not None and self.lacks == "isr-from-the-store":
            isr, needed, elr = pending.members, dict.fromkeys(pending.members), ()
        elif pending is not None and self.lacks != "maximal-isr":
            needed |= dict.fromkeys(pending.members)
        end = len(broker.log)
        for member, boot in needed:
            if member != node:
                known, known_boot = broker.known[member]
                if known_boot != boot and self.lacks != "boots-in-isr":
                    return state
                end = min(end, known)
        if end <= broker.high_watermark or ((len(isr) < self.min_isr or elr) and self.lacks != "min-isr"):
            return state
        committed = state.committed
        if end > len(committed):
            committed = broker.log[:end]
        after = with_broker(state, node, broker._replace(high_watermark=end))
        return after._replace(committed=committed)

    # ------------------------------------------------------------------------------------------------ the store

    def _in_the_store(self, state: State) -> Iterator[tuple[Step, State]]:
        newest = state.history[-1]
        for index, call in enumerate(state.calls):
            rest = state.calls[:index] + state.calls[index + 1 :]
            yield ("execute", call.node, call.members), self._execute(state._replace(calls=rest), call)
        for node in NODES:
            if not self.is_registered(state, node):
                yield ("register", node), self._register(state, node)
        if not state.left.elections:
            return
        left = state.left._replace(elections=state.left.elections - 1)
        for node, boot in newest.isr:
            entry = self._next(newest, _without(newest.isr, node), newest.isr)
            if newest.leader == node:
                entry = entry._replace(leader=NO_LEADER, epoch=entry.epoch + 1)
            fenced = tuple(-1 if each == node else state.registered[each] for each in NODES)
            if state.registered[node] == boot:
                yield ("fence", node), state._replace(history=(*state.history, entry), registered=fenced, left=left)
        for node, _boot in newest.isr or newest.elr:
            here = (node, state.brokers[node].boot)
            if newest.leader == node or not self.is_registered(state, node) or (newest.isr and here not in newest.isr):
                continue
            isr = newest.isr or (here,)
            elected = self._next(newest, isr, newest.isr)._replace(leader=node, epoch=newest.epoch + 1)
            yield ("elect", node), state._replace(history=(*state.history, elected), left=left)

    def _next(self, entry: Entry, isr: Members, leaving: Members) -> Entry:
        """The ISR, and the ELR that follows from it (KIP-966)."""
        inside = {node for node, _boot in isr}
        former = {node: (node, boot) for node, boot in (*entry.elr, *leaving) if node not in inside}
        if len(isr) >= self.min_isr and self.lacks != "elr-cleared":
            former = {}
        elif len(isr) >= self.min_isr:
            former = {node: (node, boot) for node, boot in entry.elr if node not in inside}
        return entry._replace(isr=isr, elr=tuple(former[node] for node in sorted(former)))

    def _execute(self, state: State, call: Call) -> State:
        newest = state.history[-1]
        current = all(state.registered[node] == boot or (node, boot) in newest.isr for node, boot in call.members)
        members = call.members
        if self.lacks == "boots-in-isr":
            current = all(state.registered[node] >= 0 for node, _boot in members)
            members = tuple((node, state.registered[node]) for node, _boot in members) if current else members
        is_newest = call.base == len(state.history) - 1 or (self.lacks == "cas" and newest.leader == call.node)
        is_sound = state.registered[call.node] == call.boot and is_newest and newest.leader == call.node and current
        if is_sound:
            state = state._replace(history=(*state.history, self._next(newest, members, newest.isr)))
        broker = state.brokers[call.node]
        pending = broker.pending
        if (
            pending is not None
            and pending.members == call.members
            and pending.answered < 0
            and broker.boot == call.boot
        ):
            answered = pending._replace(answered=len(state.history) - 1)
            state = with_broker(state, call.node, broker._replace(pending=answered))
        return state

    def _register(self, state: State, node: int) -> State:
        """A new incarnation registers; a fenced broker comes back as another incarnation."""
        broker, newest = state.brokers[node], state.history[-1]
        if state.registered[node] < 0:
            broker = broker._replace(boot=broker.boot + 1, pending=None, known=UNKNOWN)
        registered = tuple(broker.boot if each == node else state.registered[each] for each in NODES)
        entry = newest
        if self.lacks == "lossy-leaves" and broker.is_lossy:
            entry = newest._replace(isr=_reborn(newest.isr, node, broker.boot))
        elif any(each == node for each, _boot in newest.isr):
            entry = self._next(newest, _without(newest.isr, node), newest.isr)
            if newest.leader == node:
                entry = entry._replace(leader=NO_LEADER, epoch=entry.epoch + 1)
        if broker.is_lossy and self.lacks != "lossy-leaves":
            entry = entry._replace(elr=_without(entry.elr, node))
        history = state.history if entry == newest else (*state.history, entry)
        after = state._replace(history=history, registered=registered)
        return with_broker(after, node, broker._replace(is_lossy=False))

    # ---------------------------------------------------------------------------------------------------- faults

    def _to_a_process(self, state: State, node: int) -> Iterator[tuple[Step, State]]:
        """Kill -9, which keeps the log, or a power loss, which loses its tail."""
        if not state.left.crashes:
            return
        left = state.left._replace(crashes=state.left.crashes - 1)
        broker = state.brokers[node]
        boot = broker.boot + 1
        for length in range(len(broker.log), -1, -1):
            is_lossy = broker.is_lossy or length < len(broker.log)
            new = Broker(broker.log[:length], boot, is_lossy, broker.view, 0, 0, None, UNKNOWN)
            # the store's registration, if any, is of the incarnation that ended
            yield ("crash", node, length), with_broker(state._replace(left=left), node, new)


def _without(members: Members, node: int) -> Members:
    return tuple(member for member in members if member[0] != node)


def _reborn(members: Members, node: int, boot: int) -> Members:
    return tuple((each, boot) if each == node else (each, old) for each, old in members)


def _agreement(one: tuple[int, ...], other: tuple[int, ...]) -> int:
    """The offset up to which two logs have the same records."""
    agreed = 0
    for mine, theirs in zip(one, other, strict=False):
        if mine != theirs:
            break
        agreed += 1
    return agreed
