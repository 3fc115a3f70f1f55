"""Small disks in memory that can be filled up: of a drill's record and payload store, and of its server."""

from __future__ import annotations

import os
import subprocess
from contextlib import suppress
from pathlib import Path

PIECE = bytes(1 << 20)


class Disk:
    """A folder, and a disk of its own if one may be mounted there.

    Args:
        folder: Where it is.
        size: In megabytes.
    """

    def __init__(self, folder: Path, size: int = 64) -> None:
        self.folder, self._size = folder, size
        self.is_mounted = False

    @property
    def _filler(self) -> Path:
        return self.folder / "filler"

    def mount(self) -> None:
        """Mount the disk; where that is not allowed the folder stays one of the machine's disk, which nobody fills."""
        self.folder.mkdir(exist_ok=True)
        command = ["mount", "-t", "tmpfs", "-o", f"size={self._size}m", "drill", str(self.folder)]
        with suppress(FileNotFoundError):
            self.is_mounted = subprocess.run(command, capture_output=True, check=False).returncode == 0

    def fill(self) -> None:
        """Leave no room on it."""
        assert self.is_mounted, "else it is the machine's disk"
        file = os.open(self._filler, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
        try:
            with suppress(OSError):
                while True:
                    os.write(file, PIECE)  # the last one is written in part
        finally:
            os.close(file)

    def free(self) -> None:
        """Have it be as before."""
        self._filler.unlink(missing_ok=True)

    def unmount(self) -> None:
        """End it, with all that is on it."""
        if self.is_mounted:
            subprocess.run(["umount", "--lazy", str(self.folder)], capture_output=True, check=False)
            self.is_mounted = False
