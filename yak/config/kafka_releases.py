"""The highest version of each API in each Kafka release, for `yak.as.kafka`.

Written by `docs/generate_kafka_releases.py` from the versions that franz-go (pkg/kversion) follows in Kafka's commits,
and from the answers of brokers of newer releases. The lowest versions are not here: no release from 2.0 on needs a
higher one than YAK has.
"""

from typing import Final

RELEASES: Final = (
    "2.0", "2.1", "2.2", "2.3", "2.4", "2.5", "2.6", "2.7", "2.8", "3.0",
    "3.1", "3.2", "3.3", "3.4", "3.5", "3.6", "3.7", "3.8", "3.9", "4.0",
    "4.1", "4.2", "4.3", "4.4",
)  # fmt: skip
"""The known releases, oldest first."""

_MAX_VERSIONS: Final = {
    0: "2.0:6 2.1:7 2.4:8 2.8:9 3.7:10 3.8:11 4.0:12 4.1:13",  # Produce
    1: "2.0:8 2.1:10 2.3:11 2.7:12 3.1:13 3.5:15 3.7:16 3.9:17 4.1:18",  # Fetch
    2: "2.0:3 2.1:4 2.2:5 2.8:6 3.0:7 3.5:8 3.9:9 4.0:10 4.2:11",  # ListOffsets
    3: "2.0:6 2.1:7 2.3:8 2.4:9 2.8:11 3.1:12 4.0:13",  # Metadata
    8: "2.0:4 2.1:6 2.3:7 2.4:8 3.7:9 4.2:10",  # OffsetCommit
    9: "2.0:4 2.1:5 2.4:6 2.5:7 3.0:8 3.7:9 4.2:10",  # OffsetFetch
    10: "2.0:2 2.4:3 3.0:4 3.8:5 3.9:6",  # FindCoordinator
    11: "2.0:3 2.2:4 2.3:5 2.4:6 2.5:7 3.2:9",  # JoinGroup
    12: "2.0:2 2.3:3 2.4:4",  # Heartbeat
    13: "2.0:2 2.4:4 3.2:5",  # LeaveGroup
    14: "2.0:2 2.3:3 2.4:4 2.5:5",  # SyncGroup
    15: "2.0:2 2.3:3 2.4:5 4.0:6",  # DescribeGroups
    16: "2.0:2 2.4:3 2.6:4 3.8:5",  # ListGroups
    17: "2.0:1",  # SaslHandshake
    18: "2.0:2 2.4:3 3.9:4 4.4:5",  # ApiVersions
    19: "2.0:3 2.4:5 2.7:6 2.8:7",  # CreateTopics
    20: "2.0:2 2.1:3 2.4:4 2.7:5 2.8:6",  # DeleteTopics
    21: "2.0:1 2.6:2",  # DeleteRecords
    22: "2.0:1 2.4:2 2.5:3 2.7:4 3.8:5",  # InitProducerId
    23: "2.0:1 2.1:2 2.3:3 2.8:4",  # OffsetForLeaderEpoch
    24: "2.0:1 2.7:2 2.8:3 3.6:4 3.8:5",  # AddPartitionsToTxn
    25: "2.0:1 2.7:2 2.8:3 3.8:4",  # AddOffsetsToTxn
    26: "2.0:1 2.7:2 2.8:3 3.8:4 4.0:5",  # EndTxn
    27: "2.0:0 2.8:1 4.2:2",  # WriteTxnMarkers
    28: "2.0:1 2.1:2 2.5:3 3.8:4 4.0:5 4.4:6",  # TxnOffsetCommit
    29: "2.0:1 2.5:2 3.3:3",  # DescribeAcls
    30: "2.0:1 2.5:2 3.3:3",  # CreateAcls
    31: "2.0:1 2.5:2 3.3:3",  # DeleteAcls
    32: "2.0:2 2.6:3 2.8:4",  # DescribeConfigs
    33: "2.0:1 2.8:2",  # AlterConfigs
    34: "2.0:1 2.8:2",  # AlterReplicaLogDirs
    35: "2.0:1 2.6:2 3.2:3 3.3:4 4.3:5",  # DescribeLogDirs
    36: "2.0:0 2.2:1 2.5:2",  # SaslAuthenticate
    37: "2.0:1 2.5:2 2.7:3",  # CreatePartitions
    38: "2.0:1 2.4:2 3.3:3",  # CreateDelegationToken
    39: "2.0:1 2.5:2",  # RenewDelegationToken
    40: "2.0:1 2.5:2",  # ExpireDelegationToken
    41: "2.0:1 2.5:2 3.3:3",  # DescribeDelegationToken
    42: "2.0:1 2.4:2 4.4:3",  # DeleteGroups
    43: "2.2:0 2.4:2",  # ElectLeaders
    44: "2.3:0 2.4:1",  # IncrementalAlterConfigs
    45: "2.4:0 4.1:1",  # AlterPartitionReassignments
    46: "2.4:0",  # ListPartitionReassignments
    47: "2.4:0",  # OffsetDelete
    48: "2.6:0 2.8:1",  # DescribeClientQuotas
    49: "2.6:0 2.8:1",  # AlterClientQuotas
    50: "2.7:0",  # DescribeUserScramCredentials
    51: "2.7:0",  # AlterUserScramCredentials
    55: "3.3:1 3.9:2",  # DescribeQuorum
    57: "2.7:0 3.3:1 4.0:2",  # UpdateFeatures
    60: "2.8:0 3.7:1 4.0:2",  # DescribeCluster
    61: "2.8:0",  # DescribeProducers
    64: "3.3:0",  # UnregisterBroker
    65: "3.0:0",  # DescribeTransactions
    66: "3.0:0 3.8:1 4.1:2",  # ListTransactions
    68: "3.7:0 4.0:1",  # ConsumerGroupHeartbeat
    69: "3.8:0 4.0:1",  # ConsumerGroupDescribe
    74: "3.7:0 4.1:1",  # ListConfigResources
    75: "3.8:0",  # DescribeTopicPartitions
    80: "3.9:0 4.2:1",  # AddRaftVoter
    81: "3.9:0",  # RemoveRaftVoter
}
"""By API key, the releases in which the highest version changed: `2.0:6 2.1:7`. An API without a release is in none."""


def max_versions(release: str) -> dict[int, int]:
    """The highest version of each API that a broker of this release answers, by API key. Raises ValueError."""
    last = RELEASES.index(release)
    found: dict[int, int] = {}
    for key, changes in _MAX_VERSIONS.items():
        for since, _, version in (change.partition(":") for change in changes.split()):
            if RELEASES.index(since) <= last:
                found[key] = int(version)
    return found
