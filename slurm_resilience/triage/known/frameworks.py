"""What programs on top of torch say: Hugging Face, Lightning, DeepSpeed, Megatron. Pure data."""

from __future__ import annotations

from slurm_resilience.manifest.records import Cause
from slurm_resilience.triage.known.entry import KnownFailure, Retry
from slurm_resilience.triage.known.writing import advice, cascade, root, wait

_HF = "Hugging Face datasets 3 and huggingface_hub 0.26, public source"
_PL = "Lightning 2.4, public source"
_DS = "DeepSpeed 0.15, public source"


def _own(
    name: str, title: str, regex: str, hints: str | tuple[str, ...], origin: str, do: str, setting: str
) -> KnownFailure:
    return root(
        name, title, regex, hints, Cause.CRASHED, origin, do=do, retry=Retry.USELESS, setting=setting
    )  # fmt: skip


FRAMEWORKS = (
    wait(
        "huggingface.host-lost",
        "the host of the data does not answer; it is asked again and again",
        r"Got disconnected from remote data host\. Retrying in \d+sec \[\d+/\d+\]",
        "Got disconnected from remote",
        Cause.STORAGE,
        _HF,
        do="keep the data set on the cluster; the run goes on when the host is back",
        retry=Retry.HELPS,
        setting="HF_DATASETS_CACHE",
    ),
    wait(
        "huggingface.file-vanished",
        "a file of the hub was not found in the middle of a run: most often the hub had trouble",
        r"FileNotFoundError: hf://|Unable to find 'hf://",
        ("hf://",),
        Cause.STORAGE,
        _HF,
        do="start it again; keep the data set on the cluster",
        retry=Retry.HELPS,
        setting="HF_DATASETS_CACHE",
    ),
    _own(
        "huggingface.offline",
        "a model or a data set is not on the node, and the hub can't be reached",
        r"We couldn't connect to 'https://huggingface\.co'|LocalEntryNotFoundError|OfflineModeIsEnabled|"
        r"outgoing traffic has been disabled",
        (
            "couldn't connect to 'https://",
            "LocalEntryNotFoundError",
            "OfflineModeIsEnabled",
            "outgoing traffic has been",
        ),
        _HF,
        "fetch it on the login node into a cache on shared storage",
        "HF_HOME, HF_HUB_OFFLINE=1",
    ),
    _own(
        "huggingface.not-allowed",
        "the hub does not let you have a model or a data set",
        r"GatedRepoError|401 Client Error|403 Client Error|RepositoryNotFoundError|Invalid user token",
        ("GatedRepoError", "401 Client Error", "403 Client Error", "RepositoryNotFoundError", "Invalid user token"),
        _HF,
        "ask for access on the hub, and give the job a token",
        "HF_TOKEN",
    ),
    advice(
        "huggingface.fork",
        "the tokenizer's threads are off in forked processes",
        r"huggingface/tokenizers: The current process just got forked",
        "The current process just got",
        _HF,
        do="say it yourself",
        setting="TOKENIZERS_PARALLELISM=false",
    ),
    _own(
        "lightning.tasks-differ",
        "Lightning was told of another number of devices or nodes than Slurm's",
        r"in Lightning, but the number of (?:tasks per node|nodes) configured in SLURM",
        "configured in SLURM",
        _PL,
        "give Slurm and Lightning the same numbers: one task for each device",
        "--ntasks-per-node, --nodes",
    ),
    _own(
        "lightning.misconfigured",
        "Lightning can't work as it was told to",
        r"MisconfigurationException: (?P<why>.{1,160})",
        "MisconfigurationException",
        _PL,
        "change what the sentence names",
        "Trainer(…)",
    ),
    cascade(
        "lightning.told-to-end",
        "Lightning was told to end: by Slurm, or by a person",
        r"(?:Received|Bypassing) SIGTERM: \d+|Detected KeyboardInterrupt, attempting graceful shutdown|"
        r"SIGTERMException",
        ("Received SIGTERM: ", "Bypassing SIGTERM: ", "attempting graceful shutdown", "SIGTERMException"),
        _PL,
    ),
    _own(
        "deepspeed.batch-differs",
        "DeepSpeed's batch sizes do not fit the number of ranks",
        r"Check batch related parameters\. train_batch_size is not equal",
        "Check batch related parameters",
        _DS,
        "leave train_batch_size out: it follows from the others",
        "train_batch_size",
    ),
    _own(
        "deepspeed.checkpoint-partitions",
        "the checkpoint was written by another number of ranks, and DeepSpeed can't change it",
        r"The checkpoint being loaded used a DP world size of \d+ but the current world size is",
        "checkpoint being loaded used",
        _DS,
        "start it on as many ranks as before, or make a universal checkpoint of it",
        "load_universal_checkpoint",
    ),
    cascade(
        "deepspeed.killing",
        "DeepSpeed's launcher ends its other processes",
        r"sigkill_handler\] Killing subprocess (?P<pid>\d+)|exits with return code = (?P<code>-?\d+)",
        ("Killing subprocess", "exits with return code ="),
        _DS,
    ),
    advice(
        "wandb.retrying",
        "the logging service does not answer; the training goes on",
        r"wandb: Network error \(\w+\), entering retry loop",
        "entering retry loop",
        "wandb 0.18, public reports",
    ),
)
