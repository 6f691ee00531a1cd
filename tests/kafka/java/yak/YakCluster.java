package yak;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.Collection;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;

/** A cluster of YAK processes, lent by the pool that started this JVM ({@code clusters.py}). */
public final class YakCluster {
    private static final ObjectMapper JSON = new ObjectMapper();

    public final String clusterId;
    /** host:port of each broker, by node id. */
    public final Map<Integer, String> addresses = new TreeMap<>();
    public final Set<Integer> stopped = new TreeSet<>();
    private final int number;
    private boolean isDirty;

    public YakCluster(Collection<Integer> nodes, Map<String, String> configs, Map<Integer, Map<String, String>> brokerConfigs) {
        JsonNode lent = ask(Map.of("do", "lend", "nodes", nodes, "configs", configs, "broker_configs", brokerConfigs));
        number = lent.get("cluster").asInt();
        clusterId = lent.get("cluster_id").asText();
        lent.get("addresses").fields().forEachRemaining(each -> addresses.put(Integer.valueOf(each.getKey()), each.getValue().asText()));
        lent.get("dropped").forEach(each -> ResultWriter.note("dropped", each.asText()));
    }

    public String bootstrap() {
        return String.join(",", addresses.values());
    }

    public int port(int node) {
        String address = addresses.get(node);
        return Integer.parseInt(address.substring(address.lastIndexOf(':') + 1));
    }

    public void stop(int node) {
        check(node);
        if (stopped.add(node))
            ask(Map.of("do", "stop", "cluster", number, "node", node));
    }

    public void start(int node) {
        check(node);
        ask(Map.of("do", "start", "cluster", number, "node", node));
        stopped.remove(node);
    }

    /** The next test gets another cluster: this one was changed in ways that deleting topics and groups does not undo. */
    public void markDirty() {
        isDirty = true;
    }

    public void giveBack() {
        ask(Map.of("do", "give", "cluster", number, "is_dirty", isDirty));
    }

    private void check(int node) {
        if (!addresses.containsKey(node))
            throw new IllegalArgumentException("Unknown brokerId " + node);
    }

    private static JsonNode ask(Map<String, ?> request) {
        try (Socket socket = new Socket(InetAddress.getLoopbackAddress(), Integer.getInteger("yak.pool"))) {
            socket.getOutputStream().write((JSON.writeValueAsString(request) + "\n").getBytes(StandardCharsets.UTF_8));
            BufferedReader reader = new BufferedReader(new InputStreamReader(socket.getInputStream(), StandardCharsets.UTF_8));
            JsonNode answer = JSON.readTree(reader.readLine());
            if (answer.has("error"))
                throw new IllegalStateException("the pool of YAK clusters: " + answer.get("error").asText());
            return answer;
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }
}
