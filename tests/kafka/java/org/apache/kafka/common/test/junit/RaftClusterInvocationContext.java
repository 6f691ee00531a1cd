package org.apache.kafka.common.test.junit;

import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.ExecutionException;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import kafka.server.BrokerServer;
import kafka.server.ControllerServer;
import kafka.server.KafkaBroker;
import kafka.server.KafkaConfig;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListTopicsOptions;
import org.apache.kafka.clients.consumer.GroupProtocol;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.test.ClusterInstance;
import org.apache.kafka.common.test.api.ClusterConfig;
import org.apache.kafka.common.test.api.Type;
import org.apache.kafka.server.authorizer.Authorizer;
import org.apache.kafka.server.fault.FaultHandlerException;
import org.apache.kafka.test.TestUtils;
import org.junit.jupiter.api.extension.AfterEachCallback;
import org.junit.jupiter.api.extension.AfterTestExecutionCallback;
import org.junit.jupiter.api.extension.BeforeEachCallback;
import org.junit.jupiter.api.extension.ConditionEvaluationResult;
import org.junit.jupiter.api.extension.ExecutionCondition;
import org.junit.jupiter.api.extension.Extension;
import org.junit.jupiter.api.extension.TestTemplateInvocationContext;
import org.mockito.Mockito;
import yak.BrokerViews;
import yak.InProcessOnly;
import yak.YakCluster;

/** Stands in for Kafka's class of this name, behind {@code @ClusterTest}: the same ClusterInstance over YAK's processes. */
public class RaftClusterInvocationContext implements TestTemplateInvocationContext {
    public static final boolean STARTS_YAK = true;
    private static final long METADATA_MS = 60_000;
    private static final long SETTLE_MS = 200;
    /** Of the first controller in Kafka's test kit. */
    private static final int CONTROLLER_ID = 3000;

    private final String baseDisplayName;
    private final ClusterConfig config;
    private final boolean isCombined;

    public RaftClusterInvocationContext(String baseDisplayName, ClusterConfig config, boolean isCombined) {
        this.baseDisplayName = baseDisplayName;
        this.config = config;
        this.isCombined = isCombined;
    }

    @Override
    public String getDisplayName(int index) {
        return String.format("%s [%d] %s", baseDisplayName, index, String.join(",", config.displayTags()));
    }

    @Override
    public List<Extension> getAdditionalExtensions() {
        Instance instance = new Instance();
        ExecutionCondition condition = context -> {
            if (isCombined && config.clusterTypes().contains(Type.KRAFT))
                return ConditionEvaluationResult.disabled("combined mode: the test also runs with separate roles, which is the same for YAK");
            if (config.brokerSecurityProtocol() != SecurityProtocol.PLAINTEXT)
                return ConditionEvaluationResult.disabled("security: " + config.brokerSecurityProtocol());
            return ConditionEvaluationResult.enabled("");
        };
        return List.of(
            condition,
            (BeforeEachCallback) context -> {
                if (config.isAutoStart())
                    instance.start();
            },
            (AfterTestExecutionCallback) context -> {
                if (instance.started() && context.getExecutionException().isPresent())
                    instance.cluster.markDirty();
            },
            (AfterEachCallback) context -> instance.stop(),
            new ClusterInstanceParameterResolver(instance));
    }

    private class Instance implements ClusterInstance {
        private YakCluster cluster;
        private boolean isStopped;
        private final Map<Integer, KafkaBroker> brokers = new TreeMap<>();
        private final BrokerViews views = new BrokerViews(() -> cluster, () -> isStopped);

        @Override
        public void start() {
            if (cluster != null)
                return;
            cluster = new YakCluster(IntStream.range(0, config.numBrokers()).boxed().toList(), config.serverProperties(), brokerConfigs());
            cluster.addresses.keySet().forEach(node -> brokers.put(node, Mockito.mock(BrokerServer.class, views.broker(node, () -> kafkaConfig(node)))));
        }

        private Map<Integer, Map<String, String>> brokerConfigs() {
            Map<Integer, Map<String, String>> configs = new HashMap<>(config.perServerOverrideProperties());
            if (config.numDisksPerBroker() > 1)
                for (int node = 0; node < config.numBrokers(); node++) {
                    String prefix = "node-" + node + "-";
                    Map<String, String> own = new HashMap<>(configs.getOrDefault(node, Map.of()));
                    own.put("log.dirs", IntStream.range(0, config.numDisksPerBroker()).mapToObj(disk -> prefix + disk).collect(Collectors.joining(",")));
                    configs.put(node, own);
                }
            return configs;
        }

        @Override
        public boolean started() {
            return cluster != null;
        }

        @Override
        public void stop() {
            views.close();
            if (!isStopped && cluster != null)
                cluster.giveBack();
            isStopped = true;
        }

        @Override
        public boolean stopped() {
            return isStopped;
        }

