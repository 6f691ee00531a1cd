package orders;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.UUID;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Kafka tests as a Java project has them. KAFKA_BOOTSTRAP_SERVERS is the only thing that changes with the cluster. */
@Timeout(60)
class OrdersTest {
    private static final String BOOTSTRAP = setting("KAFKA_BOOTSTRAP_SERVERS", "localhost:9092");
    private static final String YAK_HTTP = setting("YAK_HTTP", "http://localhost:8080");

    private String topic;

    private static String setting(String name, String otherwise) {
        return Optional.ofNullable(System.getenv(name)).orElse(otherwise);
    }

    @BeforeEach
    void createTopic() throws Exception {
        topic = "orders-" + UUID.randomUUID();
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", BOOTSTRAP))) {
            admin.createTopics(List.of(new NewTopic(topic, Optional.of(1), Optional.empty()))).all().get();
        }
    }

    private static KafkaProducer<String, String> producer() {
        Map<String, Object> settings = Map.of("bootstrap.servers", BOOTSTRAP, "acks", "all");
        return new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
    }

    /** Consumes records in a group, and commits them. */
    private List<String> consume(String group, int count) {
        Map<String, Object> settings =
                Map.of("bootstrap.servers", BOOTSTRAP, "group.id", group, "auto.offset.reset", "earliest",
                        "enable.auto.commit", false);
        List<String> values = new ArrayList<>();
        try (var consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(topic));
            while (values.size() < count) {
                consumer.poll(Duration.ofSeconds(1)).forEach(record -> values.add(record.value()));
            }
            consumer.commitSync();
        }
        return values;
    }

    private void send(KafkaProducer<String, String> producer, String... values) throws Exception {
        for (String value : values) {
            producer.send(new ProducerRecord<>(topic, value)).get();
        }
    }

    /** Moves the leadership of the topic's partitions to other brokers, in one call. */
    private void failover() throws Exception {
        HttpRequest request = HttpRequest.newBuilder(URI.create(YAK_HTTP + "/api/failover"))
                .POST(HttpRequest.BodyPublishers.ofString("{\"topic\":\"" + topic + "\"}"))
                .build();
        assertEquals(200, HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString()).statusCode());
    }

    @Test
    void producedRecordsAreReadBack() throws Exception {
        try (var producer = producer()) {
            send(producer, "one", "two", "three");
        }
        assertEquals(List.of("one", "two", "three"), consume(topic, 3));
    }

    @Test
    void groupContinuesAfterItsCommit() throws Exception {
        try (var producer = producer()) {
            send(producer, "one", "two");
            assertEquals(List.of("one", "two"), consume(topic, 2));
            send(producer, "three");
            assertEquals(List.of("three"), consume(topic, 1));
        }
    }

    @Test
    void nothingIsLostInAFailover() throws Exception {
        try (var producer = producer()) {
            send(producer, "before");
            failover();
            send(producer, "after");
        }
        assertEquals(List.of("before", "after"), consume(topic, 2));
    }
}
