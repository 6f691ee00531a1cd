"""The bounds that limit the damage of a faulty or hostile peer, each with its reason; asserts relate them.

Limits that an operator may change are broker configs (`yak.config.broker_configs`). Their defaults stand here where YAK's
default differs from Kafka's.
"""

from typing import Final

KIB: Final = 1024
MIB: Final = 1024 * KIB

# ------------------------------------------------------------------------------------------------ frames and sockets

REQUEST_BYTES_MAX: Final = 100 * MIB
"""A larger length prefix closes the connection before the request is read; Kafka's `socket.request.max.bytes`."""
REQUEST_BYTES_MIN: Final = 8
"""API key, version and correlation id: no request is shorter (ControlledShutdown v0 is exactly that)."""
FIRST_BYTE_MS_MAX: Final = 10_000
"""Time for a client's first byte. Clients speak first in Kafka, so a silent one is gone or hostile."""
TLS_HANDSHAKE_MS_MAX: Final = 8_000
"""Time for a whole TLS handshake: a few round trips, and a turn among many other handshakes. Below the time for the
first byte, which counts from the accepted connection until the handshake is done."""
TLS_HANDSHAKES_MAX: Final = 500
"""Unfinished handshakes of a listener; one more ends the oldest. They cost memory and private-key operations, and their
clients have proven nothing."""
TLS_STORE_BYTES_MAX: Final = 16 * MIB
"""A key store or trust store: the authorities of the web are 0.3 MiB. Its location can be set by clients that may alter
configs, also to a device that never ends."""
FRAME_MS_MAX: Final = 30_000
"""Time for a whole frame to arrive; its size adds to it."""
FRAME_BYTES_PER_SECOND_MIN: Final = 64 * KIB
"""Throughput of a slow but honest link; each such portion adds a second to the time for a frame."""
LOGIN_MS_MAX: Final = 30_000
"""Time for a client's login on a listener with SASL: a connection without one holds a file handle and can ask for nothing."""
LOGIN_REQUEST_BYTES_MAX: Final = 512 * KIB
"""Kafka's default for `sasl.server.max.receive.size`: a larger request before the login closes its connection."""
KEY_SET_READ_MS_MIN: Final = 5_000
"""Least time between two reads of OAUTHBEARER's key set for tokens with unknown keys: any client can send such tokens."""
DELEGATION_TOKENS_MAX: Final = 10_000
"""Delegation tokens of the cluster: each is about 1 KB of metadata on every broker, and any logged-in client creates some."""
DELEGATION_TOKENS_REMOVED_AT_ONCE: Final = 100
"""Expired tokens that the controller removes in one check; the next check removes more."""
RENEWERS_PER_TOKEN_MAX: Final = 100
"""Renewers of a delegation token, each a name in the metadata."""
IDLE_MS_MAX: Final = 600_000
"""Kafka's `connections.max.idle.ms`: clients expect the close of an idle connection, and reconnect silently."""
CONNECTIONS_PER_IP_MAX: Final = 1000
"""A host that leaks connections must not take all file handles; a test machine with hundreds of clients still fits."""
CONNECTIONS_MAX: Final = 2**31 - 1
"""Kafka's default for `max.connections`: the process's file handles are the real bound."""
REQUESTS_IN_FLIGHT_PER_CONNECTION_MAX: Final = 1000
"""Unanswered requests of one connection; beyond it the socket is not read. librdkafka sends up to 1000."""
UNSENT_REPLY_BYTES_MAX: Final = 1 * MIB
"""Answers that the client has not read yet; beyond it the socket is not read, until the client reads them."""
RECEIVE_BUFFER_BYTES: Final = 256 * KIB
"""First receive buffer of a connection: one read fills it with hundreds of small requests."""
REQUEST_MEMORY_SHARE_MAX: Final = 0.25
"""Share of the memory of the machine, or of the container, for all partly received requests together."""
REQUEST_MEMORY_BYTES_MIN: Final = REQUEST_BYTES_MAX
"""Lower bound of that memory: one request of the largest size must fit."""

