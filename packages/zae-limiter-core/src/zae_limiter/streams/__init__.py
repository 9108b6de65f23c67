"""Streams that end in time: a lease that takes more while tokens flow, piece by piece, and is settled for what flowed.

``Pieces`` is for the event loop, ``SyncPieces`` for threads. ``zae_limiter.integrations.cut`` counts the streams of
language models with them, and ends one in the form of its API.
"""

from typing import TYPE_CHECKING, Final

from ..runtime.rooms import on_first_use

if TYPE_CHECKING:
    from .aio.pieces import Pieces as Pieces
    from .sync.pieces import SyncPieces as SyncPieces
else:
    __getattr__ = on_first_use(__name__, {"Pieces": "aio.pieces", "SyncPieces": "sync.pieces"})

__all__: Final = ["Pieces", "SyncPieces"]
