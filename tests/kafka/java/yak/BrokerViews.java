package yak;

import java.util.Collection;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.function.BooleanSupplier;
import java.util.function.Supplier;
import kafka.cluster.Partition;
import kafka.network.SocketServer;
import kafka.raft.KafkaRaftManager;
import kafka.server.KafkaApis;
import kafka.server.KafkaConfig;
import kafka.server.ReplicaManager;
import kafka.server.SharedServer;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListTopicsOptions;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.message.MetadataResponseData.MetadataResponsePartition;
import org.apache.kafka.common.message.MetadataResponseData.MetadataResponseTopic;
import org.apache.kafka.common.message.MetadataResponseData;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.requests.MetadataRequest;
import org.apache.kafka.common.requests.MetadataResponse;
import org.apache.kafka.controller.Controller;
import org.apache.kafka.controller.ResultOrError;
import org.apache.kafka.coordinator.group.GroupCoordinator;
import org.apache.kafka.metadata.BrokerState;
import org.apache.kafka.metadata.KRaftMetadataCache;
import org.apache.kafka.metadata.LeaderAndIsr;
import org.apache.kafka.metadata.LeaderRecoveryState;
import org.apache.kafka.server.BrokerLifecycleManager;
import org.apache.kafka.server.IntegrationTestUtils;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.mockito.Answers;
import org.mockito.Mockito;
import org.mockito.invocation.InvocationOnMock;
import org.mockito.stubbing.Answer;
import scala.Option;

/** What tests see as Kafka's BrokerServer and ControllerServer: mocks that answer from YAK's processes, and refuse the rest. */
public final class BrokerViews implements AutoCloseable {
    private final Supplier<YakCluster> lent;
    private final BooleanSupplier isOver;
    private final Map<Integer, Admin> admins = new TreeMap<>();

    /** {@code isOver}: the test has ended, and what tears it down stops no broker. */
    public BrokerViews(Supplier<YakCluster> lent, BooleanSupplier isOver) {
        this.lent = lent;
        this.isOver = isOver;
    }

    @Override
    public void close() {
        admins.values().forEach(Admin::close);
    }

    /** The behaviour of a mock of BrokerServer. */
    public Answer<Object> broker(int node, Supplier<KafkaConfig> config) {
        return call -> switch (call.getMethod().getName()) {
            case "startup" -> {
                if (isStopped(node))
                    cluster().start(node);
                yield null;
            }
            case "shutdown" -> {
                if (!isOver.getAsBoolean())
                    cluster().stop(node);
                yield null;
            }
            case "isShutdown" -> isStopped(node);
            case "brokerState" -> isStopped(node) ? BrokerState.NOT_RUNNING : BrokerState.RUNNING;
            case "config" -> config.get();
            case "boundPort" -> cluster().port(node);
            case "socketServer" -> socketServer(node);
            case "clusterId" -> cluster().clusterId;
            case "metadataCache" -> metadataCache(node);
            case "dataPlaneRequestProcessor" -> Mockito.mock(KafkaApis.class, (Answer<Object>) inner ->
                inner.getMethod().getName().equals("metadataCache") ? metadataCache(node) : other("KafkaApis", inner));
            case "replicaManager" -> Mockito.mock(ReplicaManager.class, (Answer<Object>) inner ->
                inner.getMethod().getName().equals("onlinePartition") ? partition(node, inner.getArgument(0)) : other("ReplicaManager", inner));
            case "groupCoordinator" -> Mockito.mock(GroupCoordinator.class, (Answer<Object>) inner ->
                inner.getMethod().getName().equals("groupMetadataTopicConfigs") ? new Properties() : other("GroupCoordinator", inner));
            case "lifecycleManager" -> Mockito.mock(BrokerLifecycleManager.class, (Answer<Object>) inner ->
                inner.getMethod().getName().equals("initialUnfenceFuture") ? CompletableFuture.completedFuture(null) : other("BrokerLifecycleManager", inner));
            case "sharedServer" -> Mockito.mock(SharedServer.class, Answers.RETURNS_DEEP_STUBS);
            case "authorizerPlugin" -> Option.empty();
            case "toString" -> "YAK node " + node;
            default -> other("BrokerServer", call);
        };
    }

    /** The behaviour of a mock of ControllerServer. */
    public Answer<Object> controller(Supplier<KafkaConfig> config) {
        return call -> switch (call.getMethod().getName()) {
            case "startup", "shutdown" -> null;
            case "socketServerFirstBoundPortFuture" -> CompletableFuture.completedFuture(1);
            case "config" -> config.get();
            case "clusterId" -> cluster().clusterId;
            case "socketServer" -> socketServer(running());
            case "controller" -> Mockito.mock(Controller.class, (Answer<Object>) this::topicIds);
            case "raftManager" -> Mockito.mock(KafkaRaftManager.class, Answers.RETURNS_DEEP_STUBS);
            case "authorizerPlugin" -> Option.empty();
            default -> other("ControllerServer", call);
        };
    }

    private YakCluster cluster() {
        return lent.get();
    }

    private boolean isStopped(int node) {
        return cluster().stopped.contains(node);
    }

    private int running() {
        return cluster().addresses.keySet().stream().filter(node -> !isStopped(node)).findFirst().orElseThrow();
    }