LARGE_FRAME_READ_BYTES_MAX: Final = 512 * KIB
"""Bytes of a large frame in one read: with the page faults of new memory it takes about a millisecond."""
TURN_SLICE_NS: Final = 1_000_000
"""A turn steps no further request after this time: the read's other requests wait for the connection's next turn."""
TURN_SLICE_ALONE_NS: Final = 4 * TURN_SLICE_NS
ALONE_TURNS: Final = 16
"""A connection gets the longer slice after this many turns between which no other had one: each turn costs 50 us."""
LONG_STEP_NS: Final = 8 * TURN_SLICE_NS
"""One request that exceeds a slice by this much counts as a full slice; a large fetch of a follower takes less."""
HEAVY_SLICES: Final = 8
"""A connection is heavy after this many full slices without a pause; a client that catches up after a stall needs fewer."""
HEAVY_MS: Final = 5_000
"""A connection stays heavy for this long after its last full slice, so that one which sends in bursts stays heavy."""

# --------------------------------------------------------------------------------------------------- between brokers

PEERS_RESERVED: Final = 32
"""Connections beyond all bounds for other brokers: each has two or three, for its fetcher, its failure watch and a new one
of either."""
PEERS_PROVING_MAX: Final = 128
"""Connections beyond all bounds that are not yet proven to come from brokers; a new one evicts the oldest. A broker needs one
round trip: a flood of 64 connections in one turn must not evict it before its first bytes are read."""
PEER_PROOF_MS_MAX: Final = 1_000
"""Time for a connection beyond the bounds to prove that it comes from a broker, which starts the proof on connect."""
PEER_CONNECT_MS_MAX: Final = 2_000
"""Time to connect to another broker, which takes one round trip; after it the connect fails."""
PEER_SILENT_MS_MAX: Final = 5_000
"""Time without any packet from another broker's host while one is due; then the connection to it ends. Its kernel answers
for a broker that is busy or paused, and TCP repeats a lost packet five times in it."""
PEER_ANSWER_BYTES_MAX: Final = REQUEST_BYTES_MAX + 8 * MIB
"""A longer answer closes the connection to that broker: it fits a batch of the largest request, and the headers of the
partitions of a full fetch session (37 bytes each)."""

# ----------------------------------------------------------------------------------------------------------- decoding

REQUEST_ELEMENTS_MAX: Final = 12_000
"""Array elements and tagged fields of one request of a client: 10,000 partitions of any number of topics fit, since a topic
counts as its partitions. One element takes about 5 us to decode, serve and answer."""
LARGE_REQUEST_ELEMENTS: Final = 1000
"""A client's request with more elements is served in slices, with other turns between them (`yak.broker.large_requests`)."""
SLICE_ELEMENTS: Final = 400
"""Elements that one slice decodes, serves or encodes: 1 to 4 ms."""
LARGE_REQUEST_BYTES_MAX: Final = 8 * MIB
"""A longer request is served at once: slices need a copy of the request, and 12,000 elements seldom take so much."""
REPLICAS_PER_ELEMENT: Final = 8
"""Manually assigned replicas of a partition that count as one element: they are numbers, and cheap."""
BROKER_REQUEST_ELEMENTS_MAX: Final = 250_000
"""Elements of a request of a proven broker: followers fetch 100,000 partitions at once."""
ANSWER_ELEMENTS_MAX: Final = 4_000_000
"""Elements of an answer of another broker: the metadata of 100,000 partitions has eight for each."""
TAGGED_FIELDS_MAX: Final = 1000
"""Tagged fields of one structure: Kafka's schemas use at most four; more come from a newer client or an attack."""
TOPIC_IDS_CACHED_MAX: Final = 10_000
"""Topic ids kept as objects between requests, so that a hot request does not build them again."""
RECOMPRESSED_BYTES_MAX: Final = 128 * MIB
"""Size of a decompressed batch: a kilobyte of compressed zeros can claim gigabytes."""
RECOMPRESSED_RATIO_MAX: Final = 1000
"""No codec of Kafka compresses real records better; a higher ratio is a decompression bomb."""
RECORD_ERRORS_MAX: Final = 100
"""Invalid records of one batch that an answer lists: a batch of a million would make an answer of 80 MB."""

