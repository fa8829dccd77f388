"""Lines as they were seen, or as their source has them, and what they mean."""

from __future__ import annotations

import pytest

from slurm_resilience.manifest.records import Cause
from slurm_resilience.triage.diagnosis import diagnose
from slurm_resilience.triage.known.entry import Role
from slurm_resilience.triage.known.table import known
from slurm_resilience.triage.patterns import names_storage
from tests.unit.triage.ends import FAILED, evidence

GLOO = "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534]"
LINES: list[tuple[str, Cause, Role]] = [
    ("slurmstepd: error: *** STEP 7.0 ON n1 CANCELLED AT 2026-11-29T21:17:11 DUE TO TIME LIMIT ***",
     Cause.TIME_LIMIT, Role.ROOT),
    ("slurmstepd-n1: error: *** JOB 7 ON n1 CANCELLED AT 2026-11-29T21:17:11 DUE TO PREEMPTION ***",
     Cause.PREEMPTED, Role.ROOT),
    ("slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2026-11-29T21:17:11 DUE TO NODE FAILURE, SEE SLURMCTLD LOG ***",
     Cause.NODE_FAILURE, Role.ROOT),
    ("slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2026-11-29T21:17:11 DUE TO JOB REQUEUE ***",
     Cause.REQUEUED_BY_HAND, Role.ROOT),
    ("srun: error: Node failure on n2", Cause.NODE_FAILURE, Role.ROOT),
    ("slurmstepd: error: Detected 2 oom_kill events in StepId=7.0. Some of the step tasks have been OOM Killed.",
     Cause.OUT_OF_MEMORY, Role.ROOT),
    ("slurmstepd: error: Detected 1 oom-kill event(s) in StepId=7.0. Some of your processes may have been killed",
     Cause.OUT_OF_MEMORY, Role.ROOT),
    ("srun: error: n1: task 3: Out Of Memory", Cause.OUT_OF_MEMORY, Role.ROOT),
    ("slurmstepd: error: Exceeded job memory limit", Cause.OUT_OF_MEMORY, Role.ROOT),
    ("srun: error: n1: tasks 0-3: Segmentation fault (core dumped)", Cause.CRASHED, Role.ROOT),
    ("srun: error: n1: task 3: Killed", Cause.CRASHED, Role.CASCADE),
    ("Memory cgroup out of memory: Killed process 4711 (python)", Cause.OUT_OF_MEMORY, Role.ROOT),
    ("oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/", Cause.OUT_OF_MEMORY, Role.ROOT),
    ("CUDA kernel errors might be asynchronously reported at some other API call", Cause.UNKNOWN, Role.ADVICE),
    ("For debugging consider passing CUDA_LAUNCH_BLOCKING=1", Cause.UNKNOWN, Role.ADVICE),
    ("Warning: destroy_process_group() was not called before program exit", Cause.UNKNOWN, Role.ADVICE),
    (f"{GLOO} Connection closed by peer [127.0.0.1]:4711", Cause.CRASHED, Role.CASCADE),
    (f"{GLOO} Read error [127.0.0.1]:4711: Connection reset by peer", Cause.CRASHED, Role.CASCADE),
    (f"{GLOO} Application timeout caused pair closure", Cause.CRASHED, Role.CASCADE),
    ("DistNetworkError: recvVector failed on SocketImpl(fd=3): Failed to recv, got 0 bytes. Connection was closed",
     Cause.CRASHED, Role.CASCADE),
    ("RendezvousConnectionError: The connection to the C10d store has failed.", Cause.CRASHED, Role.CASCADE),
    ("torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ", Cause.CRASHED, Role.CASCADE),
    ("Sending process 4711 closing signal SIGTERM", Cause.CRASHED, Role.CASCADE),
    ("SignalException: Process 4711 got signal: 15", Cause.CRASHED, Role.CASCADE),
    ("RuntimeError: NCCL communicator was aborted on rank 1.", Cause.CRASHED, Role.CASCADE),
    ("ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.",
     Cause.CRASHED, Role.CASCADE),
    ("To avoid data inconsistency, we are taking the entire process down.", Cause.CRASHED, Role.CASCADE),
    ("Received a dump signal due to a collective timeout from rank 3", Cause.CRASHED, Role.CASCADE),
    ("Observed flight recorder dump signal from another rank via TCPStore.", Cause.CRASHED, Role.CASCADE),
    ("DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:1, unhandled system error", Cause.CRASHED, Role.CASCADE),
    ("RuntimeError: DataLoader worker (pid 4711) is killed by signal: Killed.", Cause.CRASHED, Role.CASCADE),
    ("RuntimeError: DataLoader worker (pid(s) 4711, 4712) exited unexpectedly", Cause.CRASHED, Role.CASCADE),
    ("rank-00001: KeyboardInterrupt", Cause.CRASHED, Role.CASCADE),
    ("[Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=8, OpType=ALLREDUCE)", Cause.HUNG,
     Role.WAIT),
    ("ProcessGroupNCCL's watchdog got stuck for 480 seconds without making progress", Cause.HUNG, Role.WAIT),
    (f"{GLOO} Timed out waiting 15000ms for recv operation to complete", Cause.HUNG, Role.WAIT),
    ("DistStoreError: wait timeout after 300000ms, keys: /default_pg/0//cpu//0", Cause.HUNG, Role.WAIT),
    ("DistNetworkError: The client socket has timed out after 60000ms while trying to connect to (n1, 29500).",
     Cause.HUNG, Role.WAIT),
    ("RuntimeError: DataLoader timed out after 30 seconds", Cause.HUNG, Role.WAIT),
    ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.", Cause.OUT_OF_MEMORY, Role.ROOT),
    ("RuntimeError: [enforce fail at alloc_cpu.cpp:117] err == 0. DefaultCPUAllocator: can't allocate memory: you",
     Cause.OUT_OF_MEMORY, Role.ROOT),
    ("numpy._core._exceptions._ArrayMemoryError: Unable to allocate 7.28 TiB", Cause.OUT_OF_MEMORY, Role.ROOT),
    ("OSError: [Errno 12] Cannot allocate memory", Cause.OUT_OF_MEMORY, Role.ROOT),
    ("slurm_resilience.errors.CheckpointUnavailable: /scratch/x can't be read: Input/output error", Cause.STORAGE,
     Role.ROOT),
    ("slurm_resilience.errors.ManifestUnavailable: /scratch/manifest.jsonl: Stale file handle", Cause.STORAGE,
     Role.ROOT),
    ("OSError: [Errno 28] No space left on device", Cause.STORAGE, Role.ROOT),
    ("OSError: [Errno 122] Disk quota exceeded: '/home/x'", Cause.STORAGE, Role.ROOT),
    ("OSError: [Errno 5] Input/output error", Cause.STORAGE, Role.ROOT),
    ("OSError: [Errno 116] Stale file handle: '/nfs/x'", Cause.STORAGE, Role.ROOT),
    ("OSError: [Errno 30] Read-only file system: '/scratch/x'", Cause.STORAGE, Role.ROOT),
    ("OSError: [Errno 107] Transport endpoint is not connected: '/fuse/x'", Cause.STORAGE, Role.ROOT),
    ("OSError: [Errno 107] Transport endpoint is not connected", Cause.CRASHED, Role.CASCADE),
    ("ConnectionRefusedError: [Errno 111] Connection refused", Cause.CRASHED, Role.CASCADE),
    ("RuntimeError: op.preamble.length <= op.nbytes. Is there a distributed collective mismatch in your code?",
     Cause.CRASHED, Role.ROOT),
    ("RuntimeError: DataLoader worker (pid 4711) is killed by signal: Bus error.", Cause.CRASHED, Role.ROOT),
    ("torch.AcceleratorError: CUDA error: device-side assert triggered", Cause.CRASHED, Role.ROOT),
]  # fmt: skip


