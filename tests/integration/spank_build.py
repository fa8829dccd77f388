"""The SPANK plugin of this source tree, built for the Slurm that will load it, in several variants."""

from __future__ import annotations

import functools
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from slurm_resilience.command import run
from tests.clusters.interpreter import ROOT

Variant = Literal["usual", "faults", "other-release"]
KILL_WAIT_S = 10
"""Of the clusters under test."""
OTHER_RELEASE = "20.11"
_MORE_WORDS: dict[Variant, str] = {"usual": "", "faults": " FAULTS=1", "other-release": ""}


@dataclass(frozen=True, slots=True)
class Builds:
    folder: Path
    """Everybody may look into it, on all nodes."""
    by_docker: bool
    """Built by the image's own stage, against the headers of the Slurm that runs there; or else here."""
    spool: str
    runtime: str

    def line(self, *arguments: str, variant: Variant = "usual", mode: str = "optional") -> str:
        """For plugstack.conf. Of arguments that are given twice, the last one counts."""
        usual = (f"relay={self.relay}", f"spool={self.spool}", f"runtime={self.runtime}", f"kill_wait={KILL_WAIT_S}")
        return " ".join([mode, str(self.built(variant) / "resilience.so"), *usual, *arguments])

    @property
    def relay(self) -> Path:
        return self.built("usual") / "slurm-resilience-relay"

    def built(self, variant: Variant) -> Path:
        """The folder of that build; made when it is first asked for."""
        folder = self.folder / variant
        if not (folder / "slurm-resilience-relay").exists():
            folder.mkdir(mode=0o755, exist_ok=True)
            folder.chmod(0o755)
            self._build(folder, variant)
        return folder

    def _build(self, folder: Path, variant: Variant) -> None:
        script = f"make -j2 -C {ROOT}/spank BUILD={folder}{_MORE_WORDS[variant]}"
        if variant == "other-release":
            headers = folder / "headers"
            version = headers / "slurm" / "slurm_version.h"
            script = (
                f"mkdir -p {headers} && cp -r /usr/include/slurm {headers}/ && "
                f"sed -i -E 's/(SLURM_VERSION_NUMBER) .*/\\1 0x140b03/' {version} && "
                f"{script} SLURM_INCLUDE={headers}"
            )
        words = ["sh", "-c", script]
        if self.by_docker:
            mounts = [f"--volume={ROOT}:{ROOT}:ro", f"--volume={self.folder}:{self.folder}"]
            words = ["docker", "run", "--rm", *mounts, build_image(), *words]
        answer = run(words, timeout_s=300)
        assert answer.code == 0, f"{script}: {answer.err[-3000:]}"


@functools.cache
def build_image() -> str:
    """The image's build stage: a compiler and Slurm's headers. It may be old, for the sources are mounted."""
    given = {"DEBIAN": os.environ.get("DEBIAN", "trixie"), "BASE": os.environ.get("BASE", "")}
    name = f"slurm-resilience-cluster:plugin-{given['DEBIAN']}"
    if run(["docker", "image", "inspect", name], timeout_s=60).code != 0:
        arguments = [f"--build-arg={name}={value}" for name, value in given.items()]
        words = ["docker", "build", "--target=plugin", f"--tag={name}", *arguments]
        answer = run([*words, f"--file={ROOT}/docker/Dockerfile", str(ROOT)], timeout_s=1200)
        assert answer.code == 0, answer.err[-3000:]
    return name


def whats_missing() -> str:
    """Why no plugin can be built on this machine; empty: it can."""
    missing = [program for program in ("make", "cc") if shutil.which(program) is None]
    if missing:
        return f"there is no {' and no '.join(missing)} here to build the plugin with"
    if not Path("/usr/include/slurm/spank.h").exists():
        return "Slurm's headers are not installed here, so no plugin can be built"
    return ""
