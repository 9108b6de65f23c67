"""The async repository's methods for what the stack and the provisioner remember.

Lives here: a list of methods, each a flow and its checks. Never: a rule.
"""

import secrets

from ..flows import provisioner, versions
from ..provisioner import ProvisionerState
from ..versions import VersionRecord
from .running import Running


class StateMethods(Running):
    """The versions of the stack, and the state of the provisioner."""

    async def get_version_record(self) -> VersionRecord | None:
        """What the stack says of its versions; ``None`` where it says nothing, which fits every client."""
        return await self._run(versions.get_version_record())

    async def set_version_record(self, record: VersionRecord) -> None:
        """Replace what the stack says of its versions, for all namespaces; every open checks it."""
        await self._run(versions.set_version_record(versions.checked_record(record)))

    async def get_provisioner_state(self) -> ProvisionerState:
        """What the provisioner manages of this namespace; an empty state where there is none."""
        return await self._run(provisioner.get_state(self.scope))

    async def put_provisioner_state(self, state: ProvisionerState, *, expected_serial: int) -> ProvisionerState:
        """The state as it is stored now, under the serial after the expected one, whatever ``state.serial`` is.

        ``expected_serial`` is that of the state it replaces, 0 for none. Raises ``StaleStateError`` where that is
        another by now, and ``ValidationError``.
        """
        checked = provisioner.checked_state(state, expected_serial)
        tag = secrets.randbits(39)
        put = provisioner.put_state(self.scope, checked, expected_serial=expected_serial, tag=tag)
        return await self._run(put)
