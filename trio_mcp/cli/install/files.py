"""Replacing a configuration file atomically, with a copy of the old one."""

from __future__ import annotations

import os
import tempfile
from datetime import datetime
from pathlib import Path
from typing import Final

from attrs import frozen
from platformdirs import user_state_path

from trio_mcp.cli.failures import Failure
from trio_mcp.system.folders import open_folder
from trio_mcp.system.private import write_whole

_MOST_BYTES: Final = 64 * 1024 * 1024


@frozen
class ConfigFile:
    """A file and its content."""

    path: Path
    before: bytes | None
    """`None` if there was no file."""

    @property
    def text(self) -> str:
        try:
            return (self.before or b"").decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise Failure(f"{self.path} is not UTF-8 (byte {error.start})") from None

    def replace(self, text: str) -> Path | None:
        """Write new text in place of the old; return where the old one is kept."""
        if read_config(self.path) != self:
            raise Failure(f"{self.path} has changed meanwhile; start again")
        marked = (self.before or b"").startswith(b"\xef\xbb\xbf")
        self.path.parent.mkdir(parents=True, exist_ok=True)
        backup = None if self.before is None else _keep(self.path, self.before)
        data = text.encode("utf-8-sig" if marked else "utf-8")
        write_whole(self.path, data, _mode(self.path))
        return backup


def read_config(path: Path) -> ConfigFile:
    """Read a regular file; a missing one is empty. Links are followed, so that they stay."""
    path = Path(os.path.realpath(path))
    try:
        folder = open_folder(path.parent)
        try:
            file = os.fdopen(folder.open_file(path.name), "rb")
        finally:
            folder.close()
        with file:
            data = file.read(_MOST_BYTES + 1)
    except FileNotFoundError:
        return ConfigFile(path, None)
    except OSError as error:
        raise Failure(f"{path}: {error.strerror}") from None
    if len(data) > _MOST_BYTES:
        raise Failure(f"{path} has more than {_MOST_BYTES:,} bytes")
    return ConfigFile(path, data)


def _keep(path: Path, data: bytes) -> Path:
    folder = user_state_path("trio-mcp", appauthor=False) / "backups"
    folder.mkdir(parents=True, exist_ok=True)
    prefix = f"{path.name}.{datetime.now():%Y%m%d-%H%M%S}-"
    descriptor, copy = tempfile.mkstemp(prefix=prefix, suffix=".bak", dir=folder)
    with os.fdopen(descriptor, "wb") as file:  # for its owner alone: there may be secrets in it
        file.write(data)
    return Path(copy)


def _mode(path: Path) -> int:
    try:
        return path.stat().st_mode & 0o777
    except FileNotFoundError:
        return 0o600  # the entry of a server may have secrets in it
