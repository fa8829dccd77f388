"""The exact srun line of an attempt. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from slurm_resilience.launch.plan import CommandKind
from slurm_resilience.launch.srun_options import Option, SrunLine

_LAYOUT = ("nodes", "ntasks", "ntasks-per-node", "kill-on-bad-exit", "wait", "cpus-per-task", "gpus-per-task")
"""What the wrapper decides for torchrun: one task a node, with everything the node has for us."""

_LEFT_BEHIND = frozenset(
    "SLURM_NTASKS SLURM_NPROCS SLURM_NTASKS_PER_NODE SLURM_TASKS_PER_NODE SLURM_DISTRIBUTION SLURM_NTASKS_PER_GPU "
    "SLURM_GPUS_PER_TASK SLURM_CPUS_PER_TASK SRUN_CPUS_PER_TASK SLURM_KILL_BAD_EXIT SLURM_WAIT SLURM_NTASKS_PER_SOCKET "
    "SLURM_TRES_PER_TASK".split()
)
"""The job's layout, which srun would obey: the ranks are torchrun's business, so the step has one task a node."""


@dataclass(frozen=True, slots=True)
class Layout:
    nodes: int
    cpus_per_task: int | None
    wait_s: int = 60
    """Whole seconds, as srun takes them."""


PLUGIN = "resilient"
"""The option of our plugin of Slurm, and what its other options begin with."""
PLUGIN_SWITCH = "SLURM_RESILIENCE_SPANK"
"""`off`: srun-resilient does without the plugin."""


def wants_plugin(line: SrunLine, environment: Mapping[str, str]) -> bool:
    """Whether the step is to have the plugin's help: not where the user has spoken about it."""
    said = any(option.name == PLUGIN or option.name.startswith(f"{PLUGIN}-") for option in line.options)
    return not said and environment.get(PLUGIN_SWITCH, "").strip().lower() != "off"


def without_nodes(line: SrunLine, nodes: Collection[str]) -> SrunLine:
    """`line`, whose srun must not take `nodes` either."""
    if not nodes:
        return line
    value = ",".join(filter(None, (line.value("exclude"), *sorted(nodes))))
    rest = line.without(frozenset({"exclude"}))
    return SrunLine((*rest.options, Option("exclude", value, (f"--exclude={value}",))), line.command)


def srun_argv(
    line: SrunLine, layout: Layout, *, kind: CommandKind, command: tuple[str, ...], plugin: bool = False
) -> list[str]:
    """srun's words. A plain command keeps the user's layout; torchrun gets one task a node.

    `--kill-on-bad-exit=0`: an agent that leaves with 75 must not have its peers killed while they save; `--wait` ends a
    step whose last agents hang after the first has gone, and so must be longer than nodes may differ in leaving.
    """
    asked = [f"--{PLUGIN}"] if plugin else []
    if kind is CommandKind.TASK:
        given = line.words_without("kill-on-bad-exit")
        return ["srun", *given, "--kill-on-bad-exit=0", *asked, *command]
    ours = [f"--nodes={layout.nodes}", f"--ntasks={layout.nodes}", "--ntasks-per-node=1"]
    ours += ["--kill-on-bad-exit=0", f"--wait={layout.wait_s}"]
    if layout.cpus_per_task is not None:
        ours.append(f"--cpus-per-task={layout.cpus_per_task}")
    return ["srun", *line.words_without(*_LAYOUT), *ours, *asked, *command]


def srun_environment(
    environment: Mapping[str, str], kind: CommandKind, *, run: str = "", attempt: int | None = None
) -> dict[str, str]:
    """The environment for srun. For torchrun without what would lay the step out like the job.

    `run` and `attempt` are for our plugin of Slurm: where to bring what it saw, and that this step is looked after. The
    node agents say the same to the ranks.
    """
    left = ("SLURM_KILL_BAD_EXIT",) if kind is CommandKind.TASK else _LEFT_BEHIND
    kept = {name: value for name, value in environment.items() if name not in left}
    if attempt is None:
        return kept
    return kept | {"SLURM_RESILIENCE_RUN": run, "SLURM_RESILIENCE_ATTEMPT": f"{attempt}"}


_NOT_OBEYED = {
    "kill-on-bad-exit": "an agent that leaves with 75 would have its peers killed while they save",
    "wait": "it is computed: see `srun --wait` in the grace ladder",
}
_THEIR_VARIABLES = {"kill-on-bad-exit": "SLURM_KILL_BAD_EXIT", "wait": "SLURM_WAIT"}


def not_obeyed(line: SrunLine, environment: Mapping[str, str], kind: CommandKind) -> tuple[str, ...]:
    """What the user asked of srun about the end of a step and doesn't get: one sentence each."""
    sentences = []
    for name, why in _NOT_OBEYED.items():
        if kind is CommandKind.TASK and name == "wait":
            continue  # a plain command keeps it
        variable = _THEIR_VARIABLES[name]
        options = [" ".join(option.words) for option in line.options if option.name == name]
        said = options or ([f"{variable}={environment[variable]}"] if variable in environment else [])
        # 0 is what we set ourselves: nothing is taken from who asks for it.
        if said and not (name == "kill-on-bad-exit" and _is_zero(line.value(name) or environment.get(variable))):
            sentences.append(f"{said[-1]} is not obeyed: {why}")
    return tuple(sentences)


def wait_of_plain_command(line: SrunLine, environment: Mapping[str, str]) -> float | None:
    """The `--wait` that a plain command brings along, in seconds; None: none, or none that can be read."""
    text = line.value("wait") or environment.get("SLURM_WAIT", "")
    return float(text) if text.isdecimal() else None


def _is_zero(text: str | None) -> bool:
    return text is not None and text.strip() == "0"
