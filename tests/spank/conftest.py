"""The relay, compiled as a site would, and as a library where a test calls its parts."""

from __future__ import annotations

import ctypes
import os
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.spank.relay_scene import RelayScene

RELAY_SOURCES = Path(__file__).parents[2] / "spank" / "relay"


def _compile(output: Path, sources: list[Path], *flags: str) -> Path:
    """With $CC and $CFLAGS where somebody has set them: `CFLAGS=-fsanitize=address,undefined pytest tests/spank`."""
    compiler = shlex.split(os.environ.get("CC", "cc"))
    if shutil.which(compiler[0]) is None:
        pytest.skip(f"there is no {compiler[0]} here: the relay can't be compiled")
    own = shlex.split(os.environ.get("CFLAGS", ""))
    command = [*compiler, "-std=c11", "-Wall", "-Wextra", "-Werror", "-O2", "-g", *own, *flags]
    done = subprocess.run(
        [*command, *map(str, sources), "-o", str(output)], capture_output=True, text=True, timeout=110, check=False
    )
    assert done.returncode == 0, done.stderr
    return output


@pytest.fixture(scope="session")
def relay_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _compile(tmp_path_factory.mktemp("relay") / "slurm-resilience-relay", sorted(RELAY_SOURCES.glob("*.c")))


class CStopRequest(ctypes.Structure):
    """struct stop_request of relay/stop_request.h."""

    _fields_ = (
        ("reason", ctypes.c_int),
        ("because", ctypes.c_char * 201),
        ("requested_s", ctypes.c_double),
        ("deadline_s", ctypes.c_double),
    )


@pytest.fixture(scope="session")
def relay_library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """The writer of the stop page, to be called from here. Never with a sanitizer: Python isn't linked with one."""
    sources = [RELAY_SOURCES / "stop_page.c", RELAY_SOURCES / "stop_request.c"]
    output = tmp_path_factory.mktemp("relay") / "stop_page.so"
    flags = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-O2", "-fPIC", "-shared"]
    done = subprocess.run(
        [*shlex.split(os.environ.get("CC", "cc")), *flags, *map(str, sources), "-o", str(output)],
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return ctypes.CDLL(str(output))


@pytest.fixture
def scene(tmp_path: Path, relay_program: Path) -> Iterator[RelayScene]:
    made = RelayScene(tmp_path, relay_program)
    yield made
    made.close()
