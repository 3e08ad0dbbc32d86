"""Indexes lie on a local disk, outside the folders that they are made of."""

from pathlib import Path

import pytest

from thumbindex.errors import UsageError
from thumbindex.index.files import index_location, refuse_network_drive

MOUNTS = (
    "/dev/sdb1 /mnt/home/disk ext4 rw 0 0\nserver:/home /mnt/home nfs4 rw 0 0\n"
    "//nas/x /mnt/my\\040drive cifs rw 0 0\n/dev/sda1 / ext4 rw 0 0\n"
)


@pytest.mark.parametrize("place", ["/mnt/home/me", "/mnt/my drive/x"])
def test_a_network_drive_is_refused_with_a_sentence(place):
    with pytest.raises(UsageError, match="--index"):
        refuse_network_drive(Path(place), MOUNTS)


@pytest.mark.parametrize("place", ["/home/me", "/mnt/home/disk/me", "/mnt/homes"])
def test_a_local_disk_is_taken_wherever_it_is_mounted(place):
    refuse_network_drive(Path(place), MOUNTS)


def test_folders_of_one_name_have_indexes_of_their_own(tmp_path):
    first, second = (
        index_location(str(tmp_path / "index"), tmp_path / name / "notes") for name in ("a", "b")
    )
    assert (first != second, first.name.startswith("notes-")) == (True, True)


def test_an_index_inside_the_folder_is_refused(tmp_path):
    with pytest.raises(UsageError, match="inside"):
        index_location(str(tmp_path / ".index"), tmp_path)
