"""Explains the errors of client commands. Alphabetical."""

from yak.commands.error_explanation import Explanation, explain

CLIENT: dict[str, Explanation] = {
    "advertised-unreachable": explain(
        "The first address answered, but a broker tells clients to use an address that cannot be reached.",
        "Clients connect twice: to the bootstrap address, then to the address each broker advertises. A broker in "
        "a container or behind a NAT that advertises 127.0.0.1 or an inner name can only be used from there.",
        "restart the broker with --advertised HOST:PORT that is valid where the client runs",
        "yak doctor -b HOST:PORT",
    ),
    "assert-failed": explain(
        "A condition given with --assert does not hold.",
        "The benchmark ran to its end; its figures are outside what was asked for.",
        "look at the figures in the output, or with -o json",
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
        "A topic or broker config is unknown, has a value that it cannot have, or would have no effect.",
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
        "The encoding of a file has a name that nobody knows.",
        "Names are Python's: utf-8, cp1252, latin-1, utf-16 and many more.",
        "yak produce TOPIC -f FILE --csv-encoding utf-8",
    ),
    "bad-filter": explain(
        "A --filter expression cannot be read.",
        "Filters look at the key (k:), the value (v:), a header (h:NAME=), or a JSON path (v:.total > 10).",
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
        "An option has a value that it cannot have.",
        "The message names the option and the value.",
        "add --help to the command",
    ),
    "bad-partition-count": explain(
        "The number of partitions cannot be.",
        "It is at least 1, and a topic never shrinks.",
        "yak topics describe TOPIC",
    ),
    "bad-property": explain(
        "A --property is not one that yak understands.",
        "Those of Apache's console tools that change what is read or printed are understood, no others.",
        "yak help produce",
        "yak help consume",
    ),
    "bad-replication-factor": explain(
        "There are not enough brokers for that many copies.",
        "Each copy of a partition is on another broker.",
        "yak brokers list",
        "yak topics create TOPIC -r 1",
    ),
    "bad-setting": explain(
        "A setting has a value that it cannot have.",
        "The message names the value and where it came from: a flag, a variable, a file or a context.",
        "yak config show --origin",
    ),
    "bad-size": explain(
        "A size cannot be read.",
        "A size is a number, with or without a unit: KB, MB, GB are 1000s; KiB, MiB, GiB are 1024s.",
        "512, 64KiB, 1MB",
    ),
    "bad-template": explain(
        "The text of a message has a {{field}} that cannot be read.",
        "Fields are {{i}}, {{int 1 100}}, {{float 0 1}}, {{choice a b}}, {{uuid}}, {{now}}, {{name}}, {{text 20}} and more.",
        "look at the line and column in the message",
        "leave --template out to send braces as they are",
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
        "The name cannot be a topic's.",
        "Names have 1 to 249 letters, digits, dots, underscores and hyphens, and differ by more than . and _.",
        "yak topics create my-topic",
    ),
    "broker-alive": explain(
        "A broker that is alive cannot be unregistered.",
        "It would register again at once. A broker that was killed counts as alive until its session ended.",
        "stop it, look at yak cluster, and try again",
    ),
    "broker-away": explain(
        "A test waits for its cluster to be healthy, but one of the brokers was killed or paused.",
        "yak.testing starts nothing by itself that a test has stopped.",
        "yak_cluster.restart(node), or yak_cluster.resume(node)",
    ),
    "bundle-not-written": explain(
        "The file of doctor's findings was not written.",
        "The operating system refused; the message says why.",
        "yak doctor --bundle OTHER-FILE",
    ),
    "cannot-write": explain(
        "A file that was asked for was not written.",
        "The operating system refused; the message says why.",
        "name another file",
    ),
    "config-file": explain(
        "A settings file cannot be read.",
        "./yak.toml and the context file are TOML; the message gives the line.",
        "correct the file, or move it away",
    ),
    "csv-column": explain(
        "A column that an option names is not in the CSV file.",
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
        "add --skip-message-on-error to leave such records out",
    ),
    "did-you-mean-offset": explain(
        "The value of -o looks like an offset.",
        "In yak -o is --output; kcat and rpk use that letter for the offset.",
        "yak consume TOPIC --offset end",
    ),
    "file": explain(
        "A file cannot be read. Nothing was sent.",
        "The operating system refused; the message says why.",
        "check the path",
    ),
    "internal": explain(
        "yak has a bug.",
        "Something happened that nobody thought of. The traceback is in a file of its own, which the message names.",
        "report it with that file",
    ),
    "kafka-error": explain(
        "The broker answered with an error that has no explanation of its own here.",
        "Kafka's name for it is in the message.",
        "yak doctor",
    ),
    "log-source": explain(
        "The metadata records cannot be read from where the command looked.",
        "They are in the cluster's metadata store (Redis), and a copy in each broker's data directory.",
        "yak log --redis-url redis://HOST:PORT/0",
        "yak log --data-dir ./yak-data",
    ),
    "log-broken": explain(
        "The metadata records do not fit together.",
        "Their hash chain is broken: the store was rolled back, or two stores wrote to one log.",
        "yak cluster",
    ),
    "log-trimmed": explain(
        "The state that far back cannot be shown.",
        "Old metadata records are folded into a snapshot; the state is known from there on.",
        "yak log",
    ),
    "no-acknowledgement": explain(
        "A test write of yak failover was not acknowledged.",
        "It asks for acks=all, which needs as many in-sync replicas as min.insync.replicas says.",
        "yak isr TOPIC",
        "yak failover TOPIC:P --no-probe",
    ),
    "no-broker-runs": explain(
        "A test asks its cluster, but all of its brokers were killed or paused.",
        "There is nobody left to answer.",
        "yak_cluster.restart(node), or yak_cluster.resume(node)",
    ),
    "no-cluster-in-store": explain(
        "The metadata store answered, but holds no cluster.",
        "It is another Redis than the brokers use, another database of it, or it was emptied.",
        "yak isr --from-redis --redis-url redis://HOST:PORT/0",
        "yak log --data-dir DIR",
    ),
    "no-controller": explain(
        "The cluster has no controller at the moment.",
        "A broker takes the office within the lease time when the last one died; it needs the metadata store.",
        "yak cluster",
    ),
    "no-leader": explain(
        "A partition has no leader now.",
        "Its brokers are down or just starting; nothing can be written to it or read from it meanwhile.",
        "yak topics list --unavailable-partitions",
        "yak cluster",
    ),
    "no-previous-context": explain(
        "There is no context to go back to.",
        "yak context use - switches to the one that was in use before; none was.",
        "yak context list",
    ),
    "no-topic-matches": explain(
        "No topic has a name that matches the expression.",
        "Topics are looked up once, when the command starts; Kafka's own topics never match.",
        "yak topics list",
    ),
    "not-confirmed": explain(
        "Nothing was changed: the question was not answered with yes.",
        "Commands that delete ask first. Where there is no terminal to ask on, they want --yes.",
        "add --yes",
    ),
    "not-a-local-cluster": explain(
        "Only brokers of a cluster that yak up started on this machine can be killed or restarted.",
        "yak failover finds such a cluster by its data directory, and by the address of a broker where -b was given.",
        "yak failover --controller --kill --data-dir DIR",
        "yak failover --from NODE",
    ),
    "not-enough-replicas": explain(
        "Too few replicas are in sync for a write with acks=all.",
        "min.insync.replicas says how many must have each record. With NOT_ENOUGH_REPLICAS nothing was written and "
        "sending again is safe; with NOT_ENOUGH_REPLICAS_AFTER_APPEND it may have been.",
        "yak topics describe TOPIC",
    ),
    "not-elected": explain(
        "The controller refused to elect leaders.",
        "The reason in the message is Kafka's; NOT_CONTROLLER means that the office has just changed hands.",
        "yak isr",
        "try again",
    ),
    "not-leader": explain(
        "The broker that was asked does not lead the partition any more.",
        "Leadership moved during the request; clients find the new leader and try again by themselves. What was "
        "sent in that moment may or may not be written; an idempotent producer never writes it twice.",
        "try again",
    ),
    "not-supported": explain(
        "The broker does not have this feature.",
        "It is another version or another make than the command needs.",
        "yak doctor",
    ),
    "not-text": explain(
        "A file has bytes that are no text in the encoding it is read with.",
        "Reading stopped there; what was sent before is in the account.",
        "yak produce TOPIC -f FILE --csv-encoding cp1252",
    ),
    "not-unregistered": explain(
        "The cluster did not forget the broker.",
        "The broker that was asked could not write it into the metadata store; nothing was changed.",
        "yak cluster, then try again",
    ),
    "nothing-in-time": explain(
        "The time given passed and there was nothing to show (exit code 5).",
        "No record came, or the filters let none through.",
        "--from-beginning",
        "a longer --timeout-ms",
    ),
    "offset-out-of-range": explain(
        "The offset is not in the partition's log.",
        "Older records were deleted by retention, or the log was cut.",
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
        "max.message.bytes bounds a batch of records, after compression.",
        "yak topics alter TOPIC -c max.message.bytes=BYTES",
        "yak produce -z zstd",
    ),
    "refused-by-broker": explain(
        "The broker refuses the request.",
        "Its words are in the message.",
        "yak topics describe TOPIC --all-configs",
    ),
    "resume-mismatch": explain(
        "The --resume file belongs to another input file or topic. Nothing was sent.",
        "It holds a hash of the input's first bytes, so that a checkpoint is never used for the wrong file.",
        "name another checkpoint, or remove this one to start again",
    ),
    "resume-unreadable": explain(
        "The --resume file is not a checkpoint. Nothing was sent.",
        "yak produce writes it whole or not at all; something else is in that file.",
        "name another file",
    ),
    "system": explain(
        "The operating system refused something.",
        "Its words are in the message.",
        "check permissions, free space and limits",
    ),
    "test-cluster": explain(
        "A test waited for something of its cluster that did not come in time.",
        "The reason is what the brokers said last: a leader that is missing, a replica that is out of sync.",
        "look at the brokers' logs in the report of the failed test, or with yak_cluster.log(node)",
    ),
    "timed-out": explain(
        "An answer did not come in time. Whether it was done is unknown.",
        "The broker is slow, stopped, or cut off; for a change, look whether it happened before trying again.",
        "yak doctor",
        "give it more time with --timeout 30s",
    ),
    "topic-exists": explain(
        "A topic of that name is there already.",
        "Nothing was changed.",
        "yak topics create TOPIC --if-not-exists",
    ),
    "unknown-broker": explain(
        "The cluster has no broker of that id.",
        "Only brokers that are up are listed.",
        "yak brokers list",
    ),
    "unknown-command": explain(
        "There is no such command.",
        "The closest one is named in the message.",
        "yak --help",
    ),
    "unknown-context": explain(
        "There is no context of that name.",
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
        "A misspelt setting would silently do nothing, so it is refused.",
        "yak config show",
    ),
    "unknown-topic": explain(
        "There is no topic of that name.",
        "yak does not create topics on the way, except the one called yak.",
        "yak topics list",
        "yak topics create TOPIC",
    ),
    "unreachable": explain(
        "No broker answered (exit code 3).",
        "Nothing listens at the address, or a network in between drops packets. yak tries for 3 s.",
        "yak up -d",
        "yak doctor -b HOST:PORT",
    ),
    "usage": explain(
        "The command line is wrong (exit code 2).",
        "The message says which part; nothing was done.",
        "add --help to the command",
    ),
    "wrong-protocol": explain(
        "Something answers at the address, and it is not a Kafka broker.",
        "Port 2181 is ZooKeeper, 8080 a web server, 6379 Redis; a TLS port does not answer plain requests.",
        "use the broker's port, usually 9092",
    ),
}
