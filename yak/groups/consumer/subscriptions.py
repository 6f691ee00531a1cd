"""What the members mean, kept up to date: expressions resolved, the group's epoch moved on when any of it changed."""

from __future__ import annotations

from dataclasses import dataclass

from yak.errors import PeerError
from yak.groups.consumer.records import GroupValue, Kind, RegexValue
from yak.groups.consumer.regexes import compiled, matching
from yak.groups.consumer.settings import ConsumerGroupSettings
from yak.groups.consumer.state import Draft, GroupState
from yak.groups.consumer.topics import TopicsView, metadata_hash

REGEX_REFRESH_MS_MIN = 10_000
"""Expressions are compared with all topics at most so often, however fast topics are made (GroupMetadataManager.java)."""


@dataclass(frozen=True, slots=True)
class World:
    """What a decision is made with, besides the group and the request."""

    topics: TopicsView
    settings: ConsumerGroupSettings
    now_ms: int


@dataclass(frozen=True, slots=True)
class Seen:
    """What a group's coordinator has looked at; in no record, so the next one looks again.

    `topics_version` is that of the last comparison of the metadata hash; the regexes' are of the last comparison with all
    topics, and when it was.
    """

    topics_version: int | None = None
    regexes_version: int | None = None
    regexes_ms: int | None = None


def renew_regexes(draft: Draft, own: str, seen: Seen, world: World) -> tuple[bool, Seen]:
    """Resolve what is not resolved, drop what nobody uses, and all anew when topics changed and it is time.

    Whether any member may mean other topics now, and what was seen. Raises PeerError(INVALID_REGULAR_EXPRESSION) when
    `own`, the expression of the member that beats, is not resolved and cannot be.
    """
    topics, used = world.topics, draft.state.regex_members
    draft.take_back(Kind.REGEX, sorted(draft.state.regexes.keys() - used.keys()))
    if own:
        compiled(own)
    look_again = bool(used) and _is_time(seen, world)
    changed = False
    for expression in sorted(used):
        resolved = draft.state.regexes.get(expression)
        if (resolved is not None and not look_again) or not _is_usable(expression):
            continue
        found = matching(expression, topics.names())
        if resolved is None or found != tuple(sorted(resolved.topics)):
            draft.put(Kind.REGEX, expression, RegexValue(found, topics.version, world.now_ms))
            changed = True
    return changed, Seen(seen.topics_version, topics.version, world.now_ms) if look_again else seen


def _is_time(seen: Seen, world: World) -> bool:
    if seen.regexes_ms is None:
        return True
    since_ms = world.now_ms - seen.regexes_ms
    if seen.regexes_version != world.topics.version:
        return since_ms >= REGEX_REFRESH_MS_MIN
    return since_ms >= world.settings.regex_refresh_interval_ms


def _is_usable(expression: str) -> bool:
    """Whether it may be matched here: a record of Kafka's may hold one that is too costly for us. It keeps its topics."""
    try:
        compiled(expression)
    except PeerError:
        return False
    return True


def renew_epoch(draft: Draft, topics: TopicsView, seen: Seen, *, bump: bool) -> Seen:
    """Move the group's epoch on if `bump`, or if the topics that it reads are not what they were."""
    state = draft.state
    bump = bump or state.epoch == 0
    if not bump and seen.topics_version == topics.version:
        return seen
    hashed = metadata_hash(state.topic_names(), topics)
    if bump or hashed != state.metadata_hash:
        draft.put(Kind.GROUP, "", GroupValue(state.epoch + 1, hashed))
    if state.has_partition_metadata:
        draft.put(Kind.PARTITION_METADATA, "", None)
    return Seen(topics.version, seen.regexes_version, seen.regexes_ms)


def is_behind(state: GroupState, topics: TopicsView, seen: Seen) -> bool:
    """Whether the topics that the group reads are not what its epoch was begun with."""
    return seen.topics_version != topics.version and metadata_hash(state.topic_names(), topics) != state.metadata_hash
