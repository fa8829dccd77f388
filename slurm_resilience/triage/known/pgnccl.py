"""What torch says of NCCL's collectives: ProcessGroupNCCL, its watchdog and its flight recorder. Pure data.

Compare `seq` over the ranks: the one that is behind, or absent, is the suspect.
"""

from __future__ import annotations

from slurm_resilience.manifest.records import Cause
from slurm_resilience.triage.known.entry import Retry
from slurm_resilience.triage.known.writing import advice, cascade, wait

_SRC = "torch, torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp"
_DESYNC = "torch, torch/csrc/distributed/c10d/TraceUtils.h"
_BEHIND = "find the rank that is behind: compare SeqNum over the ranks, or read the flight recorder's dumps"
_DUMPS = "torchfrtrace FOLDER"

PGNCCL = (
    wait(
        "pgnccl.timeout",
        "a collective was not done in time: some rank did not come to it, or the network failed",
        r"Watchdog caught collective operation timeout: \w+\(SeqNum=(?P<seq>\d+), OpType=(?P<op>\w+)|"
        r"timed out in blocking wait|"
        r"Watchdog caught collective operation timeout",
        ("collective operation timeout", "timed out in blocking wait"),
        Cause.HUNG,
        _SRC,
        do=_BEHIND,
        retry=Retry.UNKNOWN,
        command=_DUMPS,
        setting="init_process_group(timeout=…)",
    ),
    wait(
        "pgnccl.watchdog-stuck",
        "this rank hangs in a call of CUDA or NCCL, or a thread of it never lets Python go on",
        r"watchdog got stuck for (?:\d+) seconds",
        "watchdog got stuck for",
        Cause.HUNG,
        _SRC,
        do="look at what this rank did: py-spy dump while it hangs; look for an Xid on its node",
        retry=Retry.UNKNOWN,
        command="py-spy dump --pid PID",
        setting="TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC",
        since="torch 2.4",
    ),
    wait(
        "pgnccl.gil-held",
        "a thread of this rank never lets Python go on",
        r"Could not acquire GIL within \d+ ms on exit",
        "Could not acquire GIL within",
        Cause.HUNG,
        _SRC,
        do="look for a C extension that holds the GIL while it waits: py-spy dump --native",
        retry=Retry.UNKNOWN,
        command="py-spy dump --native --pid PID",
    ),
    wait(
        "pgnccl.never-joined",
        "torch names ranks that never came to any collective",
        r"ranks \[(?P<ranks>[\d, ]{1,200})\] are the lagging ranks that caused this timeout",
        "the lagging ranks that caused",
        Cause.HUNG,
        _DESYNC,
        do="look at the output of those ranks first",
        retry=Retry.UNKNOWN,
        setting="TORCH_NCCL_DESYNC_DEBUG=1",
    ),
    wait(
        "pgnccl.behind",
        "torch names the ranks that are behind in a collective",
        r"\[(?P<ranks>[\d, ]{1,200})\] (?:joined but didn't finish|finished) collective #(?P<seq>\d+)",
        "collective #",
        Cause.HUNG,
        _DESYNC,
        do="look at the output of the ranks that did not join first",
        retry=Retry.UNKNOWN,
        setting="TORCH_NCCL_DESYNC_DEBUG=1",
    ),
    wait(
        "pgnccl.desync",
        "torch has compared what the ranks did before the time-out",
        r"the lagging/dead/mismatched ranks that caused the desync are:",
        "lagging/dead/mismatched ranks",
        Cause.HUNG,
        _DESYNC,
        do="read the lines below: they name the ranks",
        retry=Retry.UNKNOWN,
        setting="TORCH_NCCL_DESYNC_DEBUG=1",
    ),
    wait(
        "pgnccl.nccl2-timeout",
        "a collective was not done in time: some rank did not come to it, or the network failed",
        r"timeout watchdog detected operation timeout",
        "watchdog detected operation",
        Cause.HUNG,
        "torch 2.14.1, strings of the CUDA wheel",
        do=_BEHIND,
        retry=Retry.UNKNOWN,
        command=_DUMPS,
        since="torch 2.14, backend nccl2",
    ),
    cascade(
        "pgnccl.nccl2-aborted",
        "this rank gave up after an error of a collective",
        r"(?:nccl hit async error|Aborting process) on rank (?P<rank>\d+)",
        ("nccl hit async error", "Aborting process on rank"),
        "torch 2.14.1, strings of the CUDA wheel",
        since="torch 2.14, backend nccl2",
    ),
    cascade(
        "pgnccl.dump-signal",
        "this rank was told that a collective timed out",
        r"Received a dump signal (?:due to a collective timeout )?from|Observed flight recorder dump signal "
        r"from another rank",
        ("Received a dump signal", "flight recorder dump signal"),
        _SRC,
    ),
    cascade(
        "pgnccl.aborted",
        "a communicator was ended after an error; the reason stands behind it",
        r"NCCL communicator was aborted(?: on rank (?P<rank>\d+))?|First PG on this rank to signal dumping|"
        r"First PG on this rank that detected no heartbeat",
        ("NCCL communicator was aborted", "First PG on this rank"),
        _SRC,
    ),
    cascade(
        "pgnccl.teardown",
        "this rank ends itself after a failed collective",
        r"taking the entire process down|Some NCCL operations have failed or timed out|Terminating the "
        r"process after attempting "
        r"to dump debug info|Heartbeat monitor timed out! Process will be terminated",
        (
            "taking the entire process down",
            "Some NCCL operations have",
            "attempting to dump debug",
            "Heartbeat monitor timed out",
        ),
        _SRC,
    ),
    cascade(
        "pgnccl.watchdog-dump-refused",
        "the ranks' store is gone: its process has ended",
        r"Failed to check the \"should dump\" flag on TCPStore|Failed to get timeout rank ID from TCPStore",
        ("flag on TCPStore", "rank ID from TCPStore"),
        _SRC,
    ),
    advice(
        "pgnccl.dumped",
        "the flight recorder has written down what this rank did last",
        r"Finished (?:flight recorder successfully|writing Flight Recorder debug info to)",
        ("Finished flight recorder", "Flight Recorder debug info"),
        _SRC,
        do="read the dumps",
        command=_DUMPS,
    ),
    advice(
        "pgnccl.trace-not-found",
        "the flight recorder is off",
        r"Stack trace of the failed collective not found, potentially because FlightRecorder is disabled",
        "FlightRecorder is disabled",
        _SRC,
        do="switch it on for the next time",
        setting="TORCH_NCCL_TRACE_BUFFER_SIZE=2000",
    ),
    advice(
        "pgnccl.not-destroyed",
        "the program left without ending its process group",
        r"destroy_process_group\(\) was not called before",
        "destroy_process_group() was",
        _SRC,
        since="torch 2.4",
    ),
    advice(
        "pgnccl.device-guessed",
        "torch guesses which GPU a rank uses",
        r"Guessing device ID based on global rank|using GPU (?P<device>\d+) (?:as device used by this process "
        r"is currently unknown|to "
        r"perform barrier as devices used by this process are currently unknown)",
        ("Guessing device ID based", "process is currently unknown", "process are currently unknown"),
        _SRC,
        do="tell it: init_process_group(device_id=…)",
        setting="init_process_group(device_id=…)",
    ),
)

