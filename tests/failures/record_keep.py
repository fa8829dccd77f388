"""What a scene leaves behind, kept as a fixture.

Kept are the outputs and the run directory without its checkpoints, with this machine's paths and names made those of an
ordinary cluster, and the times of the files, which a repository forgets.
"""

from __future__ import annotations

import json
import re
import socket
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from slurm_resilience.manifest import encoding
from tests.failures.record_scene import Scene

ROOT = Path(__file__).parents[2]
TRAINING = ROOT / "tests" / "slurm" / "triage_training.py"
RUNS = Path(__file__).parent / "runs"
LARGEST_BYTES = 60_000
_KEPT = re.compile(r"\.(?:out|err|log|txt|json|jsonl)$")
_LEFT_OUT = ("checkpoints/", "lease.json", "site/", "script-", "preemptor-")


def keep(scene: Scene, folder: Path, cluster: Path, tag: str, marker: str) -> None:
    """`folder` is the scene's own, `cluster` that of the sandbox, `tag` begins the names of its nodes."""
    target = RUNS / scene.name
    _empty(target)
    ours = {
        str(folder): "/scratch/ann/train",
        str(TRAINING): "/home/ann/train/train.py",
        TRAINING.name: "train.py",
        str(cluster): "/var/spool/slurm",
        sys.prefix: "/opt/venv",
        sys.base_prefix: "/usr",
        str(ROOT): "/home/ann/train",
        f"sandbox-{tag}": "sandbox",
        marker: "train",
        "/sys/samples.csv": "/projects/shared/samples.csv",
        "--out=/sys": "--out=/projects/shared",
    }

    def renamed(raw: bytes) -> bytes:
        for mine, theirs in ours.items():
            raw = raw.replace(mine.encode(), theirs.encode())
        raw = re.sub(
            rb"\b" + re.escape(socket.gethostname()).encode() + rb"\b", b"n1", raw
        )  # the batch script is on the first node
        return re.sub(rb"\b" + tag.encode() + rb"n(?=[\d\[])", b"n", raw)

    times: dict[str, float] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        inside = name.removeprefix("run/")
        if path.is_symlink() or not path.is_file() or not _KEPT.search(path.name) or inside.startswith(_LEFT_OUT):
            continue
        name = re.sub(r"node(\d)\.out$", lambda found: f"n{int(found[1]) + 1}.out", renamed(name.encode()).decode())
        copy = target / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        raw = path.read_bytes()
        copy.write_bytes(_journal(raw, renamed) if path.name == "manifest.jsonl" else renamed(raw))
        times[name] = round(path.stat().st_mtime, 3)
    (target / "times.json").write_text(json.dumps(times, indent=1) + "\n")
    keep_expectation(scene)
    size = sum(path.stat().st_size for path in target.rglob("*") if path.is_file())
    if size > LARGEST_BYTES:
        raise AssertionError(f"{scene.name} has {size} bytes: more than {LARGEST_BYTES}")


def keep_expectation(scene: Scene) -> None:
    about = {"way": scene.way, "what": scene.arguments, "files_only": scene.files_only}
    expect = None if scene.expect is None else asdict(scene.expect)
    (RUNS / scene.name / "expect.json").write_text(json.dumps({**about, "expect": expect}, indent=1) + "\n")


def _empty(folder: Path) -> None:
    for path in sorted(folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    folder.mkdir(parents=True, exist_ok=True)


def _journal(raw: bytes, renamed: Callable[[bytes], bytes]) -> bytes:
    """Its lines have checksums: they are made anew."""
    lines = []
    for line in raw.splitlines():
        said = encoding.decode(line)
        value = json.loads(renamed(line))
        del value["sum"]
        body = json.dumps(value).encode()
        changed = body[:-1] + encoding._SUM_HEAD + encoding._sum(body) + encoding._SUM_TAIL
        assert encoding.decode(changed).seq == said.seq
        lines.append(changed + b"\n")
    return b"".join(lines)
