"""What torch's store and its sockets say: where the ranks meet and tell one another small things. Pure data."""

from __future__ import annotations

from slurm_resilience.manifest.records import Cause
from slurm_resilience.triage.known.entry import Retry
from slurm_resilience.triage.known.writing import advice, cascade, root, wait

_STRINGS = "torch 2.13, strings"
_RUN = "torch 2.13, run here"
_REACH = "see whether the first node's name resolves and its port can be reached from every node"

C10D = (
    root(
        "c10d.port-taken",
        "the port where the ranks meet is in use: most often by another job on the first node",
        r"The server socket has failed to (?:listen on|bind)[^\n]{0,200}?(?:EADDRINUSE|[Aa]ddress already in use)|"
        r"The server socket has failed to listen on any local network address\. port: (?P<port>\d+)",
        "The server socket has failed",
        Cause.CRASHED,
        _RUN,
        do="use another port: the launcher of srun-resilient chooses a free one",
        retry=Retry.HELPS,
        command="ss -ltnp | grep PORT",
        setting="MASTER_PORT",
    ),
    wait(
        "c10d.not-reached",
        "the place where the ranks meet could not be reached",
        r"The client socket has (?:timed out after \w+ while trying to connect to|failed to connect to any "
        r"network address of) "
        r"\((?P<peer>[^,)]{1,120}), (?P<port>\d+)\)",
        "The client socket has",
        Cause.HUNG,
        _RUN,
        do=_REACH,
        retry=Retry.ELSEWHERE,
        command="slurm-resilience preflight",
        setting="MASTER_ADDR, MASTER_PORT",
    ),
    root(
        "c10d.name-unknown",
        "the name of the first node can't be resolved",
        r"The (?:IPv4 )?network addresses of \((?P<peer>[^,)]{1,120}), (?P<port>\d+)\) cannot be retrieved "
        r"\(gai error: (?P<code>-?\d+)",
        "cannot be retrieved (gai error",
        Cause.CRASHED,
        _RUN,
        do="have the name resolved on every node, or use an address: MASTER_ADDR",
        retry=Retry.ELSEWHERE,
        command="getent hosts HOST",
        setting="MASTER_ADDR",
    ),
    wait(
        "c10d.key-timeout",
        "a rank waited in vain for another one's word",
        r"wait timeout after \d+ms, keys: (?P<what>.{1,200})",
        "ms, keys: ",
        Cause.HUNG,
        _STRINGS,
        do="find the rank that never came there: it died before, or its code took another path",
        retry=Retry.UNKNOWN,
    ),
    wait(
        "c10d.barrier-timeout",
        "a rank waited in vain at a barrier",
        r"barrier timeout after \d+ms",
        "barrier timeout after",
        Cause.HUNG,
        _STRINGS,
        do="find the rank that never came there: it died before, or its code took another path",
        retry=Retry.UNKNOWN,
    ),
    wait(
        "c10d.socket-timeout",
        "the store did not answer in time",
        r"DistStoreError: (?:Socket Timeout|Timed out after \d+ seconds waiting for (?:clients|workers))|"
        r"Timed out after \d+ seconds waiting for clients\. \d+/\d+ clients joined",
        ("DistStoreError: ", "seconds waiting for clients"),
        Cause.HUNG,
        "torch, torch/csrc/distributed/c10d/TCPStore.cpp",
        do="find the node whose ranks never came; a slow start of Python on shared storage looks the same",
        retry=Retry.ELSEWHERE,
    ),
    cascade(
        "c10d.store-gone",
        "the process that keeps the ranks' store has ended",
        r"Failed to recv, got 0 bytes|(?:recvVector|recvValue|recvValueWithTimeout|sendBytes|recvBytes) failed on",
        (
            "Failed to recv, got 0",
            "recvVector failed",
            "recvValue failed",
            "Timeout failed on",
            "sendBytes failed",
            "recvBytes failed",
        ),
        _RUN,
    ),
    cascade(
        "c10d.connection-failed",
        "an attempt to reach the store failed; it is tried again",
        r"TCP client failed to connect/validate to host|The client socket has failed to connect to ",
        ("failed to connect/validate", "The client socket has"),
        _STRINGS,
    ),
    advice(
        "c10d.no-ipv6",
        "a name has no IPv6 address; that matters only if it has no other",
        r"The IPv6 network addresses of \((?P<peer>[^,)]{1,120}), (?P<port>\d+)\) cannot be retrieved \(gai error",
        "cannot be retrieved (gai error",
        _RUN,
        do="if the address can't be reached in the end, have the name resolved on every node",
        command="getent hosts HOST",
    ),
    advice(
        "c10d.input-late",
        "the store has not answered yet",
        r"waitForInput: (?:poll for )?socket SocketImpl\(.{1,200}\) (?:returned 0|timed out after)",
        "waitForInput: ",
        _RUN,
    ),
    advice(
        "c10d.hostname-unknown",
        "the name of a peer's address can't be found; nothing depends on it",
        r"The hostname of the client socket cannot be retrieved",
        "hostname of the client socket",
        _STRINGS,
    ),
    advice(
        "c10d.address-guessed",
        "a rank looks for its address by its host name",
        r"Unable to resolve hostname to a \(local\) address",
        "Unable to resolve hostname to",
        "torch 2.13, strings",
        do="name the interface that the ranks are to use",
        setting="GLOO_SOCKET_IFNAME",
    ),
)