# ------------------------------------------------------------------------------------------------------------- topics

TOPIC_NAME_LENGTH_MAX: Final = 249
"""Kafka's: a directory name `<topic>-<partition>` with suffixes must stay within 255 (Topic.java)."""
PARTITIONS_PER_TOPIC_MAX: Final = 10_000
"""More partitions in one request would block the broker for seconds while it creates their files; Kafka allows about as
many."""
TOPICS_PER_CREATE_MAX: Final = 1_000
"""Topics that one CreateTopics, or one Metadata by auto-creation, creates; the rest can come in the next."""
PARTITIONS_PER_REQUEST_MAX: Final = 10_000
"""Partitions that one request creates, over all its topics (Kafka's ReplicationControlManager.MAX_PARTITIONS_PER_BATCH)."""
REPLICAS_PER_BROKER_MAX: Final = 20_000
"""Default of `yak.max.broker.partitions`: two topics of the maximum size fit."""
EXTERNAL_BROKERS_MAX: Final = 1_000
"""External brokers in the metadata; beyond it a new one replaces the one that was closed first. Every image and snapshot
holds all of them."""
CONFIG_VALUE_BYTES_MAX: Final = 32_767
"""One config value, which is stored, logged and sent whole: older versions of DescribeConfigs have 16-bit lengths."""

# --------------------------------------------------------------------------------------------------------------- ACLs

ACL_NAME_LENGTH_MAX: Final = 2_048
"""Characters of a resource, a principal or a host in an ACL: they are stored, logged and sent whole."""
ACLS_PER_RESOURCE_MAX: Final = 2_000
"""ACLs of one resource pattern: a change writes all of them into the metadata log, a few hundred kilobytes at most."""
ACLS_PER_REQUEST_MAX: Final = 2_000
"""ACLs that one request creates or deletes."""
ACL_DECISIONS_MAX: Final = 50_000
"""Decisions that the authorizer remembers: 20 MB at most. With more clients and topics some are decided again."""
ACL_DECISION_NAME_LENGTH_MAX: Final = 256
"""Characters of a name in a remembered decision: topics have 249 at most, and a client sends any name."""
ERROR_MESSAGE_LENGTH_MAX: Final = 8_000
"""Characters of an error's message, which may quote a client: a string of the protocol has at most 32,767 bytes."""

# ------------------------------------------------------------------------------------------------------------- groups

GROUP_STRING_BYTES_MAX: Final = 32_000
"""Group, member, instance and transactional ids, names of assignors: coordinators' records have 16-bit lengths."""
OFFSET_METADATA_BYTES_MAX: Final = 32_000
"""Maximum of `offset.metadata.max.bytes`, for the same reason."""
GROUP_METADATA_BYTES_MAX: Final = 64 * MIB
"""Metadata of all members of one group: twice that of ten thousand consumers of a hundred topics."""
GROUP_PENDING_MEMBERS_MAX: Final = 10_000
"""Member ids that were assigned and have not joined yet; a new one evicts the oldest."""

# --------------------------------------------------------------------------------------------------------- fetch side

