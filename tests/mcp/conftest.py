"""The small vault, for the tests of this folder."""

from small_vault import *  # noqa: F403
