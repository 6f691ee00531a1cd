"""Consumer groups over HTTP, like Confluent's REST proxy v2: one librdkafka consumer for each instance.

    failures          the proxy's error codes beside our own errors
    bodies            content types, and bodies with their OpenAPI schemas: settings, topics, partitions, offsets
    kafka_consumer    one librdkafka consumer, its buffered records and positions, used by one thread at a time
    instances         all instances of this broker: limits, expiry, closing
    records           one read: wait in a thread, detect a disconnect, records as JSON or base64

The rules are those of kafka-rest (ConsumersResource.java, KafkaConsumerManager.java, KafkaConsumerState.java);
`docs/http.md` lists the differences. As with the proxy, an instance exists only in the broker that created it:
`base_uri` leads there.
"""
