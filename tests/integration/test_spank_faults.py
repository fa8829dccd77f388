"""What a plugin that fails, dies or doesn't fit costs: never a job that doesn't use it, and never a node.

The plugin is one that fails on request: `fault=CALLBACK:error` or `:crash` in plugstack.conf.
"""

from __future__ import annotations

import pytest

from tests.integration.spank_build import OTHER_RELEASE
from tests.integration.spank_site import BOTH, SpankSite
from tests.integration.spank_site import no_node_is_drained as no_node_is_drained  # noqa: PLC0414 found by their names
from tests.integration.spank_site import plugin_cluster as plugin_cluster  # noqa: PLC0414
from tests.integration.spank_site import site as site  # noqa: PLC0414
from tests.slurm.jobs import ENDED, PATIENCE_S, JobsOn, wait_until

pytestmark = BOTH
SCRIPT = "echo script; srun -n1 echo step; echo end"
UNTOUCHED = "script\nstep\nend\n"
CALLBACKS = (
    "init_post_opt",
    "user_init",
    "task_init",
    "task_post_fork",
    "task_exit",
    "exit",
    "job_prolog",
    "job_epilog",
)


def start_both(site: SpankSite, jobs: JobsOn) -> tuple[str, str]:
    """The same job without the option and with it."""
    return jobs.submit(SCRIPT), jobs.submit(SCRIPT, requeue=False, resilient=True, resilient_run=jobs.folder / "run")


# No job gets past a crash in `init`: there the plugin doesn't know yet who asked for it.
@pytest.mark.parametrize("callback", ["init", *CALLBACKS])
def test_where_a_callback_fails_jobs_run(site: SpankSite, jobs: JobsOn, callback: str) -> None:
    with site.lines(site.builds.line(f"fault={callback}:error", variant="faults")):
        without, with_it = start_both(site, jobs)
        assert jobs.wait_end(without) == "COMPLETED", jobs.output(without)
        assert jobs.wait_end(with_it) == "COMPLETED", jobs.output(with_it)
    assert jobs.output(without) == UNTOUCHED
    lines = jobs.output(with_it).splitlines(keepends=True)
    assert "".join(line for line in lines if "slurm-resilience" not in line) == UNTOUCHED


@pytest.mark.parametrize("callback", CALLBACKS)
def test_where_a_callback_crashes_no_job_suffers_that_did_not_ask_for_it(
    site: SpankSite, jobs: JobsOn, callback: str
) -> None:
    with site.lines(site.builds.line(f"fault={callback}:crash", variant="faults")):
        without, with_it = start_both(site, jobs)
        assert jobs.wait_end(without) == "COMPLETED", jobs.output(without)
        assert jobs.output(without) == UNTOUCHED
        jobs.wait_state(with_it, "RUNNING", *ENDED)
        if callback.startswith("job_"):  # done in a child that nobody depends on
            assert jobs.wait_end(with_it) == "COMPLETED", jobs.output(with_it)
            assert jobs.output(with_it) == UNTOUCHED
        # Slurm itself takes a while to miss its slurmstepd.
        jobs.cancel(with_it)
        jobs.wait_end(with_it)
        node = jobs.show(with_it)["NodeList"]
        wait_until(
            lambda: site.cluster.node_states()[node] == "idle", lambda: f"{site.cluster.node_states()}", PATIENCE_S
        )
    assert site.reasons() == ""
    after = jobs.submit(SCRIPT, nodelist=node, resilient=True)
    assert jobs.wait_end(after) == "COMPLETED", jobs.output(after)


@pytest.mark.quick
def test_a_plugin_for_another_release_of_slurm_is_passed_over_and_the_doctor_says_so(
    site: SpankSite, jobs: JobsOn, owners_jobs: JobsOn
) -> None:
    with site.lines(site.builds.line(variant="other-release")):
        job = jobs.submit("srun echo step")
        assert jobs.wait_end(job) == "COMPLETED", jobs.output(job)
        answer = jobs.cluster.run("srun", "-n1", "true")
        assert answer.code == 0
        assert 0 < len([line for line in answer.err.splitlines() if "resilience" in line]) <= 2, answer.err
        assert jobs.cluster.run("srun", "--resilient", "true").code != 0
        words = (site.cluster.python, "-m", "slurm_resilience.cli.main", "spank", "doctor")
        told = owners_jobs.cluster.run(*words, env=site.cluster.environment, timeout_s=PATIENCE_S)
        assert told.code == 1
        assert OTHER_RELEASE in told.out
    assert jobs.output(job).endswith("step\n")
