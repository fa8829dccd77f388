"""A job that doesn't ask for resilience, on a cluster with the plugin."""

from __future__ import annotations

import re

from tests.integration.spank_site import BOTH, SpankSite
from tests.integration.spank_site import no_node_is_drained as no_node_is_drained  # noqa: PLC0414 found by their names
from tests.integration.spank_site import plugin_cluster as plugin_cluster  # noqa: PLC0414
from tests.integration.spank_site import site as site  # noqa: PLC0414
from tests.slurm.jobs import PATIENCE_S, JobsOn, wait_until

pytestmark = BOTH
LOOK = "grep -h ^Sig[BIC] /proc/self/status; ls -l /proc/self/fd | wc -l; env | cut -d= -f1 | sort"
SCRIPT = f"({LOOK}) > batch-$1; srun -l bash -c '{LOOK}' | sort > step-$1; srun sleep 600"


def test_it_is_as_without_the_plugin(site: SpankSite, jobs: JobsOn) -> None:
    spool = [site.look(node).spool for node in site.cluster.node_names]
    with_plugin = see(site, jobs, "with")
    with site.lines():
        without = see(site, jobs, "without")
    assert with_plugin == without
    assert not re.search("SLURM_RESILIENCE|slurm-resilience|SPANK", "".join(with_plugin))
    assert [site.look(node).spool for node in site.cluster.node_names] == spool


def see(site: SpankSite, jobs: JobsOn, name: str) -> list[str]:
    """What script and tasks find, what is said, which processes the job has."""
    script, marker = SCRIPT.replace("$1", name), f"off-{name}"
    job = jobs.submit(script, nodes=2, ntasks_per_node=2, marker=marker, job_name="off")
    jobs.wait_state(job, "RUNNING")
    nodes = jobs.ask("scontrol", "show", "hostnames", jobs.show(job)["NodeList"]).out.split()

    def commands() -> list[str]:
        found = [process.command for node in nodes for process in site.cluster.processes(node, marker)]
        return sorted(re.sub(r"\S*/(job|script)\S+", "script", command) for command in found)

    def sleepers() -> int:
        return sum(command.endswith("sleep 600 ") and "srun" not in command for command in commands())

    wait_until(lambda: sleepers() == 4, lambda: f"{commands()}", PATIENCE_S)
    for node in nodes:
        assert site.look(node).relays == {}
        assert site.look(node).folders == ()
    processes = commands()
    jobs.cancel(job)
    jobs.wait_end(job)
    # Of two nodes, either one may be the first to say that it was cancelled, or to be too late for that.
    said = re.sub(r"(srun|slurmstepd-\S+): .*(CANCELLED|SIGCONT|termination|aborted|task).*\n", "", jobs.output(job))
    seen = [(jobs.folder / f"{where}-{name}").read_text() for where in ("batch", "step")]
    return [*seen, said, "\n".join(processes)]
