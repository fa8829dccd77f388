"""What a job asked for, as the options by which sbatch would ask for it again. Pure.

Numbers, lists and words come from squeue's columns; what users write (name, comment, folder, files) too: squeue of
22.05.8 shows a file's pattern (`%j.out`), where scontrol, and squeue from some version on, show what became of it.
Whether memory is a node's or a CPU's, and who gets mail, only scontrol says.

Not to be had from Slurm, and so left to the script's own #SBATCH lines, which sbatch reads again: --signal, --no-kill,
--distribution, --export, --propagate, --delay-boot, --deadline, and, of a job that runs, the bounds of --nodes, the
list of --partition and the --time that --time-min let Slurm shorten. Where such a line fits what the job was given,
that option isn't repeated.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from slurm_resilience.errors import SlurmUnparsable
from slurm_resilience.slurm.answers.script_options import ScriptOptions, script_options
from slurm_resilience.slurm.answers.wide_columns import NOT_SET, read_values

_FREE = ("Name", "WorkDir", "StdOut", "StdErr", "StdIn", "Comment")
"""What users write, and might write anything into."""
_MEMORY = re.compile(r"^   MinCPUsNode=\S+ MinMemory(CPU|Node)=(\S+) MinTmpDiskNode=\S+$", re.MULTILINE)
_REQUESTED_NODES = re.compile(r"^   ReqTRES=(?:\S+,)?node=(\d+)(?:,\S+)?$", re.MULTILINE)
_MAIL = re.compile(r"^   MailUser=(.*) MailType=(\S+)$", re.MULTILINE)
_EXCLUSIVE = {
    "NO": "--exclusive",
    "YES": "--oversubscribe",
    "USER": "--exclusive=user",
    "MCS": "--exclusive=mcs",
    "TOPO": "--exclusive=topo",
}
_PLAIN = (  # options whose value is a column as it is
    ("Account", "account"),
    ("QOS", "qos"),
    ("Reservation", "reservation"),
    ("Feature", "constraint"),
    ("Prefer", "prefer"),
    ("Licenses", "licenses"),
    ("ReqNodes", "nodelist"),
    ("Profile", "profile"),
    ("Container", "container"),
)
_COUNTS = (  # options whose value is a number, none of them 0
    ("NTPerNode", "ntasks-per-node"),
    ("NTPerSocket", "ntasks-per-socket"),
    ("NTPerCore", "ntasks-per-core"),
    ("Sockets", "sockets-per-node"),
    ("Cores", "cores-per-socket"),
    ("Threads", "threads-per-core"),
)


def read_request(job: str, columns: str, excluded: str, shown: str, script: str) -> tuple[str, ...]:
    """The options of sbatch by which another job asks for what `job` did.

    `columns` is squeue's answer to wide_columns.FORMAT, `excluded` its answer to %x, `shown` scontrol's answer, and
    `script` the batch script.
    """
    values = read_values(job, columns)
    stated = script_options(script)
    return tuple(
        option
        for group in (
            _place(values, excluded.strip(), stated),
            _size(values, shown, stated),
            _memory(job, shown, values),
            _devices(job, values),
            _files(values, stated),
            _manners(values, stated),
            _mail(job, shown, values),
        )
        for option in group
    )


def _number(text: str) -> int:
    return int(text) if text.isdigit() else 0


def _place(values: Mapping[str, str], excluded: str, stated: ScriptOptions) -> Iterator[str]:
    if values["Partition"] not in stated.list_of("partition"):
        yield f"--partition={values['Partition']}"
    for column, option in _PLAIN:
        if values[column]:
            yield f"--{option}={values[column]}"
    if excluded not in NOT_SET:
        yield f"--exclude={excluded}"
    if values["WCKey"] and not values["WCKey"].startswith("*"):  # *: the user's default
        yield f"--wckey={values['WCKey']}"
    shortened = bool(values["MinTime"].strip("0:-"))
    if values["TimeLimit"] and not (shortened and stated.has("time")):
        yield f"--time={values['TimeLimit']}"
    if shortened:
        yield f"--time-min={values['MinTime']}"
    if values["Contiguous"] == "1":
        yield "--contiguous"
    if _number(values["ReqSwitch"]):
        wait = values["Wait4Switch"]
        yield f"--switches={values['ReqSwitch']}" + (f"@{wait}" if wait.strip("0:-") else "")


@dataclass(frozen=True, slots=True)
class _Nodes:
    least: int
    most: int
    """0: without a bound."""
    tasks: frozenset[int]
    """How many tasks such a job has where nobody asked for any."""


def _size(values: Mapping[str, str], shown: str, stated: ScriptOptions) -> Iterator[str]:
    per_node = max(1, _number(values["NTPerNode"]))
    tasks = _number(values["NumTasks"])
    nodes = _nodes(values, shown, tasks, per_node)
    if nodes.most and not _range_of_script(nodes, tasks, per_node, stated):
        yield f"--nodes={nodes.least}" + (f"-{nodes.most}" if nodes.most != nodes.least else "")
    if tasks and tasks not in nodes.tasks:
        yield f"--ntasks={tasks}"
    cpus = _number(values["cpus-per-task"])
    if cpus > 1:
        yield f"--cpus-per-task={cpus}"
    if _number(values["MinCPUs"]) > max(1, cpus) * per_node:
        yield f"--mincpus={values['MinCPUs']}"
    for column, option in _COUNTS:
        if _number(values[column]):
            yield f"--{option}={values[column]}"
    special = values["CoreSpec"]
    if _number(special):
        yield f"--core-spec={special}"
    if values["OverSubscribe"] in _EXCLUSIVE:
        yield _EXCLUSIVE[values["OverSubscribe"]]


def _nodes(values: Mapping[str, str], shown: str, tasks: int, per_node: int) -> _Nodes:
    """Of a job that runs on more nodes than it must, which is the lower end of the range that it asked for?

    24.11 says it in ReqTRES. 22.05 doesn't, but counts its tasks, where nobody asked for any, by that lower end.
    """
    least_text, _, most_text = values["NumNodes"].partition("-")
    count = _number(least_text)
    most = _number(most_text or values["MaxNodes"])
    requested = _REQUESTED_NODES.findall(shown)
    if len(requested) == 1 and 0 < int(requested[0]) <= count:
        least = int(requested[0])
        return _Nodes(least, most, frozenset({least * per_node, count * per_node}))
    if most == count and 0 < tasks < count * per_node and tasks % per_node == 0:
        return _Nodes(tasks // per_node, most, frozenset({tasks}))
    return _Nodes(count, most, frozenset({count * per_node}))


def _range_of_script(nodes: _Nodes, tasks: int, per_node: int, stated: ScriptOptions) -> bool:
    """Whether the range of nodes in the script was in force, as far as the job's tasks bear it out."""
    bounds = stated.node_bounds()
    if bounds is None or not bounds[0] <= nodes.least <= nodes.most <= bounds[1]:
        return False
    by_itself = tasks == bounds[0] * per_node or (bounds[0] == nodes.least and tasks in nodes.tasks)
    return by_itself or stated.last("ntasks") == str(tasks)


