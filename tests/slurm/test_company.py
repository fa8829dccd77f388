"""Several of us in one place, and places where something is missing: each works, or is refused by one sentence."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path

import pytest

from slurm_resilience.command import Completed
from slurm_resilience.manifest.records import Cause
from tests.slurm.foreign import Foreign
from tests.slurm.jobs import Jobs, wait_until
from tests.slurm.light_run import PATIENCE_S, ROOT, LightRun

linuxproc = pytest.mark.parametrize("cluster", ["linuxproc"], indirect=True)
PREEMPTED, FINISHED = Cause.PREEMPTED.value, Cause.FINISHED.value


def beside(jobs: Jobs, *names: str) -> list[LightRun]:
    """Several runs of two attempts, each a step of half the nodes' processors, in one batch script."""
    runs = [LightRun(jobs, name, options="--exact -c4 -N2 -n2", later_step_s=0.02, finishes_in=2) for name in names]
    lines = "\n".join(f"{run.words} > {jobs.folder}/{run.name}.log 2>&1 &" for run in runs)
    runs[0].job = jobs.submit(
        f"{lines}\nwait",
        env={"PYTHONPATH": str(ROOT)},
        marker=runs[0].marker,
        nodes=2,
        ntasks_per_node=2,
        cpus_per_task=4,
        requeue=True,
        time="20",
    )
    for run in runs:
        run.job, run.submissions = runs[0].job, 1
    return runs


def test_two_runs_beside_each_other_in_one_job_are_both_preempted_and_both_go_on(jobs: Jobs) -> None:
    runs = beside(jobs, "left", "right")
    for run in runs:
        run.wait_training()
    jobs.preempt(runs[0].job)
    for run in runs:
        run.wait_training(2)
    for run in runs:
        run.wait_told()
        run.check()
        assert run.causes[-1] == FINISHED
        assert len(run.causes) == 2, run.story()
        assert run.resumed_steps[1] > 0
    assert jobs.show(runs[0].job)["Restarts"] == "1"


@linuxproc
def test_two_runs_one_after_the_other_in_one_job_each_run_once(jobs: Jobs) -> None:
    first, second = LightRun(jobs, "first", steps=20), LightRun(jobs, "second", steps=60, finishes_in=2)
    first.job = second.job = jobs.submit(
        f"{first.words} && exec {second.words}",
        env={"PYTHONPATH": str(ROOT)},
        marker=first.marker,
        nodes=2,
        ntasks_per_node=1,
        cpus_per_task=8,
        requeue=True,
        time="20",
    )
    second.wait_training()
    jobs.preempt(first.job)
    second.wait_told()
    assert first.causes == [FINISHED]
    assert second.causes == [PREEMPTED, FINISHED]
    assert "is finished: nothing to do" in jobs.output(first.job)


@linuxproc
def test_jobs_that_share_their_nodes_do_not_meet(jobs: Jobs) -> None:
    runs = [LightRun(jobs, name, steps=60, finishes_in=n) for name, n in (("one", 1), ("two", 2), ("three", 1))]
    for run in runs:
        run.submit(cpus_per_task=2, nodelist=",".join(jobs.cluster.node_names[:2]))
    for run in runs:
        run.wait_training()
    jobs.requeue(runs[1].job)
    for run in runs:
        run.wait_told()
        run.check()
    assert [len(run.causes) for run in runs] == [1, 2, 1]


@linuxproc
def test_a_heterogeneous_job_is_refused_by_one_sentence(jobs: Jobs) -> None:
    foreign = Foreign(jobs)
    script = f"exec {' '.join(foreign.words('bash', '-c', 'exit 0'))}"
    path = jobs.folder / "het.sh"
    path.write_text(f"#!/bin/bash\n{script}\n")
    where = ("-o", str(jobs.folder / "foreign-%A.out"))
    job = jobs.ask(
        *("sbatch", "--parsable", "-J", "foreign", *where, "-N1", ":", "-N1", str(path)), env=foreign.environment
    ).out.strip()
    wait_until(lambda: "FAILED" in jobs.state(job).split(), lambda: f"it is {jobs.state(job)}", PATIENCE_S)
    output = jobs.output(job)
    [sentence] = [line for line in output.splitlines() if line.startswith("srun-resilient:")]
    assert "heterogeneous" in sentence
    assert "Traceback" not in output
    assert jobs.show(job)["ExitCode"] == "78:0"


@linuxproc
def test_inside_a_container_without_scontrol_a_batch_job_is_refused_before_it_trains(jobs: Jobs) -> None:
    foreign = Foreign(jobs)
    programs = jobs.folder / "bin"
    programs.mkdir()
    for name in ("srun", "bash", "env"):
        found = shutil.which(name, path=jobs.cluster.environment()["PATH"])
        assert found is not None
        (programs / name).symlink_to(found)
    words = " ".join(foreign.words("bash", "-c", "exit 0"))
    job = jobs.submit(
        f"export PATH={programs}\nexec {words}", env=foreign.environment, marker=foreign.marker, job_name="foreign"
    )
    foreign.wait_exit(job, 78)
    output = jobs.output(job)
    [sentence] = [line for line in output.splitlines() if line.startswith("srun-resilient:")]
    assert "scontrol" in sentence
    assert "--no-requeue" in sentence
    assert not foreign.run.path.exists()


