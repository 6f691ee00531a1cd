"""The Kafka client: a thin layer over librdkafka (confluent-kafka)."""
