"""The disk of a drill: full, nothing can be written on it; freed, it can. Without a mount nothing is filled."""

from __future__ import annotations

from pathlib import Path

import pytest

from drills.disk import Disk


def test_nothing_can_be_written_on_a_full_disk(tmp_path: Path) -> None:
    disk = Disk(tmp_path / "disk")
    disk.mount()
    if not disk.is_mounted:
        with pytest.raises(AssertionError, match="the machine's disk"):
            disk.fill()
        return
    try:
        disk.fill()
        with pytest.raises(OSError, match="No space left"):
            (disk.folder / "one").write_text("text")
        disk.free()
        (disk.folder / "one").write_text("text")
        assert (disk.folder / "one").read_text() == "text"
    finally:
        disk.unmount()
