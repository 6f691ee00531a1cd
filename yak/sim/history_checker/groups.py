"""Checks of consumer groups: an acknowledged commit is found again, and no record below it was skipped."""

from collections.abc import Iterator, Mapping

from yak.ids import Offset
from yak.sim.history_checker.anomalies import Anomaly, Kind
from yak.sim.history_checker.history import Assign, Commit, History, Outcome
from yak.sim.history_checker.logs import KnownLog


def commits_are_found(history: History) -> Iterator[Anomaly]:
    """`lost-commit`: a member starts a partition no earlier than at the last commit that was acknowledged before.

    An earlier start is allowed only if it was committed later, or by a request with an unknown outcome, which may
    arrive late.
    """
    by_group: dict[tuple[str, str], list[tuple[Commit, Offset]]] = {}
    for commit in sorted(history.commits, key=lambda each: each.ended):
        for name, offset in commit.offsets.items():
            by_group.setdefault((commit.group, name), []).append((commit, offset))
    for event in history.reads:
        if not isinstance(event, Assign) or event.group is None:
            continue
        for name, start in event.starts.items():
            if start is None:
                continue
            known = by_group.get((event.group, name), [])
            before = [each for each in known if each[0].outcome is Outcome.OK and each[0].ended < event.at]
            if not before or start >= before[-1][1]:
                continue
            last, promised = before[-1]
            # a commit concurrent with the last one may have come after it
            others = {offset for commit, offset in known if commit is not last and _may_follow(commit, last, event)}
            if start not in others:
                text = f"{event.group} had committed {promised}, and {event.process} fetched {start}"
                yield Anomaly(Kind.LOST_COMMIT, name, text, promised, None, event.process, event.at)


def _may_follow(commit: Commit, last: Commit, event: Assign) -> bool:
    if commit.invoked > event.at or commit.outcome is Outcome.FAIL:
        return False
    return commit.outcome is Outcome.INFO or commit.ended >= last.invoked


def nothing_passed_over(history: History, logs: Mapping[str, KnownLog]) -> Iterator[Anomaly]:
    """`group-skip`: from a group's first start to its committed offset, a member read every record."""
    groups = {each.group for each in history.commits if each.outcome is Outcome.OK}
    for group in sorted(groups):
        members = {each.process for each in history.reads if isinstance(each, Assign) and each.group == group}
        read: dict[str, set[Offset]] = {}
        for poll in history.polls():
            if poll.process in members:
                for run in poll.runs:
                    read.setdefault(run.partition, set()).update(run.offsets)
        committed: dict[str, Offset] = {}
        for commit in history.commits:
            if commit.group == group and commit.outcome is Outcome.OK:
                for name, offset in commit.offsets.items():
                    committed[name] = max(committed.get(name, 0), offset)
        for name, end in committed.items():
            seen, log = read.get(name, set()), logs.get(name, KnownLog(name))
            first = history.first_offsets.get(name, 0)
            for offset in log.visible:
                if first <= offset < end and offset not in seen and offset not in log.taken:
                    text = f"{group} committed {end}, and no member read {offset}"
                    yield Anomaly(Kind.GROUP_SKIP, name, text, offset, log.at[offset])
