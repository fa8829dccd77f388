"""kernel-log: which lines of the kernel's are a reason, and for how long."""

from __future__ import annotations

import pytest

from .machine import HEALTHY, Answer, Machine

REASONS = [
    "NVRM: Xid (PCI:0000:82:00): 79, pid=1234, name=python, GPU has fallen off the bus.",
    "NVRM: Xid (PCI:0000:01:00 GPU-I:05): 95, pid=7194, Uncontained: LTC TAG (0x2,0x0). RST: Yes, D-RST: No",
    "NVRM: Xid (PCI:0000:ca:00): 74, NVLink: fatal error detected on link 3",
    "NVRM: Xid (0000:03:00): 48, An uncorrectable double bit error (DBE) has been detected on GPU",
    "NVRM: Xid (PCI:0008:01:00): 154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)",
    "NVRM: GPU 0000:82:00.0: GPU has fallen off the bus.",
    "nvidia-nvswitch0: SXid (PCI:0000:aa:00.0): 10003, Fatal, Link 3 error",
    "Memory failure: 0x4a2f31: recovery action for dirty LRU page: Failed",
    "EDAC MC0: 1 UE memory read error on CPU_SrcID#0_MC#0_Chan#1_DIMM#0 (channel:1 slot:0 page:0x1)",
    "mce: Uncorrected hardware memory error in user-access at 4a2f31000",
    "{1}[Hardware Error]: event severity: recoverable",
    "pcieport 0000:80:01.0: AER: Uncorrected (Fatal) error received: 0000:82:00.0",
    "pcieport 0000:80:01.0: AER: Uncorrectable (Fatal) error message received from 0000:82:00.0",
    "blk_update_request: I/O error, dev sda, sector 12345 op 0x0:(READ) flags 0x0 phys_seg 1 prio class 0",
    "I/O error, dev nvme0n1, sector 12345 op 0x1:(WRITE) flags 0x0 phys_seg 1 prio class 2",
    "critical medium error, dev sdb, sector 98765",
    "Buffer I/O error on dev dm-0, logical block 1, lost async page write",
    "EXT4-fs error (device sda2): ext4_find_entry:1455: inode #2: comm bash: reading directory lblock 0",
    "EXT4-fs (sda2): Remounting filesystem read-only",
    "XFS (nvme0n1p1): Log I/O Error Detected. Shutting down filesystem",
    "nvme nvme0: controller is down; will reset: CSTS=0xffffffff, PCI_STATUS=0xffff",
    "NETDEV WATCHDOG: eth0 (mlx5_core): transmit queue 3 timed out",
    "mlx5_core 0000:17:00.0: poll_health:840: device's health compromised - reached miss count",
]
NONE = [
    "NVRM: Xid (PCI:0000:82:00): 31, pid=99, name=python, Ch 00000008, intr 00000000. MMU Fault: ENGINE GRAPHICS",
    "NVRM: Xid (PCI:0000:82:00): 13, pid=99, Graphics Exception: ESR 0x504730=0x1",
    "NVRM: Xid (PCI:0000:82:00): 63, pid=99, Row Remapper: New row marked for remapping, reset gpu to activate.",
    "NVRM: Xid (PCI:0000:82:00): 94, pid=99, Contained: CE User Channel (0x9). RST: No, D-RST: No",
    "NVRM: Xid (PCI:0000:82:00): 154, GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)",
    "nvidia-nvswitch0: SXid (PCI:0000:aa:00.0): 12028, Non-fatal, Link 3 egress non-posted PRIV error",
    "mce: [Hardware Error]: Machine check events logged",
    "EDAC MC0: 1 CE memory read error on CPU_SrcID#0_MC#0_Chan#1_DIMM#0 (channel:1 slot:0 page:0x1)",
    "{1}[Hardware Error]: event severity: corrected",
    "pcieport 0000:80:01.0: AER: Corrected error received: 0000:82:00.0",
    "I/O error, dev sr0, sector 0 op 0x0:(READ) flags 0x80700 phys_seg 1 prio class 2",
    "Buffer I/O error on dev fd0, logical block 0, async page read",
    "EXT4-fs (sda2): mounted filesystem with ordered data mode",
    "oom-kill:constraint=CONSTRAINT_MEMCG,task=python,pid=4711,uid=1000",
    "python[4711]: segfault at 0 ip 0000000000000000 sp 00007ffd error 14 in python3.11",
]
FORGED = [
    # a program's name, 15 bytes of a user's choice, and that of the file it lies in
    "EXT4-fs error[4711]: segfault at 0 ip 0000000000000000 sp 00007ffd error 14 in x[400000+1000]",
    "a.out[4711]: segfault at 0 ip 000055d5 sp 00007ffd error 6 in GPU has fallen off the bus[55d5+1000]",
    "NVRM: Xid ([4711]: segfault at 0 ip 000055d5 sp 00007ffd error 6 in x): 79, y[55d5+1000]",
    "XFS (): a[4711]: segfault at 0 ip 000055d5 sp 00007ffd error 6 in shutdown[55d5+1000]",
    "XFS (): a[4711]: unhandled signal 11 code 0x1 at 0x0 in shutdown[55d5+1000]",
    "traps: a.out[4711] trap divide error ip:55d5 sp:7ffd error:0 in NETDEV WATCHDOG: eth0[55d5+1000]",
    "a.out[4711]: segfault at 0 ip 000055d5 sp 00007ffd error 6 in x\nGPU has fallen off the bus[55d5+1000]",
    "process '/tmp/GPU has fallen off the bus' started with executable stack",
    "overlayfs: failed to resolve '/tmp/GPU has fallen off the bus': -2",
    "tmpfs: Unknown parameter 'GPU has fallen off the bus'",
    "[   4711]  2001  4711   123456    12345   131072        0             0 EXT4-fs error",
    "[   4711]  2001  4711   123456    12345   131072        0             0 I/O error, dev s",
    "Out of memory: Killed process 4711 (EDAC x: 1 UE ) total-vm:104857600kB, anon-rss:67108864kB",
    "XFS (): invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0",
]


