"""Explains the errors of consumer groups. Alphabetical."""

from yak.commands.error_explanation import Explanation, explain

GROUPS: dict[str, Explanation] = {
    "bad-group-id": explain(
        "The name cannot be a group's.",
        "A group's name is not empty, and not longer than the broker allows.",
        "yak groups list",
    ),
    "group-active": explain(
        "The group has members, so its offsets were not moved and it was not deleted.",
        "Members remember where they are: they would go on from there, and commit over what was set "
        "(NON_EMPTY_GROUP). A member that was killed counts until its session ends.",
        "stop the members, and try again",
        "yak groups members GROUP",
    ),
    "group-full": explain(
        "The group takes no more members.",
        "The broker's config group.max.size bounds them.",
        "yak groups members GROUP",
        "stop a member, or raise group.max.size",
    ),
    "group-protocol": explain(
        "The group's members have no assignment strategy in common with this one, or are no consumers.",
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
        "A static member's name belongs to the one that joined last; the one before is fenced for good.",
        "give each member a group.instance.id of its own",
    ),
    "no-coordinator": explain(
        "The group has no coordinator now.",
        "It is the leader of the group's partition of __consumer_offsets. That partition has no leader, is moving, is "
        "still being read after a failover, or cannot be written because too few replicas are in sync. "
        "Transactional producers get the same answer, because YAK serves no transactions.",
        "yak isr __consumer_offsets --unavailable",
        "give it more time with --timeout 30s",
    ),
    "not-committed": explain(
        "Records were printed whose offsets could not be committed.",
        "The coordinator took no commit within the time-out, so the next member that reads these partitions prints "
        "those records again. None is lost.",
        "yak groups describe GROUP",
        "yak isr __consumer_offsets --unavailable",
    ),
    "nothing-committed": explain(
        "There is no committed offset to move.",
        "--all-topics means the topics of which the group committed something.",
        "yak groups reset GROUP --topic TOPIC --to-earliest",
    ),
    "offsets-file": explain(
        "The file with offsets cannot be used.",
        "Lines are TOPIC,PARTITION,OFFSET or GROUP,TOPIC,PARTITION,OFFSET; or the first line names the columns, "
        "as in the CSV that yak groups prints.",
        "yak groups describe GROUP -o csv",
    ),
    "unknown-group": explain(
        "There is no group of that name.",
        "A group is there when a consumer joined it or committed for it. It goes when it has neither members nor "
        "offsets; offsets expire after offsets.retention.minutes without a commit.",
        "yak groups list",
    ),
}
