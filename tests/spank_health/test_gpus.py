"""gpu-lost and gpu-ecc: what nvidia-smi says and leaves out."""

from __future__ import annotations

import pytest

from .machine import HEALTHY, Answer, Machine

LOST = "Unable to determine the device handle for GPU0000:82:00.0: GPU is lost.  Reboot the system to recover this GPU"

REPORT = """
==============NVSMI LOG==============

Timestamp                                 : Mon Nov 30 08:00:00 2026
Driver Version                            : 550.127.05
CUDA Version                              : 12.4

Attached GPUs                             : 2
GPU 00000000:1B:00.0
    Product Name                          : NVIDIA H100 80GB HBM3
    GPU Recovery Action                   : None
    ECC Mode
        Current                           : Enabled
        Pending                           : Enabled
    ECC Errors
        Volatile
            SRAM Correctable              : 4
            SRAM Uncorrectable Parity     : 0
            SRAM Uncorrectable SEC-DED    : 0
            DRAM Correctable              : 177
            DRAM Uncorrectable            : 0
        Aggregate
            SRAM Correctable              : 4
            SRAM Uncorrectable Parity     : 1
            SRAM Uncorrectable SEC-DED    : 1
            DRAM Correctable              : 177
            DRAM Uncorrectable            : 9
            SRAM Threshold Exceeded       : No
        Aggregate Uncorrectable SRAM Sources
            SRAM L2                       : 1
            SRAM Other                    : 0
        Channel Repair Pending            : No
        TPC Repair Pending                : No
    Retired Pages
        Single Bit ECC                    : N/A
        Double Bit ECC                    : N/A
        Pending Page Blacklist            : N/A
    Remapped Rows
        Correctable Error                 : 0
        Uncorrectable Error               : 2
        Pending                           : No
        Remapping Failure Occurred        : No
        Bank Remap Availability Histogram
            Max                           : 639 bank(s)
            None                          : 0 bank(s)
    Processes                             : None
GPU 00000000:43:00.0
    Product Name                          : Tesla V100-SXM2-32GB
    ECC Errors
        Volatile
            Single Bit
                Device Memory             : 12
                Total                     : 12
            Double Bit
                Device Memory             : 0
                Total                     : 0
        Aggregate
            Single Bit
                Total                     : 12
            Double Bit
                Device Memory             : 3
                Total                     : 3
    Retired Pages
        Single Bit ECC                    : 0
        Double Bit ECC                    : 3
        Pending Page Blacklist            : No
    Remapped Rows                         : N/A
"""


def gpus(machine: Machine, count: int, driver: str = "nvidia", vendor: str = "0x10de", kind: str = "0x030200") -> None:
    for number in range(count):
        device = f"sys/bus/pci/devices/0000:{number + 16:x}:00.0"
        machine.write(f"{device}/vendor", f"{vendor}\n")
        machine.write(f"{device}/class", f"{kind}\n")
        if driver:
            (machine.folder / device / "driver").symlink_to(f"../../../bus/pci/drivers/{driver}")


def listing(count: int) -> str:
    return "".join(f"GPU {number}: NVIDIA H100 80GB HBM3 (UUID: GPU-{number})\n" for number in range(count))


def with_driver(machine: Machine) -> None:
    machine.write("proc/driver/nvidia/gpus/0000:1b:00.0/information", "Model: NVIDIA H100 80GB HBM3\n")


def test_all_gpus_answer(machine: Machine) -> None:
    gpus(machine, 4)
    machine.command_says("nvidia-smi", listing(4))
    assert machine.check("gpu-lost") == HEALTHY


def test_parts_of_a_gpu_are_no_gpus(machine: Machine) -> None:
    gpus(machine, 2)
    machine.command_says("nvidia-smi", listing(1) + "  MIG 3g.40gb     Device  0: (UUID: MIG-1)\n")
    assert machine.check("gpu-lost").said.startswith("1 of 2 GPUs answer")


def test_a_gpu_that_fell_off_the_bus_is_named(machine: Machine) -> None:
    gpus(machine, 4)
    machine.command_says("nvidia-smi", listing(3) + LOST + "\n", 15)
    assert machine.check("gpu-lost") == Answer(1, f"3 of 4 GPUs answer: {LOST}")


def test_what_the_driver_itself_counts_counts_too(machine: Machine) -> None:
    with_driver(machine)
    machine.command_says("nvidia-smi", "No devices were found\n", 6)
    assert machine.check("gpu-lost") == Answer(1, "0 of 1 GPUs answer: No devices were found")


def test_a_site_can_say_how_many_there_must_be(machine: Machine) -> None:
    gpus(machine, 7)
    machine.command_says("nvidia-smi", listing(7))
    assert machine.check("gpu-lost") == HEALTHY
    assert machine.check("gpu-lost", GPU_COUNT="8").said.startswith("7 of 8 GPUs answer")