        @Override
        public void shutdownBroker(int node) {
            cluster.stop(node);
        }

        @Override
        public void startBroker(int node) {
            cluster.start(node);
        }

        @Override
        public Type type() {
            return Type.KRAFT;
        }

        @Override
        public ClusterConfig config() {
            return config;
        }

        @Override
        public String bootstrapServers() {
            return cluster.bootstrap();
        }

        @Override
        public String clusterId() {
            return cluster.clusterId;
        }

        @Override
        public ListenerName clientListener() {
            return config.brokerListenerName();
        }

        @Override
        public Set<Integer> brokerIds() {
            return new TreeSet<>(cluster.addresses.keySet());
        }

        @Override
        public List<Integer> brokerBoundPorts() {
            return cluster.addresses.keySet().stream().map(cluster::port).toList();
        }

        @Override
        public Map<Integer, KafkaBroker> brokers() {
            return new TreeMap<>(brokers);
        }

        @Override
        public Set<GroupProtocol> supportedGroupProtocols() {
            return Set.of(GroupProtocol.CLASSIC, GroupProtocol.CONSUMER);
        }

        @Override
        public Optional<FaultHandlerException> firstFatalException() {
            return Optional.empty();
        }

        @Override
        public Optional<FaultHandlerException> firstNonFatalException() {
            return Optional.empty();
        }

        @Override
        public Map<Integer, ControllerServer> controllers() {
            return Map.of(CONTROLLER_ID, Mockito.mock(ControllerServer.class, views.controller(() -> kafkaConfig(0))));
        }

        @Override
        public Set<Integer> controllerIds() {
            return Set.of(CONTROLLER_ID);
        }

        @Override
        public ListenerName controllerListenerName() {
            throw new InProcessOnly("controllerListenerName()");
        }

        @Override
        public String bootstrapControllers() {
            throw new InProcessOnly("bootstrapControllers()");
        }

        @Override
        public List<Authorizer> authorizers() {
            throw new InProcessOnly("authorizers()");
        }

        @Override
        public void waitForReadyBrokers() throws InterruptedException {
            int expected = cluster.addresses.size() - cluster.stopped.size();
            try (Admin admin = admin()) {
                TestUtils.waitForCondition(() -> admin.describeCluster().nodes().get().size() == expected, expected + " brokers");
            }
        }

        /** Ask each broker: Kafka's class looks into each broker's metadata cache. */
        @Override
        public void waitTopicCreation(String topic, int partitions) throws InterruptedException {
            if (partitions <= 0)
                throw new IllegalArgumentException("Partition count must be > 0, but was " + partitions);
            for (Map.Entry<Integer, String> each : cluster.addresses.entrySet()) {
                if (cluster.stopped.contains(each.getKey()))
                    continue;
                try (Admin admin = admin(Map.of("bootstrap.servers", each.getValue()))) {
                    TestUtils.waitForCondition(() -> isWhole(admin, topic, partitions), METADATA_MS, topic + " on broker " + each.getKey());
                }
            }
        }

        private boolean isWhole(Admin admin, String topic, int partitions) throws InterruptedException {
            try {
                List<TopicPartitionInfo> found = admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions();
                boolean haveLeaders = found.stream().allMatch(each -> each.leader() != null && !each.leader().isEmpty());
                return found.size() == partitions && (haveLeaders || !cluster.stopped.isEmpty());
            } catch (ExecutionException error) {
                return false;
            }
        }

        @Override
        public void waitTopicDeletion(String topic) throws InterruptedException {
            try (Admin admin = admin()) {
                ListTopicsOptions all = new ListTopicsOptions().listInternal(true);
                TestUtils.waitForCondition(() -> !admin.listTopics(all).names().get().contains(topic), METADATA_MS, topic + " not deleted");
            }
            Thread.sleep(SETTLE_MS);
        }

        @Override
        public void ensureConsistentMetadata() throws InterruptedException {
            Thread.sleep(SETTLE_MS);
        }

        @Override
        public void ensureConsistentMetadata(Collection<KafkaBroker> brokers, Collection<ControllerServer> controllers) throws InterruptedException {
            Thread.sleep(SETTLE_MS);
        }

        private KafkaConfig kafkaConfig(int node) {
            Map<String, String> configs = new HashMap<>(config.serverProperties());
            configs.putAll(config.perServerOverrideProperties().getOrDefault(node, Map.of()));
            configs.putIfAbsent("group.consumer.assignment.interval.ms", "0");
            configs.put("process.roles", "broker");
            configs.put("node.id", String.valueOf(node));
            configs.put("controller.quorum.bootstrap.servers", "localhost:1");
            configs.put("controller.listener.names", "CONTROLLER");
            Properties properties = new Properties();
            properties.putAll(configs);
            return KafkaConfig.fromProps(properties);
        }
    }
}
