"""What a job asked for, from answers as Slurm 22.05 gives them."""

from collections.abc import Mapping
from types import MappingProxyType

import pytest

from slurm_resilience.errors import SlurmUnparsable
from slurm_resilience.slurm.answers.request import read_request
from slurm_resilience.slurm.answers.wide_columns import _COLUMNS

SHOWN = "   MinCPUsNode=1 MinMemory{}={} MinTmpDiskNode=0\n"
PLAIN = {
    "JobID": "700",
    "JobArrayID": "700",
    "Partition": "low",
    "TimeLimit": "1:00:00",
    "MinTime": "0:00",
    "NumNodes": "2",
    "MaxNodes": "2",
    "NumTasks": "2",
    "NTPerNode": "0",
    "cpus-per-task": "1",
    "MinCPUs": "1",
    "MinTmpDisk": "0",
    "OverSubscribe": "OK",
    "Contiguous": "0",
    "ReqSwitch": "0",
    "Wait4Switch": "0:00",
    "Requeue": "1",
    "Nice": "0",
    "Name": "train",
    "WorkDir": "/w",
    "StdOut": "/w/%x-%j.out",
    "StdErr": "/w/%x-%j.out",
    "StdIn": "/dev/null",
}
BASE = (
    "--partition=low",
    "--time=1:00:00",
    "--nodes=2",
    "--mem=0",
    "--chdir=/w",
    "--output=/w/%x-%j.out",
    "--open-mode=append",
    "--job-name=train",
    "--requeue",
)


def columns(changed: Mapping[str, str]) -> str:
    values = {**PLAIN, **changed}
    raw = b""
    for name, width in _COLUMNS:
        raw += values.get(name, "N/A").encode().ljust(width)[:width]
    return raw.decode(errors="replace") + "\n"


def asked(
    changed: Mapping[str, str] = MappingProxyType({}),
    *,
    excluded: str = "",
    memory: tuple[str, str] = ("Node", "0"),
    script: str = "",
    more: str = "",
) -> tuple[str, ...]:
    return read_request("700", columns(changed), excluded, SHOWN.format(*memory) + more, script)


def added(options: tuple[str, ...]) -> set[str]:
    return set(options) - set(BASE)


def test_a_plain_job_is_asked_for_without_a_word_too_many() -> None:
    assert asked() == BASE


@pytest.mark.parametrize(
    ("changed", "options"),
    [
        ({"Account": "a", "QOS": "q", "Reservation": "r"}, {"--account=a", "--qos=q", "--reservation=r"}),
        ({"Feature": "fast&big", "Licenses": "m:1"}, {"--constraint=fast&big", "--licenses=m:1"}),
        ({"ReqNodes": "n[1-2]", "Contiguous": "1"}, {"--nodelist=n[1-2]", "--contiguous"}),
        ({"OverSubscribe": "NO"}, {"--exclusive"}),
        ({"OverSubscribe": "USER"}, {"--exclusive=user"}),
        ({"OverSubscribe": "YES"}, {"--oversubscribe"}),
        ({"cpus-per-task": "4", "MinCPUs": "4"}, {"--cpus-per-task=4"}),
        ({"MinCPUs": "3"}, {"--mincpus=3"}),
        ({"NTPerNode": "2", "NumTasks": "4", "MinCPUs": "2"}, {"--ntasks-per-node=2"}),
        ({"NumTasks": "5"}, {"--ntasks=5"}),
        ({"tres-per-node": "gres:gpu:a100:2,gres:nic:1"}, {"--gres=gpu:a100:2,nic:1"}),
        ({"tres-per-job": "gres:gpu:3"}, {"--gpus=3"}),
        ({"tres-per-job": "gres/gpu:a100=3"}, {"--gpus=a100:3"}),
        ({"tres-per-task": "cpu=2"}, set()),
        ({"tres-per-task": "cpu=2,gres/gpu=1"}, {"--gpus-per-task=1"}),
        ({"tres-per-socket": "gres:gpu:1", "Sockets": "2"}, {"--gpus-per-socket=1", "--sockets-per-node=2"}),
        ({"cpus-per-tres": "gres:gpu:8"}, {"--cpus-per-gpu=8"}),
        ({"tres-bind": "gpu:closest"}, {"--gpu-bind=closest"}),
        ({"Threads": "1", "NTPerSocket": "1"}, {"--threads-per-core=1", "--ntasks-per-socket=1"}),
        ({"ReqSwitch": "1", "Wait4Switch": "5:00"}, {"--switches=1@5:00"}),
        ({"MinTime": "30:00"}, {"--time-min=30:00"}),
        ({"MinTmpDisk": "10M"}, {"--tmp=10M"}),
        ({"Nice": "5"}, {"--nice=5"}),
        ({"Requeue": "0"}, {"--no-requeue"}),
        ({"WCKey": "w"}, {"--wckey=w"}),
        ({"WCKey": "*w"}, set()),
        ({"StdErr": "/w/%j.err", "StdIn": "/w/in"}, {"--error=/w/%j.err", "--input=/w/in"}),
        ({"Comment": "a\n  b\tünï"}, {"--comment=a\n  b\tünï"}),
        ({"Name": "x\nJobState=FAILED"}, {"--job-name=x\nJobState=FAILED"}),
    ],
)
def test_what_differs_from_a_plain_job_is_one_option_more(changed: dict[str, str], options: set[str]) -> None:
    assert added(asked(changed)) == options


