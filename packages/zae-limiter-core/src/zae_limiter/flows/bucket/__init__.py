"""One bucket: its queue's runs, and every write that changes it.

A process imports what reads whole buckets when it first does so.
"""

from typing import TYPE_CHECKING

from ...runtime.rooms import on_first_use

if TYPE_CHECKING:
    from . import reading as reading
else:
    __getattr__ = on_first_use(__name__)
