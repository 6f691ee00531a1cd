import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.UncheckedIOException;
import java.time.Duration;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.AuthorizationException;
import org.apache.kafka.common.errors.InterruptException;
import org.apache.kafka.common.errors.OutOfOrderSequenceException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * One transactional producer and one consumer. It performs the orders of its standard input, and prints what each did.
 *
 * <p>Orders and answers are JSON lines. Before the answer it may print delivery reports, and a rebalance: then it performs
 * further orders until "resume", as a listener would.
 */
public final class TransactionalClient implements ConsumerRebalanceListener {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Set<String> MAY_BE_REPEATED = Set.of("init", "commit", "abort", "committed");

    private final BufferedReader orders = new BufferedReader(new InputStreamReader(System.in));
    private final PrintStream answers = System.out;
    private KafkaProducer<byte[], byte[]> producer;
    private KafkaConsumer<byte[], byte[]> consumer;

    public static void main(String[] arguments) throws IOException {
        TransactionalClient client = new TransactionalClient();
        System.setOut(System.err); // for Kafka's log
        client.performOrders();
        Runtime.getRuntime().halt(0);
    }

    /** Until "resume", or the end of the input. */
    private void performOrders() throws IOException {
        for (String line = orders.readLine(); line != null; line = orders.readLine()) {
            JsonNode order = JSON.readTree(line);
            String name = order.get("do").asText();
            if (name.equals("resume")) {
                return;
            }
            ObjectNode answer = JSON.createObjectNode();
            try {
                perform(name, order, answer);
            } catch (RuntimeException error) {
                boolean timedOut = error instanceof TimeoutException || error instanceof InterruptException;
                answer = errorOf(error).put("retriable", timedOut && MAY_BE_REPEATED.contains(name));
            }
            print(answer);
        }
    }

    private void perform(String name, JsonNode order, ObjectNode answer) {
        switch (name) {
            case "new producer" -> {
                if (producer != null) {
                    producer.close(Duration.ZERO); // leaves its transaction to the next one
                }
                producer = new KafkaProducer<>(config(order), new ByteArraySerializer(), new ByteArraySerializer());
            }
            case "init" -> producer.initTransactions();
            case "begin" -> producer.beginTransaction();
            case "produce" -> produce(order);
            case "flush" -> producer.flush();
            case "offsets" -> producer.sendOffsetsToTransaction(offsets(order), consumer.groupMetadata());
            case "commit" -> producer.commitTransaction();
            case "abort" -> producer.abortTransaction();
            case "subscribe" -> {
                consumer = new KafkaConsumer<>(config(order), new ByteArrayDeserializer(), new ByteArrayDeserializer());
                consumer.subscribe(Arrays.asList(JSON.convertValue(order.get("topics"), String[].class)), this);
            }
            case "poll" -> poll(Duration.ofMillis(order.get("ms").asLong()), answer);
            case "assignment" -> put(answer, consumer.assignment());
            case "committed" -> committed(offsets(order).keySet(), answer);
            case "seek" -> offsets(order).forEach(consumer::seek);
            case "seek to beginning" -> { // without a partition it would be all of them
                offsets(order).keySet().forEach(each -> consumer.seekToBeginning(List.of(each)));
            }
            case "close" -> consumer.close();
            default -> throw new IllegalArgumentException(name);
        }
    }

    private void produce(JsonNode order) {
        byte[] key = bytes(order.get("key"));
        byte[] value = bytes(order.get("value"));
        long number = order.get("number").asLong();
        String topic = order.get("topic").asText();
        producer.send(
                new ProducerRecord<>(topic, order.get("partition").asInt(), key, value),
                (RecordMetadata found, Exception error) ->
                        print((error == null ? JSON.createObjectNode().put("offset", found.offset()) : errorOf(error))
                                .put("delivered", number)));
    }

    private void poll(Duration timeout, ObjectNode answer) {
        ConsumerRecords<byte[], byte[]> found = consumer.poll(timeout);
        ArrayNode records = answer.putArray("records");
        for (ConsumerRecord<byte[], byte[]> each : found) {
            records.addArray().add(each.topic()).add(each.partition()).add(each.offset()).add(each.value());
        }
        ArrayNode next = answer.putArray("next");
        found.nextOffsets()
                .forEach((place, each) -> next.addArray().add(place.topic()).add(place.partition()).add(each.offset()));
    }

    private void committed(Set<TopicPartition> partitions, ObjectNode answer) {
        ArrayNode found = answer.putArray("offsets");
        consumer.committed(partitions).forEach((place, each) ->
                found.addArray().add(place.topic()).add(place.partition()).add(each == null ? -1 : each.offset()));
    }

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
        rebalanced("assign", partitions);
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
        rebalanced("revoke", partitions);
    }

    @Override
    public void onPartitionsLost(Collection<TopicPartition> partitions) {
        rebalanced("lost", partitions);
    }

    private void rebalanced(String how, Collection<TopicPartition> partitions) {
        print(put(JSON.createObjectNode().put("rebalanced", how), partitions));
        try {
            performOrders();
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    private void print(ObjectNode line) {
        answers.println(line); // one call, which locks: delivery reports come from another thread
    }

    private static ObjectNode put(ObjectNode answer, Collection<TopicPartition> partitions) {
        ArrayNode found = answer.putArray("partitions");
        partitions.forEach(each -> found.addArray().add(each.topic()).add(each.partition()));
        return answer;
    }

    /** After a fatal error a program closes the producer, by the documentation of KafkaProducer. */
    private static ObjectNode errorOf(Exception error) {
        boolean isFatal = error instanceof ProducerFencedException
                || error instanceof OutOfOrderSequenceException
                || error instanceof AuthorizationException
                || error instanceof IllegalStateException;
        return JSON.createObjectNode()
                .put("error", Errors.forException(error).code())
                .put("words", error.toString())
                .put("fatal", isFatal);
    }

    private static Properties config(JsonNode order) {
        return JSON.convertValue(order.get("config"), Properties.class);
    }

    private static Map<TopicPartition, OffsetAndMetadata> offsets(JsonNode order) {
        Map<TopicPartition, OffsetAndMetadata> found = new HashMap<>();
        for (JsonNode each : order.get("offsets")) {
            TopicPartition place = new TopicPartition(each.get(0).asText(), each.get(1).asInt());
            found.put(place, new OffsetAndMetadata(each.get(2).asLong()));
        }
        return found;
    }

    private static byte[] bytes(JsonNode node) {
        try {
            return node.isNull() ? null : node.binaryValue();
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }
}
