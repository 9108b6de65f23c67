"""The public values, checked where they are made.

A process imports those that few limits have, such as schedules, when it meets the first.
"""

from typing import TYPE_CHECKING

from ..runtime.rooms import on_first_use

if TYPE_CHECKING:
    from . import alerts as alerts
    from . import limit_text as limit_text
    from . import overrides as overrides
    from . import provisioner as provisioner
    from . import schedules as schedules
    from . import slots as slots
    from . import stats as stats
    from . import timetables as timetables
else:
    __getattr__ = on_first_use(__name__)
