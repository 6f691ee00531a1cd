"""Fault injection: rules that make a broker answer clients with errors, late, or not at all, for tests of Kafka clients.

rule            one rule, as a test writes it, and its checks
rules           the rules of a broker: which of them a request matches, counted
rows            the topics and partitions of requests and answers: refuse, stamp, split and merge them

The terms are those of Kafka's own fault proxy (KAFKA-21074). `yak.broker.fault_injection` applies the rules to
requests, `yak.replication` those of replicas. Everything here is values: no broker, no clock.
"""

from typing import Final

COMMAND: Final = b"yak.faults "
"""Begins the data of an Envelope request that reads or changes the rules; JSON follows (`yak.client.faults`)."""
