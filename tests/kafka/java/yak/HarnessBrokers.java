package yak;

import java.io.File;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.stream.Collectors;
import kafka.integration.KafkaServerTestHarness;
import kafka.server.BrokerServer;
import kafka.server.ControllerServer;
import kafka.server.KafkaConfig;
import kafka.server.QuorumTestHarness;
import kafka.server.SharedServer;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.junit.jupiter.api.extension.AfterEachCallback;
import org.junit.jupiter.api.extension.AfterTestExecutionCallback;
import org.junit.jupiter.api.extension.BeforeEachCallback;
import org.junit.jupiter.api.extension.ExtensionContext;
import org.mockito.MockedConstruction;
import org.mockito.Mockito;
import scala.jdk.javaapi.CollectionConverters;

/** Behind the tests of Kafka's QuorumTestHarness: what they construct as a broker or controller is a view of a YAK process. */
public final class HarnessBrokers implements BeforeEachCallback, AfterTestExecutionCallback, AfterEachCallback {
    private static final ExtensionContext.Namespace NAMESPACE = ExtensionContext.Namespace.create(HarnessBrokers.class);
    /** What the process of a broker gets from the pool, and where the harness would put its own. */
    private static final Set<String> OWN = Set.of(
        "listeners", "advertised.listeners", "listener.security.protocol.map", "log.dir", "log.dirs", "metadata.log.dir",
        "node.id", "broker.id", "process.roles", "inter.broker.listener.name", "security.inter.broker.protocol");

    @Override
    public void beforeEach(ExtensionContext context) {
        if (context.getRequiredTestInstance() instanceof QuorumTestHarness harness)
            context.getStore(NAMESPACE).put("cluster", new HarnessCluster(harness));
    }

    @Override
    public void afterTestExecution(ExtensionContext context) {
        HarnessCluster cluster = context.getStore(NAMESPACE).get("cluster", HarnessCluster.class);
        if (cluster != null)
            cluster.testIsOver(context.getExecutionException().isPresent());
    }

    @Override
    public void afterEach(ExtensionContext context) {
        HarnessCluster cluster = context.getStore(NAMESPACE).remove("cluster", HarnessCluster.class);
        if (cluster != null)
            cluster.end();
    }

    /** The cluster of one test; lent when its first broker is started. */
    private static final class HarnessCluster {
        private final QuorumTestHarness harness;
        private final List<MockedConstruction<?>> constructions;
        private YakCluster cluster;
        private boolean isOver;
        private final BrokerViews views = new BrokerViews(this::cluster, () -> isOver);

        HarnessCluster(QuorumTestHarness harness) {
            this.harness = harness;
            constructions = List.of(
                Mockito.mockConstruction(BrokerServer.class, context -> {
                    KafkaConfig config = ((SharedServer) context.arguments().get(0)).brokerConfig();
                    return Mockito.withSettings().defaultAnswer(views.broker(config.nodeId(), () -> config));
                }),
                Mockito.mockConstruction(ControllerServer.class, context -> Mockito.withSettings().defaultAnswer(views.controller(((SharedServer) context.arguments().get(0))::controllerConfig))));
        }

        void testIsOver(boolean hasFailed) {
            isOver = true;
            if (hasFailed && cluster != null)
                cluster.markDirty();
        }

        void end() {
            constructions.forEach(MockedConstruction::close);
            views.close();
            if (cluster != null)
                cluster.giveBack();
        }

        private synchronized YakCluster cluster() {
            if (cluster == null) {
                if (!(harness instanceof KafkaServerTestHarness whole))
                    throw new InProcessOnly("brokers of " + harness.getClass().getSuperclass().getSimpleName());
                Map<Integer, Map<String, String>> configs = new TreeMap<>();
                for (KafkaConfig each : CollectionConverters.asJava(whole.configs())) {
                    if (!each.interBrokerSecurityProtocol().equals(SecurityProtocol.PLAINTEXT))
                        throw new InProcessOnly("security: " + each.interBrokerSecurityProtocol());
                    Map<String, String> passed = new TreeMap<>();
                    each.originals().forEach((name, value) -> {
                        if (!OWN.contains(name) && !name.startsWith("controller.") && !name.startsWith("unstable."))
                            passed.put(name, String.valueOf(value));
                    });
                    if (each.logDirs().size() > 1)  // not in the harness's own folders, which it deletes before the brokers end
                        passed.put("log.dirs", each.logDirs().stream().map(dir -> new File(dir + "-yak").getAbsolutePath()).collect(Collectors.joining(",")));
                    configs.put(each.nodeId(), passed);
                }
                cluster = new YakCluster(configs.keySet(), Map.of(), configs);
            }
            return cluster;
        }
    }
}
