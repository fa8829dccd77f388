"""What a file system or an object store says to a program. Pure data.

A socket can be no endpoint, too, and a file system can be out of reach: only a file has a name behind its error.
"""

from __future__ import annotations

from slurm_resilience.manifest.records import Cause
from slurm_resilience.triage.known.entry import KnownFailure, Retry
from slurm_resilience.triage.known.writing import root, wait

_OS = "Linux, include/uapi/asm-generic/errno.h; glibc 2.36, source"
_H5 = "h5py 3.16, run here"
_S3 = "botocore 1.34, botocore/exceptions.py"
_PATH = r"(?:: '(?P<path>[^']{1,300})')?"


def _refused(
    slug: str,
    title: str,
    regex: str,
    hints: tuple[str, ...],
    do: str,
    retry: Retry,
    command: str,
    *,
    avoid: bool = False,
) -> KnownFailure:
    return root(
        f"storage.{slug}", title, regex, hints, Cause.STORAGE, _OS, do=do, retry=retry, command=command,
        avoid_node=avoid,
    )  # fmt: skip


STORAGE = (
    _refused(
        "full",
        "a file system is full",
        rf"\[Errno 28\](?: No space left on device)?{_PATH}|No space left on device",
        ("[Errno 28]", "No space left on device"),
        "make room, or save somewhere else: the checkpoint folder, /tmp and /dev/shm are different file systems",
        Retry.USELESS,
        "df -h {path}; df -i {path}",
    ),
    _refused(
        "quota",
        "your share of a file system is used up",
        rf"\[Errno 122\](?: Disk quota exceeded)?{_PATH}|Disk quota exceeded",
        ("[Errno 122]", "Disk quota exceeded"),
        "make room in your quota, of bytes and of files, or save somewhere else",
        Retry.USELESS,
        "quota -s; lfs quota -hu $USER {path}",
    ),
    _refused(
        "stale",
        "a file on NFS is gone from its server, or was replaced there",
        rf"\[Errno 116\](?: Stale (?:NFS )?file handle)?{_PATH}|Stale (?:NFS )?file handle",
        ("[Errno 116]", "Stale file handle", "Stale NFS file handle"),
        "look whether somebody replaced the folder, or the server was started anew",
        Retry.HELPS,
        "ls -la {path}",
    ),
    _refused(
        "read-only",
        "a file system can only be read: it was mounted so, or it shut itself after an error",
        rf"\[Errno 30\](?: Read-only file system)?{_PATH}|Read-only file system",
        ("[Errno 30]", "Read-only file system"),
        "if it should be writable, leave the node out; in a container, mount the folder writable",
        Retry.ELSEWHERE,
        "findmnt -T {path}; dmesg -T | tail",
    ),
    _refused(
        "input-output",
        "a file system could not read or write: a disk or a server has failed",
        rf"\[Errno (?:5|121)\](?: (?:Input/output|Remote I/O) error)?{_PATH}|: (?:Input/output|Remote I/O) error",
        ("[Errno 5]", "[Errno 121]", ": Input/output error", ": Remote I/O error"),
        "look at the kernel's log of that node, and ask whoever runs the storage",
        Retry.ELSEWHERE,
        "dmesg -T | tail -50",
    ),
    _refused(
        "unmounted",
        "a file system is not there any more: its server or its program is gone",
        r"\[Errno 107\].{0,60}: ['\"](?P<path>[^'\"]{1,300})|Transport endpoint is not connected: ['\"]",
        ("[Errno 107]", "Transport endpoint is not"),
        "leave the node out until the file system is mounted there again",
        Retry.ELSEWHERE,
        "findmnt -T {path}",
        avoid=True,
    ),
    _refused(
        "unreachable",
        "a file's server does not answer",
        r"\[Errno (?:110|112|113|108)\].{0,60}: ['\"](?P<path>[^'\"]{1,300})",
        ("[Errno 110]", "[Errno 112]", "[Errno 113]", "[Errno 108]"),
        "ask whoever runs the storage; the run goes on from its newest checkpoint when it is back",
        Retry.HELPS,
        "findmnt -T {path}",
    ),
    root(
        "storage.hdf5-cut-short",
        "an HDF5 file was cut short: who wrote it died",
        r"Unable to (?:synchronously )?open file \(truncated file: eof|file signature not found|\(bad (?:object "
        r"header|superblock)",
        ("truncated file: eof", "file signature not found", "(bad object header", "(bad superblock"),
        Cause.CRASHED,
        _H5,
        do="use an older copy: slurm-resilience checkpoints verify says which are whole",
        retry=Retry.USELESS,
        command="slurm-resilience checkpoints verify RUN",
    ),
    root(
        "storage.hdf5-locked",
        "an HDF5 file is open elsewhere, or its file system has no locks",
        r"[Uu]nable to lock file, errno = (?P<code>\d+)",
        "nable to lock file, errno",
        Cause.STORAGE,
        _H5,
        do="end the other process that has it open; where the file system has no locks, switch them off",
        retry=Retry.UNKNOWN,
        command="fuser -v {path}",
        setting="HDF5_USE_FILE_LOCKING=FALSE",
    ),
    root(
        "storage.hdf5-write",
        "HDF5 could not write",
        r"Can't (?:synchronously )?write data \(|file (?:write|read) failed: time = ",
        ("write data (", " failed: time = "),
        Cause.STORAGE,
        _H5,
        do="look at errno and the message in the same line: most often the disk is full",
        retry=Retry.UNKNOWN,
        command="df -h",
    ),
    root(
        "storage.object-refused",
        "the object store knows you, and says no",
        r"An error occurred \((?P<code>AccessDenied|403|InvalidAccessKeyId|SignatureDoesNotMatch|ExpiredToken|"
        r"NoSuchBucket|"
        r"AllAccessDisabled|InvalidToken)\) when calling the (?P<op>\w+) operation",
        "An error occurred (",
        Cause.STORAGE,
        _S3,
        do="look at the credentials that the job has, and at the bucket's name and rules",
        retry=Retry.USELESS,
        command="aws sts get-caller-identity",
    ),
    root(
        "storage.object-no-credentials",
        "the job has no credentials for the object store",
        r"NoCredentialsError|Unable to locate credentials|DefaultCredentialsError|Your default credentials "
        r"were not found",
        (
            "NoCredentialsError",
            "Unable to locate credentials",
            "DefaultCredentialsError",
            "default credentials were not found",
        ),
        Cause.STORAGE,
        _S3,
        do="give the job its credentials: a file in your home, or variables that srun exports",
        retry=Retry.USELESS,
        setting="AWS_PROFILE, GOOGLE_APPLICATION_CREDENTIALS",
    ),
    wait(
        "storage.object-busy",
        "the object store wants fewer requests, or has trouble of its own",
        r"An error occurred \((?P<code>SlowDown|503|500|InternalError|ServiceUnavailable|Throttling\w*|"
        r"RequestTimeout|RequestLimitExceeded)\)"
        r" when calling the (?P<op>\w+) operation|\(reached max retries: \d+\)",
        ("An error occurred (", "reached max retries"),
        Cause.STORAGE,
        _S3,
        do="start it again later; fewer ranks at once, or larger objects, ask less of it",
        retry=Retry.HELPS,
        setting="AWS_MAX_ATTEMPTS, AWS_RETRY_MODE=adaptive",
    ),
    wait(
        "storage.object-unreachable",
        "the object store can't be reached from this node",
        r"EndpointConnectionError|Could not connect to the endpoint URL|(?:Connect|Read)TimeoutError: "
        r".{0,120}(?:endpoint URL|AWSHTTPS)",
        ("EndpointConnectionError", "connect to the endpoint URL", "ConnectTimeoutError", "ReadTimeoutError"),
        Cause.STORAGE,
        _S3,
        do="see whether compute nodes reach the endpoint: many need a proxy",
        retry=Retry.HELPS,
        command="curl -sv HOST -o /dev/null",
        setting="https_proxy, AWS_ENDPOINT_URL",
    ),
)