    private synchronized Admin admin(int node) {
        return admins.computeIfAbsent(node, each -> Admin.create(Map.of("bootstrap.servers", cluster().addresses.get(each))));
    }

    private static Object other(String type, InvocationOnMock call) throws Throwable {
        if (call.getMethod().getReturnType() == void.class || call.getMethod().getDeclaringClass() == Object.class)
            return Answers.RETURNS_DEFAULTS.answer(call);
        throw new InProcessOnly(type + "." + call.getMethod().getName());
    }

    private SocketServer socketServer(int node) {
        return Mockito.mock(SocketServer.class, (Answer<Object>) call ->
            call.getMethod().getName().equals("boundPort") ? (Object) cluster().port(node) : other("SocketServer", call));
    }

    private KRaftMetadataCache metadataCache(int node) {
        return Mockito.mock(KRaftMetadataCache.class, (Answer<Object>) call -> metadata(node, call));
    }

    private Object topicIds(InvocationOnMock call) throws Throwable {
        Map<String, Uuid> known = new LinkedHashMap<>();
        if (call.getMethod().getName().startsWith("find"))
            admin(running()).listTopics(new ListTopicsOptions().listInternal(true)).listings().get().forEach(each -> known.put(each.name(), each.topicId()));
        switch (call.getMethod().getName()) {
            case "findAllTopicIds":
                return CompletableFuture.completedFuture(known);
            case "findTopicIds":
                Map<String, ResultOrError<Uuid>> found = new HashMap<>();
                for (Object name : call.<Collection<?>>getArgument(1))
                    found.put((String) name, ResultOrError.of(known.getOrDefault(name, Uuid.ZERO_UUID)));
                return CompletableFuture.completedFuture(found);
            default:
                return other("Controller", call);
        }
    }

    private Object metadata(int node, InvocationOnMock call) throws Throwable {
        switch (call.getMethod().getName()) {
            case "numPartitions":
                return topic(node, call.getArgument(0)).map(each -> each.partitions().size());
            case "contains":
                if (call.getArgument(0) instanceof TopicPartition partition)
                    return partitionMetadata(node, partition).isPresent();
                return topic(node, call.getArgument(0)).isPresent();
            case "getTopicId":
                return topic(node, call.getArgument(0)).map(MetadataResponseTopic::topicId).orElse(Uuid.ZERO_UUID);
            case "hasAliveBroker":
                return nodes(node).stream().anyMatch(each -> each.id() == call.<Integer>getArgument(0));
            case "getAliveBrokerNode":
                return nodes(node).stream().filter(each -> each.id() == call.<Integer>getArgument(0)).findFirst();
            case "getAliveBrokerNodes":
                return nodes(node);
            case "getLeaderAndIsr":
                return leaderAndIsr(node, new TopicPartition(call.getArgument(0), call.getArgument(1)));
            default:
                return other("MetadataCache", call);
        }
    }

    /** Asked from this broker: an Admin may ask another one. */
    private MetadataResponseData metadata(int node, List<String> topics) throws Exception {
        MetadataResponse response = IntegrationTestUtils.connectAndReceive(new MetadataRequest.Builder(topics, false).build(), cluster().port(node));
        return response.data();
    }

    private List<Node> nodes(int node) throws Exception {
        return metadata(node, List.of()).brokers().stream().map(each -> new Node(each.nodeId(), each.host(), each.port(), each.rack())).toList();
    }

    private Optional<MetadataResponseTopic> topic(int node, String name) throws Exception {
        return metadata(node, List.of(name)).topics().stream().filter(each -> each.errorCode() == Errors.NONE.code()).findFirst();
    }

    private Optional<MetadataResponsePartition> partitionMetadata(int node, TopicPartition which) throws Exception {
        return topic(node, which.topic()).flatMap(each -> each.partitions().stream().filter(one -> one.partitionIndex() == which.partition()).findFirst());
    }

    private Optional<LeaderAndIsr> leaderAndIsr(int node, TopicPartition which) throws Exception {
        return partitionMetadata(node, which).map(each -> new LeaderAndIsr(each.leaderId(), each.leaderEpoch(), each.isrNodes(), LeaderRecoveryState.RECOVERED, 0));
    }

    /** A replica on this broker: who leads it, and in which epoch. */
    private Option<Partition> partition(int node, TopicPartition which) throws Exception {
        if (isStopped(node))
            return Option.empty();
        Optional<MetadataResponsePartition> found = partitionMetadata(node, which);
        if (found.isEmpty() || !found.get().replicaNodes().contains(node))
            return Option.empty();
        MetadataResponsePartition metadata = found.get();
        return Option.apply(Mockito.mock(Partition.class, (Answer<Object>) call -> switch (call.getMethod().getName()) {
            case "leaderReplicaIdOpt" -> metadata.leaderId() < 0 ? Option.empty() : Option.apply((Object) metadata.leaderId());
            case "leaderLogIfLocal" -> metadata.leaderId() == node ? Option.apply(Mockito.mock(UnifiedLog.class)) : Option.empty();
            case "getLeaderEpoch" -> metadata.leaderEpoch();
            default -> other("Partition", call);
        }));
    }
}
