"""How a question is answered behind the protocol, whoever asks it: once there are words to search, and the model where it comes in time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from thumbindex.serve.background import Background, never, tell_nobody
from thumbindex.serve.budget import Reply
from thumbindex.serve.replies import reply_query

if TYPE_CHECKING:
    from thumbindex.model import Progress
    from thumbindex.serve.sight import Sight


def ask(
    background: Background | Sight,
    arguments: Mapping[str, Any],
    tell: Callable[[Progress], None] = tell_nobody,
    interrupted: Callable[[], bool] = never,
) -> Reply:
    """Answer a question once there are words to search, and the model where it comes in time."""
    background.await_words(tell=tell, interrupted=interrupted)
    background.await_model(interrupted)
    return reply_query(background.library(), arguments, background.progress, tell, interrupted, lambda: background.is_attended)
