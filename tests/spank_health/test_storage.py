"""local-disks, network-mounts and shm-leftovers."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from .machine import HEALTHY, Answer, Machine

DF = "Filesystem     1024-blocks  Used Available Capacity Mounted on\n"
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make files of others")


def disks(machine: Machine, *folders: str) -> Answer:
    return machine.check("local-disks", LOCAL_FOLDERS=" ".join([str(machine.folder / "shm"), *folders]))


def sparse(path: Path, mib: int, uid: int) -> None:
    with path.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, mib * 1048576)
    os.chown(path, uid, uid)


def test_disks_with_room_leave_no_trace_of_the_check(machine: Machine) -> None:
    machine.command_says("df", DF + "/dev/sda2 100 94 6 94% /\ntmpfs 100 0 100 - /dev/shm\n")
    assert disks(machine) == HEALTHY
    assert list((machine.folder / "shm").iterdir()) == []


def test_a_full_disk_is_told_once(machine: Machine) -> None:
    machine.command(
        "df",
        f"""printf '{DF.strip()}\\n'
case $1 in
-P) echo '/dev/sda2 100 97 3 97% /'; echo '/dev/sda2 100 97 3 97% /' ;;
-Pi) echo '/dev/sda2 100 100 0 100% /'; echo 'btrfs 0 0 0 - /home' ;;
esac""",
    )
    assert disks(machine) == Answer(1, "/ has 97% of its space in use; / has 100% of its inodes in use")


def test_a_df_that_fails_is_a_finding(machine: Machine) -> None:
    machine.command("df", f"printf '{DF.strip()}\\n'; echo 'df: /tmp: Input/output error' >&2; exit 1")
    assert disks(machine).said.startswith("df failed: df: /tmp: Input/output error")


def test_what_fstab_wants_written_and_is_read_only_is_a_finding(machine: Machine) -> None:
    machine.command_says("df", DF)
    machine.write(
        "etc/fstab",
        "# comment\nUUID=1 / ext4 defaults 0 1\nUUID=2 /scratch xfs noatime,nofail 0 2\n"
        "UUID=3 /software ext4 noatime,ro 0 2\nLABEL=x none swap sw 0 0\n",
    )
    machine.write(
        "proc/mounts",
        "/dev/sda2 / ext4 rw,relatime,errors=remount-ro 0 0\n/dev/nvme0n1 /scratch xfs ro,noatime 0 0\n"
        "/dev/sdb1 /software ext4 ro,noatime 0 0\n/dev/sdc1 /by-hand ext4 ro 0 0\n/dev/loop1 /snap/1 squashfs ro 0 0\n",
    )
    assert disks(machine) == Answer(1, "/scratch is read-only")


def test_a_folder_that_takes_no_file_is_a_finding(machine: Machine) -> None:
    machine.command_says("df", DF)
    assert disks(machine, "/proc/self").said.startswith("/proc/self can't be written to")
    assert disks(machine, "/not/there/at/all", "/") == HEALTHY


def test_a_link_put_in_the_place_of_the_file_leads_root_nowhere(machine: Machine) -> None:
    """In a scratch folder that is everybody's, without a sticky bit, others can rename and replace what is root's."""
    machine.command_says("df", DF)
    precious = machine.write("precious", "whole")
    real = shutil.which("mktemp")
    # Whoever watches the folder, and is quick: between the making of the file and its writing.
    machine.command(
        "mktemp",
        f"""name=$({real} "$@") || exit
