"""Acquire and lease: claims, choice of shards, cascade, and statuses.

A process imports what explains an acquire when it is first asked to.
"""

from typing import TYPE_CHECKING

from ...runtime.rooms import on_first_use

if TYPE_CHECKING:
    from . import inspection as inspection
else:
    __getattr__ = on_first_use(__name__)
