"""Every bound that keeps a peer's mistake, or its malice, small. One line each for why; asserts tie neighbours.

What a person may want to change is a broker config (`yak.config.broker_configs`); its default stands here when the
default is ours rather than Kafka's.
"""

from typing import Final

KIB: Final = 1024
MIB: Final = 1024 * KIB

# ------------------------------------------------------------------------------------------------ frames and sockets

REQUEST_BYTES_MAX: Final = 100 * MIB
"""A larger length prefix closes the connection unread; Kafka's `socket.request.max.bytes`."""
REQUEST_BYTES_MIN: Final = 8
"""API key, version and correlation id: no request is shorter (ControlledShutdown v0 is exactly that)."""
FIRST_BYTE_MS_MAX: Final = 10_000
"""A client that connects and says nothing is gone or hostile; clients speak first in Kafka."""
FRAME_MS_MAX: Final = 30_000
"""Time for a frame to arrive whole, before its size is counted."""
FRAME_BYTES_PER_SECOND_MIN: Final = 64 * KIB
"""What a slow but honest link brings; each such portion adds a second to the time for a frame."""
IDLE_MS_MAX: Final = 600_000
"""Kafka's `connections.max.idle.ms`: clients expect to be dropped after it, and reconnect quietly."""
CONNECTIONS_PER_IP_MAX: Final = 1000
"""One host with a leak must not take all file handles; a test machine with hundreds of clients still fits."""
CONNECTIONS_MAX: Final = 2**31 - 1
"""Kafka's default for `max.connections`: the process's file handles are the real bound."""
REQUESTS_IN_FLIGHT_PER_CONNECTION_MAX: Final = 1000
"""Stepped but unanswered requests of one connection; beyond it the socket is not read. librdkafka sends up to 1000."""
UNSENT_REPLY_BYTES_MAX: Final = 1 * MIB
"""Answers that a client does not read; beyond it the socket is not read, so that it must."""
RECEIVE_BUFFER_BYTES: Final = 256 * KIB
"""First buffer of a connection that sends: holds hundreds of small requests of one read."""
REQUEST_MEMORY_SHARE_MAX: Final = 0.25
"""All partly received requests together may take this share of the machine's memory."""
REQUEST_MEMORY_BYTES_MIN: Final = REQUEST_BYTES_MAX
"""And never less than one request of the largest size, or no such request could ever be read."""

LARGE_FRAME_READ_BYTES_MAX: Final = 512 * KIB
"""Bytes of a large frame in one read: with the page faults of new memory they take about a millisecond."""
TURN_SLICE_NS: Final = 1_000_000
"""A turn steps no further request after this time: what the read brought besides waits for the connection's next turn."""
LONG_STEP_NS: Final = 8 * TURN_SLICE_NS
"""One request that takes so much longer than a slice counts as a full slice; a large fetch of a follower does not."""
HEAVY_SLICES: Final = 8
"""A connection that used up so many slices without a pause is heavy; a client that catches up after a stall needs fewer."""
HEAVY_MS: Final = 5_000
"""So long a heavy connection stays heavy after its last full slice: one that sends in bursts is heavy between them."""

# --------------------------------------------------------------------------------------------------- between brokers

PEERS_RESERVED: Final = 32
"""Connections beyond all bounds, for other brokers: each has two or three here, its fetcher, its watch and a new one of either."""
PEERS_PROVING_MAX: Final = 128
"""Connections beyond all bounds that have not proven yet to be brokers. The oldest one makes room for the next: a broker needs
one round trip, and a flood of 64 connections in one turn must not push it out before its first bytes were read."""
PEER_PROOF_MS_MAX: Final = 1_000
"""A connection beyond the bounds has proven by then to be a broker's: a broker begins as soon as it is connected."""
PEER_CONNECT_MS_MAX: Final = 2_000
"""A handshake with another broker takes a round trip; past this the line is broken, and the core shall know."""
PEER_ANSWER_BYTES_MAX: Final = REQUEST_BYTES_MAX + 8 * MIB
"""A longer answer ends the connection to that broker: a batch of the largest request, and what stands around it for the
partitions of a full fetch session (37 bytes each)."""

# ---------------------------------------------------------------------------------------------------- what is decoded

