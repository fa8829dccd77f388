"""A MariaDB and a slurmdbd of one's own, and the lines by which a sandbox cluster keeps its jobs' lives in them."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from slurm_resilience.sandbox.ports import free_ports

if TYPE_CHECKING:
    from typing_extensions import Self  # in typing from Python 3.11 on

ROOT_FOLDERS = os.pathsep.join(("/usr/sbin", "/usr/bin", "/sbin", "/bin"))


class Database:
    """`with Database() as database:` has slurmdbd answering inside. As root only, which MariaDB must be told.

    It has a munged of its own, which the cluster must use too (`cluster_lines`): slurmctld refuses to start the first
    time when slurmdbd does not answer, so it can't wait for the cluster's.
    """

    def __init__(self) -> None:
        self.database_port, self.port = free_ports(2)
        self._folder: Path | None = None
        self._daemons: dict[str, subprocess.Popen[bytes]] = {}

    @property
    def folder(self) -> Path:
        assert self._folder is not None, "the database is not up"
        return self._folder

    def cluster_lines(self, *, cred_expire_s: int = 5) -> tuple[str, ...]:
        """For ClusterSpec.extra."""
        return (
            f"AuthInfo=socket={self.folder}/munge/socket,cred_expire={cred_expire_s}",
            # To slurmdbd they go by another setting, which with munge is no password but the socket.
            f"AccountingStoragePass={self.folder}/munge/socket",
            "AccountingStorageType=accounting_storage/slurmdbd",
            "AccountingStorageHost=127.0.0.1",
            f"AccountingStoragePort={self.port}",
        )

    def __enter__(self) -> Self:
        self._folder = Path(tempfile.mkdtemp(prefix="slurm-database-", dir="/tmp"))
        self.folder.chmod(0o755)
        try:
            self._start_munged()
            self._start_mariadb()
            self.start()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for name in ("slurmdbd", "mariadbd", "munged"):
            self._end(name)
        shutil.rmtree(self.folder)

    def start(self) -> None:
        """slurmdbd, until it listens."""
        configuration = self.folder / "slurmdbd.conf"
        configuration.write_text(
            "\n".join(
                (
                    "AuthType=auth/munge",
                    f"AuthInfo=socket={self.folder}/munge/socket",
                    "DbdHost=localhost",
                    "DbdAddr=127.0.0.1",
                    f"DbdPort={self.port}",
                    "SlurmUser=root",
                    f"LogFile={self.folder}/slurmdbd.log",
                    f"PidFile={self.folder}/slurmdbd.pid",
                    "StorageType=accounting_storage/mysql",
                    "StorageHost=127.0.0.1",
                    f"StoragePort={self.database_port}",
                    "StorageUser=slurm",
                    "StoragePass=slurm",
                    "StorageLoc=slurm_acct_db",
                    "",
                )
            )
        )
        configuration.chmod(0o600)
        self._run("slurmdbd", "slurmdbd", "-D", SLURM_CONF=str(self.folder / "slurm.conf"))
        self._wait("slurmdbd", lambda: b"slurmdbd version" in self._said("slurmdbd") and self._listens(self.port))

    def stop(self) -> None:
        """Only slurmdbd."""
        self._end("slurmdbd")

    def _start_munged(self) -> None:
        private, public = self.folder / "munge-private", self.folder / "munge"
        private.mkdir(mode=0o700)
        public.mkdir(mode=0o755)
        key = private / "key"
        key.touch(mode=0o600)
        key.write_bytes(secrets.token_bytes(128))
        names = {
            "socket": public / "socket",
            "key-file": key,
            "seed-file": private / "seed",
            "pid-file": private / "pid",
        }
        self._run("munged", "munged", "--foreground", *(f"--{name}={path}" for name, path in names.items()))
        self._wait("munged", (public / "socket").exists)

    def _start_mariadb(self) -> None:
        data, socket = self.folder / "data", self.folder / "mariadb.socket"
        subprocess.run(
            ["mariadb-install-db", "--no-defaults", f"--datadir={data}", "--user=root",
             "--auth-root-authentication-method=normal"],
            check=True, capture_output=True, timeout=120,
        )  # fmt: skip
        self._run(
            "mariadbd", "mariadbd", "--no-defaults", f"--datadir={data}", "--user=root", f"--socket={socket}",
            "--bind-address=127.0.0.1", f"--port={self.database_port}", f"--pid-file={self.folder}/mariadb.pid",
            "--innodb-lock-wait-timeout=900",
        )  # fmt: skip
        self._wait("mariadbd", socket.exists)
        rights = "GRANT ALL ON slurm_acct_db.* TO slurm@'%' IDENTIFIED BY 'slurm';"
        local = "GRANT ALL ON slurm_acct_db.* TO slurm@localhost IDENTIFIED BY 'slurm';"
        subprocess.run(
            ["mariadb", "--no-defaults", f"--socket={socket}", "-uroot", "-e", rights + local],
            check=True, capture_output=True, timeout=30,
        )  # fmt: skip

    def _run(self, name: str, *argv: str, **environment: str) -> None:
        with (self.folder / f"{name}.out").open("ab") as output:
            self._daemons[name] = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd="/",
                env={"PATH": ROOT_FOLDERS, "LC_ALL": "C", "HOME": "/", **environment},
                start_new_session=True,
            )

    def _end(self, name: str) -> None:
        daemon = self._daemons.pop(name, None)
        if daemon is None:
            return
        daemon.terminate()
        try:
            daemon.wait(20)
        except subprocess.TimeoutExpired:
            daemon.kill()
            daemon.wait(20)

    def _said(self, name: str) -> bytes:
        paths = (self.folder / f"{name}.out", self.folder / f"{name}.log")
        return b"".join(path.read_bytes() for path in paths if path.exists())

    def _wait(self, name: str, ready: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 60
        while not ready():
            if self._daemons[name].poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{name} does not run: {self._said(name)[-2000:].decode(errors='replace')}")
            time.sleep(0.05)

    @staticmethod
    def _listens(port: int) -> bool:
        wanted = f":{port:04X} "
        return any(
            line.split()[1].endswith(wanted.strip()) and line.split()[3] == "0A"
            for table in ("/proc/net/tcp", "/proc/net/tcp6")
            for line in Path(table).read_text().splitlines()[1:]
        )