@linuxproc
def test_an_array_whose_elements_each_have_a_run_requeues_the_one_that_was_meant(jobs: Jobs) -> None:
    folder = jobs.folder / "runs"
    run = LightRun(jobs, "array", steps=60)
    words = run.words.replace(f"--run-dir={run.run.path}", f"--run-dir={folder}/$SLURM_ARRAY_TASK_ID")
    words = words.removesuffix(" 1") + " $((SLURM_ARRAY_TASK_ID + 1))"  # the attempt that each one finishes in
    job = jobs.submit(
        f"exec {words}",
        env={"PYTHONPATH": str(ROOT)},
        marker=run.marker,
        array="0-1",
        nodes=1,
        cpus_per_task=8,
        requeue=True,
        output=str(jobs.folder / "%x-%A.out"),
        time="20",
    )
    elements = [LightRun(jobs, f"runs/{task}", steps=60, job=f"{job}_{task}", submissions=1) for task in (0, 1)]
    for element in elements:
        element.wait_training()
    jobs.requeue(elements[1].job)
    for element in elements:
        element.wait_told()
        element.check()
    assert [len(element.causes) for element in elements] == [1, 2]


@linuxproc
def test_by_wrap_a_training_goes_on_like_any_other(jobs: Jobs, tmp_path: Path) -> None:
    run = LightRun(jobs, "wrapped", steps=60, finishes_in=2)
    # sbatch reads --wrap as one word, and hands it to sh.
    run.job = jobs.ask(
        *("sbatch", "--parsable", "--requeue", "-N2", "-c8", "-J", "wrapped", "--open-mode=append"),
        *("-o", str(tmp_path / "%x-%A.out"), "-t", "20", "--wrap", f"exec {run.words}"),
        env={"PYTHONPATH": str(ROOT), "TEST_MARKER": run.marker},
    ).out.strip()
    run.submissions = 1
    run.wait_training()
    jobs.preempt(run.job)
    run.wait_told()
    run.check()
    assert run.causes == [PREEMPTED, FINISHED]


@linuxproc
def test_in_an_allocation_of_salloc_a_crash_goes_on_from_the_last_checkpoint(jobs: Jobs) -> None:
    run = LightRun(jobs, "allocated", steps=60, finishes_in=2)
    environment = {"PYTHONPATH": str(ROOT), "TEST_MARKER": run.marker}
    ended: list[Completed] = []

    def allocate() -> None:
        argv = ("salloc", "-N2", "-c8", "bash", "-c", f"exec {run.words}")
        ended.append(jobs.cluster.run(*argv, env=environment, timeout_s=PATIENCE_S))

    beside = threading.Thread(target=allocate)
    beside.start()
    run.wait_training()
    run.kill_training()
    beside.join()
    assert ended[0].code == 0, ended[0].err
    assert run.causes == [Cause.CRASHED.value, FINISHED]
    assert run.resumed_steps[1] > 0


@linuxproc
def test_a_training_that_an_array_element_has_submitted_is_a_job_of_its_own(jobs: Jobs, tmp_path: Path) -> None:
    """sbatch hands on what the element's environment says of the array, and how often the element was started again."""
    run = LightRun(jobs, "handed-on", steps=60, finishes_in=2)
    (tmp_path / "nested.sh").write_text(f"#!/bin/bash\nexec {run.words}\n")
    sbatch = f"sbatch --parsable --requeue -N2 -c8 -J handed-on --open-mode=append -o {tmp_path}/%x-%A.out -t 20"
    nested = f"{sbatch} {tmp_path}/nested.sh > {tmp_path}/nested.part && mv {tmp_path}/nested.part {tmp_path}/nested"
    launcher = jobs.submit(
        f"export SLURM_RESTART_COUNT=2\n{nested}",
        env={"PYTHONPATH": str(ROOT), "TEST_MARKER": run.marker},
        array="3-3",
        nodes=1,
    )
    wait_until((tmp_path / "nested").exists, lambda: jobs.output(f"{launcher}_3"), PATIENCE_S)
    run.job, run.submissions = (tmp_path / "nested").read_text().strip(), 1
    run.wait_training()
    jobs.preempt(run.job)
    run.wait_told()
    run.check()
    assert run.causes == [PREEMPTED, FINISHED]
    chain = run.chain
    assert chain is not None
    assert [(each.started.job, each.started.restart_count) for each in chain.attempts] == [(run.job, 0), (run.job, 1)]
    assert jobs.show(f"{launcher}_3")["Restarts"] == "0"