PGNCCL_LAST = (
    cascade(
        "nccl.remote-error",
        "a peer has ended, or the network to it has",
        r"ncclRemoteError|remote process exited or there was a network error",
        ("ncclRemoteError", "remote process exited or"),
        "NCCL 2.30, src/init.cc",
    ),
    cascade(
        "nccl.system-error",
        "a call to the system failed below NCCL; the line `Last error` says which",
        r"unhandled system error|ncclSystemError",
        ("unhandled system error", "ncclSystemError"),
        "NCCL 2.30, src/init.cc",
    ),
    cascade(
        "nccl.cuda-error",
        "CUDA failed below NCCL; the line `Last error`, or an earlier one, says how",
        r"unhandled cuda error|ncclUnhandledCudaError",
        ("unhandled cuda error", "ncclUnhandledCudaError"),
        "NCCL 2.30, src/init.cc",
    ),
    cascade(
        "nccl.usage-error",
        "NCCL was used as it must not be, or met an error of its own; the line `Last error` says how",
        r"ncclInvalidUsage|ncclInvalidArgument|ncclInternalError|invalid usage \(run with NCCL_DEBUG=WARN",
        ("ncclInvalidUsage", "ncclInvalidArgument", "ncclInternalError", "invalid usage (run with"),
        "NCCL 2.30, src/init.cc",
    ),
    cascade(
        "pgnccl.watchdog-ended",
        "torch's watchdog ends the rank after an error",
        r"(?:Process group|NCCL) watchdog thread terminated with exception|raised the following async exception",
        ("watchdog thread terminated", "the following async exception"),
        _SRC,
    ),
)
"""What only says that something failed: behind whatever says what."""
