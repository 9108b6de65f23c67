"""The records beside the buckets: entities, limits, usage, audit events, namespaces, versions.

A process imports the flows of its calls, each with the first: an acquire needs none of them.
"""

from typing import TYPE_CHECKING

from ...runtime.rooms import on_first_use

if TYPE_CHECKING:
    from . import audit as audit
    from . import bucket_admin as bucket_admin
    from . import entities as entities
    from . import last_calls as last_calls
    from . import levels as levels
    from . import listing as listing
    from . import managed_entities as managed_entities
    from . import many_levels as many_levels
    from . import provisioner_state as provisioner_state
    from . import registry as registry
    from . import usage as usage
else:
    __getattr__ = on_first_use(__name__)
