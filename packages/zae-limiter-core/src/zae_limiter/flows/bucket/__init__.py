"""One bucket: its queue's runs, and every write that changes it.

A process imports what splits a bucket, moves its anchor, changes a quota or reads it as a whole when it first does so.
"""

from typing import TYPE_CHECKING

from ...runtime.rooms import on_first_use

if TYPE_CHECKING:
    from . import anchors as anchors
    from . import reading as reading
    from . import splitting as splitting
    from . import use_kept as use_kept
else:
    __getattr__ = on_first_use(__name__)