@pytest.mark.parametrize("line", REASONS)
def test_a_line_that_says_broken_hardware_is_a_finding(machine: Machine, line: str) -> None:
    machine.command_says("dmesg", f"[    0.000000] Linux version 6.1\n[ 9990.123456] {line}\n[ 9991.5] usb 1-1: new\n")
    assert machine.check("kernel-log") == Answer(1, f"{line[:150]} (1 such in the last 60 min)")


@pytest.mark.parametrize("line", NONE)
def test_a_line_that_a_program_or_a_repair_caused_is_none(machine: Machine, line: str) -> None:
    machine.command_says("dmesg", f"[ 9990.123456] {line}\n")
    assert machine.check("kernel-log") == HEALTHY


@pytest.mark.parametrize("line", FORGED)
def test_no_user_can_make_a_line_that_reads_like_broken_hardware(machine: Machine, line: str) -> None:
    machine.command_says("dmesg", f"[ 9990.123456] {line}\n")
    assert machine.check("kernel-log") == HEALTHY


@pytest.mark.parametrize("caller", ["[    T1]", " [   C12]"])
def test_a_time_counts_where_the_kernel_says_who_spoke_as_well(machine: Machine, caller: str) -> None:
    machine.command_says("dmesg", f"[ 6399.000000]{caller} {REASONS[0]}\n")
    assert machine.check("kernel-log") == HEALTHY
    machine.command_says("dmesg", f"[ 6401.000000]{caller} {REASONS[0]}\n")
    assert machine.check("kernel-log") == Answer(1, f"{REASONS[0][:150]} (1 such in the last 60 min)")


def test_only_the_last_hour_counts(machine: Machine) -> None:
    machine.command_says("dmesg", f"[ 6399.000000] {REASONS[0]}\n[ 6401.000000] {REASONS[2]}\n[ 9000.1] {REASONS[3]}\n")
    assert machine.check("kernel-log") == Answer(1, f"{REASONS[3]} (2 such in the last 60 min)")
    assert machine.check("kernel-log", KERNEL_LOG_WINDOW_S="60") == HEALTHY


def test_in_the_first_hour_all_since_the_start_counts(machine: Machine) -> None:
    machine.write("proc/uptime", "300.10 600.00\n")
    machine.command_says("dmesg", f"[    2.500000] {REASONS[0]}\n")
    assert machine.check("kernel-log").code == 1


def test_a_log_without_times_counts_as_a_whole(machine: Machine) -> None:
    machine.command_says("dmesg", f"Linux version 6.1\n{REASONS[0]}\n")
    assert machine.check("kernel-log").code == 1


def test_a_dmesg_that_fails_is_a_finding(machine: Machine) -> None:
    machine.command("dmesg", "echo 'dmesg: read kernel buffer failed: Operation not permitted' >&2; exit 1")
    assert machine.check("kernel-log") == Answer(
        1, "dmesg failed: dmesg: read kernel buffer failed: Operation not permitted"
    )


def test_a_clock_of_the_kernel_that_cannot_be_read_is_a_finding(machine: Machine) -> None:
    machine.command_says("dmesg", "")
    (machine.proc / "uptime").write_text("")
    assert machine.check("kernel-log").code == 1
