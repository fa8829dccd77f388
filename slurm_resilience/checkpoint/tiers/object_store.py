"""A depot behind a URL, by fsspec: S3, GCS, Azure, HDFS, SFTP, whatever it has a driver for.

fsspec is imported by the verbs that need it. Drivers raise what they like: it is translated here, in one place.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

from slurm_resilience.checkpoint.tiers.contents import Contents
from slurm_resilience.checkpoint.tiers.passage import watched
from slurm_resilience.checkpoint.tiers.source import Source
from slurm_resilience.checkpoint.tiers.transit import Interrupted, Transit
from slurm_resilience.errors import CheckpointDamaged, CheckpointUnavailable, ConfigurationError, ResilienceError

_LEAST_BLOCK_BYTES = 64 << 20
_MOST_BLOCKS = 9_000
"""S3 takes 10,000 pieces an upload."""
_WITHOUT_FOLDERS = frozenset("s3 s3a gs gcs az abfs abfss adl oss oci tos r2 memory".split())


class ObjectStore:
    """A Depot below `url`. `options` go to the driver: `endpoint_url`, `profile`, …"""

    def __init__(self, url: str, options: dict[str, Any] | None = None) -> None:
        self._url = url.rstrip("/")
        self._options = options or {}
        self._opened: tuple[Any, str] | None = None

    @property
    def where(self) -> str:
        return self._url

    def size_of(self, name: str) -> int | None:
        files, path = self._at(name)
        with _answers(self._url, f"{name} can't be looked at"):
            files.invalidate_cache()  # another process may have published a moment ago
            try:
                size_bytes = files.info(path)["size"]
            except FileNotFoundError:
                return None
        return None if size_bytes is None else int(size_bytes)

    def read_note(self, name: str) -> bytes | None:
        files, path = self._at(name)
        with _answers(self._url, f"{name} can't be read"):
            try:
                return bytes(files.cat_file(path))
            except FileNotFoundError:
                return None

    def write_note(self, name: str, data: bytes) -> None:
        files, path = self._at(name)
        with _answers(self._url, f"{name} can't be written", writing=True):
            _make_room_for(files, path)
            files.pipe_file(path, data)

    def put(self, name: str, source: Source, contents: Contents, *, owner: str, transit: Transit) -> None:
        """In pieces of 64 MiB and more. `owner` isn't needed: an upload has no name before it is whole."""
        files, path = self._at(name)
        try:
            source.__enter__()
        except FileNotFoundError as error:
            raise CheckpointDamaged(Path(source.name), "the file is missing") from error
        except OSError as error:
            raise CheckpointUnavailable(f"{source.name} can't be read: {error.strerror or error}") from error
        try:
            with _answers(self._url, f"{name} can't be written", writing=True):
                _make_room_for(files, path)
                block_bytes = max(_LEAST_BLOCK_BYTES, -(-contents.size_bytes // _MOST_BLOCKS))
                with _upload(files.open(path, "wb", block_size=block_bytes)) as upload:
                    for piece in watched(source, contents, transit=transit):
                        upload.write(bytes(piece))  # drivers may keep what they are given
        finally:
            source.__exit__(None, None, None)

    def source(self, name: str) -> Source:
        files, path = self._at(name)
        return ObjectSource(files, path, self._url)

    def folders(self) -> list[str]:
        files, path = self._at("")
        with _answers(self._url, "it can't be listed"):
            files.invalidate_cache()  # as above
            try:
                entries = files.ls(path, detail=True)
            except FileNotFoundError:
                return []
        return sorted({e["name"].rstrip("/").rsplit("/", 1)[-1] for e in entries if e["type"] == "directory"})

    def _at(self, name: str) -> tuple[Any, str]:
        if self._opened is None:
            self._opened = _open(self._url, self._options)
        files, root = self._opened
        return files, f"{root.rstrip('/')}/{name}".rstrip("/")


class ObjectSource:
    """An object, read by ranges."""

    def __init__(self, files: Any, path: str, url: str) -> None:
        self._files = files
        self._path = path
        self._url = url
        self._bytes = 0

    @property
    def name(self) -> str:
        return f"{self._url.partition('://')[0]}:{self._path}"

    def __enter__(self) -> ObjectSource:  # noqa: PYI034 typing.Self is not in Python 3.10
        with _answers(self._url, f"{self._path} can't be looked at"):
            self._bytes = int(self._files.info(self._path)["size"])
        return self

    def size_bytes(self) -> int:
        return self._bytes

    def read_into(self, offset: int, piece: memoryview) -> int:
        with _answers(self._url, f"{self._path} can't be read"):
            data = self._files.cat_file(self._path, start=offset, end=min(offset + len(piece), self._bytes))
        piece[: len(data)] = data
        return len(data)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass


def _open(url: str, options: dict[str, Any]) -> tuple[Any, str]:
    try:
        import fsspec  # type: ignore[import-untyped]
    except ImportError as error:
        raise ConfigurationError(
            f"{url} can't be reached without fsspec: pip install 'slurm-resilience[object-store]'"
        ) from error
    try:
        files, root = fsspec.core.url_to_fs(url, **options)
    except (ImportError, ValueError) as error:
        raise ConfigurationError(f"{url} can't be reached: {error}") from error
    return files, str(root)


def _make_room_for(files: Any, path: str) -> None:
    """The folder, where the place has folders. Elsewhere a driver might make a bucket of what is a typing error."""
    kinds = (files.protocol,) if isinstance(files.protocol, str) else files.protocol
    if not _WITHOUT_FOLDERS.intersection(kinds):
        files.makedirs(files._parent(path), exist_ok=True)  # noqa: SLF001 every driver has it


@contextlib.contextmanager
def _upload(file: Any) -> Iterator[Any]:
    """Closing is what makes an upload count: one that isn't whole must never be closed, not even by the collector."""
    try:
        yield file
    except BaseException:
        with contextlib.suppress(Exception):
            file.discard()
        with contextlib.suppress(AttributeError):
            file.closed = True
        raise
    file.close()


@contextlib.contextmanager
def _answers(url: str, what: str, *, writing: bool = False) -> Iterator[None]:
    """A driver's errors in ours. Those that a second try can't cure are the user's to cure."""
    try:
        yield
    except (ResilienceError, Interrupted):
        raise
    except FileNotFoundError as error:
        if not writing:
            raise  # the verb knows what that means
        raise ConfigurationError(f"{url}: {what}: there is no such bucket or folder") from error
    except PermissionError as error:
        raise ConfigurationError(f"{url}: {what}: no permission ({error})") from error
    except NotImplementedError as error:
        raise ConfigurationError(f"{url}: {what}: its driver has no way to do that") from error
    except OSError as error:
        why = error.strerror or str(error) or type(error).__name__
        raise CheckpointUnavailable(f"{url}: {what}: {why}") from error
    except Exception as error:
        raise CheckpointUnavailable(f"{url}: {what}: {type(error).__name__}: {error}") from error
