"""Indexes are on a local disk, outside the indexed folders."""

from pathlib import Path

import pytest

from thumbindex.errors import UsageError
from thumbindex.index.files import index_location, refuse_network_drive

MOUNTS = (
    "/dev/sdb1 /mnt/home/disk ext4 rw 0 0\nserver:/home /mnt/home nfs4 rw 0 0\n"
    "//nas/x /mnt/my\\040drive cifs rw 0 0\n/dev/sda1 / ext4 rw 0 0\n"
)


@pytest.mark.parametrize("path", ["/mnt/home/me", "/mnt/my drive/x"])
def test_network_drive_is_refused(path):
    with pytest.raises(UsageError, match="--index"):
        refuse_network_drive(Path(path), MOUNTS)


@pytest.mark.parametrize("path", ["/home/me", "/mnt/home/disk/me", "/mnt/homes"])
def test_local_disk_is_accepted_at_any_mount_point(path):
    refuse_network_drive(Path(path), MOUNTS)


def test_folders_with_the_same_name_have_separate_indexes(tmp_path):
    first, second = (
        index_location(str(tmp_path / "index"), tmp_path / name / "notes") for name in ("a", "b")
    )
    assert (first != second, first.name.startswith("notes-")) == (True, True)


def test_an_index_inside_the_folder_is_refused(tmp_path):
    with pytest.raises(UsageError, match="inside"):
        index_location(str(tmp_path / ".index"), tmp_path)
