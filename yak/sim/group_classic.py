"""A member of a classic group: JoinGroup, assignment by the group leader, SyncGroup, Heartbeat."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from yak.sim.group_member import NONE, RETRY_US, GroupMember
from yak.sim.group_wire import (
    HEARTBEAT,
    JOIN,
    PROTOCOL,
    SYNC,
    Place,
    assignment,
    ms,
    read_assignment,
    subscription,
)

if TYPE_CHECKING:
    from yak.sim.groups import SimGroup
    from yak.sim.request_fields import Fields
    from yak.sim.seeded_random import SeededRandom


class ClassicMember(GroupMember):
    """Speaks JoinGroup, SyncGroup and Heartbeat, and revokes all its partitions before each rebalance ("eager")."""

    def __init__(self, group: SimGroup, number: int, rng: SeededRandom, instance: str | None) -> None:
        super().__init__(group, number, rng, instance)
        self._token = b""
        """Marks the assignment that it computed last."""
        self._decided: list[Place] | None = None
        """The partitions that it assigned, while it is the group leader."""

    def _join(self) -> None:
        group = self._group
        self._begin_round()
        self._decided = None
        fields = {
            "group_id": group.group_id,
            "session_timeout": ms(group.session_ms),
            "rebalance_timeout": ms(group.rebalance_ms),
            "member_id": self.member_id,
            "group_instance_id": self._instance,
            "protocol_type": "consumer",
            "protocols": [{"name": PROTOCOL, "metadata": subscription(group.topics)}],
            "reason": None,
        }
        self._send(JOIN, fields, self._joined)

    def _joined(self, answer: Any | None) -> None:
        code = None if answer is None else ErrorCode(answer.error_code)
        if answer is not None and code == NONE:
            self.member_id, self.generation = answer.member_id, answer.generation_id
            self._group.count("joins")
            if self._rng.chance(80):
                self._commit_late()
            self._sync(answer)
        elif answer is not None and code == ErrorCode.member_id_required:
            self.member_id = answer.member_id
            self._join()
        else:
            self._again(code)

    def _again(self, code: ErrorCode | None) -> None:
        """Rejoin after the retry backoff."""
        if code is not None:
            self._link.heard(code)
            if code in (ErrorCode.unknown_member_id, ErrorCode.fenced_instance_id):
                self._fenced()
                return
        self._after(RETRY_US, self._join)

    def _sync(self, joined: Any) -> None:
        group = self._group
        dealt: list[dict[str, Any]] = []
        if joined.leader == joined.member_id and joined.skip_assignment:
            # a static leader has rejoined, and its last assignment still holds (KIP-814)
            self._decided, self._token = group.dealt.get(self.generation, []), b""
        elif joined.leader == joined.member_id:
            self._decided = group.dealt[self.generation] = group.partitions()
            token = self._token = f"{self.process}:{group.next_token()}".encode()
            names = sorted(each.member_id for each in joined.members)
            dealt = [
                {"member_id": name, "assignment": assignment(self._decided[index :: len(names)], token)}
                for index, name in enumerate(names)
            ]
            group.count("rebalances")
        self._send(SYNC, self._identity() | {"assignments": dealt}, self._synced)

    def _identity(self) -> Fields:
        return {
            "group_id": self._group.group_id,
            "generation_id": self.generation,
            "member_id": self.member_id,
            "group_instance_id": self._instance,
        }

    def _synced(self, answer: Any | None) -> None:
        code = None if answer is None else ErrorCode(answer.error_code)
        if answer is None or code != NONE:
            self._again(code)
            return
        places, token = read_assignment(bytes(answer.assignment)) if answer.assignment else ([], b"")
        if self._token and token != self._token and self._decided is not None:
            # a late response let it assign twice in one generation, and the first assignment holds: assign again
            self._decided = []
        if token:
            self._group.books.assigned(self._group.group_id, self.generation, self.owner, token, places)
        self._beat_later()
        self._read_from_commits(places, self._has_begun)

    def _has_begun(self) -> None:
        self._has_all = True

    def _beat_later(self) -> None:
        self._in_this_round(self._group.beat_us, self._beat)

    def _beat(self) -> None:
        if self._decided is not None and self._decided != self._group.partitions():
            # its topics have more partitions: the group leader triggers a rebalance
            self._rejoin()
            return
        self._send(HEARTBEAT, self._identity(), self._beaten)

    def _beaten(self, answer: Any | None) -> None:
        code = None if answer is None else ErrorCode(answer.error_code)
        if code == ErrorCode.rebalance_in_progress:
            self._rejoin()
        elif code in (ErrorCode.illegal_generation, ErrorCode.unknown_member_id, ErrorCode.fenced_instance_id):
            if code == ErrorCode.illegal_generation:
                self._give_up(list(self._own))
                self._join()
            else:
                self._fenced()
        else:
            if code is not None:
                self._link.heard(code)
            self._beat_later()

    def _rejoin(self) -> None:
        """Commit the positions, revoke all partitions, and rejoin."""

        def go() -> None:
            self._give_up(list(self._own))
            self._join()

        if self._rng.chance(70):
            self._commit_own(go)
        else:
            go()