def _memory(job: str, shown: str, values: Mapping[str, str]) -> Iterator[str]:
    found = _MEMORY.findall(shown)
    if len(found) != 1:
        raise SlurmUnparsable(f"scontrol does not say once whose the memory of job {job} is, but {len(found)} times")
    whose, size = found[0]
    if values["mem-per-tres"]:
        yield f"--mem-per-gpu={_of_gpus(job, 'mem-per-tres', values)}"
    elif whose == "CPU":
        yield f"--mem-per-cpu={size}"
    else:
        yield f"--mem={size}"  # 0 too: all of it, which is what nobody's word means where there is no default
    if values["MinTmpDisk"].strip("0M"):
        yield f"--tmp={values['MinTmpDisk']}"


def _devices(job: str, values: Mapping[str, str]) -> Iterator[str]:
    if values["tres-per-node"]:
        yield f"--gres={_without_gres(values['tres-per-node'])}"
    for column, option in (
        ("tres-per-job", "gpus"),
        ("tres-per-socket", "gpus-per-socket"),
        ("cpus-per-tres", "cpus-per-gpu"),
        ("tres-bind", "gpu-bind"),
        ("tres-freq", "gpu-freq"),
    ):
        if values[column]:
            yield f"--{option}={_of_gpus(job, column, values)}"
    # From 24.05 on --cpus-per-task is told here a second time: `cpu=2`.
    by_task = [part for part in values["tres-per-task"].split(",") if part and not re.match(r"cpu[=:]", part)]
    if by_task:
        listed = _of_gpus(job, "tres-per-task", {"tres-per-task": ",".join(by_task)})
        yield f"--gpus-per-task={listed}"


