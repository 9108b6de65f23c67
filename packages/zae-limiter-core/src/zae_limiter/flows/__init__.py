"""Generators that decide what to do next. All policy of the limiter is here, without a client, a clock, a pause or a
logger.

A process imports what reads whole indexes when it first does so.
"""

from typing import TYPE_CHECKING

from ..runtime.rooms import on_first_use

if TYPE_CHECKING:
    from . import index_rows as index_rows
    from . import partitions as partitions
else:
    __getattr__ = on_first_use(__name__)
