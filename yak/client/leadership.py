"""Moves leaders in order, with two requests; `yak.cluster.leadership_moves` plans the moves."""

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from yak.client.elections import elect_preferred_leaders
from yak.client.reassignments import reassign
from yak.client.replica_offsets import read_metadata
from yak.cluster.leadership_moves import Move, Plan, plan_moves
from yak.ids import NodeId, TopicPartition
from yak.view.partition_replicas import NO_LEADER

if TYPE_CHECKING:
    from yak.client.admin import Admin

__all__ = ["Move", "Plan", "carry_out", "plan_moves", "wait_until_led"]

POLL_SECONDS: Final = 0.01


def carry_out(admin: "Admin", moves: Sequence[Move], *, timeout_s: float) -> dict[TopicPartition, str]:
    """Move leaders and wait until the new leaders lead; return the failed ones, with the reason.

    Raises YakError when a request as a whole fails.
    """
    orders = {each.partition: each.order for each in moves if each.order}
    failed: dict[TopicPartition, str] = {}
    if orders:
        found = read_metadata(admin.servers, timeout_s=timeout_s)
        controller = found.brokers.get(found.controller_id) or next(iter(found.brokers.values()))
        failed = reassign(controller, orders, timeout_s=timeout_s)
    wanted = [each for each in moves if each.partition not in failed]
    if not wanted:
        return failed
    keys = [each.partition for each in wanted]
    for partition, reason in elect_preferred_leaders(admin.metadata(), keys, timeout_s=timeout_s).items():
        if reason is not None:
            failed[partition] = reason
    return failed | wait_until_led(
        admin.servers, {each.partition: each.to for each in wanted if each.partition not in failed}, timeout_s=timeout_s
    )


def wait_until_led(
    servers: str, leaders: Mapping[TopicPartition, NodeId], *, timeout_s: float
) -> dict[TopicPartition, str]:
    """Wait until each partition is led by its broker; on a timeout return the others, with their present leaders."""
    deadline = time.monotonic() + timeout_s
    while True:
        found = read_metadata(servers, timeout_s=timeout_s)
        now = {TopicPartition(each.topic, each.partition): each.leader for each in found.partitions}
        late = {key: now.get(key, NO_LEADER) for key, node in leaders.items() if now.get(key) != node}
        if not late:
            return {}
        if time.monotonic() > deadline:
            return {key: f"{leader} still leads it after {timeout_s:.0f} s" for key, leader in late.items()}
        time.sleep(POLL_SECONDS)
