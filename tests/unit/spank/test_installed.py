"""What a file says that is taken for the plugin."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_resilience.spank.installed import Elf, Stamp, candidates, read_contents, release_of, runs_on

SHARED_X86_64 = b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x03\x00\x3e\x00"
STAMP = b"\0slurm-resilience-spank 0.1.0 for Slurm 22.05.8\0"


def test_the_stamp_says_version_and_slurm() -> None:
    contents = read_contents(SHARED_X86_64 + STAMP)
    assert contents.stamp == Stamp("0.1.0", (22, 5, 8))
    assert contents.elf == Elf(64, "x86_64", shared=True)


def test_the_paths_that_are_built_in_are_found() -> None:
    built_in = b"\0/opt/libexec/slurm-resilience/relay\0/opt/libexec/slurm-resilience/health.d\0"
    contents = read_contents(SHARED_X86_64 + built_in)
    assert contents.relay == "/opt/libexec/slurm-resilience/relay"
    assert contents.health_dir == "/opt/libexec/slurm-resilience/health.d"


@pytest.mark.parametrize(
    "data", [b"", b"\x7fELF", b"#!/bin/sh\n", b"slurm-resilience-spank  for Slurm 22.05.8", b"for Slurm 22.05.8"]
)
def test_what_is_no_plugin_has_no_stamp(data: bytes) -> None:
    assert read_contents(data).stamp is None


def test_a_program_is_no_shared_object() -> None:
    contents = read_contents(SHARED_X86_64.replace(b"\x03\x00\x3e", b"\x02\x00\xb7"))
    assert contents.elf == Elf(64, "aarch64", shared=False)


@pytest.mark.parametrize(
    ("machine", "fits"), [("x86_64", True), ("amd64", True), ("aarch64", False), ("riscv64", False)]
)
def test_a_plugin_runs_on_its_own_machine(machine: str, fits: bool) -> None:
    assert runs_on(Elf(64, "x86_64", shared=True), machine) is fits


@pytest.mark.parametrize(
    ("version", "release"),
    [("22.05.8", (22, 5)), ("slurm-wlm 24.11.5", (24, 11)), ("25.11.0-0rc1", (25, 11)), ("?", None), ("", None)],
)
def test_a_release_is_the_first_two_numbers(version: str, release: tuple[int, int] | None) -> None:
    assert release_of(version) == release


def test_a_name_is_looked_for_in_every_plugin_directory_and_a_path_nowhere_else() -> None:
    folders = (Path("/a"), Path("/b"))
    assert candidates("resilience.so", folders) == (Path("/a/resilience.so"), Path("/b/resilience.so"))
    assert candidates("/x/resilience.so", folders) == (Path("/x/resilience.so"),)


@given(st.binary(max_size=300))
def test_no_bytes_break_the_reader(data: bytes) -> None:
    read_contents(data)
    read_contents(b"\x7fELF" + data)
