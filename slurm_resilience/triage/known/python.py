"""What Python says before or while it ends: imports, limits, sockets, files of the program. Pure data."""

from __future__ import annotations

from slurm_resilience.manifest.records import Cause
from slurm_resilience.triage.known.entry import KnownFailure, Retry
from slurm_resilience.triage.known.writing import advice, cascade, root, wait

_RUN = "Python 3.11, source"


def _own(
    slug: str, title: str, regex: str, hints: str | tuple[str, ...], do: str, *, retry: Retry = Retry.USELESS,
    command: str | None = None, setting: str | None = None, origin: str = _RUN,
) -> KnownFailure:  # fmt: skip
    return root(
        f"python.{slug}", title, regex, hints, Cause.CRASHED, origin, do=do, retry=retry, command=command,
        setting=setting,
    )  # fmt: skip


PYTHON = (
    root(
        "python.memory",
        "Python found no host memory",
        r"MemoryError\b|\[Errno 12\]|std::bad_alloc",
        ("MemoryError", "[Errno 12]", "std::bad_alloc"),
        Cause.OUT_OF_MEMORY,
        _RUN,
        do="give the job more host memory, or let it use less",
        retry=Retry.USELESS,
        setting="--mem=…",
    ),
    _own(
        "module-missing",
        "a Python module is not there",
        r"ModuleNotFoundError: No module named '(?P<what>[\w.]{1,120})'",
        "ModuleNotFoundError",
        "activate the environment in the batch script: the job does not have your shell's",
        command="srun which python",
    ),
    _own(
        "library-missing",
        "a shared library is not there on this node",
        r"(?:ImportError|OSError): (?P<path>[\w./+-]{1,200}\.so[\w.]{0,24}): cannot open shared object file|"
        r"error while loading shared libraries:",
        ("cannot open shared object file", "error while loading shared"),
        "load the module that has it, on every node, or set LD_LIBRARY_PATH",
        retry=Retry.ELSEWHERE,
        command="srun ldconfig -p",
        setting="LD_LIBRARY_PATH",
    ),
    _own(
        "library-wrong",
        "a shared library is of another version than the program was built for",
        r"undefined symbol: (?P<what>\w{1,200})|version `(?P<version>[\w.]{1,40})' not found \(required by",
        ("undefined symbol: ", "' not found (required by"),
        "build it again for what this node has, or take the other one out of LD_LIBRARY_PATH",
        retry=Retry.ELSEWHERE,
        command="srun ldd --version",
        setting="LD_LIBRARY_PATH",
        origin="glibc 2.36, source",
    ),
    _own(
        "syntax",
        "a Python file can't be read as Python",
        r"^(?:\S{1,40}: )?(?:SyntaxError|IndentationError|TabError): ",
        ("SyntaxError: ", "IndentationError: ", "TabError: "),
        "mend the line that the traceback names; an older Python may not know its syntax",
    ),
    _own(
        "arguments",
        "the program does not know an argument that it was given",
        r": error: (?:unrecognized arguments|the following arguments are required|argument \S{1,80}: "
        r"(?:invalid|expected))",
        (": error: unrecognized", ": error: the following", ": error: argument "),
        "mend the command line of the training",
    ),
    _own(
        "script-missing",
        "the program's file is not there on this node",
        r"can't open file '(?P<path>[^']{1,300})': \[Errno 2\]",
        "can't open file '",
        "give the script by a path that exists on every node of the job",
        command="srun ls -l {path}",
    ),
    _own(
        "file-missing",
        "a file that the program wants is not there",
        r"\[Errno 2\] No such file or directory(?:: '(?P<path>[^']{1,300})')?|FileNotFoundError: (?!hf://)",
        ("[Errno 2] No such file", "FileNotFoundError"),
        "look whether the path is right, and whether its file system is mounted on that node",
        retry=Retry.UNKNOWN,
        command="srun ls -l {path}",
    ),
    _own(
        "not-permitted",
        "the program may not use a file",
        r"(?:\[Errno 13\] Permission denied|\[Errno 1\] Operation not permitted)(?:: '(?P<path>[^']{1,300})')?",
        ("[Errno 13]", "[Errno 1] Operation"),
        "look at the owner and the mode of the file and of its folders",
        command="namei -l {path}",
    ),
    _own(
        "too-many-files",
        "the process may open no more files",
        r"\[Errno (?:24|23)\] (?:Too many open files|File table overflow)",
        ("[Errno 24]", "[Errno 23]"),
        "raise the limit of open files in the batch script, or open fewer",
        command="ulimit -n",
        setting="ulimit -n 65536",
    ),
    _own(
        "too-many-processes",
        "you may start no more processes or threads on this node",
        r"\[Errno 11\] Resource temporarily unavailable|can't start new thread|fork: (?:retry: )?Resource "
        r"temporarily unavailable|"
        r"pthread_create failed|Thread creation failed",
        (
            "[Errno 11] Resource",
            "can't start new thread",
            "Resource temporarily unavailable",
            "pthread_create failed",
            "Thread creation failed",
        ),
        "use fewer workers and threads (OMP_NUM_THREADS), or have the limit raised",
        retry=Retry.ELSEWHERE,
        command="ulimit -u; ps -eLf | wc -l",
        setting="OMP_NUM_THREADS, ulimit -u",
    ),
    _own(
        "port-taken",
        "a port is in use",
        r"\[Errno 98\] Address already in use|EADDRINUSE",
        ("[Errno 98]", "EADDRINUSE"),
        "use another port: most often another job on the node has it",
        retry=Retry.HELPS,
        command="ss -ltnp",
        setting="MASTER_PORT",
    ),
    _own(
        "name-unknown",
        "the name of a host can't be resolved",
        r"Temporary failure in name resolution|(?:\] |: )Name or service not known|nodename nor servname provided",
        ("failure in name resolution", "Name or service not known", "nodename nor servname"),
        "have the name resolved on every node; compute nodes often can't resolve names outside of the cluster",
        retry=Retry.ELSEWHERE,
        command="getent hosts HOST",
        origin="glibc 2.36, source",
    ),
    _own(
        "certificate",
        "a server's certificate is not accepted",
        r"certificate verify failed",
        "certificate verify failed",
        "use the site's certificates: a proxy that looks into the traffic has its own",
        setting="SSL_CERT_FILE, REQUESTS_CA_BUNDLE",
    ),
    wait(
        "python.web-unreachable",
        "a web server can't be reached, or wants fewer requests",
        r"Max retries exceeded with url: |429 Client Error: Too Many Requests|HTTP Error (?:429|50[0234])\b|"
        r"50[0234] Server Error: ",
        ("Max retries exceeded with", "429 Client Error", "HTTP Error ", " Server Error: "),
        Cause.CRASHED,
        "urllib3 2 and requests 2, public documentation",
        do="see whether compute nodes may go out at all; fetch data and models before the job",
        retry=Retry.HELPS,
        setting="https_proxy, HF_HUB_OFFLINE=1",
    ),
    _own(
        "fault",
        "the process was ended by a memory fault; the lines below say where",
        r"Fatal Python error: (?P<signal>Segmentation fault|Bus error|Illegal instruction|Floating point exception)",
        "Fatal Python error: ",
        "look at the topmost lines of the traceback: they name the extension",
        retry=Retry.UNKNOWN,
    ),
    _own(
        "init-failed",
        "Python could not start",
        r"Fatal Python error: (?:init_\w+|\w*_init\w*|Failed to import)|Could not find platform independent libraries",
        ("Fatal Python error: ", "find platform independent"),
        "look at PYTHONHOME and PYTHONPATH: they belong to another Python",
        setting="PYTHONHOME, PYTHONPATH",
    ),
    _own(
        "c-library-abort",
        "the C library found its memory destroyed",
        r"\*\*\* stack smashing detected \*\*\*|double free or corruption|corrupted size vs\. prev_size|"
        r"realloc\(\): invalid|"
        r"malloc\(\): (?:invalid|corrupted|memory corruption|unaligned|unsorted|mismatching)|free\(\): "
        r"invalid|munmap_chunk\(\): invalid",
        (
            "stack smashing detected",
            "double free or corruption",
            "corrupted size vs",
            "alloc(): ",
            "free(): invalid",
            "munmap_chunk(): ",
        ),
        "run it with PYTHONMALLOC=debug; an extension built for another version is the usual cause",
        retry=Retry.UNKNOWN,
        origin="glibc 2.36, source",
    ),
    _own(
        "data-unreadable",
        "a file is not what it should be: cut short, or damaged",
        r"UnpicklingError: |JSONDecodeError: |zlib\.error: Error -\d|BadZipFile: |BadGzipFile: |EOFError: "
        r"Compressed file ended|"
        r"ArrowInvalid: |cannot identify image file|SafetensorError: ",
        (
            "UnpicklingError: ",
            "JSONDecodeError: ",
            "zlib.error: Error",
            "BadZipFile: ",
            "BadGzipFile: ",
            "Compressed file ended",
            "ArrowInvalid: ",
            "cannot identify image file",
            "SafetensorError: ",
        ),
        "find the file in the traceback, and fetch or write it anew",
        retry=Retry.UNKNOWN,
    ),
    root(
        "python.setting-unknown",
        "the program's configuration has no setting of that name",
        r"Could not override '(?P<path>[^']{1,160})'|Key '[^']{1,160}' is not in struct",
        ("Could not override '", "' is not in struct"),
        Cause.CRASHED,
        "Hydra 1.3 and OmegaConf 2.3, from memory",
        do="mend the command line of the training: the setting is spelt otherwise, or is new (+name=…)",
        retry=Retry.USELESS,
    ),
    cascade(
        "python.abort",
        "the process ended itself by SIGABRT: libraries do so once a peer is gone",
        r"Fatal Python error: Aborted",
        "Fatal Python error: ",
        _RUN,
    ),
    cascade(
        "python.connection",
        "a connection to another process is gone",
        r"\[Errno (?:32|104|107|110|111|113)\]|BrokenPipeError|ConnectionResetError|ConnectionRefusedError|"
        r"Connection reset by peer|Broken pipe|BrokenProcessPool",
        (
            "[Errno 32]",
            "[Errno 104]",
            "[Errno 107]",
            "[Errno 110]",
            "[Errno 111]",
            "[Errno 113]",
            "BrokenPipeError",
            "ConnectionResetError",
            "ConnectionRefusedError",
            "Connection reset by peer",
            "Broken pipe",
            "BrokenProcessPool",
        ),
        _RUN,
    ),
    cascade(
        "python.told-to-end",
        "the process was told to end",
        r"(?:^|: )(?:KeyboardInterrupt|SystemExit)\b",
        ("KeyboardInterrupt", "SystemExit"),
        _RUN,
    ),
    advice(
        "python.ignored",
        "an exception that nobody waited for, most often of the leaving",
        r"^Exception ignored (?:in|on|while|from)\b",
        "Exception ignored ",
        _RUN,
    ),
)
