---------------------------- MODULE YakSchedule ----------------------------
EXTENDS kraft_kip_996

(*
    Behaviours of the specification kraft_kip_996 in an order in which YAK can take the same steps.

    Nothing is added to what the specification allows. `hist` is a history variable: it names the action of a step, and
    remembers what a node of YAK knows that a server of the specification does not show. Every other line of NextOfYak takes
    behaviours away; each says why. tests/sim/quorum_traces/README.md has the whole table.
*)

VARIABLE hist

Servers == 1..InitClusterSize

Consumed == net_messages \ net_messages'
Sent == net_messages' \ net_messages

\* Whether a node of YAK in the place of `s` names the leader that `s` names after the step.
Names(s) == state'[s] = Leader \/ (state'[s] = Follower /\ hist.attached[s]) \/ (state'[s] = Prospective /\ hist.refused[s])

\* A pre-vote that the leader's own follower, or the leader itself, refuses: YAK follows that leader from then on, while the
\* specification waits for ConcludePreVote.
RefusalNamesLeader(s, action) ==
    /\ action = "HandleVoteResponse"
    /\ state[s] = Prospective /\ state'[s] = Prospective
    /\ \E m \in Consumed : /\ ~m.vote_granted
                           /\ m.leader # Nil /\ m.leader = leader[s]
                           /\ m.replica_epoch = current_epoch[s]
                           /\ m \notin hist.unnamed

Refused(s, t, action) ==
    IF s = t /\ action \in {"VoterFetchTimeout", "VoterElectionTimeout", "RestartWithState"} THEN FALSE
    ELSE hist.refused[t] \/ (s = t /\ RefusalNamesLeader(s, action))

Attached(s, t, action) ==
    CASE s # t -> hist.attached[t]
      [] action = "RestartWithState" -> FALSE
      [] action = "ConcludePreVote" -> hist.refused[t]
      [] action \in {"AcceptBeginQuorumRequest", "SendFetchRequest", "HandleFetchResponse", "HandleVoteResponse"}
         /\ state'[t] = Follower
         /\ (state[t] # Follower \/ current_epoch'[t] # current_epoch[t] \/ leader'[t] # leader[t] \/ Sent # {}) -> TRUE
      [] OTHER -> hist.attached[t]

Note(action, s, peer) ==
    /\ hist' = [action  |-> action, server |-> s, peer |-> peer,
                refused    |-> [t \in Servers |-> Refused(s, t, action)],
                attached |-> [t \in Servers |-> Attached(s, t, action)],
                unnamed    |-> {m \in net_messages' :
                                \/ m \in hist.unnamed /\ m \notin Sent
                                \/ /\ m \in Sent
                                   /\ m.type \in {RequestVoteResponse, FetchResponse}
                                   /\ m.leader # Nil
                                   /\ ~Names(s)}]

\* ---------------------------------------------------------------------- what a node of YAK does in the same step

\* It counts a vote, becomes a candidate or the leader in one step.
WinsAtOnce ==
    \A s \in Servers : votes_recv[s] \in Quorum(config[s].members) =>
        /\ (state[s] = Prospective) => (state'[s] = Candidate)
        /\ (state[s] = Candidate) => (state'[s] = Leader)

\* It has gone back to the leader that a refusal named, and counts no further vote.
FollowsWhenRefused ==
    \A s \in Servers : (state[s] = Prospective /\ hist.refused[s]) => votes_recv'[s] \in {votes_recv[s], {}}

\* ---------------------------------------------------------------------- what a node of YAK does not do

\* A voter without a leader fetches from no voter: it waits for the leader's BeginQuorumEpoch, or asks for votes.
VotersDoNotSearch(action, s) == action = "SendFetchRequest" => state[s] = Follower

\* A fetch of a node that has not found its leader since it restarted, or since its pre-vote was lost: YAK's pre-vote finds it.
FetchesWhenAttached(action, s, peer) ==
    (action = "SendFetchRequest" /\ ~hist.attached[s] /\ Sent # {}) =>
        state[peer] = Leader /\ current_epoch[peer] = current_epoch[s]

\* A leader serves clients after its epoch's first record is committed.
ServesWhenReady(action, s) == action = "HandleClientRequest" => LeaderHasCommittedOffsetsInCurrentEpoch(s)

\* A prospective that grants the vote of its own epoch gives up its pre-vote, and the specification's goes on with it.
\* A node that has lost the leader of its epoch grants a late request of that leader, and the specification refuses it.
LostFollowersDoNotVote(action, s) ==
    (action = "HandleVoteRequest" /\ current_epoch'[s] = current_epoch[s]
     /\ (state[s] = Prospective \/ (state[s] = Follower /\ ~hist.attached[s]))) =>
        \A m \in Consumed : m.pre_vote \/ m.replica_epoch < current_epoch[s] \/ voted_for[s] # Nil

\* It truncates to the leader's end offset at once, also where its own end offset for that epoch is behind it: the leader
\* has nothing there that could match, so the specification truncates the rest after its next fetch.
TruncatesAtOnce(action, s) ==
    action = "HandleFetchResponse" =>
        \A m \in Consumed : m.result = Diverging => Len(log'[s]) < m.diverging_end_offset

\* ---------------------------------------------------------------------- what the specification's messages cannot show

\* A leader's name that YAK does not give must be no news to the receiver.
NamesNoUnknownLeader ==
    \A m \in Sent : (m.type \in {RequestVoteResponse, FetchResponse} /\ m.leader # Nil) =>
        \/ m \notin hist'.unnamed /\ ~(m.type = RequestVoteResponse /\ m.vote_granted)
        \/ current_epoch'[m.dest] = m.replica_epoch /\ leader'[m.dest] = m.leader

\* A response belongs to a call of the process that sent the request, and ends with it.
RestartsWithoutCalls(action, s) ==
    action = "RestartWithState" =>
        ~\E m \in net_messages : \/ m.type = RequestVoteRequest /\ m.source = s
                                 \/ m.type = RequestVoteResponse /\ m.dest = s

\* A second BeginQuorumEpoch of the same leader changes nothing in YAK; here it forgets the fetch under way.
BeginsOnce(action, s) ==
    action = "AcceptBeginQuorumRequest" => leader'[s] # leader[s] \/ current_epoch'[s] # current_epoch[s]

\* Messages are a set: a fetch must differ from those that are still on their way, and from those whose responses are.
FetchesDiffer(action, s) ==
    action = "SendFetchRequest" =>
        ~\E m \in net_messages : \/ m = fetch_state'[s].pending_fetch
                                 \/ m.type = FetchResponse /\ m.correlation = fetch_state'[s].pending_fetch

\* A late fetch may arrive after a newer one.
FetchesInOrder ==
    \A s \in Servers : (state[s] = Leader /\ state'[s] = Leader) =>
        \A t \in Servers : flwr_end_offset'[s][t] >= flwr_end_offset[s][t]

\* The state of the fetches outlives a change of the leader that a response tells of.
FetchStateIsOfThisLeader(action, s) ==
    /\ (action = "HandleVoteResponse" /\ fetch_state[s] # BlankFetchState) =>
        (state'[s] = state[s] /\ current_epoch'[s] = current_epoch[s])
    /\ (action = "HandleVoteRequest" /\ state[s] = Follower /\ state'[s] = Follower
        /\ fetch_state[s].last_fetch_res # Nil) => fetch_state[s].last_fetch_res.error = Nil

\* A resigned leader's own bump of its epoch: YAK asks for pre-votes in the same epoch.
BumpsByElections(action) == action # "ResignedElectionTimeout"

Schedule(action, s, peer) ==
    /\ Note(action, s, peer)
    /\ WinsAtOnce /\ FollowsWhenRefused
    /\ VotersDoNotSearch(action, s) /\ FetchesWhenAttached(action, s, peer) /\ ServesWhenReady(action, s)
    /\ LostFollowersDoNotVote(action, s) /\ TruncatesAtOnce(action, s) /\ NamesNoUnknownLeader
    /\ RestartsWithoutCalls(action, s)
    /\ BeginsOnce(action, s) /\ FetchesDiffer(action, s) /\ FetchesInOrder
    /\ FetchStateIsOfThisLeader(action, s) /\ BumpsByElections(action)

InitOfYak == Init /\ hist = [action |-> "Init", server |-> 0, peer |-> 0, refused |-> [t \in Servers |-> FALSE],
                             attached |-> [t \in Servers |-> TRUE], unnamed |-> {}]

NextOfYak ==
    \/ ChangeNetworkConnectivity /\ Schedule("ChangeNetworkConnectivity", 0, 0)
    \/ \E s \in Servers :
        \/ RestartWithState(s) /\ Schedule("RestartWithState", s, 0)
        \/ VoterFetchTimeout(s) /\ Schedule("VoterFetchTimeout", s, 0)
        \/ VoterElectionTimeout(s) /\ Schedule("VoterElectionTimeout", s, 0)
        \/ ConcludePreVote(s) /\ Schedule("ConcludePreVote", s, 0)
        \/ BecomeLeader(s) /\ Schedule("BecomeLeader", s, 0)
        \/ HandleClientRequest(s) /\ Schedule("HandleClientRequest", s, 0)
        \/ CheckQuorumResign(s) /\ Schedule("CheckQuorumResign", s, 0)
    \/ \E s, peer \in Servers :
        \/ HandleVoteRequest(s, peer) /\ Schedule("HandleVoteRequest", s, peer)
        \/ HandleVoteResponse(s, peer) /\ Schedule("HandleVoteResponse", s, peer)
        \/ AcceptBeginQuorumRequest(s, peer) /\ Schedule("AcceptBeginQuorumRequest", s, peer)
        \/ SendFetchRequest(s, peer) /\ Schedule("SendFetchRequest", s, peer)
        \/ HandleFetchResponse(s, peer) /\ Schedule("HandleFetchResponse", s, peer)
        \/ ResendBeginQuorumEpochRequest(s, peer) /\ Schedule("ResendBeginQuorumEpochRequest", s, peer)
        \/ RejectFetchRequest(s, peer) /\ Schedule("RejectFetchRequest", s, peer)
        \/ DivergingFetchRequest(s, peer) /\ Schedule("DivergingFetchRequest", s, peer)
        \/ AcceptFetchRequest(s, peer) /\ Schedule("AcceptFetchRequest", s, peer)

SpecOfYak == InitOfYak /\ [][NextOfYak]_<<vars, hist>>
=============================================================================
