"""A depot that is a folder of a file system: what is put there is fsynced and renamed."""

from __future__ import annotations

from pathlib import Path

from slurm_resilience.checkpoint.tiers.contents import Contents
from slurm_resilience.checkpoint.tiers.source import FileSource, Source
from slurm_resilience.checkpoint.tiers.transfer import copy_file, refusals
from slurm_resilience.checkpoint.tiers.transit import Transit
from slurm_resilience.durable_file import make_directory_durably, replace_durably


class FolderDepot:
    def __init__(self, root: Path) -> None:
        self._root = root

    @property
    def where(self) -> str:
        return str(self._root)

    def size_of(self, name: str) -> int | None:
        with refusals(f"{self._root / name} can't be looked at"):
            try:
                return (self._root / name).stat().st_size
            except FileNotFoundError:
                return None

    def read_note(self, name: str) -> bytes | None:
        with refusals(f"{self._root / name} can't be read"):
            try:
                return (self._root / name).read_bytes()
            except FileNotFoundError:
                return None

    def write_note(self, name: str, data: bytes) -> None:
        path = self._root / name
        with refusals(f"{path} can't be written"):
            make_directory_durably(path.parent)
            replace_durably(path, data)

    def put(self, name: str, source: Source, contents: Contents, *, owner: str, transit: Transit) -> None:
        copy_file(source, contents, self._root / name, owner=owner, transit=transit)

    def source(self, name: str) -> Source:
        return FileSource(self._root / name)

    def folders(self) -> list[str]:
        with refusals(f"{self._root} can't be listed"):
            try:
                return sorted(path.name for path in self._root.iterdir() if path.is_dir())
            except FileNotFoundError:
                return []
