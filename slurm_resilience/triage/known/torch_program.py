"""What torch says of the program: shapes, gradients, DDP, checkpoints that don't fit, numbers that are "
"none. Pure data."""

from __future__ import annotations

from slurm_resilience.manifest.records import Cause
from slurm_resilience.triage.known.entry import KnownFailure, Retry
from slurm_resilience.triage.known.writing import advice, cascade, root, wait

_STRINGS = "torch 2.13, strings"
_SOURCE = "torch 2.13, source"


def _bug(
    slug: str, title: str, regex: str, hints: str | tuple[str, ...], do: str, origin: str = _STRINGS
) -> KnownFailure:
    return root(f"torch.{slug}", title, regex, hints, Cause.CRASHED, origin, do=do, retry=Retry.USELESS)


TORCH = (
    root(
        "torch.host-memory",
        "torch found no host memory",
        r"DefaultCPUAllocator: (?:can't|not enough) ",
        "DefaultCPUAllocator: ",
        Cause.OUT_OF_MEMORY,
        _STRINGS,
        do="give the job more host memory, or let it use less",
        retry=Retry.USELESS,
        setting="--mem=…",
    ),
    _bug(
        "collectives-differ",
        "ranks came to different collectives",
        r"Detected mismatch between collectives on ranks\. Rank (?P<rank>\d+) is running collective",
        "mismatch between collectives",
        "look for a branch that not all ranks take: the line names what two of them did",
    ),
    wait(
        "torch.monitored-barrier",
        "torch names ranks that did not come to a barrier",
        r"[Rr]anks? (?P<ranks>[\d, ]{1,200}) failed to pass monitoredBarrier|timed out in monitoredBarrier after",
        ("failed to pass monitoredBarrier", "timed out in monitoredBarrier"),
        Cause.HUNG,
        _STRINGS,
        do="look at the output of those ranks first",
        retry=Retry.UNKNOWN,
    ),
    _bug(
        "ddp-unused",
        "DDP waits for gradients of parameters that this step did not use",
        r"Expected to have finished reduction in the prior iteration before starting a new one",
        "Expected to have finished reduction",
        "use every parameter in every step, or say find_unused_parameters=True",
    ),
    _bug(
        "ddp-models-differ",
        "the ranks have different models",
        r"DDP expects same model across all ranks, but Rank (?P<rank>\d+)|appears not to match (?:sizes|"
        r"strides) of the same param",
        ("DDP expects same model", "appears not to match s"),
        "build the same model on every rank: compare its arguments, and what depends on the rank",
    ),
    _bug(
        "ddp-twice",
        "a parameter got its gradient twice in one step",
        r"has been marked as ready twice",
        "been marked as ready twice",
        "with activation checkpoints say use_reentrant=False, or static_graph=True",
    ),
    _bug(
        "shapes",
        "tensors do not fit one another",
        r"shapes cannot be multiplied \(|The size of tensor a \(\d+\) must match|shape '\[[^']{1,80}\]' is "
        r"invalid for input of size|"
        r"Sizes of tensors must match except in dimension",
        (
            "shapes cannot be multiplied",
            "The size of tensor a (",
            "is invalid for input of size",
            "must match except in dimension",
        ),
        "look at the batch that this rank had: a last batch is often smaller",
    ),
    _bug(
        "devices",
        "tensors lie on different devices",
        r"Expected all tensors to be on the same device",
        "Expected all tensors to be on",
        "move them to one device: what is made anew in the step is often forgotten",
    ),
    _bug(
        "gradient",
        "the gradient can't be computed",
        r"element \d+ of tensors does not require grad|has been modified by an inplace operation|Trying to "
        r"backward through the graph a "
        r"second time",
        ("tensors does not require grad", "modified by an inplace", "Trying to backward through"),
        "run a step with torch.autograd.set_detect_anomaly(True): it names the operation",
    ),
    _bug(
        "weights-missing",
        "the checkpoint is for another model",
        r"Error\(s\) in loading state_dict for|Missing key\(s\) in state_dict|Unexpected key\(s\) in state_dict|"
        r"size mismatch for \S{1,160}: copying a param with",
        ("in loading state_dict for", "key(s) in state_dict", ": copying a param with"),
        "build the model as it was when the checkpoint was written, or start from scratch",
        _SOURCE,
    ),
    _bug(
        "optimizer-differs",
        "the checkpoint is for another optimizer, or for other groups of parameters",
        r"loaded state dict (?:has a different number of parameter groups|contains a parameter group that "
        r"doesn't match)",
        "loaded state dict ",
        "build the optimizer as it was when the checkpoint was written",
        _SOURCE,
    ),
    _bug(
        "checkpoint-cut-short",
        "a file of torch.save was cut short, or is none",
        r"PytorchStreamReader failed|more bytes\. The file might be corrupted|Invalid magic number; corrupt file\?|"
        r"Ran out of input",
        ("PytorchStreamReader failed", "file might be corrupted", "Invalid magic number", "Ran out of input"),
        "load an older one; write them by another name first, and rename: slurm-resilience does so",
    ),
    _bug(
        "weights-only",
        "torch.load refuses what is not only weights",
        r"Weights only load failed",
        "Weights only load failed",
        "save plain values only, or allow the class: torch.serialization.add_safe_globals",
        _SOURCE,
    ),
    root(
        "torch.save-failed",
        "torch.save could not write: most often the disk is full",
        r"PytorchStreamWriter failed|inline_container\.cc:\d+\] \. unexpected pos \d+ vs \d+",
        ("PytorchStreamWriter failed", "unexpected pos "),
        Cause.STORAGE,
        _STRINGS,
        do="make room, or save somewhere else",
        retry=Retry.USELESS,
        command="df -h; df -i; quota -s",
    ),
    _bug(
        "not-a-number",
        "the training has diverged: a loss or a gradient is no number any more",
        r"Function '(?P<what>\w+)' returned nan values in its|[Ll]oss is (?:nan|NaN|-?inf), stopping training|"
        r"found NaN in local (?:grad norm|forward loss)|"
        r"Unexpected result nan \(message=|non-finite (?:loss|grad)[^\n]{0,60}(?:stop|abort|exit)|"
        r"The total norm of order \S{1,12} for gradients from `parameters` is non-finite",
        (
            "returned nan values",
            "stopping training",
            "found NaN in local",
            "Unexpected result nan",
            "non-finite",
            "is non-finite",
        ),
        "go back to a checkpoint before it, with a lower learning rate, or without the batch that did it",
    ),
    _bug(
        "loss-scale",
        "the training has diverged: the loss scale can't shrink any more",
        r"Current loss scale already at minimum|Minimum loss scale reached \(",
        ("loss scale already at minimum", "Minimum loss scale reached"),
        "go back to a checkpoint before it, with a lower learning rate, or use bfloat16",
        "DeepSpeed, deepspeed/runtime/fp16; fairseq, fairseq/optim",
    ),
    _bug(
        "compile-failed",
        "torch.compile could not compile the model",
        r"BackendCompilerFailed: |torch\._dynamo\.exc\.(?!Unsupported)\w+: |"
        r"triton\.\w[\w.]{1,60}OutOfResources|InductorError: ",
        ("BackendCompilerFailed", "torch._dynamo.exc.", "OutOfResources", "InductorError: "),
        "run it without torch.compile; if it is only some nodes, empty their compile caches",
        _SOURCE,
    ),
    cascade(
        "torch.terminate",
        "a C++ exception ended the process; the next line says which",
        r"terminate called (?:after throwing an instance of|without an active exception)|libc\+\+abi: terminating",
        ("terminate called ", "libc++abi: terminating"),
        "torch 2.13, run here",
    ),
    advice(
        "torch.find-unused",
        "DDP looks for unused parameters, and there are none",
        r"find_unused_parameters=True was specified in DDP constructor, but did not find any unused",
        "but did not find any unused",
        _STRINGS,
    ),
)
