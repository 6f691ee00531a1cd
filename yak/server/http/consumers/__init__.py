"""Consumer groups for those who speak HTTP, as Confluent's REST proxy v2 has them: one librdkafka consumer an instance.

    content_types   what a client sends and wants back
    failures        the proxy's error codes beside our own errors
    settings        the body that makes an instance
    places          bodies that name topics, partitions, offsets, times
    inbox           records that were fetched and not given yet, and where the client stands
    librdkafka      its settings, its log, its errors
    kafka_consumer  one librdkafka consumer, used by one thread at a time
    records         records as JSON or base64
    instances       all instances of this broker: bounds, idle ones, the end
    reading         one read: wait in a thread, notice a client that goes away
    handlers        what answers each route
    schemas         what OpenAPI says of all that

The rules are those of kafka-rest (ConsumersResource.java, KafkaConsumerManager.java, KafkaConsumerState.java); where we
differ, `docs/http.md` says so. An instance lives in the broker that made it, as with the proxy: `base_uri` leads there.
"""
