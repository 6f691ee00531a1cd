"""The consumer group protocol of KIP-848, in which the coordinator computes the assignment.

The state of a group is the replay of its records. `ConsumerGroup.heartbeat` and the other decisions read the state and
return records. Only `ConsumerGroup.replay` changes the state, both after a decision and while a log is loaded. The
`deadlines` are in no record; every new coordinator restarts them.

    group               the interface: decisions, replay, timers, description
    records             the seven kinds of record, in Kafka's bytes
    state, member       the replayed state; a `Draft` of it shows the effect of a decision before it is written
    deadlines           sessions and timeouts of members
    heartbeat           join, heartbeat, and leave of a static member; `checks` rejects invalid requests
    member_removal      leave, and fence past a deadline
    subscriptions       the topics that members subscribe to; `regexes` is the engine, `topics` the view of the cluster
    targets             the target assignment, computed by one of `assignors`
    current_assignment  the steps of a member towards its target: revoke, wait, assign
    description         the response of ConsumerGroupDescribe
    classic_members     members that still use the classic protocol, whose bytes are in `consumer_protocol`
    upgrade, downgrade  online migration of groups
"""
