package org.apache.kafka.common.test;

import java.lang.reflect.Field;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.TreeMap;
import kafka.server.BrokerServer;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.metadata.BrokerState;
import sun.misc.Unsafe;
import yak.InProcessOnly;
import yak.YakCluster;

/** Stands in for Kafka's class of this name, behind the EmbeddedKafkaClusters of Kafka Streams and Kafka Connect. */
public class KafkaClusterTestKit implements AutoCloseable {
    public static final boolean STARTS_YAK = true;

    /** What those two use of Kafka's builder. */
    public static class Builder {
        private final TestKitNodes nodes;
        private final Map<String, String> configs = new TreeMap<>();

        public Builder(TestKitNodes nodes) {
            this.nodes = nodes;
        }

        public Builder setConfigProp(String name, Object value) {
            configs.put(name, String.valueOf(value));
            return this;
        }

        public KafkaClusterTestKit build() {
            return new KafkaClusterTestKit(nodes, configs);
        }
    }

    private final TestKitNodes nodes;
    private final Map<String, String> configs;
    private final MockFaultHandler faults = new MockFaultHandler("yak");
    private final Map<Integer, BrokerServer> brokers = new TreeMap<>();
    private YakCluster cluster;

    private KafkaClusterTestKit(TestKitNodes nodes, Map<String, String> configs) {
        this.nodes = nodes;
        this.configs = configs;
    }

    public void format() {
    }

    public void startup() {
        Map<Integer, Map<String, String>> brokerConfigs = new TreeMap<>();
        nodes.brokerNodes().forEach((node, each) -> brokerConfigs.put(node, each.propertyOverrides()));
        cluster = new YakCluster(nodes.brokerNodes().keySet(), configs, brokerConfigs);
        cluster.addresses.keySet().forEach(node -> brokers.put(node, YakBroker.of(cluster, node)));
    }

    /** The pool lends brokers that are ready. */
    public void waitForReadyBrokers() {
    }

    public Admin admin() {
        return admin(Map.of());
    }

    public Admin admin(Map<String, Object> given) {
        Map<String, Object> configs = new HashMap<>(given);
        configs.putIfAbsent("bootstrap.servers", bootstrapServers());
        return Admin.create(configs);
    }

    public String bootstrapServers() {
        return cluster.bootstrap();
    }

    public Map<Integer, BrokerServer> brokers() {
        return brokers;
    }

    public TestKitNodes nodes() {
        return nodes;
    }

    public MockFaultHandler fatalFaultHandler() {
        return faults;
    }

    public MockFaultHandler nonFatalFaultHandler() {
        return faults;
    }

    @Override
    public void close() {
        if (cluster != null)
            cluster.giveBack();
        cluster = null;
    }

    /** A BrokerServer without an inside: made without its constructor, which would start Kafka. */
    private static final class YakBroker extends BrokerServer {
        private YakCluster cluster;
        private int node;

        private YakBroker() {
            super(null);
        }

        static BrokerServer of(YakCluster cluster, int node) {
            try {
                Field field = Unsafe.class.getDeclaredField("theUnsafe");
                field.setAccessible(true);
                YakBroker broker = (YakBroker) ((Unsafe) field.get(null)).allocateInstance(YakBroker.class);
                broker.cluster = cluster;
                broker.node = node;
                return broker;
            } catch (ReflectiveOperationException error) {
                throw new InProcessOnly("BrokerServer: " + error);
            }
        }

        @Override
        public void startup() {
            cluster.start(node);
        }

        @Override
        public void shutdown() {
            cluster.stop(node);
        }

        @Override
        public void shutdown(Duration timeout) {
            cluster.stop(node);
        }

        @Override
        public void awaitShutdown() {
        }

        @Override
        public boolean isShutdown() {
            return cluster.stopped.contains(node);
        }

        @Override
        public BrokerState brokerState() {
            return isShutdown() ? BrokerState.NOT_RUNNING : BrokerState.RUNNING;
        }

        @Override
        public String clusterId() {
            return cluster.clusterId;
        }

        @Override
        public int boundPort(ListenerName listener) {
            return cluster.port(node);
        }
    }
}
