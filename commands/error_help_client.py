"""Explains the errors of client commands. Alphabetical."""

from yak.commands.error_explanation import Explanation, explain

CLIENT: dict[str, Explanation] = {
    "advertised-unreachable": explain(
        "The bootstrap address answered, but a broker advertises an address that cannot be reached.",
        "Clients connect twice: to the bootstrap address, then to the address each broker advertises. A broker in "
        "a container or behind a NAT that advertises 127.0.0.1 or an internal name can be used only from there.",
        "restart the broker with --advertised HOST:PORT that is valid where the client runs",
        "yak doctor -b HOST:PORT",
    ),
    "assert-failed": explain(
        "A condition given with --assert does not hold.",
        "The benchmark completed; its result violates the condition.",
        "see the figures in the output, or with -o json",
    ),
    "bad-assert": explain(
        "An --assert expression cannot be read.",
        "It is a figure, a comparison and a value, such as p99<20ms.",
        "yak bench produce --assert 'p99<20ms'",
    ),
    "bad-baseline": explain(
        "The --baseline file is not a result of yak bench.",
        "A baseline is what yak bench -o json printed, for the same kind of run.",
        "yak bench produce -o json > baseline.json",
    ),
    "bad-config": explain(
        "A topic or broker config is unknown, has an invalid value, or would have no effect.",
        "YAK takes Kafka's configs by their names, and refuses one that it would have to ignore.",
        "yak topics describe TOPIC --all-configs",
        "yak brokers describe ID --all-configs",
    ),
    "bad-duration": explain(
        "A duration cannot be read.",
        "A duration is a number with a unit: ms, s, m, h, d or w; several may follow each other.",
        "250ms, 5s, 2m, 1h30m",
    ),
    "bad-encoding": explain(
        "The name of the file's encoding is unknown.",
        "Names are Python's: utf-8, cp1252, latin-1, utf-16 and many more.",
        "yak produce TOPIC -f FILE --csv-encoding utf-8",
    ),
    "bad-filter": explain(
        "A --filter expression cannot be read.",
        "Filters test the key (k:), the value (v:), a header (h:NAME=), or a JSON path (v:.total > 10).",
        "--filter k:u1 --filter 'v:.total > 10' --filter '!h:test'",
    ),
    "bad-format": explain(
        "The value of -o is not an output format.",
        "Formats are table, wide, json, yaml, csv and raw.",
        "-o json",
    ),
    "bad-offset": explain(
        "The value of --offset cannot be read.",
        "Offsets are start, end, 42, +10 (after the start), -10 (before the end), 10:20, :end, @TIME, @TIME:TIME.",
        "--offset -10",
    ),
    "bad-option": explain(
        "An option has an invalid value.",
        "The message names the option and the value.",
        "add --help to the command",
    ),
    "bad-partition-count": explain(
        "The number of partitions is invalid.",
        "It is at least 1, and a topic never shrinks.",
        "yak topics describe TOPIC",
    ),
    "bad-property": explain(
        "A --property is not one that yak understands.",
        "yak accepts those properties of Apache's console tools that change what is read or printed.",
        "yak help produce",
        "yak help consume",
    ),
    "bad-replication-factor": explain(
        "There are not enough brokers for that replication factor.",
        "Each replica of a partition needs its own broker.",
        "yak brokers list",
        "yak topics create TOPIC -r 1",
    ),
    "bad-setting": explain(
        "A setting has an invalid value.",
        "The message names the value and where it came from: a flag, a variable, a file or a context.",
        "yak config show --origin",
    ),
    "bad-size": explain(
        "A size cannot be read.",
        "A size is a number, with or without a unit: KB, MB, GB are 1000s; KiB, MiB, GiB are 1024s.",
        "512, 64KiB, 1MB",
    ),
    "bad-template": explain(
        "A record has a {{placeholder}} that cannot be filled.",
        "Placeholders are {{i}}, {{uuid}}, {{now}}, {{now ms}}, {{now s}} and {{int 1 100}}.",
        "see the line and column in the message",
        "remove --template to send braces unchanged",
    ),
    "bad-time": explain(
        "A time cannot be read.",
        "A time is ISO-8601 (UTC unless it has a zone), an epoch in s or ms, a distance such as -15m, or now.",
        "2026-11-20T12:00:00Z",
    ),
    "bad-timestamp": explain(
        "A record's timestamp is too far from the broker's clock. The record was not written.",
        "message.timestamp.before.max.ms and message.timestamp.after.max.ms bound it.",
        "yak doctor",
        "yak topics describe TOPIC --all-configs",
    ),
    "bad-topic-name": explain(
        "The topic name is invalid.",
        "Names have 1 to 249 letters, digits, dots, underscores and hyphens, and differ by more than . and _.",
        "yak topics create my-topic",
    ),
    "broker-alive": explain(
        "A broker that is alive cannot be unregistered.",
        "It would register again at once. A killed broker counts as alive until its session expires.",
        "stop it, check yak cluster, and retry",
    ),
    "broker-away": explain(
        "A test waits for a healthy cluster, but a broker was killed or paused.",
        "yak.testing does not restart brokers that a test stopped.",
        "yak_cluster.restart(node), or yak_cluster.resume(node)",
    ),
    "bundle-not-written": explain(
        "The file with doctor's findings was not written.",
        "The operating system refused; the message says why.",
        "yak doctor --bundle OTHER-FILE",
    ),
    "cannot-write": explain(
        "A requested file was not written.",
        "The operating system refused; the message says why.",
        "name another file",
    ),
    "config-file": explain(
        "A settings file cannot be read.",
        "./yak.toml and the context file are TOML; the message gives the line.",
        "correct the file, or move it away",
    ),
    "csv-column": explain(
        "An option names a column that the CSV file does not have.",
        "Names come from the file's first row, or from --csv-columns, and must match exactly.",
        "yak produce TOPIC -f FILE --dry-run",
    ),
    "csv-empty": explain(
        "The CSV file has no header row.",
        "The first row names the columns, unless --csv-columns does.",
        "yak produce TOPIC -f FILE --csv-columns a,b,c",
    ),
    "decoder-failed": explain(
        "The program given with --decoder failed for a record.",
        "It gets the value on stdin and must end with 0; its last line on stderr is shown.",
        "add --skip-message-on-error to skip such records",
    ),
    "did-you-mean-offset": explain(
        "The value of -o looks like an offset.",
        "In yak, -o is --output. kcat and rpk use -o for the offset.",
        "yak consume TOPIC --offset end",
    ),
    "file": explain(
        "A file cannot be read. Nothing was sent.",
        "The operating system refused; the message says why.",
        "check the path",
    ),
    "internal": explain(
        "yak has a bug.",
        "An unexpected error occurred. The message names the file with the traceback.",
        "report it with that file",
    ),
    "kafka-error": explain(
        "The broker answered with an error that yak does not explain.",
        "Kafka's name for it is in the message.",
        "yak doctor",
    ),
    "log-source": explain(
        "The metadata records cannot be read from this source.",
        "The cluster's metadata store (Redis) has them, and each broker's data directory has a copy.",
        "yak metadata log --redis-url redis://HOST:PORT/0",
        "yak metadata log --data-dir ./yak-data",
    ),
    "log-broken": explain(
        "The metadata records are inconsistent.",
        "Their hash chain is broken: the store was rolled back, or two stores wrote to one log.",
        "yak cluster",
    ),
    "log-trimmed": explain(
        "The cluster state at that offset is no longer available.",
        "Old metadata records are compacted into a snapshot. Later states are available.",
        "yak metadata log",
    ),
    "no-acknowledgement": explain(
        "A probe write of yak failover was not acknowledged.",
        "It uses acks=all, which needs min.insync.replicas replicas in the ISR.",
        "yak isr TOPIC",
        "yak failover TOPIC:P --no-probe",
    ),
    "no-broker-runs": explain(
        "A test calls its cluster, but all brokers were killed or paused.",
        "No broker is left to answer.",
        "yak_cluster.restart(node), or yak_cluster.resume(node)",
    ),
    "no-cluster-in-store": explain(
        "The metadata store answered, but has no cluster.",
        "The brokers use another Redis or database, or this one was emptied.",
        "yak isr --from-redis --redis-url redis://HOST:PORT/0",
        "yak metadata log --data-dir DIR",
    ),
    "no-controller": explain(
        "The cluster has no controller at the moment.",
        "A new controller is elected within the lease time after the last one died. This needs the metadata store.",
        "yak cluster",
    ),
    "no-leader": explain(
        "A partition has no leader now.",
        "Its brokers are down or starting. Until then it cannot be written or read.",
        "yak topics list --unavailable-partitions",
        "yak cluster",
    ),
    "no-previous-context": explain(
        "There is no context to go back to.",
        "yak context use - switches to the previous context.",
        "yak context list",
    ),
    "no-topic-matches": explain(
        "No topic has a name that matches the expression.",
        "The command lists topics once at its start. Internal topics never match.",
        "yak topics list",
    ),
    "not-confirmed": explain(
        "Nothing was changed: the question was not answered with yes.",
        "Commands that delete ask for confirmation. Without a terminal they need --yes.",
        "add --yes",
    ),
    "not-a-local-cluster": explain(
        "Only brokers of a cluster that yak up started on this machine can be killed or restarted.",
        "yak failover finds such a cluster by its data directory, or by a broker's address with -b.",
        "yak failover --controller --kill --data-dir DIR",
        "yak failover --from NODE",
    ),
    "not-enough-replicas": explain(
        "The ISR is too small for a write with acks=all.",
        "min.insync.replicas is the minimum size of the ISR. After NOT_ENOUGH_REPLICAS nothing was written, and a retry is "
        "safe. After NOT_ENOUGH_REPLICAS_AFTER_APPEND the record may have been written.",
        "yak topics describe TOPIC",
    ),
    "not-elected": explain(
        "The controller refused to elect leaders.",
        "The message has Kafka's error. NOT_CONTROLLER: another broker has just become controller.",
        "yak isr",
        "retry",
    ),
    "not-leader": explain(
        "The broker is no longer the leader of the partition.",
        "The leader changed during the request. Clients find the new leader and retry. A record "
        "of that moment may or may not be written; an idempotent producer does not duplicate it.",
        "retry",
    ),
    "not-supported": explain(
        "The broker does not have this feature.",
        "The command needs another version or product.",
        "yak doctor",
    ),
    "not-text": explain(
        "A file has bytes that are invalid in its encoding.",
        "Reading stopped there. The summary counts the records sent before.",
        "yak produce TOPIC -f FILE --csv-encoding cp1252",
    ),
    "not-unregistered": explain(
        "The broker was not unregistered.",
        "The metadata store did not accept the change. Nothing was changed.",
        "yak cluster, then retry",
    ),
    "nothing-in-time": explain(
        "The time-out passed without a result (exit code 5).",
        "No record arrived, or the filters matched none.",
        "--from-beginning",
        "a longer --timeout-ms",
    ),
    "offset-out-of-range": explain(
        "The offset is not in the partition's log.",
        "Retention deleted older records, or the log was truncated.",
        "yak topics describe TOPIC",
        "yak consume TOPIC --offset start",
    ),
    "readonly": explain(
        "The command would change the cluster, and read-only mode is on.",
        "It was turned on by --readonly, YAK_READONLY, ./yak.toml or the context.",
        "yak config show --origin",
    ),
    "record-too-large": explain(
        "A record is larger than the topic allows. It was not written.",
        "max.message.bytes limits a record batch after compression.",
        "yak topics alter TOPIC -c max.message.bytes=BYTES",
        "yak produce -z zstd",
    ),
    "refused-by-broker": explain(
        "The broker rejected the request.",
        "The reason is in the message.",
        "yak topics describe TOPIC --all-configs",
    ),
    "resume-mismatch": explain(
        "The --resume file belongs to another input file or topic. Nothing was sent.",
        "A checkpoint has a hash of the input's first bytes, so that it is not used for another file.",
        "name another checkpoint, or remove this one to start again",
    ),
    "resume-unreadable": explain(
        "The --resume file is not a checkpoint. Nothing was sent.",
        "yak produce writes checkpoints atomically; the file has other content.",
        "name another file",
    ),
    "system": explain(
        "The operating system reported an error.",
        "The reason is in the message.",
        "check permissions, free space and limits",
    ),
    "test-cluster": explain(
        "A test timed out waiting for its cluster.",
        "The message has the brokers' last state: a missing leader, a replica outside the ISR.",
        "see the brokers' logs in the report of the failed test, or with yak_cluster.log(node)",
    ),
    "timed-out": explain(
        "The request timed out. Its result is unknown.",
        "The broker is slow, stopped or unreachable. Check whether a change was made before a retry.",
        "yak doctor",
        "allow more time with --timeout 30s",
    ),
    "topic-exists": explain(
        "A topic with that name exists.",
        "Nothing was changed.",
        "yak topics create TOPIC --if-not-exists",
    ),
    "unknown-broker": explain(
        "The cluster has no broker with that id.",
        "Only live brokers are listed.",
        "yak brokers list",
    ),
    "unknown-command": explain(
        "The command does not exist.",
        "The message names the closest one.",
        "yak --help",
    ),
    "unknown-context": explain(
        "No context has that name.",
        "Contexts are in yak/config.toml under XDG_CONFIG_HOME (~/.config).",
        "yak context list",
    ),
    "unknown-partition": explain(
        "The topic has no such partition.",
        "Partitions are numbered from 0.",
        "yak topics describe TOPIC",
    ),
    "unknown-setting": explain(
        "A file has a setting that yak does not know.",
        "A misspelt setting would have no effect, so it is rejected.",
        "yak config show",
    ),
    "unknown-topic": explain(
        "No topic has that name.",
        "yak does not create topics implicitly, except the topic yak.",
        "yak topics list",
        "yak topics create TOPIC",
    ),
    "unreachable": explain(
        "No broker answered (exit code 3).",
        "No broker listens at the address, or the network drops packets. yak tries for 3 s.",
        "yak up -d",
        "yak doctor -b HOST:PORT",
    ),
    "usage": explain(
        "The command line is wrong (exit code 2).",
        "The message names the part. Nothing was done.",
        "add --help to the command",
    ),
    "wrong-protocol": explain(
        "The server at the address is not a Kafka broker.",
        "Port 2181 is ZooKeeper, 8080 a web server, 6379 Redis; a TLS port does not answer plain requests.",
        "use the broker's port, usually 9092",
    ),
}
