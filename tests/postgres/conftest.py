"""A vault on disk and in a database: one for read-only tests, and one for each test."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from postgres.server import TestServer, fresh_database
from postgres.vault import in_database, make_shed, make_vault, on_disk, publishing
from thumbindex.library import Library
from thumbindex.postgres import PublishJob


def pytest_itemcollected(item: pytest.Item) -> None:
    """All tests of this directory need a database: none runs in `make test`."""
    if not item.get_closest_marker("long"):
        item.add_marker(pytest.mark.slow)


@dataclass(frozen=True)
class Shared:
    """A garden and a shed, on disk and published."""

    disk: Library
    served: Library
    url: str


@pytest.fixture(scope="session")
def shared(postgres: TestServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    """Publish a vault once, for read-only tests."""
    folder = tmp_path_factory.mktemp("shared")
    garden, shed = make_vault(folder / "garden"), make_shed(folder / "shed")
    with fresh_database(postgres) as name, on_disk(folder, garden, shed) as disk:
        disk.index()
        url = postgres.address(name)
        with publishing(disk, url) as builder:
            builder.publish_changes()
        with in_database(url, folder) as served:
            yield Shared(disk, served, url)


@pytest.fixture
def url(postgres: TestServer, database: str) -> str:
    return postgres.address(database)


@pytest.fixture
def garden(tmp_path: Path) -> Path:
    return make_vault(tmp_path / "garden")


@pytest.fixture
def shed(tmp_path: Path) -> Path:
    return make_shed(tmp_path / "shed")


@pytest.fixture
def disk(tmp_path: Path, garden: Path, shed: Path) -> Iterator[Library]:
    with on_disk(tmp_path, garden, shed) as library:
        library.index()
        yield library


@pytest.fixture
def builder(disk: Library, url: str) -> Iterator[PublishJob]:
    with publishing(disk, url) as builder:
        builder.publish_changes()
        yield builder


@pytest.fixture
def served(builder: PublishJob, url: str, tmp_path: Path) -> Iterator[Library]:
    with in_database(url, tmp_path) as library:
        yield library