FETCH_BYTES_MAX: Final = 55 * MIB
"""Kafka's `fetch.max.bytes` of the broker: no answer is larger, except for one whole batch."""
FETCH_ANSWER_AIM_BYTES: Final = 1 * MIB
"""Fetch answers stop growing here, even if the client accepts more: larger ones fall out of the processor's cache on
the way to the socket (8 partitions of 1 KB records: 0.85 s of processor time a GB at 4 MiB, 0.40 s at 1 MiB)."""
FETCH_ANSWER_AIM_FAR_BYTES: Final = 16 * MIB
"""For distant clients an answer may grow by 1 MiB for each millisecond of the round trip, up to here."""
FETCH_SLICED_BYTES_PER_PARTITION: Final = 1 * MIB
"""A fetch of many partitions gets up to this much for each, sent with `sendfile`: so the cost of each partition buys more
bytes (64 partitions of 1 KB records: 0.3 s of processor time a GB instead of 1.0). It has room for a whole batch of
librdkafka (`batch.size`, 1 MB) or of a partition's default (`max.partition.fetch.bytes`): with half of it, 8 partitions
of such batches took 0.37 s a GB instead of 0.27, in lz4 0.34 instead of 0.26."""
FETCH_SLICED_BYTES_MAX: Final = 16 * MIB
"""Larger answers slow the client down: it buffers a whole answer before it reads any of it."""
UNSENT_IN_KERNEL_BYTES: Final = 32 * KIB
"""Slices of files are sent in portions of about this size (TCP_NOTSENT_LOWAT), so that the client keeps up and finds them
in the processor's cache. It bounds what has not left the machine, not what is on its way: a long link loses nothing."""
NEAR_SEND_BUFFER_BYTES: Final = 512 * KIB
"""The send buffer of a client less than a millisecond away, which bounds what is on its way too: otherwise its receive
buffer fills up while it works on records (librdkafka, 8 partitions of 1 KB: 0.54 us of processor time a record, 0.29 with
it, and half as many records again). Kafka gives all clients 100 KiB (socket.send.buffer.bytes)."""
FETCH_PARTITIONS_READ_MAX: Final = 1_000
"""Partitions that one fetch of a consumer reads: a client may want one byte of each, and a read takes 20 us. The others
come with its next fetches."""
FETCH_SESSION_PARTITIONS_MAX: Final = 100_000
"""Partitions of one fetch session; a larger session is refused and the client sends full fetches."""
FETCH_PARTITIONS_REMEMBERED_MAX: Final = 250_000
"""Partitions of all fetch sessions together, and again of all delayed fetches: some 350 bytes each. Beyond it sessions
of closed connections and idle ones are evicted, new sessions are refused, and fetches of more than a fair share are not
delayed.
"""
FETCH_SESSIONS_MAX: Final = 1000
"""Kafka's `max.incremental.fetch.session.cache.slots`."""
FETCH_SESSION_EVICTION_MS_MIN: Final = 120_000
"""A session idle for less time is not evicted for another (Kafka's FetchSession.MIN_INCREMENTAL_FETCH_SESSION_EVICTION)."""

# ------------------------------------------------------------------------------------------------------------- quotas

QUOTA_CLIENTS_MAX: Final = 10_000
"""Clients whose use of a quota is remembered, some 2 KiB each: a client may send any number of client ids."""
QUOTA_NAME_LENGTH_MAX: Final = 256
"""Characters by which users and client ids are told apart there."""

# ---------------------------------------------------------------------------------------------------------- producers

PRODUCERS_PER_PARTITION_MAX: Final = 100_000
"""Idempotent producers in one partition's producer state: about 40 MB. Beyond it, some of the tenth that was
active least recently are evicted."""
PRODUCER_BATCHES_REMEMBERED: Final = 5
"""Recent batches of one producer that are recognised as duplicates (ProducerStateEntry.java); the client's in-flight bound."""

# --------------------------------------------------------------------------------------------------------- compaction

COMPACTION_MAP_BYTES: Final = 64 * MIB
"""Memory for the keys of one round (`log.cleaner.dedupe.buffer.size`): some 240,000 keys, as many as 10,000 groups of 24
partitions have. A log with more keys takes more rounds. Half of Kafka's default, which is as large as a whole YAK broker."""
NEW_LOG_BYTES_MIN: Final = 256 * KIB
"""Free space that a broker needs in its emptiest log directory to get a new replica: folder, files and first records."""
COMPACTION_SPARE_BYTES: Final = 64 * MIB
"""Free space that compaction and moves of logs leave on the disk: without it the next append would fail."""
MOVE_PIECE_BYTES: Final = MIB
"""What one job copies of a log that moves to another log directory, and the most that is copied while appends wait."""

