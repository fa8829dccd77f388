"""--resilient and its kin in sbatch, salloc and srun."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.integration.spank_site import BOTH, SpankSite
from tests.integration.spank_site import no_node_is_drained as no_node_is_drained  # noqa: PLC0414 found by their names
from tests.integration.spank_site import plugin_cluster as plugin_cluster  # noqa: PLC0414
from tests.integration.spank_site import site as site  # noqa: PLC0414
from tests.slurm.jobs import ENDED, PATIENCE_S, JobsOn, wait_until, without_waiting

pytestmark = BOTH
OURS = "SLURM_RESILIENCE_"
BLOCKED = "0000000000004a00"
"""SIGTERM, SIGUSR1 and SIGUSR2, in /proc."""
ASKED = ("--resilient=chain", "--resilient-signal-lead=90")
BAD = {
    "--resilient=perhaps": 'slurm-resilience: --resilient must be requeue, chain or off, and is "perhaps"',
    "--resilient-run=": "slurm-resilience: --resilient-run must name a folder, and is empty",
    "--resilient-run=two\nlines": "slurm-resilience: --resilient-run must not hold control characters",
    "--resilient-signal-lead=604801": "must be a whole number of seconds from 0 to 604800, and is",
    "--resilient-signal-lead=-1": "must be a whole number of seconds from 0 to 604800, and is",
    "--resilient-signal-lead=1.5": "must be a whole number of seconds from 0 to 604800, and is",
}


def ours(text: str) -> dict[str, str]:
    """The variables of ours in what `env` said."""
    lines = (line.partition("=") for line in text.splitlines() if line.startswith(OURS))
    return {name.removeprefix(OURS): value for name, _, value in lines}


@pytest.mark.quick
def test_what_is_asked_of_sbatch_arrives_in_the_script_and_in_every_step(site: SpankSite, jobs: JobsOn) -> None:
    say = "bash -c 'env; grep SigBlk /proc/self/status'"  # dash begins by unblocking all signals
    script = f"env > batch; srun -l {say} | sed 's/^[0-9]*: //' > step; srun -N1 -n1 --resilient=off {say} > off"
    script += f"; srun -N1 -n1 --resilient=requeue --resilient-run=other --resilient-signal-lead=7 {say} > own"
    path = jobs.folder / "script"
    path.write_text(f"#!/bin/sh\n{script}\n")
    where = ["env", "-C", str(jobs.folder), "sbatch", "--parsable", "-N2", "-n2", "-o%A.out"]
    job = jobs.ask(*where, *ASKED, "--resilient-run=a/run", "script").out.strip()
    jobs.wait_state(job, *ENDED)
    said_by_slurm = without_waiting((jobs.folder / f"{job}.out").read_text())
    assert (jobs.state(job), said_by_slurm) == ("COMPLETED", "")

    run = f"{jobs.folder}/a/run"
    said = {"CONTINUE": "chain", "RUN_DIR": run, "STOP_BEFORE_END": "90"}
    assert ours((jobs.folder / "batch").read_text()) == said
    step = (jobs.folder / "step").read_text()
    relay = Path(ours(step)["RELAY"])
    assert relay.name.startswith("slurm-resilience-")
    assert relay.name.rpartition("-n")[0].endswith(f"-relay-{job}-0-s0")
    assert ours(step) == {**said, "RUN": run, "RELAY": str(relay), "END_FILE": str(relay / "end")}
    assert step.count(f"SigBlk:\t{BLOCKED}") == 2
    off = (jobs.folder / "off").read_text()
    assert "RELAY" not in ours(off)
    assert "SigBlk:\t0000000000000000" in off
    own = ours((jobs.folder / "own").read_text())
    assert (own["CONTINUE"], own["STOP_BEFORE_END"]) == ("requeue", "7")
    assert (own["RUN_DIR"], own["RUN"]) == (f"{jobs.folder}/other",) * 2
    steps = {note["step"] for run in ("a/run", "other") for note in notes(jobs.folder / run)}
    assert steps == {0, 2}


def notes(run: Path) -> list[dict[str, object]]:
    paths = sorted(run.glob("exit-notes/*/*.jsonl"))
    return [json.loads(line) for path in paths for line in path.read_text().splitlines()]


@pytest.mark.parametrize("before", [["salloc", "-Q", "-n1"], []], ids=["salloc", "srun"])
def test_salloc_and_srun_take_them_too(site: SpankSite, jobs: JobsOn, before: list[str]) -> None:
    where = ["env", "-C", str(jobs.folder)]
    if before:
        said = jobs.ask(*where, *before, *ASKED, "--resilient-run=run", "srun", "env").out
    else:
        said = jobs.ask(*where, "srun", "-n1", *ASKED, "--resilient-run=run", "env").out
    run = f"{jobs.folder}/run"
    heard = ours(said)
    assert heard["CONTINUE"] == "chain"
    assert heard["STOP_BEFORE_END"] == "90"
    assert heard["RUN"] == heard["RUN_DIR"] == run
    assert "RELAY" in heard
    assert len(notes(Path(run))) == 1


def test_each_option_alone_asks_for_resilience_unless_it_is_switched_off(site: SpankSite, jobs: JobsOn) -> None:
    for option in (
        "--resilient",
        "--resilient=requeue",
        "--resilient-signal-lead=30",
        f"--resilient-run={jobs.folder}",
    ):
        assert ours(jobs.ask("srun", "-n1", option, "env").out)["CONTINUE"] == "requeue"
    said = jobs.ask("srun", "-n1", "--resilient=off", f"--resilient-run={jobs.folder}/off", "env").out
    assert ours(said) == {}
    assert not (jobs.folder / "off").exists()


@pytest.mark.quick
@pytest.mark.parametrize("command", ["sbatch", "salloc", "srun"])
def test_a_bad_value_is_refused_in_one_sentence_where_it_is_typed(site: SpankSite, jobs: JobsOn, command: str) -> None:
    words = {"sbatch": ["--wrap", "true"], "salloc": ["true"], "srun": ["true"]}[command]
    before = jobs.ask("squeue", "-h", "-t", "all", "-o", "%A").out
    for option, sentence in BAD.items():
        answer = jobs.cluster.run(command, "-n1", option, *words)
        assert answer.code != 0, option
        assert answer.err.count("slurm-resilience: ") == 1, answer.err
        assert sentence in answer.err
    assert jobs.ask("squeue", "-h", "-t", "all", "-o", "%A").out == before


def test_they_hold_for_jobs_that_take_no_environment_along(site: SpankSite, jobs: JobsOn) -> None:
    run = jobs.folder / "run"
    script = "/usr/bin/env > batch; srun --export=NONE /usr/bin/env > step"  # nor has it a PATH
    # Not NONE: for that slurmd 24.11 makes a namespace, and where it may not, as in a container, it dies.
    job = jobs.submit(script, export="NIL", resilient="chain", resilient_run=run, resilient_signal_lead=90)
    assert jobs.wait_end(job) == "COMPLETED", jobs.output(job)
    said = {"CONTINUE": "chain", "RUN_DIR": str(run), "STOP_BEFORE_END": "90"}
    assert ours((jobs.folder / "batch").read_text()) == said
    assert ours((jobs.folder / "step").read_text()).items() >= said.items()
    assert len(notes(run)) == 1


def test_elements_of_an_array_and_parts_of_a_heterogeneous_job_have_lives_of_their_own(
    site: SpankSite, jobs: JobsOn
) -> None:
    array, parts = jobs.folder / "array", jobs.folder / "parts"
    one = jobs.submit("srun true", array="3,5", resilient=True, resilient_run=array)
    options = ["--resilient", f"--resilient-run={parts}"]
    words = ["--output=/dev/null", "-n1", *options, ":", "-n1", *options, "--wrap", "srun --het-group=0,1 true"]
    two = jobs.ask("env", "-C", str(jobs.folder), "sbatch", "--parsable", *words).out.strip()
    wait_until(lambda: set(jobs.state(one).split()) == {"COMPLETED"}, lambda: jobs.state(one), PATIENCE_S)
    wait_until(lambda: set(jobs.state(two).split()) == {"COMPLETED"}, lambda: jobs.state(two), PATIENCE_S)
    assert lives(array) == {f"{one}_3-0", f"{one}_5-0"}
    assert lives(parts) == {f"{two}-0", f"{int(two) + 1}-0"}
    assert [note["job"] for note in notes(array)] == [f"{one}_3", f"{one}_5"]
    assert len(notes(parts)) == 2


def lives(run: Path) -> set[str]:
    return {path.name for path in (run / "exit-notes").iterdir()}


def test_an_environment_that_somebody_made_by_hand_neither_stops_the_job_nor_drains_the_node(
    site: SpankSite, jobs: JobsOn
) -> None:
    handed_on = "_SLURM_SPANK_OPTION_resilience_"
    """By which a node gets an option of a batch job. What commands inherit has another name, and they check it."""
    for name, value, sentence in (
        ("resilient", "perhaps", '--resilient must be requeue, chain or off, and is "perhaps"'),
        ("resilient_signal_lead", "soon", "--resilient-signal-lead must be a whole number"),
        ("resilient_run", "two\nlines", "--resilient-run must not hold control characters"),
    ):
        job = jobs.submit(f"echo it runs; env | grep ^{OURS}; srun echo so does it", env={handed_on + name: value})
        assert jobs.wait_end(job) == "COMPLETED", jobs.output(job)
        output = jobs.output(job)
        assert "it runs" in output
        assert "so does it" in output
        assert OURS not in output
        assert output.count(sentence) == 1, output
    wild = {
        "SLURM_RESILIENCE_RUN": "no/absolute/path",
        "SLURM_RESILIENCE_ATTEMPT": "-7",
        "SLURM_RESILIENCE_STOP_BEFORE_END": "never",
        "SLURM_RESILIENCE_RELAY": "/etc/passwd",
    }
    job = jobs.submit("export SLURM_RESTART_COUNT=../../x; srun echo it runs", env=wild, resilient=True)
    assert jobs.wait_end(job) == "COMPLETED", jobs.output(job)
    assert jobs.output(job).count("it runs") == 1
    assert 'the run directory "no/absolute/path" is no absolute path, and does not count' in jobs.output(job)
