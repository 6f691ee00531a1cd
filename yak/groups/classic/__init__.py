"""The classic group protocol: members join, one of them assigns, all are told, and each change of the members begins it anew.

The rules are those of Kafka's group coordinator (GroupMetadataManager.java and ClassicGroup.java).
"""
