"""What people have reported of other tools, each with what must happen instead; the report stands above its test."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import pytest

from slurm_resilience.manifest.records import Cause
from slurm_resilience.sandbox.cluster import Cluster
from slurm_resilience.sandbox.config import ClusterSpec
from tests.slurm.foreign import Foreign
from tests.slurm.jobs import Jobs, wait_until
from tests.slurm.light_run import PATIENCE_S, ROOT, SILENT_AFTER_S, LightRun

linuxproc = pytest.mark.parametrize("cluster", ["linuxproc"], indirect=True)
SIGNAL_FIRST = "SlurmctldParameters=preempt_send_user_signal"
"""22.05.8 knows no PreemptParameters; later versions know both."""
PREEMPTED, FINISHED = Cause.PREEMPTED.value, Cause.FINISHED.value


def ask(run: LightRun, *words: str) -> str:
    """`slurm-resilience …` about the run; what it says."""
    argv = (sys.executable, "-m", "slurm_resilience.cli.main", words[0], str(run.run.path), *words[1:])
    answer = run.jobs.cluster.run(*argv, env={"PYTHONPATH": str(ROOT), "COLUMNS": "400"}, timeout_s=PATIENCE_S)
    assert "Traceback" not in answer.err, answer.err
    return answer.out + answer.err


# Lightning-AI/pytorch-lightning#4265; wandb/wandb#2692
@linuxproc
def test_after_five_preemptions_every_step_was_done_once_and_the_job_was_never_held(jobs: Jobs) -> None:
    # So many steps that none of the first five attempts gets to the end before it is preempted.
    before = f'echo "$SLURM_JOB_ID" >> {jobs.folder}/lives'
    run = LightRun(jobs, "often", before=before, steps=400, later_step_s=0.01, finishes_in=6)
    run.submit()
    for attempt in range(1, 6):
        run.wait_training(attempt)
        jobs.preempt(run.job, hold_s=0.1)
        wait_until(lambda: jobs.state(run.job) != "RUNNING", "it was never preempted", PATIENCE_S)
        assert jobs.show(run.job)["Priority"] != "0", jobs.show(run.job)
    run.wait_told()
    run.check()
    assert run.causes == [PREEMPTED] * 5 + [FINISHED]
    assert run.resumed_steps == sorted(run.resumed_steps)
    chain = run.chain
    assert chain is not None
    assert [chain.steps_lost(number) for number in range(1, 6)] == [0] * 5
    # 24.11.5 starts a job that was preempted once more than anybody asked for: that life finds the run finished.
    assert len((jobs.folder / "lives").read_text().split()) in (6, 7)
    ids = (run.run.path / "ids").read_text().split()
    assert len(ids) == 6
    assert set(ids) == {chain.run_id}


# facebookincubator/submitit#1603, #1615, #1618
@pytest.mark.parametrize("signal", ["USR1@60", "B:USR1@60"])
def test_where_preemption_sends_the_jobs_own_signal_nothing_is_lost_either(signal: str, tmp_path: Path) -> None:
    spec = ClusterSpec(nodes=2, grace_s=8, kill_wait_s=6, extra=(SIGNAL_FIRST,))
    with Cluster(spec) as cluster:
        run = LightRun(Jobs(cluster, tmp_path), "signalled", later_step_s=0.02, finishes_in=2)
        run.submit(signal=signal)
        run.wait_training()
        run.jobs.preempt(run.job, hold_s=0.1)
        run.wait_training(2)
        run.wait_told()
        run.check()
        chain = run.chain
        assert chain is not None
        assert chain.steps_lost(1) == 0
        assert run.causes == [PREEMPTED, FINISHED]


# nextflow-io/nextflow#5276, #5298, #2672, #3422
@linuxproc
def test_a_node_that_fails_under_a_job_that_may_not_be_requeued_is_told_with_what_helps(jobs: Jobs) -> None:
    run = LightRun(jobs, "lost", finishes_in=2)
    run.submit(requeue=False, no_requeue=True)
    run.wait_training()
    second = jobs.cluster.run("scontrol", "show", "hostnames", jobs.show(run.job)["NodeList"]).out.split()[1]
    jobs.cluster.kill_slurmd(second)
    wait_until(lambda: jobs.state(run.job) == "NODE_FAIL", lambda: f"it is {jobs.state(run.job)}", PATIENCE_S)
    wait_until(lambda: run.newest is not None and run.newest.ended is not None, run.story, PATIENCE_S)
    assert run.causes == [Cause.NODE_FAILURE.value]
    said = ask(run, "status")
    assert "node failure" in said
    assert "submit its batch script again" in said


# czbiohub-sf/biahub#333: preempted before any trap existed
def test_a_job_that_is_preempted_while_its_prolog_runs_starts_later_as_if_nothing_had_been(tmp_path: Path) -> None:
    prolog = tmp_path / "prolog"
    prolog.write_text("#!/bin/sh\nuntil [ -e " + str(tmp_path / "quick") + " ]; do sleep 0.1; done\n")
    prolog.chmod(0o755)
    spec = ClusterSpec(nodes=2, grace_s=0, kill_wait_s=6, extra=(f"Prolog={prolog}", "PrologFlags=Alloc"))
    with Cluster(spec) as cluster:
        run = LightRun(Jobs(cluster, tmp_path), "early")
        run.submit()
        wait_until(lambda: run.jobs.state(run.job) in ("RUNNING", "CONFIGURING"), "it never began", PATIENCE_S)
        run.jobs.preempt(run.job, hold_s=0.1)
        began = ("RUNNING", "CONFIGURING")
        wait_until(lambda: run.jobs.state(run.job) not in began, lambda: f"{run.jobs.show(run.job)}", PATIENCE_S)
        (tmp_path / "quick").touch()
        run.wait_told()
        run.check()
        assert run.causes == [FINISHED]
        assert run.jobs.show(run.job)["Restarts"] == "1"


# ArjunaCluster/ArjunaUsers#63: "launch failed requeued held"
def test_a_job_that_is_held_because_a_prolog_failed_is_explained_by_status(tmp_path: Path) -> None:
    prolog = tmp_path / "prolog"
    prolog.write_text("#!/bin/sh\n[ ! -e " + str(tmp_path / "broken") + " ]\n")
    prolog.chmod(0o755)
    spec = ClusterSpec(nodes=2, grace_s=8, kill_wait_s=6, extra=(f"Prolog={prolog}", "PrologFlags=Alloc"))
    with Cluster(spec) as cluster:
        run = LightRun(Jobs(cluster, tmp_path), "held", later_step_s=0.02, finishes_in=2)
        run.submit()
        run.wait_training()
        (tmp_path / "broken").touch()
        run.jobs.requeue(run.job)
        wait_until(
            lambda: "held" in run.jobs.show(run.job).get("Reason", ""), lambda: str(run.jobs.show(run.job)), PATIENCE_S
        )
        said = ask(run, "status")
        assert f"scontrol release {run.job}" in said
        assert "prolog" in said.lower()
        (tmp_path / "broken").unlink()
        wait_until(lambda: resumed(cluster, run.jobs), lambda: f"{run.jobs.node_states()}", PATIENCE_S)
        cluster.run("scontrol", "release", run.job)
        run.wait_told()
        run.check()
        assert run.resumed_steps[1] > 0


def resumed(cluster: Cluster, jobs: Jobs) -> bool:
    """Whether all nodes serve again; the second one may be drained a little later than the first."""
    cluster.run("scontrol", "update", "NodeName=ALL", "State=RESUME")
    return set(jobs.node_states().values()) == {"idle"}


# meta-pytorch/torchx#394
@linuxproc
def test_a_payload_that_always_fails_is_tried_as_often_as_its_budget_says(jobs: Jobs) -> None:
    foreign = Foreign(jobs)
    job = foreign.submit("--plain", "--max-crashes=3", "--max-stuck=9", "bash", "-c", "exit 3", requeue=True)
    foreign.wait_exit(job, 76)
    assert foreign.causes == [Cause.CRASHED] * 3
    said = foreign.ask("status", str(foreign.run.path)).out
    assert "3 of 3" in said, said


# BiBiServ/bibigrid#565: an allocation of srun's own is not requeued by Slurm
@linuxproc
def test_from_a_login_node_a_lost_node_costs_a_new_allocation_and_not_the_run(jobs: Jobs) -> None:
    run = LightRun(jobs, "login", later_step_s=0.02, finishes_in=2)
    script = f"srun() {{ :; }}; exec {run.words.replace('--plain', '--plain -N2 -c8')}"
    environment = {"PYTHONPATH": str(ROOT), "TEST_MARKER": run.marker}
    ended: list[int] = []

    def start() -> None:
        ended.append(jobs.cluster.run("bash", "-c", script, env=environment, timeout_s=PATIENCE_S).code)

    beside = threading.Thread(target=start)
    beside.start()
    run.wait_training()
    first = jobs.ask("squeue", "-h", "-o", "%N").out.split()[0]
    second = jobs.cluster.run("scontrol", "show", "hostnames", first).out.split()[1]
    jobs.cluster.kill_slurmd(second)
    beside.join()
    assert ended == [0], run.story()
    assert run.finished
    assert run.causes[-1] == FINISHED
    assert len(run.causes) == 2
    assert run.resumed_steps[1] > 0


# sisyphus#201, batchtools#280; and every center's own template
@pytest.mark.parametrize("template", ["single_node", "preemptible"])
def test_a_template_keeps_the_output_of_both_attempts_and_leaves_with_0(template: str, jobs: Jobs) -> None:
    text = (ROOT / "sbatch_templates" / f"{template}.sbatch").read_text()
    assert "--open-mode=append" in text
    ours = "".join(line for line in text.splitlines(keepends=True) if "gpus-per-node" not in line)
    run = LightRun(jobs, template, later_step_s=0.02, finishes_in=2)
    training = run.words.replace(" --plain", "")
    programs = jobs.folder / "bin"
    programs.mkdir()
    _program(programs / "srun-resilient", training)
    said = 'echo "life ${SLURM_RESTART_COUNT:-0}"'
    edited = ours.replace("partition=preemptible", "partition=low")
    run.job = jobs.submit(
        edited.replace("set -u\n", f"set -u\nexport PATH={programs}:$PATH\n{said}\n"),
        env={"PYTHONPATH": str(ROOT), "SLURM_RESILIENCE_SILENT_AFTER": SILENT_AFTER_S},
        marker=run.marker,
        cpus_per_task=8,
        output=str(jobs.folder / "%x-%A.out"),
        time="20",
    )
    run.submissions = 1
    run.wait_training()
    jobs.requeue(run.job)
    run.wait_told()
    output = jobs.output(run.job)
    assert "life 0" in output
    assert "life 1" in output
    assert jobs.show(run.job)["ExitCode"] == "0:0"
    run.check()


def _program(path: Path, words: str) -> None:
    """Stands where srun-resilient would: whatever the template gives it, it starts the light training."""
    path.write_text(f"#!/bin/bash\nexec {words.replace('srun_resilient ', 'srun_resilient --plain ', 1)}\n")
    path.chmod(0o755)