@pytest.mark.parametrize(("line", "cause", "role"), LINES)
def test_a_line_means_this(line: str, cause: Cause, role: Role) -> None:
    pattern = known(line)
    assert pattern is not None
    assert (pattern.cause, pattern.role) == (cause, role)


@pytest.mark.parametrize("line", ["ValueError: bad", "", "epoch 28, loss 0.5", "Saved model in memory"])
def test_a_line_that_nobody_knows_means_nothing(line: str) -> None:
    assert known(line) is None


def test_a_bare_killed_is_a_cascade_since_it_names_nobody() -> None:
    pattern = known("Killed")
    assert pattern is not None
    assert pattern.role is Role.CASCADE


CASCADES = [line for line, _, role in LINES if role is Role.CASCADE]


@pytest.mark.parametrize("cascade", CASCADES)
def test_a_cascade_never_wins_over_a_root(cascade: str) -> None:
    for errors in (
        ("rank-00001: OSError: [Errno 28] No space left on device", f"rank-00000: {cascade}"),
        (f"rank-00000: {cascade}", "rank-00001: OSError: [Errno 28] No space left on device"),
    ):
        assert diagnose(evidence(agents=FAILED, command_code=1, rank_errors=errors)).cause is Cause.STORAGE


def test_an_exception_after_a_wait_in_vain_is_of_the_leaving_but_a_full_disk_is_not() -> None:
    wait = f"rank-00000: {GLOO} Timed out waiting 15000ms for recv operation to complete"
    own, full = "rank-00001: ValueError: bad", "rank-00001: OSError: [Errno 28] No space left on device"
    for errors, cause in (
        ((own, wait), Cause.CRASHED),
        ((wait, own), Cause.HUNG),
        ((wait, full), Cause.STORAGE),
    ):
        assert diagnose(evidence(agents=FAILED, command_code=1, rank_errors=errors)).cause is cause


def test_what_a_program_only_prints_does_not_outrank_the_exception_that_ended_it() -> None:
    printed = ("CUDA out of memory. Tried to allocate 2.00 GiB: trying a smaller batch",)
    told = evidence(agents=FAILED, command_code=1, log_lines=printed)
    assert diagnose(told).cause is Cause.OUT_OF_MEMORY
    raised = evidence(agents=FAILED, command_code=1, log_lines=printed, rank_errors=("rank-00000: ValueError: bad",))
    assert diagnose(raised).cause is Cause.CRASHED


@pytest.mark.parametrize(
    ("why", "storage"),
    [
        ("part 3 can't be written: No space left on device", True),
        ("/fuse/x: Transport endpoint is not connected", True),
        ("rank 3 has no answer for 60 s", False),
        ("a rank was killed while it wrote", False),
    ],
)
def test_a_save_that_no_file_system_refused_is_no_word_on_storage(why: str, storage: bool) -> None:
    assert names_storage(why) is storage
