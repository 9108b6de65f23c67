"""The async repository's methods for what the stack and the provisioner remember.

Lives here: a list of methods, each a flow and its checks. Never: a rule.
"""

import secrets
from collections.abc import Mapping, Sequence

from ..clock.system import Clock
from ..flows.records import managed_configs as declared
from ..flows.records import provisioner_state as provisioner
from ..flows.records import versions
from ..flows.records.bulk_configs import BulkResult
from ..provisioner import ConfigPlace, ProvisionerState, StoredConfig
from ..versions import VersionRecord
from ..wiring import iso_time
from .flow_runner import FlowRunner


class StateMethods(FlowRunner):
    """The versions of the stack, the state of the provisioner, and the limits of all levels as it sees them."""

    _clock: Clock

    async def get_version_record(self) -> VersionRecord | None:
        """What the stack says of its versions; ``None`` where it says nothing, which fits every client."""
        return await self._run(versions.get_version_record())

    async def set_version_record(self, record: VersionRecord) -> None:
        """Replace what the stack says of its versions, for all namespaces; every open checks it."""
        await self._run(versions.set_version_record(versions.validate_record(record)))

    async def get_provisioner_state(self) -> ProvisionerState:
        """What the provisioner manages of this namespace; an empty state where there is none."""
        return await self._run(provisioner.get_state(self.namespace_state))

    async def put_provisioner_state(self, state: ProvisionerState, *, expected_serial: int) -> ProvisionerState:
        """The state as it is stored now, under the serial after the expected one, whatever ``state.serial`` is.

        ``expected_serial`` is that of the state it replaces, 0 for none. Raises ``StaleStateError`` where that is
        another by now, and ``ValidationError``.
        """
        checked = provisioner.validate_state(state, expected_serial)
        tag = secrets.randbits(39)
        put = provisioner.put_state(self.namespace_state, checked, expected_serial=expected_serial, tag=tag)
        return await self._run(put)

    async def note_applied(self, *, expected_serial: int) -> str:
        """The time that is stored as ``last_applied`` now; all else stays, the serial too.

        Raises ``StaleStateError`` where the state has another serial, and ``ValidationError``.
        """
        at = iso_time(self._clock)
        provisioner.validate_state(ProvisionerState(), expected_serial)
        await self._run(provisioner.note_applied(self.namespace_state, at, expected_serial=expected_serial))
        return at

    async def get_configs(self, places: Sequence[ConfigPlace]) -> dict[ConfigPlace, StoredConfig]:
        """What stands at the places where something does: ``(entity_id, resource)``, either may be ``None``.

        Reads batches of 100, eight at a time. Raises ``ValidationError``.
        """
        checked = declared.validate_config_places(places)
        return await self._run(declared.get_configs(self.namespace_state, checked))

    async def put_configs(
        self, configs: Mapping[ConfigPlace, StoredConfig | None], *, principal: str | None = None
    ) -> BulkResult[ConfigPlace]:
        """Have just this stand at the places, and nothing where there is ``None``; says which could not be changed.

        Transactions of up to 25 places each, eight at a time. Raises ``ValidationError`` before any request.
        """
        checked = declared.validate_configs(configs)
        return await self._run(declared.put_configs(self.namespace_state, checked, self._cause(principal)))

    async def list_config_places(self) -> list[ConfigPlace]:
        """Where limits may stand: the system, and all resources and entities that have some.

        A change of the last moment may be missing.
        """
        return await self._run(declared.list_config_places(self.namespace_state))
