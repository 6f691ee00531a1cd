"""The Kafka client side, thin over librdkafka (confluent-kafka)."""
