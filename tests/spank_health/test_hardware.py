"""memory-ecc, infiniband and clock."""

from __future__ import annotations

import pytest

from .machine import HEALTHY, Answer, Machine

EDAC = "sys/devices/system/edac/mc"
CHRONY = "Reference ID    : A29FC87B (time.example)\nStratum         : 4\nLeap status     : {}\n"


def port(machine: Machine, name: str, state: str, link: str = "5: LinkUp", layer: str = "InfiniBand") -> None:
    folder = f"sys/class/infiniband/{name}"
    machine.write(f"{folder}/state", f"{state}\n")
    machine.write(f"{folder}/phys_state", f"{link}\n")
    machine.write(f"{folder}/link_layer", f"{layer}\n")


def test_corrected_memory_errors_are_no_reason(machine: Machine) -> None:
    machine.write(f"{EDAC}/mc0/ue_count", "0\n")
    machine.write(f"{EDAC}/mc0/ce_count", "123456\n")
    assert machine.check("memory-ecc") == HEALTHY


def test_uncorrected_memory_errors_are_told_with_their_module(machine: Machine) -> None:
    machine.write(f"{EDAC}/mc0/ue_count", "0\n")
    machine.write(f"{EDAC}/mc1/ue_count", "2\n")
    machine.write(f"{EDAC}/mc1/dimm0/dimm_ue_count", "0\n")
    machine.write(f"{EDAC}/mc1/dimm0/dimm_label", "CPU1_DIMM_A\n")
    machine.write(f"{EDAC}/mc1/dimm3/dimm_ue_count", "2\n")
    machine.write(f"{EDAC}/mc1/dimm3/dimm_label", "CPU1_DIMM_D\n")
    assert machine.check("memory-ecc") == Answer(1, "mc1: 2 uncorrected memory errors in CPU1_DIMM_D")


def test_a_counter_that_cannot_be_understood_is_a_finding(machine: Machine) -> None:
    machine.write(f"{EDAC}/mc0/ue_count", "many\n")
    assert machine.check("memory-ecc") == Answer(1, "mc0: ue_count can't be read: many")


def test_ports_that_are_active_or_disabled_are_no_reason(machine: Machine) -> None:
    port(machine, "mlx5_0/ports/1", "4: ACTIVE")
    port(machine, "mlx5_1/ports/1", "1: DOWN", "3: Disabled")
    assert machine.check("infiniband") == HEALTHY


@pytest.mark.parametrize(
    ("state", "link", "said"),
    [
        ("1: DOWN", "2: Polling", "mlx5_0/1 is DOWN, its link Polling"),
        ("2: INIT", "5: LinkUp", "mlx5_0/1 is INIT, its link LinkUp"),
        ("1: DOWN", "6: LinkErrorRecovery", "mlx5_0/1 is DOWN, its link LinkErrorRecovery"),
    ],
)
def test_a_port_that_is_not_active_is_named(machine: Machine, state: str, link: str, said: str) -> None:
    port(machine, "mlx5_0/ports/1", state, link)
    port(machine, "mlx5_1/ports/1", "4: ACTIVE")
    assert machine.check("infiniband") == Answer(1, said)
    assert machine.check("infiniband", INFINIBAND_IGNORE="mlx5_1/1 mlx5_0/1") == HEALTHY


@pytest.mark.parametrize(("flags", "code"), [("0x1003", 1), ("0x1002", 0)])
def test_an_ethernet_port_is_missed_if_its_network_device_is_meant_to_be_up(
    machine: Machine, flags: str, code: int
) -> None:
    port(machine, "mlx5_0/ports/1", "1: DOWN", "3: Disabled", "Ethernet")
    machine.write("sys/class/infiniband/mlx5_0/device/net/eth0/flags", f"{flags}\n")
    assert machine.check("infiniband").code == code


def test_chrony_is_believed(machine: Machine) -> None:
    machine.command_says("chronyc", CHRONY.format("Normal"))
    machine.command_says("adjtimex", "status: 64\n")
    assert machine.check("clock") == HEALTHY
    machine.command_says("chronyc", CHRONY.format("Not synchronised"))
    assert machine.check("clock") == Answer(1, "the clock is not synchronised (chronyc tracking)")


@pytest.mark.parametrize("line", ["System clock synchronized: no", "NTP synchronized: no"])
def test_without_chrony_systemd_is_asked(machine: Machine, line: str) -> None:
    machine.command_says("chronyc", "506 Cannot talk to daemon\n", 1)
    machine.command_says("timedatectl", f"               Local time: Mon\n{line}\n   NTP service: inactive\n")
    assert machine.check("clock") == HEALTHY, "systemd does not run here: its tool is only installed"
    (machine.folder / "run/systemd/system").mkdir(parents=True)
    assert machine.check("clock") == Answer(1, "the clock is not synchronised (timedatectl status)")
    machine.command_says("timedatectl", f"{line.replace('no', 'yes')}\n")
    assert machine.check("clock") == HEALTHY
    machine.command_says("timedatectl", "Failed to query server: Connection timed out\n", 1)
    assert machine.check("clock") == Answer(1, "timedatectl failed: Failed to query server: Connection timed out")


@pytest.mark.parametrize(("status", "code"), [("64", 1), ("8257", 1), ("8193", 0), ("0x40", 0)])
def test_without_both_the_kernels_own_flag_is_read(machine: Machine, status: str, code: int) -> None:
    machine.command_says("adjtimex", f"         mode: 0\n       offset: 0\n       status: {status}\n")
    assert machine.check("clock").code == code


def test_another_program_named_adjtimex_is_no_finding(machine: Machine) -> None:
    machine.command("adjtimex", "echo 'unrecognized option --print' >&2; exit 1")
    assert machine.check("clock") == HEALTHY