def test_memory_is_a_nodes_a_cpus_or_a_gpus() -> None:
    assert added(asked(memory=("Node", "1G"))) == {"--mem=1G"}
    assert added(asked(memory=("CPU", "100M"))) == {"--mem-per-cpu=100M"}
    assert added(asked({"mem-per-tres": "gres:gpu:100"})) == {"--mem-per-gpu=100"}


def test_excluded_nodes_and_mail_come_from_where_they_are() -> None:
    options = asked(excluded="n[1-2]\n", more="   MailUser=me x MailType=ALL MailType=END,FAIL\n")
    assert added(options) == {"--exclude=n[1-2]", "--mail-user=me x MailType=ALL", "--mail-type=END,FAIL"}


@pytest.mark.parametrize(
    ("changed", "script", "nodes"),
    [
        ({"NumNodes": "2-3", "MaxNodes": "3"}, "", ["--nodes=2-3"]),  # it waits
        ({"NumNodes": "1", "MaxNodes": "0", "NumTasks": "1"}, "", []),  # nobody asked
        ({"NumNodes": "4", "MaxNodes": "4", "NumTasks": "2"}, "", ["--nodes=2-4"]),  # it runs on more than it must
        ({"NumNodes": "4", "MaxNodes": "4", "NumTasks": "4", "NTPerNode": "2"}, "", ["--nodes=2-4"]),
        ({"NumNodes": "3", "MaxNodes": "3", "NumTasks": "2"}, "#SBATCH --nodes=2-4", []),  # the script knows better
        ({"NumNodes": "3", "MaxNodes": "3", "NumTasks": "3"}, "#SBATCH -N 2-4", ["--nodes=3"]),
        ({"NumNodes": "3", "MaxNodes": "3", "NumTasks": "6"}, "#SBATCH -N2-4 -n6", ["--ntasks=6"]),
        ({"NumNodes": "5", "MaxNodes": "5", "NumTasks": "5"}, "#SBATCH -N2-4", ["--nodes=5"]),
    ],
)
def test_bounds_of_nodes_are_kept_where_they_can_be_known(
    changed: dict[str, str], script: str, nodes: list[str]
) -> None:
    said = asked(changed, script=f"#!/bin/bash\n{script}\n")
    assert [option for option in said if option.startswith(("--nodes", "--ntasks="))] == nodes


