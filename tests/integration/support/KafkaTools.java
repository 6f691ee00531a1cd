import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.utils.Exit;

/**
 * Kafka's command line tools, one after another in one JVM: a JVM of its own for each would cost its start.
 *
 * <p>Orders and answers are JSON lines. An order has a tool's class, its words and its standard input; the answer has its
 * status and what it printed.
 */
public final class KafkaTools {
    private static final ObjectMapper JSON = new ObjectMapper();

    /** Ends a tool in the place of the JVM. */
    private static final class Ended extends Error {
        private Ended() {
            super("", null, false, false);
        }
    }

    /** The status with which a tool ended first: it may catch {@link Ended}, and end once more. */
    private static Integer status;

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = System.out;
        BufferedReader orders = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        Exit.Procedure end = (ended, message) -> {
            status = status == null ? ended : status;
            throw new Ended();
        };
        Exit.setExitProcedure(end);
        Exit.setHaltProcedure(end);
        ByteArrayOutputStream printed = new ByteArrayOutputStream();
        PrintStream stream = new PrintStream(printed, true, StandardCharsets.UTF_8);
        System.setOut(stream); // the same one for all tools: the log goes to the first one
        System.setErr(stream);
        List<Runnable> hooks = new ArrayList<>();
        Exit.setShutdownHookAdder((name, hook) -> hooks.add(hook));
        for (String line = orders.readLine(); line != null; line = orders.readLine()) {
            JsonNode order = JSON.readTree(line);
            printed.reset();
            System.setIn(new ByteArrayInputStream(order.get("typed").asText().getBytes(StandardCharsets.UTF_8)));
            status = null;
            run(order.get("class").asText(), JSON.convertValue(order.get("words"), String[].class));
            hooks.forEach(Runnable::run);
            hooks.clear();
            answers.println(JSON.writeValueAsString(
                    Map.of("status", status == null ? 0 : status, "printed", printed.toString(StandardCharsets.UTF_8))));
            answers.flush();
        }
        Runtime.getRuntime().halt(0);
    }

    private static void run(String name, String[] words) throws Exception {
        try {
            Class.forName(name).getMethod("main", String[].class).invoke(null, (Object) words);
        } catch (InvocationTargetException error) {
            if (!(error.getCause() instanceof Ended)) {
                error.getCause().printStackTrace();
                status = 1;
            }
        }
    }
}