def _without_gres(listed: str) -> str:
    return re.sub(r"(^|,)gres[:/]", r"\1", listed)


def _of_gpus(job: str, column: str, values: Mapping[str, str]) -> str:
    """`gres:gpu:a100:2`, or `gres/gpu:a100=2` of newer versions, as `a100:2`."""
    parts = []
    for part in _without_gres(values[column]).split(","):
        found = re.fullmatch(r"gpu[:=](.+)", part)
        if found is None:
            raise SlurmUnparsable(f"the {column} of job {job} is not about GPUs, and can't be asked for: {part}")
        parts.append(found[1].replace("=", ":"))
    return ",".join(parts)


def _files(values: Mapping[str, str], stated: ScriptOptions) -> Iterator[str]:
    output, error = _pattern("StdOut", values), _pattern("StdErr", values)
    yield f"--chdir={values['WorkDir']}"
    yield f"--output={output}"
    if error and (error != output or stated.has("error")):
        yield f"--error={error}"
    if values["StdIn"] not in ("", "/dev/null") or stated.has("input"):
        yield f"--input={_pattern('StdIn', values) or '/dev/null'}"
    yield "--open-mode=append"


def _pattern(column: str, values: Mapping[str, str]) -> str:
    """The path with `%j`, `%A` and `%a` for this job's numbers, in its last part only.

    A number in a folder's name stays: two jobs that append to one file lose nothing, and one whose folder is missing
    does not start.
    """
    folder, slash, name = values[column].rpartition("/")
    array, _, task = values["JobArrayID"].partition("_")
    if re.fullmatch(rf"slurm-({values['JobID']}|{array})\.out", name):
        # What Slurm shows where nobody named a file; of an array element it leaves the element out.
        return f"{folder}{slash}slurm-%A_%a.out" if task else f"{folder}{slash}slurm-%j.out"
    if task:
        name = _replaced(f"{array}_{task}", "%A_%a", name)
        name = _replaced(array, "%A", name)
    return folder + slash + _replaced(values["JobID"], "%j", name)


def _replaced(number: str, code: str, name: str) -> str:
    return re.sub(rf"(?<!\d){re.escape(number)}(?!\d)", code, name)


def _manners(values: Mapping[str, str], stated: ScriptOptions) -> Iterator[str]:
    yield f"--job-name={values['Name']}"
    yield "--requeue" if values["Requeue"] == "1" else "--no-requeue"
    if values["Comment"] or stated.has("comment"):
        yield f"--comment={values['Comment']}"
    nice = values["Nice"] or "0"
    if nice != "0" or stated.has("nice"):
        yield f"--nice={nice}"


def _mail(job: str, shown: str, values: Mapping[str, str]) -> Iterator[str]:
    if any("MailUser=" in values[name] for name in _FREE):
        raise SlurmUnparsable(f"job {job} writes MailUser= into what it shows: who gets mail can't be told")
    for user, kinds in _MAIL.findall(shown):
        yield f"--mail-user={user}"
        yield f"--mail-type={kinds}"
