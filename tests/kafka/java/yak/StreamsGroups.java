package yak;

import java.util.regex.Pattern;
import org.junit.jupiter.api.extension.ConditionEvaluationResult;
import org.junit.jupiter.api.extension.ExecutionCondition;
import org.junit.jupiter.api.extension.ExtensionContext;

/** Skips the invocations whose parameters ask for streams groups (KIP-1071): they wait for minutes for a group that YAK refuses. */
public final class StreamsGroups implements ExecutionCondition {
    private static final Pattern ASKS = Pattern.compile("^STREAMS protocol|^\\[\\d+\\].*\\b(streams(\\b|\\w*=true)|useNewProtocol=true)", Pattern.CASE_INSENSITIVE);

    @Override
    public ConditionEvaluationResult evaluateExecutionCondition(ExtensionContext context) {
        return ASKS.matcher(context.getDisplayName()).find()
            ? ConditionEvaluationResult.disabled("streams groups (KIP-1071), which YAK does not have")
            : ConditionEvaluationResult.enabled("");
    }
}