REQUEST_ELEMENTS_MAX: Final = 12_000
"""Array elements and tagged fields of one request of a client, all together: 10,000 partitions of any number of topics, for a
topic counts as its partitions. To decode, serve and answer one takes about 5 us, and nothing else is served meanwhile."""
REPLICAS_PER_ELEMENT: Final = 8
"""Fewer replicas of a partition, assigned by hand, count as nothing beside their partition: they are numbers, and cheap."""
BROKER_REQUEST_ELEMENTS_MAX: Final = 250_000
"""Likewise in any request of a broker that has proven to be one: followers fetch 100,000 partitions at once."""
ANSWER_ELEMENTS_MAX: Final = 4_000_000
"""Likewise in an answer of another broker: the metadata of 100,000 partitions has eight for each."""
TAGGED_FIELDS_MAX: Final = 1000
"""Tagged fields of one structure; Kafka's schemas use at most four; the rest is a newer client's, or an attack."""
TOPIC_IDS_CACHED_MAX: Final = 10_000
"""Topic ids kept as objects between requests, so that a hot request need not build them anew."""
RECOMPRESSED_BYTES_MAX: Final = 128 * MIB
"""What a batch may grow to when its records must be looked at: a kilobyte of zeros can claim gigabytes."""
RECOMPRESSED_RATIO_MAX: Final = 1000
"""No codec of Kafka's packs real records tighter; more is a bomb."""
RECORD_ERRORS_MAX: Final = 100
"""Records of one batch that an answer names with what is wrong with them: a batch of a million would make one of 80 MB."""

# ------------------------------------------------------------------------------------------------------------- topics

TOPIC_NAME_LENGTH_MAX: Final = 249
"""Kafka's: a directory name `<topic>-<partition>` with suffixes must stay within 255 (Topic.java)."""
PARTITIONS_PER_TOPIC_MAX: Final = 10_000
"""More in one request would stop the broker for seconds while their files are made; Kafka allows about as many."""
TOPICS_PER_CREATE_MAX: Final = 1_000
"""Topics in one CreateTopics, or made by one Metadata that names them; the rest can come in the next."""
PARTITIONS_PER_REQUEST_MAX: Final = 10_000
"""New partitions that one request makes, over all its topics (Kafka's ReplicationControlManager.MAX_PARTITIONS_PER_BATCH)."""
REPLICAS_PER_BROKER_MAX: Final = 20_000
"""Default of `yak.max.broker.partitions`: two topics of the most partitions fit."""
GUESTS_MAX: Final = 1_000
"""Brokers that are no YAK brokers in the metadata; past it a new one takes the place of the one that was closed first. Each is in
every image and snapshot."""
CONFIG_VALUE_LENGTH_MAX: Final = 32 * KIB
"""Bytes of one config value: it is stored, logged and sent whole."""

# ------------------------------------------------------------------------------------------------------------- groups

GROUP_STRING_BYTES_MAX: Final = 32_000
"""Group, member and instance ids, names of strategies: the records of `__consumer_offsets` have 16-bit lengths."""
OFFSET_METADATA_BYTES_MAX: Final = 32_000
"""The same, for what `offset.metadata.max.bytes` may be set to."""
GROUP_METADATA_BYTES_MAX: Final = 64 * MIB
"""What the members of one group may say about themselves, all together: ten thousand consumers of a hundred topics fit twice."""
GROUP_PENDING_MEMBERS_MAX: Final = 10_000
"""Ids that were given out and not joined with yet; the oldest is forgotten for the next."""

# --------------------------------------------------------------------------------------------------------- fetch side

FETCH_BYTES_MAX: Final = 55 * MIB
"""Kafka's `fetch.max.bytes` of the broker: one answer never holds more, but always one whole batch."""
FETCH_ANSWER_AIM_BYTES: Final = 1 * MIB
"""An answer stops growing here, whatever more the client would take: larger ones fall out of the processor's cache on
their way to the socket (8 partitions of 1 KB records: 0.85 s of processor time a GB at 4 MiB, 0.40 s at 1 MiB)."""
FETCH_ANSWER_AIM_FAR_BYTES: Final = 16 * MIB
"""Across a long line it may grow by 1 MiB for each millisecond of the round trip, up to here."""
FETCH_SLICED_BYTES_PER_PARTITION: Final = 512 * KIB
"""A fetch of many partitions gets more, sent by the kernel straight from the files (`sendfile`): what a request costs for
each partition is then paid once for this much (64 partitions of 1 KB records: 1.0 s of processor time a GB before, 0.3 after)."""
FETCH_SLICED_BYTES_MAX: Final = 16 * MIB
"""Past it the client has to hold too much of an answer before it can look at any of it, and gets slower."""
FETCH_SESSION_PARTITIONS_MAX: Final = 100_000
"""Partitions that one fetch session remembers; a session of more is refused and the client sends full fetches."""
FETCH_PARTITIONS_REMEMBERED_MAX: Final = 250_000
"""Partitions of all fetch sessions together, and again of all delayed fetches: some 350 bytes each. Past it sessions of closed
connections and idle ones are evicted, new sessions are refused, and fetches of more than a fair share are not delayed."""
FETCH_SESSIONS_MAX: Final = 1000
"""Kafka's `max.incremental.fetch.session.cache.slots`."""
FETCH_SESSION_KEPT_MS_MIN: Final = 120_000
"""A session idle for less is not evicted for another (Kafka's FetchSession.MIN_INCREMENTAL_FETCH_SESSION_EVICTION)."""

