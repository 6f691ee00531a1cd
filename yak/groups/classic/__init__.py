"""The classic group protocol: members join, the leader assigns, and every change of the membership rebalances.

The rules are those of Kafka's group coordinator (GroupMetadataManager.java and ClassicGroup.java).
"""
