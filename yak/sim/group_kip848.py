"""A member of a consumer group (KIP-848): heartbeats carry its state, and the coordinator assigns the partitions.

It revokes partitions before it takes new ones, and reports that in its next heartbeat.
"""

from __future__ import annotations

from typing import Any

from kio.schema.errors import ErrorCode

from yak.sim.group_member import NONE, RETRY_US, GroupMember
from yak.sim.group_wire import GROUP_HEARTBEAT, CoordinatorLink, Place, ms
from yak.sim.request_fields import Fields

BEAT_US = 500_000
JOINING, LEAVING, LEAVING_FOR_NOW = 0, -1, -2


class ConsumerMember(GroupMember):
    """Speaks ConsumerGroupHeartbeat. `generation` is its member epoch."""

    is_classic = False
    _says_all = False

    def _join(self) -> None:
        self._begin_round()
        self.generation = JOINING
        self._beat()

    def _fields(self, epoch: int) -> Fields:
        group = self._group
        # after a lost response the member sends its full state, so that the coordinator does the same
        is_joining = epoch == JOINING or self._says_all
        owned: dict[Any, list[int]] = {}
        for topic, partition in self._own:
            owned.setdefault(group.view.topic_ids[topic], []).append(partition)
        return {
            "group_id": group.group_id,
            "member_id": self.member_id,
            "member_epoch": epoch,
            "instance_id": self._instance,
            "rack_id": None,
            "rebalance_timeout": ms(group.rebalance_ms if is_joining else -1),
            "subscribed_topic_names": group.topics if is_joining else None,
            "server_assignor": None,
            "topic_partitions": [{"topic_id": topic_id, "partitions": each} for topic_id, each in owned.items()],
        }

    def _beat(self) -> None:
        self._send(GROUP_HEARTBEAT, self._fields(self.generation), self._beaten)

    def _beaten(self, answer: Any | None) -> None:
        code = None if answer is None else ErrorCode(answer.error_code)
        if answer is None or code != NONE:
            if code in (ErrorCode.fenced_member_epoch, ErrorCode.unknown_member_id):
                self._fenced()
                return
            if code is not None:
                self._link.heard(code)
            self._says_all = True
            self._in_this_round(RETRY_US, self._beat)
            return
        self._says_all = False
        if self.generation == JOINING:
            self._group.count("joins")
        elif self.generation != answer.member_epoch:
            self._group.count("rebalances")
        self.member_id = answer.member_id or self.member_id
        self.generation = answer.member_epoch
        if answer.assignment is None:
            self._has_all = self._has_all or not self._own
            self._in_this_round(BEAT_US, self._beat)
            return
        places: list[Place] = []
        for topic in answer.assignment.topic_partitions:
            name = self._group.topic_name(topic.topic_id)
            if name is None:
                # created a moment ago: the view does not have its name yet, so refresh and send the full state again
                self._group.view.refresh(lambda: None)
                self._says_all = True
                continue
            places += [(name, each) for each in topic.partitions]
        self._group.books.owns(self._group.group_id, self.generation, self.owner, places)
        self._take(places)

    def _take(self, places: list[Place]) -> None:
        """Revoke first, then take the new partitions."""
        gone = [place for place in self._own if place not in places]

        def given_back() -> None:
            self._give_up([place for place in gone if place in self._own])
            self._has_all = False
            self._read_from_commits([place for place in places if place not in self._own], has_begun)

        def has_begun() -> None:
            self._has_all = True
            self._in_this_round(0 if gone else BEAT_US, self._beat)

        if gone and self._rng.chance(80):
            self._commit_own(given_back)
        else:
            given_back()

    def _say_goodbye(self) -> None:
        epoch = LEAVING if self._instance is None else LEAVING_FOR_NOW
        link = CoordinatorLink(self._group.view, self._rng.fork("leave"), self._group.group_id)
        link.send(GROUP_HEARTBEAT, self._fields(epoch), lambda _answer: link.close())
