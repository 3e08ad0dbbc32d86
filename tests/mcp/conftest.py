"""The small vault for the tests in this folder."""

from small_vault import *  # noqa: F403
