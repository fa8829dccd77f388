"""What torchrun (torch.distributed.elastic) says of its workers and of its rendezvous. Pure data.

Each agent blames the first failure that itself has seen: its table names a rank of its own node, also where another
node's rank has died before. So nothing here is a root by itself, but where a node never came.
"""

from __future__ import annotations

from slurm_resilience.manifest.records import Cause
from slurm_resilience.triage.known.entry import Remedy, Retry
from slurm_resilience.triage.known.writing import advice, cascade, root, wait

_RUN = "torch 2.13, run here"
_TEXT = "torch 2.13, source"

ELASTIC = (
    cascade(
        "elastic.closing",
        "torchrun ends its other workers",
        r"(?:Sending process|Closing process) (?P<pid>\d+) (?:closing|via) signal (?P<signal>\w+)",
        ("Sending process ", "Closing process "),
        _RUN,
    ),
    cascade(
        "elastic.stuck-worker",
        "a worker did not end when it was told to, and was killed",
        r"(?:Unable to shutdown process|Process) (?P<pid>\d+) (?:via \S+, forcefully exiting via|did not exit after "
        r"\S+ within)",
        ("Unable to shutdown process", "forcefully exiting via", "did not exit after"),
        _TEXT,
    ),
    cascade(
        "elastic.failed",
        "a worker has ended with an error or by a signal",
        r"failed \(exitcode: (?P<code>-?\d+)\) local_rank: (?P<local_rank>\d+) \(pid: (?P<pid>\d+)\) of "
        r"(?:binary|fn): ",
        "failed (exitcode: ",
        _RUN,
    ),
    cascade(
        "elastic.table",
        "torchrun's table of the workers that failed on its node",
        r"ChildFailedError|  exitcode  : -?\d+ \(pid: \d+\)|Root Cause \(first observed failure\):",
        ("ChildFailedError", "  exitcode  : ", "first observed failure"),
        _RUN,
    ),
    cascade(
        "elastic.signalled-worker",
        "a worker was ended by a signal, as torchrun's table says",
        r"Signal (?P<code>\d+) \((?P<signal>SIG\w+)\) received by PID (?P<pid>\d+)",
        ") received by PID",
        _RUN,
    ),
    cascade(
        "elastic.signalled",
        "torchrun was told to end: by Slurm, or by a person",
        r"Received (?P<code>\d+) death signal, shutting down workers|Process (?P<pid>\d+) got signal: "
        r"(?P<signal>\d+)|SignalException",
        ("death signal, shutting down", " got signal: ", "SignalException"),
        _RUN,
        remedy=Remedy("look who sent the signal: preemption, time limit and scancel do", Retry.UNKNOWN),
    ),
    cascade(
        "elastic.store-lost",
        "torchrun has lost the node where the ranks meet",
        r"RendezvousConnectionError|The connection to the C10d store has failed|has failed to shutdown the rendezvous",
        ("RendezvousConnectionError", "connection to the C10d store", "failed to shutdown the rendezvous"),
        _RUN,
    ),
    cascade(
        "elastic.closed",
        "the rendezvous was over already",
        r"RendezvousClosedError|RendezvousGracefulExitError",
        ("RendezvousClosedError", "RendezvousGracefulExitError"),
        _TEXT,
    ),
    cascade(
        "elastic.heartbeat-missed",
        "a node did not hear of another for a while",
        r"has failed to send a keep-alive heartbeat to the rendezvous|As part of the sync "
        r"operation the node\(s\)",
        ("keep-alive heartbeat to the", "part of the sync operation"),
        _TEXT,
    ),
    wait(
        "elastic.not-all-came",
        "some node never came to where the ranks meet",
        r"RendezvousTimeoutError|can't complete rendezvous: (?:deadline reached|not enough participants)",
        ("RendezvousTimeoutError", "can't complete rendezvous"),
        Cause.HUNG,
        _TEXT,
        do="find the node that has no such line: it has not started, or it can't reach the first node",
        retry=Retry.ELSEWHERE,
        command="slurm-resilience preflight",
        setting="--rdzv-conf=join_timeout=600",
    ),
    root(
        "elastic.state-corrupt",
        "two launches use one rendezvous: its state can't be read",
        r"RendezvousStateError|The (?:rendezvous )?state(?: object)? is corrupt\. See inner exception",
        ("RendezvousStateError", "is corrupt. See inner"),
        Cause.CRASHED,
        _TEXT,
        do="give every launch an --rdzv-id of its own; under Slurm the job's id",
        retry=Retry.HELPS,
        setting="--rdzv-id=$SLURM_JOB_ID",
    ),
    advice(
        "elastic.restarting",
        "torchrun starts its workers again on its own",
        r"Worker group (?P<why>\w+)\. (?P<code>\d+)/\d+ attempts left; will restart worker group",
        "will restart worker group",
        _TEXT,
    ),
    advice(
        "elastic.no-traceback",
        "the worker's traceback is only in its own output",
        r"To enable traceback see: https://pytorch\.org/docs/stable/elastic/errors\.html",
        "To enable traceback see",
        _RUN,
        do="put @record on the main function, and the table will have its traceback",
    ),
    advice(
        "elastic.omp-banner",
        "torchrun tells that it set OMP_NUM_THREADS",
        r"Setting OMP_NUM_THREADS environment variable for each process to be",
        "Setting OMP_NUM_THREADS",
        _RUN,
    ),
)