# ---------------------------------------------------------------------------------------------------------- producers

PRODUCERS_PER_PARTITION_MAX: Final = 100_000
"""Idempotent producers remembered by one partition: about 40 MB; the longest silent one is forgotten first."""
PRODUCER_BATCHES_REMEMBERED: Final = 5
"""Batches of one producer whose repetition is recognised (ProducerStateEntry.java); the client's in-flight bound."""

# --------------------------------------------------------------------------------------------------------- compaction

COMPACTION_MAP_BYTES: Final = 64 * MIB
"""Memory for the keys of one round (`log.cleaner.dedupe.buffer.size`): some 330,000 of them, more than 10,000 groups of 30
partitions have. A log with more keys takes more rounds. Half of Kafka's, since a whole broker here is as large."""
NEW_LOG_BYTES_MIN: Final = 256 * KIB
"""Room that a broker's emptiest log directory must have for it to be given a new replica: its folder, files and first records."""
COMPACTION_SPARE_BYTES: Final = 64 * MIB
"""Room that rewriting a segment leaves on the disk: without it the next append would fail, and with that the directory."""

# ------------------------------------------------------------------------------------------------- the UI in a browser

UI_SESSIONS_MAX: Final = 16
"""Tabs of `yak ui --web` at once: each is a process of some 60 MB, and a page that reloads itself must not take the machine."""
UI_UPLOAD_BYTES_MAX: Final = 64 * MIB
"""One uploaded file; a million rows of CSV fit. What is larger is better sent with `yak produce -f`."""
UI_UPLOADS_BYTES_MAX: Final = 16 * UI_UPLOAD_BYTES_MAX
"""All uploads of one server, for they lie in the temporary directory, which may be memory."""
UI_MESSAGE_BYTES_MAX: Final = 4 * MIB
"""One message from the browser: a paste is one."""

assert REQUEST_BYTES_MIN < REQUEST_BYTES_MAX <= 2**31 - 1, "the length prefix is an int32"
assert RECEIVE_BUFFER_BYTES <= REQUEST_BYTES_MAX
assert UNSENT_REPLY_BYTES_MAX < FETCH_BYTES_MAX, "one answer may always be sent; the bound stops the next"
assert FETCH_ANSWER_AIM_BYTES <= FETCH_BYTES_MAX <= REQUEST_BYTES_MAX, "who takes such requests takes such answers"
assert REQUEST_BYTES_MAX + 64 * FETCH_SESSION_PARTITIONS_MAX < PEER_ANSWER_BYTES_MAX <= 2**31 - 1
assert FETCH_SESSION_PARTITIONS_MAX <= BROKER_REQUEST_ELEMENTS_MAX
assert FETCH_SESSION_PARTITIONS_MAX <= FETCH_PARTITIONS_REMEMBERED_MAX
assert FIRST_BYTE_MS_MAX < FRAME_MS_MAX < IDLE_MS_MAX
assert REQUEST_BYTES_MAX <= RECOMPRESSED_BYTES_MAX, "an uncompressed batch of the largest request can be looked at"
assert TOPICS_PER_CREATE_MAX < PARTITIONS_PER_TOPIC_MAX <= PARTITIONS_PER_REQUEST_MAX <= REQUEST_ELEMENTS_MAX
assert REQUEST_ELEMENTS_MAX <= BROKER_REQUEST_ELEMENTS_MAX <= ANSWER_ELEMENTS_MAX
assert 0 < REQUEST_MEMORY_SHARE_MAX < 1


def frame_deadline_ms(size_bytes: int) -> int:
    """Milliseconds a frame of this size may take to arrive: a fixed time plus its size at the slowest honest rate."""
    return FRAME_MS_MAX + size_bytes * 1000 // FRAME_BYTES_PER_SECOND_MIN


def request_memory_bytes_max(memory_total_bytes: int) -> int:
    """Bytes that all requests being received may take together, on a machine with this much memory."""
    return max(REQUEST_MEMORY_BYTES_MIN, int(memory_total_bytes * REQUEST_MEMORY_SHARE_MAX))
