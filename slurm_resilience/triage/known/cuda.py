"""What CUDA and its libraries say. Pure data."""

from __future__ import annotations

from slurm_resilience.manifest.records import Cause
from slurm_resilience.triage.known.entry import KnownFailure, Retry
from slurm_resilience.triage.known.writing import advice, root

_DRIVER = "CUDA 12, cudaGetErrorString"
_TORCH = "torch 2.14.1, strings of the CUDA wheel"
_BUG = (
    "look for an index out of range or a kernel of your own; run it with CUDA_LAUNCH_BLOCKING=1, or compute-sanitizer"
)
_XID = "nvidia-smi -q; dmesg -T | grep NVRM"


def _bug(slug: str, title: str, words: str) -> KnownFailure:
    return root(
        f"cuda.{slug}", title, words, words if len(words) < 40 else words[:40], Cause.CRASHED, _DRIVER, do=_BUG,
        retry=Retry.USELESS, command="compute-sanitizer python …", setting="CUDA_LAUNCH_BLOCKING=1",
    )  # fmt: skip


def _node(slug: str, title: str, regex: str, hints: str | tuple[str, ...], do: str) -> KnownFailure:
    return root(
        f"cuda.{slug}", title, regex, hints, Cause.NODE_FAILURE, _DRIVER, do=do, retry=Retry.ELSEWHERE, command=_XID,
        avoid_node=True,
    )  # fmt: skip


