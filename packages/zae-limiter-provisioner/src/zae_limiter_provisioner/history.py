"""Keep each apply in the history of its namespace: before its first change, and again with what came of it."""

import logging
from dataclasses import dataclass, replace

from zae_limiter import SyncRepository, ZAELimiterError
from zae_limiter.maintenance import begin_apply, end_apply, list_applies, read_apply, run
from zae_limiter.values.provisioner import ApplyRecord
from zae_limiter_manifest import Answer, ApplyEntry, FormatError, LimitsManifest, ManifestError, compress, decompress

from .apply_options import ApplyOptions
from .planning import answer_header, iso_time
from .refusals import Refused
from .writing import WriteOutcome

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class KeptApply:
    """One apply in the history, whose manifest has so many ``parts``."""

    repository: SyncRepository
    record: ApplyRecord
    parts: int

    @classmethod
    def begin(
        cls, repository: SyncRepository, manifest: LimitsManifest, options: ApplyOptions, *, serial: int, at_ms: int
    ) -> "KeptApply":
        """Keep an apply that is about to change something; ``serial`` is that of the state that it will leave."""
        record = ApplyRecord(
            serial,
            iso_time(at_ms),
            options.owner,
            manifest.canonical_hash(),
            principal=options.kept_as(),
            source=options.source,
            targets=options.targets,
        )
        begin = begin_apply(repository.namespace_state, record, compress(manifest))
        return cls(repository, record, run(repository, begin))

    def end(self, outcome: WriteOutcome) -> None:
        """Keep what came of it. If that fails, the history says that the apply has not ended; its changes are made."""
        actions = [change.action for change in outcome.made]
        record = replace(
            self.record,
            created=actions.count("create"),
            updated=actions.count("update"),
            deleted=actions.count("delete"),
            failed=sum(failure.address is not None for failure in outcome.failures),
            left=len(outcome.left),
            ended=True,
        )
        try:
            run(self.repository, end_apply(self.repository.namespace_state, record, self.parts))
        except ZAELimiterError as error:
            logger.warning("the outcome of the apply %d is not in the history: %s", record.serial, error)


def answer_history(repository: SyncRepository) -> Answer:
    """Return the applies that are kept, the last one first."""
    records = run(repository, list_applies(repository.namespace_state))
    return Answer("planned", answer_header(repository), history=tuple(map(_entry, records)))


def answer_show(repository: SyncRepository, serial: int) -> Answer:
    """Return an apply and its manifest. Raises ``Refused`` if it is not kept, or cannot have been of this apply."""
    found = run(repository, read_apply(repository.namespace_state, serial))
    if found is None:
        message = f"there is no apply {serial} in the history of {repository.name}: `limits status` lists all"
        raise Refused("no_such_apply", message)
    record, content = found
    try:
        manifest = decompress(content)
    except (FormatError, ManifestError) as error:
        message = f"this release cannot read the manifest of the apply {serial}: {error}"
        raise Refused("unreadable_apply", message) from error
    # A tenant may write the items of its own namespace, and the hash in the record: the name is what protects others.
    if manifest.namespace != repository.name:
        raise _changed(serial, f"is of the namespace {manifest.namespace}")
    if manifest.canonical_hash() != record.manifest_hash:
        raise _changed(serial, "has another hash than the one that was kept")
    return Answer("planned", answer_header(repository), manifest=manifest, history=(_entry(record),))


def _changed(serial: int, what: str) -> Refused:
    message = f"the manifest of the apply {serial} {what}: its items were changed; choose another serial"
    return Refused("unreadable_apply", message)


def _entry(record: ApplyRecord) -> ApplyEntry:
    return ApplyEntry(
        record.serial,
        record.at,
        record.owner,
        record.manifest_hash,
        principal=record.principal,
        source=record.source,
        created=record.created,
        updated=record.updated,
        deleted=record.deleted,
        failed=record.failed,
        left=record.left,
        targets=record.targets,
        ended=record.ended,
    )