if [ -e "$name" ]; then rm -f "$name"; ln -s '{precious}' "$name"; fi
printf '%s\n' "$name" """,
    )
    machine.commands.joinpath("ln").symlink_to(shutil.which("ln") or "/bin/ln")
    assert disks(machine) == HEALTHY
    assert precious.read_text() == "whole"
    assert list((machine.folder / "shm").iterdir()) == []


def mounts(machine: Machine, *lines: str) -> None:
    machine.write("proc/mounts", "".join(f"{line}\n" for line in lines))


def test_only_network_mounts_are_asked(machine: Machine) -> None:
    machine.command("stat", "echo dead; exit 1")
    mounts(
        machine,
        "/dev/sda2 / ext4 rw 0 0",
        "tmpfs /dev/shm tmpfs rw 0 0",
        "user@host: /home/u/m fuse.sshfs rw 0 0",
        "systemd-1 /net autofs rw 0 0",
    )
    assert machine.check("network-mounts") == HEALTHY


def test_mounts_that_answer_are_well_even_where_root_may_not_look(machine: Machine) -> None:
    machine.command(
        "stat",
        f"""[ "$1 $2 $3 $4" = '-f -c %T --' ] || exit 9
case $5 in
/home) echo nfs ;;
'{machine.folder}/a b*') echo nfs ;;
/private) echo "stat: cannot read file system information for '/private': Permission denied" >&2; exit 1 ;;
*) exit 9 ;;
esac""",
    )
    mounts(
        machine,
        "srv:/home /home nfs4 rw,vers=4.2 0 0",
        f"srv:/ab {machine.folder}/a\\040b* nfs rw 0 0",
        "srv:/private /private nfs rw 0 0",
    )
    assert machine.check("network-mounts") == HEALTHY


def test_stale_and_broken_mounts_are_named(machine: Machine) -> None:
    machine.command(
        "stat",
        """case $5 in
/home) echo nfs; exit 0 ;;
/stale) echo "stat: cannot read file system information for '/stale': Stale file handle" >&2 ;;
/gluster) echo "stat: cannot statx '/gluster': Transport endpoint is not connected" >&2 ;;
*) echo "stat: cannot read file system information for '/x': Input/output error" >&2 ;;
esac
exit 1""",
    )
    mounts(
        machine,
        "srv:/s /stale nfs4 rw 0 0",
        "srv:/h /home nfs4 rw 0 0",
        "srv:/g /gluster fuse.glusterfs rw 0 0",
        "10.0.0.1@tcp:/fs /lustre lustre rw 0 0",
    )
    assert machine.check("network-mounts").said == (
        "/stale (nfs4,srv) is stale; /gluster (fuse.glusterfs,srv) is not connected; /lustre (lustre,10.0.0.1@tcp)"
        " can't be asked"
    )


def test_a_mount_that_hangs_is_named_and_the_others_are_judged(machine: Machine) -> None:
    machine.command("stat", "case $5 in /hangs) exec sleep 600 ;; /stale) echo 'Stale file handle'; exit 1 ;; esac")
    mounts(
        machine,
        "srv:/a /hangs nfs4 rw 0 0",
        "srv:/b /stale nfs4 rw 0 0",
        "srv:/c /hangs nfs rw 0 0",
        "x:/ /well ceph rw 0 0",
    )
    said = machine.check("network-mounts", RESILIENCE_HEALTH_TIMEOUT="4").said
    assert said.startswith("/hangs (nfs4,srv) did not answer within 2 s")
    assert "; /stale (nfs4,srv) is stale; /hangs (nfs,srv) did not answer" in said
    assert "/well" not in said
    assert machine.check("network-mounts", MOUNTS_IGNORE="/hangs /stale") == HEALTHY


@AS_ROOT
def test_large_leftovers_of_absent_users_are_told(machine: Machine) -> None:
    shm = machine.folder / "shm"
    machine.process(1, "init", 0)
    machine.process(200, "python", 1001)
    (shm / "torch").mkdir()
    sparse(shm / "torch" / "a", 3, 1002)
    sparse(shm / "b with blank", 2, 1002)
    sparse(shm / "of-somebody-here", 8, 1001)
    sparse(shm / "of-the-system", 8, 0)
    sparse(shm / "small", 1, 1003)
    assert machine.check("shm-leftovers") == HEALTHY
    assert machine.check("shm-leftovers", SHM_LEFT_MIB="4") == Answer(
        1, "2 files of uid 1002, who has no process here, hold 5 MiB"
    )