CUDA = (
    advice(
        "cuda.asynchronous",
        "advice that stands behind a CUDA error",
        r"CUDA kernel errors might be asynchronously reported|For debugging consider passing CUDA_LAUNCH_BLOCKING|"
        r"Compile with `?TORCH_USE_CUDA_DSA|Search for `?cuda\w+' in https://docs\.nvidia\.com",
        ("CUDA kernel errors might be", "consider passing CUDA_LAUNCH", "TORCH_USE_CUDA_DSA", "docs.nvidia.com"),
        _TORCH,
    ),
    root(
        "cuda.out-of-memory",
        "the memory of a GPU is used up",
        r"CUDA out of memory|OutOfMemoryError: CUDA|CUDA error: out of memory|torch\.(?:cuda\.)?OutOfMemoryError",
        ("CUDA out of memory", "OutOfMemoryError", "CUDA error: "),
        Cause.OUT_OF_MEMORY,
        _TORCH,
        do="use a smaller batch, or recompute activations; if much is reserved but not allocated, let segments grow",
        retry=Retry.USELESS,
        setting="PYTORCH_ALLOC_CONF=expandable_segments:True",
    ),
    root(
        "cuda.assert-in-kernel",
        "a kernel found an index or a value that must not be: most often a label or token id out of range",
        r"block: \[\d+,\d+,\d+\], thread: \[\d+,\d+,\d+\] Assertion `(?P<what>[^`]{1,160})` failed",
        "], thread: [",
        Cause.CRASHED,
        "torch, aten/src/ATen/native/cuda/*.cu",
        do="check the ids that this batch holds against the size of the embedding or the number of classes",
        retry=Retry.USELESS,
        setting="CUDA_LAUNCH_BLOCKING=1",
    ),
    _bug(
        "illegal-access", "a kernel touched GPU memory that is not its own", "an illegal memory access was encountered"
    ),
    _bug("device-assert", "a kernel found a value that must not be", "device-side assert triggered"),
    _bug(
        "illegal-instruction",
        "a kernel has an instruction that the GPU does not know",
        "an illegal instruction was encountered",
    ),
    _bug("misaligned", "a kernel touched memory at an address that is not aligned", "CUDA error: misaligned address"),
    _bug("launch-failed", "a kernel died", "unspecified launch failure"),
    _node(
        "memory-broken",
        "a GPU's memory has an error that can't be corrected",
        r"uncorrectable ECC error encountered",
        "uncorrectable ECC error",
        "go on without that node, and have the GPU reset",
    ),
    _node(
        "link-broken",
        "an NVLink of a GPU has failed",
        r"uncorrectable NVLink error detected|CUDA error: Invalid access of peer GPU memory over nvlink",
        ("uncorrectable NVLink error", "CUDA error: "),
        "go on without that node, and have links and switch checked",
    ),
    _node(
        "gpu-lost",
        "a GPU is lost to the driver",
        r"Unable to determine the device handle for (?:GPU|gpu)|GPU is lost|CUDA error: (?:no CUDA-capable "
        r"device is detected|hardware "
        r"stack error)",
        ("determine the device handle", "GPU is lost", "CUDA error: "),
        "go on without that node, and have it rebooted",
    ),
    _node(
        "fabric-not-ready",
        "the switches between the GPUs are not ready",
        r"CUDA error: system not yet initialized|Error 802: system not yet initialized",
        "system not yet initialized",
        "go on without that node, and have nvidia-fabricmanager started on it",
    ),
    _node(
        "driver-missing",
        "a node has no working NVIDIA driver",
        r"Found no NVIDIA driver on your system|NVIDIA-SMI has failed because it couldn't communicate with "
        r"the NVIDIA driver",
        ("Found no NVIDIA driver", "NVIDIA-SMI has failed"),
        "go on without that node, and have its driver looked at; a job without --gres=gpu sees none, too",
    ),
    _node(
        "driver-broken",
        "CUDA could not be started on a node",
        r"CUDA initialization: (?:CUDA unknown error|Unexpected error from cudaGetDeviceCount)|CUDA error: "
        r"(?:unknown error|"
        r"initialization error)",
        ("CUDA initialization: ", "CUDA error: "),
        "go on without that node; a CUDA_VISIBLE_DEVICES set too late, or a fork after CUDA's start, looks the same",
    ),
    root(
        "cuda.no-gpu",
        "the program sees no GPU",
        r"No CUDA GPUs are available|no GPUs found!",
        ("No CUDA GPUs are available", "no GPUs found!"),
        Cause.CRASHED,
        "torch 2.13, source",
        do="ask for GPUs, and let every task see them",
        retry=Retry.USELESS,
        command="srun nvidia-smi -L; echo $CUDA_VISIBLE_DEVICES",
        setting="--gres=gpu:…, --gpu-bind=none",
    ),
    root(
        "cuda.gpu-number",
        "a rank was to use a GPU of a number that it does not have",
        r"invalid device ordinal|Attempting to deserialize object on CUDA device \d+ but torch\.cuda\.device_count",
        ("invalid device ordinal", "Attempting to deserialize object on"),
        Cause.CRASHED,
        _DRIVER,
        do="start no more ranks on a node than it has GPUs, and use LOCAL_RANK for the number",
        retry=Retry.USELESS,
        command="nvidia-smi -L",
        setting="--nproc-per-node, --gpus-per-node",
    ),
    root(
        "cuda.gpu-busy",
        "the GPU belongs to another process",
        r"all CUDA-capable devices are busy or unavailable|CUDA-capable device\(s\) is/are busy or unavailable",
        "busy or unavailable",
        Cause.CRASHED,
        _DRIVER,
        do="look for a process that was left behind on that node; in exclusive mode, one rank a GPU",
        retry=Retry.ELSEWHERE,
        command="nvidia-smi",
        avoid_node=True,
    ),
    root(
        "cuda.wrong-build",
        "this build of torch, or of an extension, is not for this GPU",
        r"no kernel image is available for execution on the device|device kernel image is invalid|the "
        r"provided PTX was compiled with "
        r"an unsupported toolchain",
        ("no kernel image is available", "device kernel image is invalid", "provided PTX was compiled"),
        Cause.CRASHED,
        _DRIVER,
        do="use a build for this GPU, or ask for the GPUs that it was built for",
        retry=Retry.ELSEWHERE,
        command="python -c 'import torch; print(torch.cuda.get_arch_list())'",
        setting="--constraint=…, TORCH_CUDA_ARCH_LIST",
    ),
    root(
        "cuda.driver-old",
        "a node's driver is older than this CUDA wants",
        r"CUDA driver version is insufficient for CUDA runtime version|The NVIDIA driver on your system is too old",
        ("driver version is insufficient", "NVIDIA driver on your system"),
        Cause.CRASHED,
        _DRIVER,
        do="use a torch built for an older CUDA, or nodes with a newer driver",
        retry=Retry.ELSEWHERE,
        command="srun nvidia-smi --query-gpu=driver_version --format=csv",
    ),
    root(
        "cuda.not-in-build",
        "this torch is built without CUDA",
        r"Torch not compiled with CUDA enabled|Attempting to deserialize object on a CUDA device but "
        r"torch\.cuda\.is_available",
        ("not compiled with CUDA enabled", "Attempting to deserialize object on"),
        Cause.CRASHED,
        "torch 2.13, source",
        do="install torch with CUDA into the environment that the job uses",
        retry=Retry.USELESS,
        command="python -c 'import torch; print(torch.version.cuda)'",
    ),
    root(
        "cuda.library-memory",
        "a library of CUDA found no memory on a GPU",
        r"CUBLAS_STATUS_ALLOC_FAILED|CUDNN_STATUS_ALLOC_FAILED|CUFFT_ALLOC_FAILED",
        ("STATUS_ALLOC_FAILED", "CUFFT_ALLOC_FAILED"),
        Cause.OUT_OF_MEMORY,
        _TORCH,
        do="leave more memory free on each GPU: a smaller batch",
        retry=Retry.USELESS,
    ),
    root(
        "cuda.library-failed",
        "a library of CUDA failed; an earlier error of a kernel is the usual cause",
        r"CUDA error: (?P<what>CUBLAS_STATUS_\w+|CUSOLVER_STATUS_\w+|CUSPARSE_STATUS_\w+)|cuDNN error: "
        r"(?:CUDNN_STATUS_\w+)",
        ("CUDA error: ", "cuDNN error: "),
        Cause.CRASHED,
        _TORCH,
        do="look for an index out of range before it; run it with CUDA_LAUNCH_BLOCKING=1",
        retry=Retry.UNKNOWN,
        setting="CUDA_LAUNCH_BLOCKING=1",
    ),
    root(
        "cuda.error",
        "CUDA failed: the text says how",
        r"CUDA error: (?P<why>.{1,160})",
        "CUDA error: ",
        Cause.CRASHED,
        _TORCH,
        do="look for an Xid on that node; without one it is the program's",
        retry=Retry.UNKNOWN,
        command=_XID,
    ),
)
