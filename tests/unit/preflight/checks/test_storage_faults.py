"""Storage that really fails: by FUSE, and by small file systems that only root can mount."""

from __future__ import annotations

import errno
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from slurm_resilience.preflight.checks.node.space import shared_memory, temporary
from slurm_resilience.preflight.checks.storage.directory import storage
from slurm_resilience.preflight.checks.storage.space import storage_space
from slurm_resilience.preflight.checks.storage.speed import storage_speed
from slurm_resilience.preflight.result import Finding, Outcome, Problem
from tests.faulty_fs.disk import FaultyDisk
from tests.faulty_fs.fixture import disk, faulty_disk
from tests.unit.preflight.checks.scene import context, only

__all__ = ["disk", "faulty_disk"]
ROOT = Path("/")
REPOSITORY = Path(__file__).parents[4]
PATIENCE_S = 100
Mount = Callable[[str], Path]


def look(path: Path) -> Finding:
    return only(storage, context(ROOT, run_dir=path))


@pytest.mark.parametrize(
    ("operation", "code", "problem", "words"),
    [
        ("mkdir", errno.EROFS, Problem.NODE, "can't be written to: its file system is read-only"),
        ("mkdir", errno.EACCES, Problem.USER, "can't be written to: you may not"),
        ("write", errno.ENOSPC, Problem.USER, "writing to and syncing"),
        ("write", errno.EDQUOT, Problem.USER, "your quota is used up"),
        ("open", errno.EIO, Problem.NODE, "the device or the server behind it fails"),
        ("fsync", errno.EIO, Problem.NODE, "writing to and syncing"),
        ("read", errno.EIO, Problem.NODE, "reading"),
        ("rename", errno.EPERM, Problem.USER, "renaming a file over another"),
        ("fsyncdir", errno.EIO, Problem.NODE, "syncing the names in"),
        ("link", errno.EIO, Problem.NODE, "making a hard link"),
        ("unlink", errno.EIO, Problem.NODE, ""),
        ("lookup", errno.ESTALE, Problem.NODE, "its server has forgotten"),
    ],
)
def test_the_operation_that_fails_is_named_with_whose_problem_it_is(
    disk: FaultyDisk, operation: str, code: int, problem: Problem, words: str
):
    run = disk.path / f"run-{operation}-{code}"
    run.mkdir()
    # A server that has forgotten a folder: the kernel asks twice before it believes it.
    disk.fail(operation, times=0, errno=code, where=run.name)

    found = look(run)

    assert (found.outcome, found.problem) == (Outcome.FAIL, problem), found.sentence
    assert words in found.sentence
    assert str(run) in found.sentence


@pytest.mark.parametrize(
    ("faults", "outcome", "missing"),
    [
        ({"lock": errno.ENOSYS}, "ok", ["flock"]),
        ({"link": errno.EPERM}, "ok", ["hard links"]),
        ({"lock": errno.ENOLCK, "link": errno.EOPNOTSUPP}, "warn", ["hard links", "flock"]),
        ({"fsyncdir": errno.EINVAL}, "ok", None),
    ],
)
def test_what_a_file_system_may_lack(disk: FaultyDisk, faults: dict[str, int], outcome: str, missing: list[str] | None):
    run = disk.path / f"lacks-{'-'.join(faults)}"
    run.mkdir()
    for operation, code in faults.items():
        disk.fail(operation, times=0, errno=code, where=run.name)

    found = look(run)

    assert found.outcome.value == outcome, found.sentence
    assert found.measured.get("missing") == missing


def test_a_disk_that_fails_while_it_is_measured_is_told(disk: FaultyDisk):
    disk.fail("write", nth=2, times=0, errno=errno.ENOSPC)
    found = only(storage_speed, context(ROOT, run_dir=disk.path))
    assert (found.outcome, found.problem) == (Outcome.FAIL, Problem.USER)
    assert list(disk.path.glob(".preflight*")) == []


def test_a_slow_disk_is_measured_by_less(disk: FaultyDisk):
    disk.fail("fsync", times=0, delay_s=1.6)
    found = only(storage_speed, context(ROOT, run_dir=disk.path))
    assert found.outcome is Outcome.OK, found.sentence
    assert found.measured["written_bytes"] < 64 << 20
    assert found.measured["fsync_s"] > 1


def test_without_o_direct_reading_is_measured_as_well_as_it_goes(disk: FaultyDisk):
    disk.fail("open", times=0, errno=errno.EINVAL, direct_only=True)
    found = only(storage_speed, context(ROOT, run_dir=disk.path))
    assert found.outcome is Outcome.OK, found.sentence
    assert found.measured["read_bytes_per_s"] > 0


PROGRAM = """
import os
import sys
from pathlib import Path
from slurm_resilience.preflight.check import Context
from slurm_resilience.preflight.checks.storage.directory import storage
if len(sys.argv) > 2:  # Python itself may lie where others may not look: it is loaded by now
    os.setgroups([])
    os.setgid(int(sys.argv[2]))
    os.setuid(int(sys.argv[2]))
context = Context(node="n1", environment={}, run_dir=Path(sys.argv[1]))
for finding in storage(context, lambda say: print(say, flush=True)):
    print(finding.sentence, flush=True)
"""


