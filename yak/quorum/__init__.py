"""The metadata store as a Raft quorum of brokers (KRaft: KIP-595, 630, 853, 996), pure: events in, effects out.

`Quorum` (`quorum.py`) elects a leader among the voters, replicates the log of commands (`raft_log.py`), and applies
committed ones to the state machine (`state_machine.py`), which executes the scripts of `yak.metadata_store`.
`QuorumStore` (`store.py`) is the metadata store that a broker of such a cluster calls and tails.
"""
