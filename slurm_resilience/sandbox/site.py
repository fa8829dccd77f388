"""What is chosen afresh for each cluster, and the note of it that others attach by."""

from __future__ import annotations

import dataclasses
import json
import os
import pwd
import random
import socket
import stat
import string
import tempfile
from pathlib import Path
from typing import Any

from slurm_resilience.durable_file import replace_durably
from slurm_resilience.errors import ConfigurationError
from slurm_resilience.sandbox import cgroup
from slurm_resilience.sandbox.config import ClusterSpec, Site, node_names, short_enough
from slurm_resilience.sandbox.ports import free_ports

DESCRIPTION = "cluster.json"


def make_folder(wanted: Path | None) -> Path:
    """A new folder for one cluster. Raises ConfigurationError when `wanted` exists or can't be made."""
    if wanted is None:
        return Path(tempfile.mkdtemp(prefix="slurm-sandbox-"))
    folder = wanted.absolute()
    try:
        folder.mkdir(parents=True)
    except FileExistsError as error:
        raise ConfigurationError(f"{folder} exists already: is a sandbox up there?") from error
    except OSError as error:
        raise ConfigurationError(f"the sandbox folder {folder} can't be made: {error.strerror}") from error
    return folder


def make_runtime() -> Path:
    """Not in the cluster's folder: that may lie deep in somebody's home, with a long name, closed to others."""
    candidates = [Path(tempfile.gettempdir()), Path("/tmp"), Path("/var/tmp")]  # noqa: S108 - mkdtemp makes it safe
    for above in candidates:
        if everybody_may_pass(above) and short_enough(above / "slurm-sandbox-12345678") and os.access(above, os.W_OK):
            runtime = Path(tempfile.mkdtemp(prefix="slurm-sandbox-", dir=above))
            runtime.chmod(0o755)
            return runtime
    places = ", ".join(str(above) for above in dict.fromkeys(candidates))
    raise ConfigurationError(f"the sandbox needs a folder for sockets that everybody may pass, and none of {places} is")


def everybody_may_pass(folder: Path) -> bool:
    folder = folder.resolve()
    return all(above.stat().st_mode & stat.S_IXOTH for above in (folder, *folder.parents))


def choose_site(spec: ClusterSpec, slurm_version: tuple[int, int], runtime: Path) -> Site:
    controller_port, *node_ports = free_ports(1 + spec.nodes)
    while True:
        tag = "".join(random.choices(string.ascii_lowercase, k=3))
        if not any(cgroup.folders_of(name) for name in node_names(tag, spec.nodes)):
            break
    return Site(
        tag=tag,
        hostname=socket.gethostname().partition(".")[0],
        user=_user_name(),
        slurm_version=slurm_version,
        controller_port=controller_port,
        node_ports=tuple(node_ports),
        runtime=str(runtime),
        first_job_id=random.randrange(1, 60_000) * 1000,
        cgroup_mountpoint=str(cgroup.MOUNTPOINT),
    )


def _user_name() -> str:
    """Of the effective user: USER and LOGNAME may still name somebody else after su or setpriv."""
    user = os.geteuid()
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError as error:
        raise ConfigurationError(f"user {user} has no name on this machine, and Slurm wants one") from error


def save(folder: Path, spec: ClusterSpec, site: Site) -> None:
    description = {"spec": dataclasses.asdict(spec), "site": dataclasses.asdict(site)}
    replace_durably(folder / DESCRIPTION, json.dumps(description, indent=2).encode())


def load(folder: Path) -> tuple[ClusterSpec, Site]:
    """Raises ConfigurationError when there is no cluster in that folder."""
    description = folder / DESCRIPTION
    try:
        if description.stat().st_uid != os.geteuid():
            # It names processes to be ended: only our own word counts for that.
            raise ConfigurationError(f"the sandbox in {folder} belongs to another user")
        said: dict[str, dict[str, Any]] = json.loads(description.read_text())
        spec, site = said["spec"], said["site"]
        return (
            ClusterSpec(**{**spec, "extra": tuple(spec["extra"]), "plugstack": tuple(spec.get("plugstack", ()))}),
            Site(
                **{**site, "slurm_version": tuple(site["slurm_version"]), "node_ports": tuple(site["node_ports"])},
            ),
        )
    except OSError as error:
        raise ConfigurationError(f"there is no sandbox in {folder}") from error
    except (ValueError, TypeError, KeyError) as error:
        raise ConfigurationError(f"{description} is not what this version of the sandbox writes") from error
