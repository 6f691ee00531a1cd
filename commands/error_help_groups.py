"""Explains the errors of consumer groups. Alphabetical."""

from yak.commands.error_explanation import Explanation, explain

GROUPS: dict[str, Explanation] = {
    "bad-group-id": explain(
        "The group id is invalid.",
        "A group id is not empty, and not longer than the broker allows.",
        "yak groups list",
    ),
    "group-active": explain(
        "The group has members, so its offsets were not moved and it was not deleted.",
        "Members keep their positions and would overwrite the new offsets (NON_EMPTY_GROUP). A killed member counts "
        "until its session expires.",
        "stop the members, and retry",
        "yak groups members GROUP",
    ),
    "group-full": explain(
        "The group is full.",
        "The broker's config group.max.size limits its members.",
        "yak groups members GROUP",
        "stop a member, or raise group.max.size",
    ),
    "group-protocol": explain(
        "The group's members share no assignment strategy with this one, or are not consumers.",
        "All members must support one and the same strategy. yak consume has range and roundrobin; a group may also "
        "be of another type, such as that of Kafka Connect's workers.",
        "yak groups describe GROUP",
        "use another group",
    ),
    "group-subscribed": explain(
        "Offsets of a topic were not deleted: a member of the group is subscribed to it.",
        "It would commit them again (GROUP_SUBSCRIBED_TO_TOPIC).",
        "yak groups members GROUP -o wide",
        "stop the members that read the topic, and try again",
    ),
    "instance-taken": explain(
        "Another member has this group.instance.id.",
        "The member that joined last owns the instance id. The earlier one is fenced.",
        "use a different group.instance.id for each member",
    ),
    "no-coordinator": explain(
        "The group has no coordinator now.",
        "It is the leader of the group's partition of __consumer_offsets. That partition has no leader, is moving, is "
        "still being read after a failover, or cannot be written because too few replicas are in sync. "
        "Transactional producers get the same error, because YAK does not support transactions.",
        "yak isr __consumer_offsets --unavailable",
        "allow more time with --timeout 30s",
    ),
    "not-committed": explain(
        "The offsets of printed records were not committed.",
        "The coordinator accepted no commit within the time-out. The next member with these partitions prints "
        "those records again. None is lost.",
        "yak groups describe GROUP",
        "yak isr __consumer_offsets --unavailable",
    ),
    "nothing-committed": explain(
        "There is no committed offset to move.",
        "--all-topics means all topics with a committed offset of the group.",
        "yak groups reset GROUP --topic TOPIC --to-earliest",
    ),
    "offsets-file": explain(
        "The file with offsets cannot be used.",
        "Lines are TOPIC,PARTITION,OFFSET or GROUP,TOPIC,PARTITION,OFFSET; or the first line names the columns, "
        "as in the CSV that yak groups prints.",
        "yak groups describe GROUP -o csv",
    ),
    "unknown-group": explain(
        "No group has that name.",
        "A group exists once a consumer has joined it or committed for it. It is deleted when it has neither members nor "
        "offsets. Offsets expire after offsets.retention.minutes without a commit.",
        "yak groups list",
    ),
}
