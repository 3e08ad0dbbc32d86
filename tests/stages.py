"""Query settings with stages turned off or on."""

from dataclasses import replace

from thumbindex.settings import QuerySettings


def with_stages(settings: QuerySettings, *stages: str) -> QuerySettings:
    """Turn stages on."""
    return replace(settings, skip=tuple(stage for stage in settings.skip if stage not in stages))


def without_stages(settings: QuerySettings, *stages: str) -> QuerySettings:
    """Turn stages off."""
    added = (stage for stage in stages if stage not in settings.skip)
    return replace(settings, skip=(*settings.skip, *added))
