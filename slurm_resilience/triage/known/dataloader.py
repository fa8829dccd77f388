"""What torch's DataLoader says of its workers, and of what it shares with them. Pure data."""

from __future__ import annotations

from slurm_resilience.manifest.records import Cause
from slurm_resilience.triage.known.entry import Remedy, Retry
from slurm_resilience.triage.known.writing import advice, cascade, root, wait

_STRINGS = "torch 2.13, strings"
_SOURCE = "torch 2.13, source"
_SHM = "make /dev/shm larger (containers: --shm-size, --ipc=host), or use fewer workers"

DATALOADER = (
    root(
        "dataloader.shared-memory-full",
        "the DataLoader's workers found no room in /dev/shm",
        r"This might be caused by insufficient shared memory|unable to write to file </torch_|unable to "
        r"allocate shared memory\(shm\)",
        ("insufficient shared memory", "unable to write to file </torch_", "unable to allocate shared"),
        Cause.STORAGE,
        _STRINGS,
        do=_SHM,
        retry=Retry.USELESS,
        command="df -h /dev/shm",
        setting="--shm-size",
    ),
    root(
        "dataloader.faulted",
        "a DataLoader worker was ended by a fault",
        r"DataLoader worker \(pid\(?s?\)? ?(?P<pid>\d+)\) is killed by signal: (?P<signal>Bus error|"
        r"Segmentation fault|Aborted|"
        r"Illegal instruction|Floating point exception)",
        "DataLoader worker (pid",
        Cause.CRASHED,
        _SOURCE,
        do=f"after a bus error: {_SHM}; else run with num_workers=0, to see where it dies",
        retry=Retry.UNKNOWN,
        command="df -h /dev/shm",
        setting="num_workers=0",
    ),
    cascade(
        "dataloader.killed",
        "a DataLoader worker was killed: for want of host memory, or by a person",
        r"DataLoader worker \(pid.{0,80}\) (?:is killed by signal: |exited unexpectedly)",
        "DataLoader worker (pid",
        _SOURCE,
        remedy=Remedy("look for a record of memory that ran out", Retry.UNKNOWN, setting="--mem=…, num_workers"),
    ),
    wait(
        "dataloader.timeout",
        "the DataLoader got no batch in time: its storage is slow or hangs",
        r"DataLoader timed out after (?:\d+) seconds",
        "DataLoader timed out after",
        Cause.HUNG,
        _SOURCE,
        do="look at the storage that the data set lies on; a worker may hang in its own code, too",
        retry=Retry.HELPS,
        setting="DataLoader(timeout=…)",
    ),
    root(
        "dataloader.too-many-files",
        "the DataLoader's workers share more files than a process may open",
        r"received \d+ items of ancdata|Too many open files\. Communication with the workers is no longer possible",
        ("items of ancdata", "Communication with the workers"),
        Cause.CRASHED,
        _SOURCE,
        do="raise the limit of open files, or say torch.multiprocessing.set_sharing_strategy('file_system')",
        retry=Retry.USELESS,
        command="ulimit -n",
        setting="ulimit -n 65536",
    ),
    cascade(
        "dataloader.pin-thread",
        "the DataLoader's own thread has ended",
        r"Pin memory thread exited unexpectedly|unable to open shared memory object </torch_",
        ("Pin memory thread exited", "open shared memory object"),
        _SOURCE,
    ),
    advice(
        "dataloader.many-workers",
        "the DataLoader has more workers than this node has processors for the job",
        r"This DataLoader will create \d+ worker processes in total",
        "This DataLoader will create",
        _SOURCE,
        do="use fewer workers, or ask for more processors",
        setting="--cpus-per-task, num_workers",
    ),
    advice(
        "dataloader.leaked-semaphores",
        "Python tidies up after processes that were ended",
        r"resource_tracker: There appear to be \d+ leaked",
        "resource_tracker: There appear",
        "Python 3.11, source",
    ),
)
