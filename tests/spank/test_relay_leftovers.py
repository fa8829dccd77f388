"""What a relay makes its folder in, and what others left there."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
from dataclasses import asdict

import pytest

from slurm_resilience.agent.log import Log
from slurm_resilience.agent.runtime import make_runtime_folder
from slurm_resilience.process_identity import Identity, boot_id, pid_namespace, started_ticks
from tests.spank.relay_scene import PATIENCE_S, RelayScene


def test_where_no_page_can_be_reserved_nothing_is_left(scene: RelayScene) -> None:
    def little() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))

    done = subprocess.run(
        scene.argv(), capture_output=True, text=True, timeout=PATIENCE_S, check=False, preexec_fn=little
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert f"no runtime folder in {scene.shm}: File too large" in done.stderr
    assert list(scene.shm.iterdir()) == []


def test_a_full_dev_shm_is_said_and_nothing_is_left(scene: RelayScene) -> None:
    script = 'mount -t tmpfs -o size=12k none "$0" || exit 99; "$@"; echo "left with $?"; ls -A "$0"'
    enter = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script, str(scene.shm)]
    if shutil.which("unshare") is None or subprocess.run([*enter, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no mount namespaces of our own here")
    done = subprocess.run(
        [*enter, *scene.argv()],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.stdout == "left with 1\n"
    assert f"no runtime folder in {scene.shm}: No space left on device" in done.stderr


def test_the_next_relay_and_the_next_agent_remove_what_a_killed_relay_left(scene: RelayScene) -> None:
    killed, living = scene.start(life="1-0"), scene.start(life="2-0")
    (killed.folder / "sub").mkdir()
    (killed.folder / "sub" / "file").touch()
    killed.process.kill()
    killed.process.wait(PATIENCE_S)
    third = scene.start(life="3-0")
    assert f"removed {killed.folder}, left by process {killed.process.pid}" in third.said
    assert not killed.folder.exists()
    assert living.folder.is_dir()

    third.process.kill()
    third.process.wait(PATIENCE_S)
    ours = make_runtime_folder(scene.shm, f"slurm-resilience-{os.getuid()}-r-a0001-n0", [0], Log("n0"))
    assert not third.folder.exists()
    assert living.folder.is_dir()
    fourth = scene.start(life="4-0")
    assert ours.is_dir(), "the owner of the agent's folder, this process, lives"
    assert fourth.end() == living.end() == 0


def test_a_relay_removes_what_a_dead_agent_left(scene: RelayScene) -> None:
    folder = scene.shm / f"slurm-resilience-{os.getuid()}-run-a0001-n0"
    folder.mkdir()
    rank = scene.rank()
    ticks = started_ticks(rank.pid)
    assert ticks is not None
    owner = Identity(os.uname().nodename, boot_id(), rank.pid, ticks, pid_namespace())
    (folder / "owner.json").write_text(json.dumps(asdict(owner)))
    assert scene.start(life="1-0").end() == 0
    assert folder.is_dir()
    rank.kill()
    rank.wait()
    assert scene.start(life="2-0").end() == 0
    assert list(scene.shm.iterdir()) == []
