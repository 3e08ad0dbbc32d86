"""Query settings with some stages left out, or in."""

from dataclasses import replace

from thumbindex.settings import QuerySettings


def with_stages(settings: QuerySettings, *stages: str) -> QuerySettings:
    """Return the settings with these stages in the run."""
    return replace(settings, skip=tuple(each for each in settings.skip if each not in stages))


def without_stages(settings: QuerySettings, *stages: str) -> QuerySettings:
    """Return the settings with these stages left out."""
    added = (stage for stage in stages if stage not in settings.skip)
    return replace(settings, skip=(*settings.skip, *added))