@pytest.mark.parametrize(
    ("operation", "told"),
    [("fsync", "writing to and syncing"), ("mkdir", "making"), ("rename", "renaming"), ("lookup", "looking at")],
)
def test_of_a_mount_that_hangs_the_last_word_names_the_path_and_the_check_can_be_killed(
    disk: FaultyDisk, operation: str, told: str
):
    run = disk.path / f"hangs-{operation}"
    run.mkdir()
    fault = disk.fail(operation, times=0, hang=True, where=run.name)
    argv = [sys.executable, "-c", PROGRAM, str(run)]
    with subprocess.Popen(argv, cwd=REPOSITORY, stdout=subprocess.PIPE) as child:
        try:
            said = _until_it_hangs(child, lambda: disk.fired(fault) > 0)
        finally:
            child.send_signal(signal.SIGKILL)
            child.wait(PATIENCE_S)
            disk.heal()

    assert said[-1].startswith(told), said
    assert str(run) in said[-1]


def _until_it_hangs(child: subprocess.Popen[bytes], hangs: Callable[[], bool]) -> list[str]:
    """All that it says until the disk has its call, and keeps it."""
    assert child.stdout is not None
    said = b""
    for _ in range(PATIENCE_S * 10):
        ready, _, _ = select.select([child.stdout], [], [], 0.1)
        if ready:
            said += os.read(child.stdout.fileno(), 1 << 16)
        elif said and hangs():  # what walks over all of this machine may have met the disk first
            return said.decode().splitlines()
    raise AssertionError(f"it never hung: {said!r}")


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[Mount]:
    """A small tmpfs with these options."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount a tmpfs")
    point = tmp_path / "small"
    point.mkdir()
    mounted = []

    def make(options: str) -> Path:
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(point)], check=False, capture_output=True
        )
        if done.returncode != 0:
            pytest.skip(f"no tmpfs can be mounted here: {done.stderr.decode().strip()}")
        mounted.append(point)
        return point

    yield make
    for each in mounted:
        subprocess.run(["umount", "-l", str(each)], check=True)


def fill(folder: Path) -> None:
    with (folder / "filler").open("wb", buffering=0) as file:

        def write_for_ever() -> None:
            while file.write(bytes(4096)):
                pass

        with pytest.raises(OSError, match="No space left"):
            write_for_ever()


def test_a_full_file_system_is_found_by_writing_and_by_asking(mount: Mount):
    folder = mount("size=1m")
    fill(folder)

    written, asked = look(folder), only(storage_space, context(ROOT, run_dir=folder, checkpoint_bytes=1 << 20))

    assert (written.outcome, written.problem) == (Outcome.FAIL, Problem.USER)
    assert "full" in written.sentence
    assert (asked.outcome, asked.problem) == (Outcome.FAIL, Problem.USER)
    assert "the next checkpoint doesn't fit" in asked.sentence
    assert [path.name for path in folder.iterdir()] == ["filler"]


def test_a_full_temporary_folder_fails_and_only_it(mount: Mount, tmp_path: Path):
    folder = mount("size=1m")
    fill(folder)
    found = only(temporary, context(ROOT, {"TMPDIR": str(folder)}))
    assert found.outcome is Outcome.FAIL
    assert "full" in found.sentence
    assert look(tmp_path).outcome is Outcome.OK


def test_a_file_system_without_inodes_left(mount: Mount):
    folder = mount("size=4m,nr_inodes=5")
    for number in range(4):
        (folder / str(number)).touch()

    asked = only(storage_space, context(ROOT, run_dir=folder))

    assert look(folder).outcome is Outcome.FAIL
    assert (asked.outcome, asked.problem) == (Outcome.FAIL, Problem.USER)
    assert "0 more files" in asked.sentence


def test_a_read_only_file_system(mount: Mount):
    found = look(mount("size=1m,ro"))
    assert (found.outcome, found.problem) == (Outcome.FAIL, Problem.NODE)
    assert "read-only" in found.sentence


def test_shared_memory_is_counted_around_what_is_mounted_in_it(disk: FaultyDisk):
    """It hangs, and is nobody's memory."""
    if not str(disk.path).startswith("/dev/shm/"):
        pytest.skip("the disk isn't mounted below /dev/shm here")
    fault = disk.fail("list", times=0, hang=True)
    assert only(shared_memory, context(ROOT)).outcome is not Outcome.SKIPPED
    assert disk.fired(fault) == 0


def test_a_folder_that_the_user_may_not_write_to(tmp_path: Path):
    """By a child without root's powers, where we have them."""
    folder = tmp_path / "theirs"
    folder.mkdir()
    folder.chmod(0o555)
    for parent in [tmp_path, *tmp_path.parents]:
        if parent.owner() == folder.owner() and "pytest-" in str(parent):
            parent.chmod(0o755)
    nobody = ["65534"] if os.geteuid() == 0 else []
    told = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(folder / "run"), *nobody],
        cwd=REPOSITORY,
        check=True,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    last = told.stdout.splitlines()[-1]
    assert last.startswith(f"{folder}/run can't be made, for {folder} can't be written to: you may not"), told.stdout
