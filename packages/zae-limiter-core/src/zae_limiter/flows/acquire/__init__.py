"""Acquire and lease: claims, choice of shards, cascade, and statuses.

A process imports what most acquires do not need when one does: the looks at several shards, refusals, waits, overflows,
the lease.
"""

from typing import TYPE_CHECKING

from ...runtime.rooms import on_first_use

if TYPE_CHECKING:
    from . import copies as copies
    from . import early as early
    from . import inspection as inspection
    from . import lease as lease
    from . import outdated as outdated
    from . import overflow as overflow
    from . import statuses as statuses
    from . import taking as taking
    from . import waiting as waiting
else:
    __getattr__ = on_first_use(__name__)
