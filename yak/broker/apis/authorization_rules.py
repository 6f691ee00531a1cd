"""The authorizations that each Kafka API needs, as in Kafka's KafkaApis, ControllerApis and AuthHelper.

The handlers check them, for each resource. This table lists them in one place: docs/kafka-apis.md is written from it,
and a test compares it with each handler's checks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from yak.acls.bindings import Operation, ResourceType

_O, _R = Operation, ResourceType


class Rule(NamedTuple):
    """An operation with a resource. `note` says when it is needed, if not always."""

    operation: Operation
    kind: ResourceType
    note: str = ""


_READ_GROUP = Rule(_O.READ, _R.GROUP)
_DESCRIBE_GROUP = Rule(_O.DESCRIBE, _R.GROUP)
_DESCRIBE_TOPIC = Rule(_O.DESCRIBE, _R.TOPIC)
_READ_TOPIC = Rule(_O.READ, _R.TOPIC)
_WRITE_TRANSACTION = Rule(_O.WRITE, _R.TRANSACTIONAL_ID)
_DESCRIBE_CLUSTER, _ALTER_CLUSTER = Rule(_O.DESCRIBE, _R.CLUSTER), Rule(_O.ALTER, _R.CLUSTER)
_CLUSTER_ACTION = Rule(_O.CLUSTER_ACTION, _R.CLUSTER)
_BETWEEN_BROKERS = (Rule(_O.CLUSTER_ACTION, _R.CLUSTER, "brokers only"),)


def _of_configs(operation: Operation) -> tuple[Rule, ...]:
    of_cluster = Rule(operation, _R.CLUSTER, "of brokers, loggers, client metrics")
    return Rule(operation, _R.TOPIC), Rule(operation, _R.GROUP), of_cluster


RULES: Final[Mapping[int, tuple[Rule, ...]]] = {
    0: (Rule(_O.WRITE, _R.TOPIC), Rule(_O.WRITE, _R.TRANSACTIONAL_ID, "with a transactional batch")),
    1: (_READ_TOPIC, Rule(_O.CLUSTER_ACTION, _R.CLUSTER, "followers: brokers only")),
    2: (_DESCRIBE_TOPIC,),
    3: (
        _DESCRIBE_TOPIC,
        Rule(_O.CREATE, _R.TOPIC, "creation by name"),
        Rule(_O.CREATE, _R.CLUSTER, "alternative"),
        Rule(_O.DESCRIBE, _R.CLUSTER, "the cluster's operations"),
    ),
    8: (_READ_GROUP, _READ_TOPIC),
    9: (_DESCRIBE_GROUP, _DESCRIBE_TOPIC),
    10: (Rule(_O.DESCRIBE, _R.GROUP, "a group"), Rule(_O.DESCRIBE, _R.TRANSACTIONAL_ID, "a transactional id")),
    11: (_READ_GROUP,),
    12: (_READ_GROUP,),
    13: (_READ_GROUP,),
    14: (_READ_GROUP,),
    15: (_DESCRIBE_GROUP,),
    16: (Rule(_O.DESCRIBE, _R.CLUSTER, "all groups"), Rule(_O.DESCRIBE, _R.GROUP, "otherwise, each group")),
    17: (),
    18: (),
    19: (
        Rule(_O.CREATE, _R.CLUSTER, "any topic"),
        Rule(_O.CREATE, _R.TOPIC, "alternative"),
        Rule(_O.DESCRIBE_CONFIGS, _R.TOPIC, "configs in the response"),
    ),
    20: (Rule(_O.DELETE, _R.TOPIC), Rule(_O.DESCRIBE, _R.TOPIC, "by name"), Rule(_O.DELETE, _R.CLUSTER, "any topic")),
    21: (Rule(_O.DELETE, _R.TOPIC),),
    22: (
        Rule(_O.WRITE, _R.TRANSACTIONAL_ID, "transactional"),
        Rule(_O.WRITE, _R.TOPIC, "not transactional: any topic"),
        Rule(_O.IDEMPOTENT_WRITE, _R.CLUSTER, "alternative"),
    ),
    23: (_DESCRIBE_TOPIC, _CLUSTER_ACTION._replace(note="alternative")),
    24: (
        Rule(_O.WRITE, _R.TRANSACTIONAL_ID, "before v4"),
        Rule(_O.WRITE, _R.TOPIC, "before v4"),
        Rule(_O.CLUSTER_ACTION, _R.CLUSTER, "since v4"),
    ),
    25: (_WRITE_TRANSACTION, _READ_GROUP),
    26: (_WRITE_TRANSACTION,),
    27: (_ALTER_CLUSTER, _CLUSTER_ACTION._replace(note="alternative")),
    28: (_WRITE_TRANSACTION, _READ_GROUP, _READ_TOPIC),
    29: (_DESCRIBE_CLUSTER,),
    30: (_ALTER_CLUSTER,),
    31: (_ALTER_CLUSTER,),
    32: _of_configs(_O.DESCRIBE_CONFIGS),
    33: _of_configs(_O.ALTER_CONFIGS),
    34: (_ALTER_CLUSTER,),
    35: (_DESCRIBE_CLUSTER,),
    36: (),
    37: (Rule(_O.ALTER, _R.TOPIC),),
    38: (Rule(_O.CREATE_TOKENS, _R.USER, "for another owner"),),
    39: (),
    40: (),
    41: (
        Rule(_O.DESCRIBE, _R.DELEGATION_TOKEN, "each one of another owner in the response"),
        Rule(_O.DESCRIBE_TOKENS, _R.USER, "alternative"),
    ),
    42: (Rule(_O.DELETE, _R.GROUP),),
    43: (_ALTER_CLUSTER,),
    44: _of_configs(_O.ALTER_CONFIGS),
    45: (_ALTER_CLUSTER,),
    46: (_DESCRIBE_CLUSTER,),
    47: (Rule(_O.DELETE, _R.GROUP), _READ_TOPIC),
    48: (Rule(_O.DESCRIBE_CONFIGS, _R.CLUSTER),),
    49: (Rule(_O.ALTER_CONFIGS, _R.CLUSTER),),
    50: (_DESCRIBE_CLUSTER,),
    51: (_ALTER_CLUSTER,),
    52: _BETWEEN_BROKERS,
    53: _BETWEEN_BROKERS,
    54: _BETWEEN_BROKERS,
    55: (_DESCRIBE_CLUSTER,),
    57: (_ALTER_CLUSTER,),
    58: _BETWEEN_BROKERS,
    59: _BETWEEN_BROKERS,
    60: (Rule(_O.DESCRIBE, _R.CLUSTER, "the cluster's operations"),),
    61: (_READ_TOPIC,),
    64: (_ALTER_CLUSTER,),
    65: (Rule(_O.DESCRIBE, _R.TRANSACTIONAL_ID), Rule(_O.DESCRIBE, _R.TOPIC, "each topic in the response")),
    66: (Rule(_O.DESCRIBE, _R.TRANSACTIONAL_ID, "each one in the response"),),
    68: (_READ_GROUP, Rule(_O.DESCRIBE, _R.TOPIC, "each subscribed topic")),
    69: (_DESCRIBE_GROUP, Rule(_O.DESCRIBE, _R.TOPIC, "each topic in the response")),
    74: (Rule(_O.DESCRIBE_CONFIGS, _R.CLUSTER),),
    75: (_DESCRIBE_TOPIC,),
    80: (_ALTER_CLUSTER,),
    81: (_ALTER_CLUSTER,),
    82: _BETWEEN_BROKERS,
}
"""By API key; empty for the APIs that every client may use."""