# ------------------------------------------------------------------------------------------------- the UI in a browser

UI_SESSIONS_MAX: Final = 16
"""Concurrent tabs of `yak ui --web`: each is a process of some 60 MB, and a page that reloads itself must not exhaust memory."""
UI_UPLOAD_BYTES_MAX: Final = 64 * MIB
"""One uploaded file; a million rows of CSV fit. Use `yak produce -f` for larger files."""
UI_UPLOADS_BYTES_MAX: Final = 16 * UI_UPLOAD_BYTES_MAX
"""All uploads of one server: they are in the temporary directory, which may be memory."""
UI_MESSAGE_BYTES_MAX: Final = 4 * MIB
"""One message from the browser; a paste is one message."""
STORE_CALL_PARTITIONS_MAX: Final = 200
"""Partitions in a call of the metadata store: a script blocks the store while it runs, and this many take about 2 ms."""
TOKEN_TIME_MAX_S: Final = 1 << 40
"""A time of an access token behind any that a clock will show, and small enough for exact arithmetic."""

assert REQUEST_BYTES_MIN < REQUEST_BYTES_MAX <= 2**31 - 1, "the length prefix is an int32"
assert RECEIVE_BUFFER_BYTES <= REQUEST_BYTES_MAX
assert UNSENT_REPLY_BYTES_MAX < FETCH_BYTES_MAX, "one answer may always be sent; the bound stops the next"
assert FETCH_ANSWER_AIM_BYTES <= FETCH_BYTES_MAX <= REQUEST_BYTES_MAX, "who takes such requests takes such answers"
assert REQUEST_BYTES_MAX + 64 * FETCH_SESSION_PARTITIONS_MAX < PEER_ANSWER_BYTES_MAX <= 2**31 - 1
assert FETCH_SESSION_PARTITIONS_MAX <= BROKER_REQUEST_ELEMENTS_MAX
assert FETCH_SESSION_PARTITIONS_MAX <= FETCH_PARTITIONS_REMEMBERED_MAX
assert TLS_HANDSHAKE_MS_MAX < FIRST_BYTE_MS_MAX
assert FIRST_BYTE_MS_MAX < LOGIN_MS_MAX < IDLE_MS_MAX
assert FIRST_BYTE_MS_MAX < FRAME_MS_MAX < IDLE_MS_MAX
assert REQUEST_BYTES_MAX <= RECOMPRESSED_BYTES_MAX, "an uncompressed batch of the largest request can be looked at"
assert TOPICS_PER_CREATE_MAX < PARTITIONS_PER_TOPIC_MAX <= PARTITIONS_PER_REQUEST_MAX <= REQUEST_ELEMENTS_MAX
assert SLICE_ELEMENTS < LARGE_REQUEST_ELEMENTS < REQUEST_ELEMENTS_MAX
assert REQUEST_ELEMENTS_MAX <= BROKER_REQUEST_ELEMENTS_MAX <= ANSWER_ELEMENTS_MAX
assert 0 < REQUEST_MEMORY_SHARE_MAX < 1


def frame_deadline_ms(size_bytes: int) -> int:
    """Milliseconds that a frame of this size may take to arrive: a fixed time plus its size at the slowest honest rate."""
    return FRAME_MS_MAX + size_bytes * 1000 // FRAME_BYTES_PER_SECOND_MIN


def request_memory_bytes_max(memory_total_bytes: int) -> int:
    """Bytes that all partly received requests may take together, where the process may take this much memory."""
    return max(REQUEST_MEMORY_BYTES_MIN, int(memory_total_bytes * REQUEST_MEMORY_SHARE_MAX))
