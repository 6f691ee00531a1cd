"""Groups whose assignment the coordinator computes: the consumer group protocol of KIP-848.

A group is a fold of the records in its log. `ConsumerGroup.heartbeat` and its sisters read the state and return records;
`ConsumerGroup.replay` is the only thing that changes it, the same after a decision and while a log is loaded. What is not
in records (who beat when) is `deadlines`, begun anew by every coordinator.

    group          the face: decisions, replay, timers, what is described
    records, wire  the seven kinds of record, in Kafka's bytes
    state, member  what the records say; a draft of it is where a decision sees its own consequences
    heartbeat      joining, beating, leaving, fencing; `checks` says what a request may not be
    subscriptions  which topics a member means; `regexes` is their engine, `topics` is what is known of topics
    targets        who shall own what, computed by one of `assignors`
    reconciling    one member's way to its target: revoke, wait, take
    describing     what ConsumerGroupDescribe says
    classic_members, upgrading, downgrading, consumer_protocol
                   members that still speak the classic protocol, and groups that change over while they run
"""
