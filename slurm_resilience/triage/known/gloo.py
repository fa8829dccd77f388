"""What Gloo says: collectives over TCP, for CPU tensors. Pure data.

A dead peer and a dead network look the same to it: it says "Timed out waiting" in both cases.
"""

from __future__ import annotations

from slurm_resilience.manifest.records import Cause
from slurm_resilience.triage.known.entry import Retry
from slurm_resilience.triage.known.writing import cascade, root, wait

_RUN = "torch 2.13, run here"
_STRINGS = "torch 2.13, strings"
_PEER = r"(?P<peer>\[?[\w.:]{2,60}\]?:\d{1,5})"

GLOO = (
    root(
        "gloo.mismatch",
        "ranks came to one collective with tensors of different sizes: a bug in the program",
        r"collective mismatch in your code|op\.preamble\.length|Received data size doesn't match expected size",
        ("collective mismatch in your", "op.preamble.length", "Received data size doesn't match"),
        Cause.CRASHED,
        _RUN,
        do="compare the shapes that the ranks send; TORCH_DISTRIBUTED_DEBUG=DETAIL does so",
        retry=Retry.USELESS,
        setting="TORCH_DISTRIBUTED_DEBUG=DETAIL",
    ),
    wait(
        "gloo.network-timeout",
        "the network to a peer gave no answer until TCP gave up",
        rf"(?:Read|Write|readv?|writev?) error {_PEER}: (?:Connection timed out|No route to host|Network is "
        rf"unreachable)",
        (": Connection timed out", ": No route to host", ": Network is unreachable"),
        Cause.NODE_FAILURE,
        "gloo, gloo/transport/tcp/pair.cc",
        do="look at the network between this node and the peer, and at the peer's node",
        retry=Retry.ELSEWHERE,
        command="slurm-resilience preflight",
    ),
    wait(
        "gloo.timeout",
        "a peer sent nothing for too long: it hangs, it is gone, or the network is",
        r"Timed out waiting \d+ms for (?P<what>recv|send) operation to complete",
        "operation to complete",
        Cause.HUNG,
        _RUN,
        do="find the rank that is behind the others, or has no such line",
        retry=Retry.UNKNOWN,
        setting="init_process_group(timeout=…)",
    ),
    wait(
        "gloo.socket-timeout",
        "a peer could not be reached in time",
        rf"(?:Read|Write|Connect) timeout {_PEER}",
        ("Read timeout ", "Write timeout ", "Connect timeout "),
        Cause.HUNG,
        _STRINGS,
        do="look at the network between this node and the peer, and at the peer's node",
        retry=Retry.ELSEWHERE,
    ),
    wait(
        "gloo.no-rendezvous",
        "a rank never came to where Gloo's ranks meet",
        r"Wait timeout for key\(s\): |Gloo connectFullMesh failed|connectFullMesh failed with",
        ("Wait timeout for key(s)", "connectFullMesh failed"),
        Cause.HUNG,
        "gloo, gloo/rendezvous and torch's ProcessGroupGloo.cpp",
        do="find the rank that has no such line; see whether all nodes use interfaces that reach one another",
        retry=Retry.ELSEWHERE,
        setting="GLOO_SOCKET_IFNAME",
    ),
    root(
        "gloo.no-interface",
        "Gloo was told to use a network interface that this node does not have",
        r"Unable to find (?:address for|interface for): (?P<device>[\w.:-]+)",
        ("Unable to find address for: ", "Unable to find interface for: "),
        Cause.CRASHED,
        _RUN,
        do="name an interface that every node has",
        retry=Retry.ELSEWHERE,
        command="ip -br addr",
        setting="GLOO_SOCKET_IFNAME",
    ),
    cascade(
        "gloo.follow-up",
        "a connection was closed after a time-out elsewhere",
        r"Application timeout caused pair closure",
        "Application timeout caused",
        _STRINGS,
    ),
    cascade(
        "gloo.peer-closed",
        "a peer has ended",
        rf"Connection closed by (?:remote )?peer|(?:Read|Write|readv?|writev?) error (?:{_PEER}): Connection reset by "
        r"peer|Socket (?:unexpectedly )?closed \[?",
        ("Connection closed by", "Connection reset by peer", "Socket closed ", "Socket unexpectedly closed"),
        _RUN,
    ),
    cascade(
        "gloo.peer-refused",
        "a peer's process does not listen: not yet, or no more",
        r"connect \[?[\w.:]{2,60}\]?:\d{1,5}: Connection refused|failed to connect, willRetry=",
        (": Connection refused", "failed to connect, willRetry"),
        _STRINGS,
    ),
    cascade(
        "gloo.not-connected",
        "a connection to a peer is gone",
        r"Pair is not connected \(|missing connection between rank ",
        ("Pair is not connected", "missing connection between rank"),
        _STRINGS,
    ),
)