@pytest.mark.parametrize(
    ("tasks", "script", "nodes"),
    [
        ("3", "", ["--nodes=2-3"]),
        ("2", "", ["--nodes=2-3"]),
        ("7", "", ["--nodes=2-3", "--ntasks=7"]),
        ("3", "#SBATCH --nodes=2-4", []),
        ("3", "#SBATCH --nodes=1-4", ["--nodes=2-3"]),
    ],
)
def test_newer_versions_say_themselves_how_many_nodes_would_have_done(
    tasks: str, script: str, nodes: list[str]
) -> None:
    changed = {"NumNodes": "3", "MaxNodes": "3", "NumTasks": tasks}
    said = asked(changed, script=script, more="   ReqTRES=cpu=2,mem=128G,node=2,billing=2\n   AllocTRES=cpu=3,node=3\n")
    assert [option for option in said if option.startswith(("--nodes", "--ntasks="))] == nodes


def test_a_list_of_partitions_in_the_script_is_not_narrowed_to_the_one_that_was_given() -> None:
    listed = asked(script="#SBATCH --partition=low,high")
    assert not any(option.startswith("--partition") for option in listed)
    assert "--partition=low" in asked(script="#SBATCH --partition=high")


def test_a_time_that_slurm_may_have_shortened_is_left_to_the_script() -> None:
    assert not any(o.startswith("--time=") for o in asked({"MinTime": "30:00"}, script="#SBATCH -t 2:00:00"))


def test_a_default_is_said_where_the_script_says_otherwise() -> None:
    script = "#SBATCH --nice=10 --comment=x\n#SBATCH -e err -i in\nsbatch --nothing\n#SBATCH --mem=1"
    assert added(asked(script=script)) == {"--nice=0", "--comment=", "--error=/w/%x-%j.out", "--input=/dev/null"}


@pytest.mark.parametrize(
    ("job", "array", "shown", "pattern"),
    [
        ("700", "700", "/w/slurm-700.out", "/w/slurm-%j.out"),
        ("701", "700_3", "/w/slurm-700.out", "/w/slurm-%A_%a.out"),
        ("701", "700_3", "/w/o-700_3.txt", "/w/o-%A_%a.txt"),
        ("701", "700_3", "/w/701/700_3-701", "/w/701/%A_%a-%j"),
        ("700", "700", "/data/700/x-700.out", "/data/700/x-%j.out"),
        ("700", "700", "/w/model-7000.out", "/w/model-7000.out"),
        ("700", "700", "/w/%x.%j", "/w/%x.%j"),
    ],
)
def test_a_jobs_number_in_a_files_name_is_a_pattern_and_in_a_folders_name_it_stays(
    job: str, array: str, shown: str, pattern: str
) -> None:
    assert f"--output={pattern}" in asked({"JobID": job, "JobArrayID": array, "StdOut": shown, "StdErr": shown})


@pytest.mark.parametrize(
    ("changed", "name"), [({"Name": "n" * 1100}, "Name"), ({"WorkDir": "/" + "x" * 4199}, "WorkDir")]
)
def test_what_is_too_wide_to_be_sure_is_refused_by_name(changed: dict[str, str], name: str) -> None:
    with pytest.raises(SlurmUnparsable, match=name):
        asked(changed)


def test_nobody_writes_mail_or_memory_into_what_scontrol_says() -> None:
    with pytest.raises(SlurmUnparsable, match="MailUser"):
        asked({"Comment": "x\n   MailUser=evil MailType=ALL"})
    with pytest.raises(SlurmUnparsable, match="memory"):
        asked(more="   MinCPUsNode=1 MinMemoryNode=9 MinTmpDiskNode=0\n")


@pytest.mark.parametrize("answer", ["", "700\n", columns({}) + columns({}), columns({})[:-9] + "\ufffd" * 3])
def test_what_is_not_one_record_is_refused(answer: str) -> None:
    with pytest.raises(SlurmUnparsable, match="one record"):
        read_request("700", answer, "", SHOWN.format("Node", "0"), "")


def test_devices_that_no_option_can_ask_for_are_refused() -> None:
    with pytest.raises(SlurmUnparsable, match="tres-per-job"):
        asked({"tres-per-job": "gres:nic:2"})
