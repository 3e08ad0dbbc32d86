"""Some of the chunks of a snapshot, as a mask over all of them: what an index in one process
searches by.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from thumbindex.model import ChunkId
from thumbindex.ports import Mask, Selection

if TYPE_CHECKING:
    from typing import Self


class MaskSelection(Selection):
    """Selection as a mask, shape (chunks,); `document_ids` says of which document each chunk is a
    part, ascending.
    """

    def __init__(self, mask: Mask, document_ids: npt.NDArray[np.int64]) -> None:
        self.mask = mask
        self._of = document_ids

    def __len__(self) -> int:
        return int(np.count_nonzero(self.mask))

    def among(self, chunks: Sequence[ChunkId]) -> Mask:
        if isinstance(chunks, range):
            return self.mask[chunks.start : chunks.stop]
        return self.mask[np.array(chunks, dtype=np.int64)]

    def first(self, most: int) -> Sequence[ChunkId]:
        return [ChunkId(n) for n in np.flatnonzero(self.mask)[:most].tolist()]

    def of_documents(self) -> Self:
        whole = np.zeros(int(self._of[-1]) + 1 if len(self._of) else 0, dtype=np.bool_)
        whole[self._of[self.mask]] = True
        return self._made(whole[self._of])

    def __and__(self, other: Selection) -> Self:
        return self._made(self.mask & mask_of(other))

    def __or__(self, other: Selection) -> Self:
        return self._made(self.mask | mask_of(other))

    def __sub__(self, other: Selection) -> Self:
        return self._made(self.mask & ~mask_of(other))

    def _made(self, mask: Mask) -> Self:
        return type(self)(mask, self._of)


def mask_of(selection: Selection) -> Mask:
    """Return the mask of a selection of a snapshot in this process."""
    if not isinstance(selection, MaskSelection):
        raise TypeError(f"{selection!r} is a selection of another kind of index.")
    return selection.mask
