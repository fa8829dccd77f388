"""What containers and MPI say when a task can't start in them, or when they end. Pure data."""

from __future__ import annotations

from slurm_resilience.manifest.records import Cause
from slurm_resilience.triage.known.entry import Remedy, Retry
from slurm_resilience.triage.known.writing import advice, cascade, root, wait

_PYXIS = "pyxis 0.20, pyxis_slurmstepd.c"
_OMPI = "Open MPI 4.1, public reports"

CONTAINERS = (
    root(
        "container.image-not-fetched",
        "the container's image could not be fetched",
        r"pyxis: (?:failed to import docker image|couldn't import image)|\[ERROR\] (?:URL .{1,200} returned "
        r"error code: \d+|Could not process "
        r"JSON input)|FATAL:   While (?:making image from|performing build|pulling)|manifest unknown|"
        r"toomanyrequests: ",
        (
            "pyxis: failed to import",
            "pyxis: couldn't import",
            "returned error code: ",
            "Could not process JSON",
            "FATAL:   While",
            "manifest unknown",
            "toomanyrequests: ",
        ),
        Cause.LAUNCH_FAILED,
        _PYXIS,
        do="fetch the image once before the job, into a file on shared storage, and start it from there",
        retry=Retry.HELPS,
        command="enroot import docker://…",
        setting="--container-image=/path/image.sqsh",
    ),
    root(
        "container.image-missing",
        "the container's image is not there on this node",
        r"FATAL:   could not open image (?P<path>\S{1,200})|pyxis: no such file|"
        r"\[ERROR\] No such file or "
        r"directory: (?:\S{1,200}\.sqsh)",
        ("could not open image", "pyxis: no such file", "[ERROR] No such file"),
        Cause.LAUNCH_FAILED,
        "Apptainer 1.3 and enroot 3.5, public reports",
        do="give the image by a path that exists on every node of the job",
        retry=Retry.USELESS,
        command="srun ls -l {path}",
    ),
    root(
        "container.gpu-hook",
        "the container got no GPU: the node's driver or its container tools have failed",
        r"nvidia-container-cli: .{0,60}error: |hooks\.d/98-nvidia\.sh exited with return code",
        ("nvidia-container-cli: ", "98-nvidia.sh exited"),
        Cause.NODE_FAILURE,
        "libnvidia-container, public reports",
        do="go on without that node, and have its driver looked at",
        retry=Retry.ELSEWHERE,
        command="nvidia-container-cli info; nvidia-smi",
        avoid_node=True,
    ),
    root(
        "container.no-space",
        "the container's files did not fit on this node",
        r"(?:enroot|unsquashfs|mksquashfs|zstd): .{0,200}(?:No space left|write failed because|Cannot "
        r"write)|FATAL ERROR: ?[Ff]ailed to write",
        ("enroot: ", "unsquashfs: ", "mksquashfs: ", "zstd: ", "FATAL ERROR:"),
        Cause.STORAGE,
        "squashfs-tools 4.5, public reports",
        do="make room where enroot or Apptainer keeps its files, or name another place",
        retry=Retry.ELSEWHERE,
        command="df -h $ENROOT_DATA_PATH $TMPDIR",
        setting="ENROOT_DATA_PATH, APPTAINER_TMPDIR",
    ),
    root(
        "container.not-started",
        "the container could not be started",
        r"pyxis: couldn't start container|pyxis: container start failed|FATAL:   container creation failed|"
        r"OCI runtime create failed|"
        r"enroot-nsenter: failed to create user namespace",
        (
            "pyxis: couldn't start",
            "pyxis: container start failed",
            "container creation failed",
            "OCI runtime create failed",
            "enroot-nsenter: ",
        ),
        Cause.LAUNCH_FAILED,
        _PYXIS,
        do="read the lines above: they are the container program's own; then start the image on that node by hand",
        retry=Retry.ELSEWHERE,
        command="srun -w {node} --container-image=… true",
    ),
    cascade(
        "container.plugin",
        "a plugin of Slurm's let no task start; the lines above say why",
        r"required plugin \S{1,120}\.so: \w+\(\) failed with rc=-?\d+|Failed to invoke spank plugin stack|"
        r"pyxis: child \d+ failed with error code",
        ("failed with rc=", "invoke spank plugin stack", "failed with error code"),
        "Slurm 22.05.8, strings",
    ),
    root(
        "mpi.no-pmi",
        "this Open MPI can't be started by srun: it was built without PMI",
        r"OMPI was not built with SLURM(?:'s PMI)? support|PMI2_Init failed to intialize|PMI2_Job_GetId failed",
        ("OMPI was not built with", "PMI2_Init failed", "PMI2_Job_GetId failed"),
        Cause.CRASHED,
        _OMPI,
        do="say --mpi=pmix, or use an MPI that was built with PMI",
        retry=Retry.USELESS,
        command="srun --mpi=list",
        setting="--mpi=pmix",
    ),
    root(
        "mpi.pmix-plugin",
        "Slurm can't start MPI programs in the way that was asked for",
        r"Invalid MPI type '(?P<what>[^']{1,40})'|Couldn't find the specified plugin name for mpi/|"
        r"mpi/pmix\S{0,8}: ERROR: ",
        ("Invalid MPI type", "specified plugin name for mpi/", "mpi/pmix"),
        Cause.LAUNCH_FAILED,
        "Slurm 22.05.8, strings",
        do="name a kind of MPI that this Slurm has",
        retry=Retry.USELESS,
        command="srun --mpi=list",
        setting="--mpi=…",
    ),
    cascade(
        "mpi.abort",
        "a rank of MPI ended all of them",
        r"MPI_ABORT was invoked on rank (?P<rank>\d+)|application called MPI_Abort\(|noticed that process "
        r"rank \d+ with PID",
        ("MPI_ABORT was invoked", "called MPI_Abort(", "noticed that process rank"),
        _OMPI,
        remedy=Remedy("look at the output of the rank that is named", Retry.UNKNOWN),
    ),
    cascade(
        "mpi.daemon-lost",
        "mpirun lost a node",
        r"(?:ORTE|PRTE) has lost communication with a remote daemon|(?:PMIX|OPAL) ERROR: .{0,60}(?:UNREACH|"
        r"LOST|Unreachable)",
        ("has lost communication with", "PMIX ERROR", "OPAL ERROR"),
        _OMPI,
    ),
    wait(
        "ucx.no-answer",
        "InfiniBand gave up on a peer: its link, or the peer, is gone",
        r"Transport retry count exceeded on (?P<device>\S{1,40})",
        "Transport retry count exceeded",
        Cause.NODE_FAILURE,
        "UCX 1.15, src/uct/ib/mlx5/ib_mlx5_log.c",
        do="look at the links of this node and of the peer; a longer time-out survives a flap",
        retry=Retry.ELSEWHERE,
        command="ibstat; perfquery -x",
        setting="UCX_RC_TIMEOUT, UCX_RC_RETRY_COUNT",
    ),
    cascade(
        "ucx.endpoint",
        "a peer of UCX has ended",
        r"UCX  ?ERROR .{0,120}(?:Endpoint timeout|Connection reset by remote peer|keepalive|Remote access)",
        ("UCX  ERROR", "UCX ERROR"),
        "UCX 1.15, public reports",
    ),
    advice(
        "mpi.fork-warning",
        "Open MPI warns of something that most programs live with",
        r"A process has executed an operation involving a call to the|WARNING: There was an error "
        r"initializing an OpenFabrics device",
        ("operation involving a call to", "initializing an OpenFabrics"),
        _OMPI,
    ),
)
