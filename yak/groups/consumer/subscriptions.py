"""Keep subscriptions current: resolve regular expressions, and raise the group epoch when subscribed topics changed."""

from __future__ import annotations

from dataclasses import dataclass, replace

from yak.errors import ErrorCode, PeerError
from yak.groups.consumer.records import GroupValue, Kind, RegexValue
from yak.groups.consumer.regexes import STEPS_MAX, compiled
from yak.groups.consumer.settings import ConsumerGroupSettings
from yak.groups.consumer.state import Draft, GroupState
from yak.groups.consumer.topics import TopicsView, metadata_hash
from yak.protocol.record_fields import INT32_MAX

REGEX_REFRESH_MS_MIN = 10_000
"""The shortest interval between two resolutions against changed topics (GroupMetadataManager.java)."""


@dataclass(frozen=True, slots=True)
class DecisionInputs:
    """The inputs of a decision besides the group and the request."""

    topics: TopicsView
    settings: ConsumerGroupSettings
    now_ms: int


@dataclass(frozen=True, slots=True)
class CheckedVersions:
    """The topic versions that a group was last checked against. No record has them: a new coordinator checks again.

    `topics_version` is that of the last comparison of the metadata hash. `regexes_version` is that of the last round
    that resolved all regular expressions, `regexes_ms` its end. A round with too many steps for one heartbeat continues
    in the next ones: `round_version` is that of its start, `round_from` the first expression left. `targets_ms` is the
    time of the last target assignment; a new coordinator assigns at once.
    """

    topics_version: int | None = None
    regexes_version: int | None = None
    regexes_ms: int | None = None
    round_version: int | None = None
    round_from: str = ""
    targets_ms: int | None = None

    def may_assign(self, settings: ConsumerGroupSettings, now_ms: int) -> bool:
        """Whether the next target assignment is due (GroupMetadataManager.canComputeNextTargetAssignment)."""
        return self.targets_ms is None or now_ms >= self.targets_ms + settings.assignment_interval_ms


def drop_unused_regexes(draft: Draft) -> None:
    """Drop the regular expressions that no member has any more."""
    draft.take_back(Kind.REGEX, sorted(draft.state.regexes.keys() - draft.state.regex_members.keys()))


def renew_regexes(draft: Draft, own: str, seen: CheckedVersions, world: DecisionInputs) -> tuple[bool, CheckedVersions]:
    """Resolve new regular expressions, drop unused ones, and resolve all when a refresh is due.

    Returns whether the topics of any member may have changed, and the new `CheckedVersions`. Raises
    PeerError(INVALID_REGULAR_EXPRESSION) when `own`, the unresolved expression of the heartbeat's member, is invalid or
    too costly.
    """
    drop_unused_regexes(draft)
    used, resolved = draft.state.regex_members, draft.state.regexes
    if own:
        compiled(own)
    is_round = seen.round_version is not None or (bool(used) and _is_time(seen, world))
    waiting = [each for each in sorted(used) if each not in resolved or (is_round and each >= seen.round_from)]
    if own and own not in resolved:
        waiting = [own, *(each for each in waiting if each != own)]
    if not waiting and not is_round:
        return False, seen
    names = tuple(world.topics.names())
    round_version = world.topics.version if seen.round_version is None else seen.round_version
    changed, steps = False, 0
    for each in waiting:
        if steps >= STEPS_MAX:
            # the next heartbeat continues here
            return changed, replace(seen, round_version=round_version, round_from=each) if is_round else seen
        try:
            expression = compiled(each)
            steps += expression.steps(names)
            changed = _resolve(draft, each, expression.matching(names), world) or changed
        except PeerError:
            if each == own and own not in resolved:
                raise
            # too costly: from a record of Kafka, or there are more topics now. The member keeps its resolved topics
    if not is_round:
        return changed, seen
    done = replace(seen, regexes_version=round_version, regexes_ms=world.now_ms, round_version=None, round_from="")
    return changed, done


def _resolve(draft: Draft, expression: str, found: tuple[str, ...], world: DecisionInputs) -> bool:
    """Record the topics of an expression. Returns whether they changed."""
    resolved = draft.state.regexes.get(expression)
    changed = found != (() if resolved is None else tuple(sorted(resolved.topics)))
    if changed or resolved is None:
        draft.put(Kind.REGEX, expression, RegexValue(found, world.topics.version, world.now_ms))
    return changed


def _is_time(seen: CheckedVersions, world: DecisionInputs) -> bool:
    if seen.regexes_ms is None:
        return True
    since_ms = world.now_ms - seen.regexes_ms
    if seen.regexes_version != world.topics.version:
        return since_ms >= REGEX_REFRESH_MS_MIN
    return since_ms >= world.settings.regex_refresh_interval_ms


def renew_epoch(draft: Draft, topics: TopicsView, seen: CheckedVersions, *, bump: bool) -> CheckedVersions:
    """Raise the group's epoch if `bump`, or if the subscribed topics changed.

    Raises PeerError(COORDINATOR_NOT_AVAILABLE), which clients retry, when the epoch is the last one. Meanwhile the
    members' sessions expire and the group is deleted (`member_removal.fence`), so that the next join starts a new group.
    """
    state = draft.state
    # a classic group in its first rebalance has generation 0: a member of epoch 0 would have to join again
    bump = bump or state.epoch == 0
    if not bump and seen.topics_version == topics.version:
        return seen
    hashed = metadata_hash(state.topic_names(), topics)
    if bump or hashed != state.metadata_hash:
        if state.epoch == INT32_MAX:
            raise PeerError(ErrorCode.coordinator_not_available, f"The epoch of group {state.group_id} cannot grow.")
        draft.put(Kind.GROUP, "", GroupValue(state.epoch + 1, hashed))
    if state.has_partition_metadata:
        draft.put(Kind.PARTITION_METADATA, "", None)
    return replace(seen, topics_version=topics.version)


def is_behind(state: GroupState, topics: TopicsView, seen: CheckedVersions) -> bool:
    """Whether the subscribed topics changed since the group's epoch started."""
    return seen.topics_version != topics.version and metadata_hash(state.topic_names(), topics) != state.metadata_hash
