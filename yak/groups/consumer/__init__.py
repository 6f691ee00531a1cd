"""Groups whose assignment the coordinator computes: the consumer group protocol of KIP-848."""
