package yak;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.junit.platform.engine.TestExecutionResult;
import org.junit.platform.engine.TestSource;
import org.junit.platform.engine.support.descriptor.ClassSource;
import org.junit.platform.engine.support.descriptor.MethodSource;
import org.junit.platform.launcher.TestExecutionListener;
import org.junit.platform.launcher.TestIdentifier;
import org.junit.platform.launcher.TestPlan;

/** Appends each result to a file at once, a line of JSON each, so that a JVM that hangs can be ended. */
public final class ResultWriter implements TestExecutionListener {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final int REASON_CHARS = 600;
    private final Map<String, Long> began = new ConcurrentHashMap<>();

    /** Without these the tests would run on Apache Kafka and all pass. */
    @Override
    public void testPlanExecutionStarted(TestPlan plan) {
        for (String standIn : new String[] {"org.apache.kafka.common.test.junit.RaftClusterInvocationContext", "org.apache.kafka.common.test.KafkaClusterTestKit"}) {
            try {
                Class.forName(standIn).getField("STARTS_YAK");
            } catch (ReflectiveOperationException error) {
                System.err.println(standIn + " is Kafka's own class: these tests would not run on YAK");
                Runtime.getRuntime().halt(3);
            }
        }
    }

    @Override
    public void executionStarted(TestIdentifier test) {
        began.put(test.getUniqueId(), System.nanoTime());
    }

    @Override
    public void executionSkipped(TestIdentifier test, String reason) {
        write(test, "skipped", reason);
    }

    @Override
    public void executionFinished(TestIdentifier test, TestExecutionResult result) {
        if (test.isTest() || result.getStatus() != TestExecutionResult.Status.SUCCESSFUL)
            write(test, result.getStatus().name().toLowerCase(), result.getThrowable().map(ResultWriter::reason).orElse(""));
    }

    /** A line that is no result: what was noticed while a test ran. */
    static synchronized void note(String kind, String text) {
        append(Map.of("note", kind, "text", text));
    }

    private void write(TestIdentifier test, String status, String reason) {
        Map<String, Object> line = new LinkedHashMap<>();
        TestSource source = test.getSource().orElse(null);
        if (source instanceof MethodSource method) {
            line.put("class", method.getClassName());
            line.put("method", method.getMethodName());
        } else if (source instanceof ClassSource type) {
            line.put("class", type.getClassName());
        } else {
            return;
        }
        line.put("name", test.getDisplayName());
        line.put("status", status);
        line.put("reason", reason.length() > REASON_CHARS ? reason.substring(0, REASON_CHARS) : reason);
        line.put("took_ms", (System.nanoTime() - began.getOrDefault(test.getUniqueId(), System.nanoTime())) / 1_000_000);
        append(line);
    }

    private static String reason(Throwable error) {
        for (Throwable each = error; each != null; each = each.getCause())
            if (each instanceof InProcessOnly)
                return each.getMessage();
        StackTraceElement[] trace = error.getStackTrace();
        String place = "";
        for (StackTraceElement each : trace)
            if (each.getClassName().endsWith("Test") && place.isEmpty())
                place = " (" + each.getFileName() + ":" + each.getLineNumber() + ")";
        return error.toString().replaceAll("\\s+", " ") + place;
    }

    private static synchronized void append(Map<String, ?> line) {
        try {
            Files.writeString(Path.of(System.getProperty("yak.results")), JSON.writeValueAsString(line) + "\n", StandardOpenOption.CREATE, StandardOpenOption.APPEND);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }
}