def test_a_tool_that_fails_with_all_gpus_listed_is_a_finding(machine: Machine) -> None:
    gpus(machine, 1)
    machine.command_says("nvidia-smi", listing(1) + "WARNING: infoROM is corrupted at gpu 0000:10:00.0\n", 14)
    assert machine.check("gpu-lost") == Answer(
        1, "nvidia-smi failed: it left with 14: WARNING: infoROM is corrupted at gpu 0000:10:00.0"
    )


def test_gpus_without_the_tool_are_a_finding(machine: Machine) -> None:
    gpus(machine, 8)
    assert machine.check("gpu-lost") == Answer(1, "8 GPUs should be here, and there is no nvidia-smi to ask")


def test_a_gpu_whose_driver_did_not_load_is_a_finding(machine: Machine) -> None:
    gpus(machine, 1, driver="")
    machine.command_says("nvidia-smi", "NVIDIA-SMI has failed\n", 9)
    assert machine.check("gpu-lost") == Answer(1, "the GPU 0000:10:00.0 has no driver")


@pytest.mark.parametrize(
    ("driver", "vendor", "kind"),
    [("vfio-pci", "0x10de", "0x030200"), ("ast", "0x1a03", "0x030000"), ("snd_hda_intel", "0x10de", "0x040300")],
)
def test_what_is_no_gpu_of_ours_is_not_asked_for(machine: Machine, driver: str, vendor: str, kind: str) -> None:
    gpus(machine, 2, driver, vendor, kind)
    machine.command_says("nvidia-smi", "NVIDIA-SMI has failed\n", 9)
    assert machine.check("gpu-lost") == HEALTHY
    assert machine.check("gpu-ecc") == HEALTHY


def test_corrected_errors_and_those_of_a_former_life_are_no_reason(machine: Machine) -> None:
    with_driver(machine)
    machine.command_says("nvidia-smi", REPORT)
    assert machine.check("gpu-ecc") == HEALTHY


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("DRAM Uncorrectable            : 0", 7, "GPU 00000000:1B:00.0: 7 uncorrectable errors (DRAM Uncorrectable)"),
        (
            "SRAM Uncorrectable Parity     : 0",
            1,
            "GPU 00000000:1B:00.0: 1 uncorrectable errors (SRAM Uncorrectable Parity)",
        ),
        ("        Pending                           : No", "Yes", "GPU 00000000:1B:00.0: a row remap is pending"),
        ("Remapping Failure Occurred        : No", "Yes", "GPU 00000000:1B:00.0: a row remap failed"),
        ("SRAM Threshold Exceeded       : No", "Yes", "GPU 00000000:1B:00.0: too many SRAM errors"),
        ("TPC Repair Pending                : No", "Yes", "GPU 00000000:1B:00.0: tpc repair pending"),
        ("GPU Recovery Action                   : None", "Reset", "GPU 00000000:1B:00.0: the driver asks for: Reset"),
        ("Pending Page Blacklist            : No", "Yes", "GPU 00000000:43:00.0: pages wait to be retired"),
        (
            "                Total                     : 0",
            2,
            "GPU 00000000:43:00.0: 2 uncorrectable errors (Double Bit)",
        ),
    ],
)
def test_memory_that_is_not_to_be_trusted_is_named(machine: Machine, old: str, new: object, said: str) -> None:
    with_driver(machine)
    assert old + "\n" in REPORT
    changed = REPORT.replace(old + "\n", f"{old.rpartition(' ')[0]} {new}\n", 1)
    machine.command_says("nvidia-smi", changed)
    assert machine.check("gpu-ecc") == Answer(1, said)


def test_several_faults_are_one_line(machine: Machine) -> None:
    with_driver(machine)
    machine.command_says(
        "nvidia-smi",
        REPORT.replace("        Pending                           : No", "        Pending : Yes")
        .replace("DRAM Uncorrectable            : 0", "DRAM Uncorrectable : 1")
        .replace("Pending Page Blacklist            : No", "Pending Page Blacklist : Yes"),
    )
    assert machine.check("gpu-ecc").said == (
        "GPU 00000000:1B:00.0: 1 uncorrectable errors (DRAM Uncorrectable);"
        " GPU 00000000:1B:00.0: a row remap is pending; GPU 00000000:43:00.0: pages wait to be retired"
    )


def test_a_gaming_card_that_cannot_tell_is_healthy(machine: Machine) -> None:
    with_driver(machine)
    machine.command_says(
        "nvidia-smi", "GPU 00000000:01:00.0\n    ECC Errors\n        Volatile\n            DRAM Uncorrectable : N/A\n"
    )
    assert machine.check("gpu-ecc") == HEALTHY


def test_a_report_that_fails_or_is_empty_is_a_finding(machine: Machine) -> None:
    with_driver(machine)
    machine.command_says("nvidia-smi", REPORT + LOST + "\n", 15)
    assert machine.check("gpu-ecc") == Answer(1, f"nvidia-smi failed: it left with 15: {LOST}")
    machine.command_says("nvidia-smi", "")
    assert machine.check("gpu-ecc") == Answer(1, "nvidia-smi failed: its report names no GPU")
