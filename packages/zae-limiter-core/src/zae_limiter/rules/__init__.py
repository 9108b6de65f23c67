"""What a limit allows, as arithmetic: the only code that knows how a limit mints, and when an amount is reached.

A rule answers two questions about the whole of a limit: how much was ``minted`` up to an instant, and by when a sum is
``reached``. All else follows from them for every rule: a balance with an anchor (``balances``), the share of a shard
and a split (``sharding``), waits, statuses, the life of an idle bucket. ``registry`` has the rules by the kind of the
limit. Amounts are whole millitokens, instants epoch milliseconds: no float decides.

A process imports the rules of the kinds of limits that it has, each with the first.
"""

from typing import TYPE_CHECKING

from ..runtime.rooms import on_first_use

if TYPE_CHECKING:
    from . import calendar as calendar
    from . import first_use as first_use
    from . import quotas as quotas
    from . import schedules as schedules
    from . import total as total
else:
    __getattr__ = on_first_use(__name__)
