"""What the users of a process do with it.

Lives here: acquire, the body of a lease, its end; each step by chance. Never: the world around them (world).
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from random import Random
from typing import NamedTuple, Protocol

from zae_limiter.exceptions import ContentionError, RateLimiterUnavailable, ValidationError, ZAELimiterError
from zae_limiter.flows.acquire import lease, pieces, statuses
from zae_limiter.flows.acquire.at_once import GrantAtOnce
from zae_limiter.flows.acquire.claims import Claim, Grant
from zae_limiter.flows.acquire.fallbacks import acquire_with_fallbacks
from zae_limiter.flows.acquire.requests import AcquireRequest, validate_request
from zae_limiter.flows.bucket_queue import BucketRequest
from zae_limiter.flows.process.namespace_state import NamespaceState
from zae_limiter.operations.errors import OUTAGE
from zae_limiter.schema import keys
from zae_limiter.schema.items import BucketId
from zae_limiter.values.draws import Draw
from zae_limiter.values.limit_status import LimitStatus
from zae_limiter.values.limits import MILLI, Limit
from zae_limiter.values.on_refused import OnRefused
from zae_limiter.values.refusal import AccessDisabled, RateLimitExceeded
from zae_limiter.values.resolution import Config

from .accounts import Account
from .bucket_items import SLOTS
from .driver import Driver
from .kernel import Cancelled, Kernel, Owner, Script, Task, Violation
from .levels import Levels, Span
from .plan import DEFAULTS, OVERFLOW, Plan
from .switching import Switchboard, Unknown
from .trees import check_path, places
from .used import use, weighed
from .waits import Waits

DEEDS = ("work", "consume", "adjust", "release", "keep", "fail")
SLOW_MS = 4_500  # two requests, both ways, when the network is slow
GOES_BACK_MS = 2_400  # what a clock may go back by when it is corrected


class BodyFailed(Exception):
    """Raised in the body of a lease, to have it rolled back."""


class Refusal(NamedTuple):
    """A refusal: the tokens that were short (entity, resource, limit, tokens), and when its call began and ended."""

    begun_ms: int
    ended_ms: int
    short: list[tuple[str, str, str, int]]


class Process(Owner, Protocol):
    """Where callers live."""

    namespace_state: NamespaceState
    driver: Driver
    shadow: bool
    given: tuple[Limit, ...]


class Caller:
    """One user of a process, who acquires once, for an entity on a resource; 0 of everything, if he ``checks``.

    ``calls``: how often each bucket is to count him; ``refusals``: how often he was refused, by bucket and
    attribute that is to count it, ``perhaps`` where a bucket may have been disabled; ``shadowed``: how often shadow
    limits of a bucket would have.
    """

    def __init__(
        self,
        kernel: Kernel,
        process: Process,
        plan: Plan,
        rng: Random,
        place: tuple[str, str],
        *,
        checks: bool,
        levels: Levels,
        switches: Switchboard,
    ) -> None:
        self.waits = Waits(kernel)
        self.account = Account(self.waits)
        self.place = place
        self.checks = checks
        self._levels = levels
        self._switches = switches
        self._begun_ms = 0
        self.settled = False
        self.buckets = 0
        self.early = False
        self.answer = ""
        self.began = False
        self.degraded = False
        self.refusals: Counter[tuple[tuple[str, str], str]] = Counter()
        self.perhaps: Counter[tuple[tuple[str, str], str]] = Counter()
        self.shadowed: Counter[tuple[str, str]] = Counter()
        self.refusal: Refusal | None = None
        self.max_wait = 0.0
        self.calls: Counter[str] = Counter()  # that took place
        self.streamed = 0
        self._flowed: dict[tuple[Grant, str], int] = {}
        self._kernel = kernel
        self._process = process
        self._plan = plan
        self._rng = rng

    def live(self) -> Script[None]:
        """The caller's life; ``answer`` is what he got out of it. Anything that is not an answer is raised."""
        self.began, begun_ms = True, self._kernel.now_ms
        self._begun_ms = begun_ms
        if not self._plan.certain:
            self.account.expected = None
        request = self._request()
        self.max_wait = request.max_wait
        try:
            yield from self._lease(request)
        except AccessDisabled as error:
            self.answer = "disabled"
            self._check_disabled(request, error)
            self._note_refusal(error)
        except RateLimitExceeded as error:
            self._check_refused(request, error)
            self.answer = "refused" if error.violations and not self._process.shadow else "refused for nothing"
            short = [(each.entity_id, each.resource, each.limit_name, each.requested) for each in error.violations]
            self.refusal = Refusal(begun_ms, self._kernel.now_ms, short)
            self._note_refusal(error)
        except (RateLimiterUnavailable, ContentionError, ValidationError, BodyFailed, Cancelled) as error:
            self.answer = type(error).__name__
        else:
            self.answer = "admitted"

    def _request(self) -> AcquireRequest:
        rng, plan = self._rng, self._plan
        given = self._process.given
        conflicting = bool(given) or rng.random() < plan.conflicting
        limits = given or (rng.choice(plan.limits) if conflicting else plan.limits[0])
        names = rng.sample([limit.name for limit in limits], rng.randint(1, len(limits)))
        amounts = (0,) if self.checks else plan.amounts
        asked = {name: rng.choice(amounts) for name in names}
        if asked.get(SLOTS, 0) > 1:
            asked[SLOTS] = rng.choice((1, 2))
        return validate_request(
            *self.place,
            asked,
            limits=limits if conflicting and plan.deploys != DEFAULTS else None,
            default_limits=limits if plan.deploys == DEFAULTS else (),
            cascade=rng.random() < 0.2,
            on_unavailable="allow" if rng.random() < plan.allowing else "share" if plan.outages else None,
            max_wait=rng.choice(plan.max_waits) if rng.random() < plan.waiting else 0.0,
            shadow=self._process.shadow,
            draws=self._draws(names) if plan.draws and rng.random() < plan.draws else (),
            on_refused=self._policy() if plan.overflows and rng.random() < plan.overflows else None,
        )

    def _policy(self) -> OnRefused:
        early = self._plan.early
        return OnRefused(overflow=OVERFLOW, at=f"{early}%" if early else None)

    def _draws(self, names: Sequence[str]) -> list[Draw]:
        """Some further buckets, by the amounts of the call or by others."""
        rng, plan = self._rng, self._plan
        drawn: dict[tuple[str, str], Draw] = {}
        for _ in range(rng.choice((1, 1, 2, 3))):
            place = rng.choice([*plan.tree]), rng.choice(plan.resources)
            amounts = {name: rng.choice((0,) if self.checks else plan.amounts) for name in names}
            consume = rng.choice((None, None, amounts))
            drawn[place] = Draw(*place, consume=consume, cascade=rng.choice((None, None, True, False)))
        return [draw for place, draw in drawn.items() if place != self.place]

    def _lease(self, request: AcquireRequest) -> Script[None]:
        process = self._process
        begun_ms, began_ms = self._kernel.now_ms, process.namespace_state.now()
        begun = self.calls.copy(), self.shadowed.copy()
        held = self._process.driver.grant_at_once(request, self.account)
        grant: Grant
        if held is not None:
            grant = held
            self._check_held(held, begun_ms, began_ms)
        else:
            grant = yield from self._acquire(request)
            self._check_acquired(grant, begun_ms, began_ms)
        self._check_grant(grant)
        grant.rollback = self._rng.random() < 0.9
        try:
            yield from self._body(grant)
        except GeneratorExit:
            raise  # the process has crashed
        except BaseException:
            grant.close()
            if grant.rollback:
                self.calls, self.shadowed = begun
                yield from self._roll_back(grant)
            else:
                yield from self._correct(grant)
                self._expect(grant)
            raise
        grant.close()
        yield from self._correct(grant)
        self._expect(grant)

    def _check_acquired(self, grant: Grant, begun_ms: int, began_ms: int) -> None:
        self._check_limits(grant, begun_ms, began_ms)
        for each in grant.all:
            self._note(each, each.request.amounts)

    def _count_call(self, claims: Iterable[Claim], amounts: Mapping[str, int] | None) -> None:
        """Each bucket of which something was taken counts it, an acquire or what a lease takes more; an amount that no
        limit refuses is taken as well.
        """
        for claim in claims:
            asked = claim.asked.values() if amounts is None else [amounts.get(name) for name in _counted(claim)]
            self.calls[claim.home.id.pk[:-2]] += any(asked)

    def _check_grant(self, grant: Grant) -> None:
        self.account.granted = True
        self.degraded = grant.unavailable is not None
        self._count_call(grant.all_claims, None)
        self.buckets = len(grant.all_claims)
        self.early = grant.overflow is not None and grant.overflow.early is not None
        self._check_path(grant)
        self._check_switches(grant)

    def _check_path(self, grant: Grant) -> None:
        asks = not self._plan.switches or all(any(claim.amounts.values()) for claim in grant.all_claims)
        if ("rpm" in grant.shared or not self.degraded) and not self._plan.moves and asks:  # each bucket has it
            with suppress(Unknown):
                check_path(self._plan.tree, grant, self._cascades)

    def _cascades(self, entity: str, resource: str) -> str | None:
        """What a switch says of an entity's parents. Raises ``Unknown``."""
        value: str | None = self._switches.value("cascade", (entity, resource), self._begun_ms, self._kernel.now_ms)
        return value

    def _check_switches(self, grant: Grant) -> None:
        """Raise ``Violation`` if the call was admitted on a bucket that is disabled, or let through by a former switch.

        A limiter in shadow refuses nobody; without an answer of the store, what was known last decides.
        """
        if self._process.shadow or self.degraded or not self._plan.switches or isinstance(grant, GrantAtOnce):
            return
        for claim in grant.all_claims if not self._plan.moves else ():
            if not any(claim.amounts.values()):
                continue  # what asks for 0 goes by what was read before
            place, since, now_ms = (claim.bucket.entity_id, claim.bucket.resource), self._begun_ms, self._kernel.now_ms
            if self._is_unread(place):
                continue
            with suppress(Unknown):
                if self._switches.value("disabled", place, since, now_ms):
                    raise Violation(f"admitted on {place}, which was disabled before")
            with suppress(Unknown):
                if claim.config.shadow and not self._switches.value("bypass", place, since, now_ms):
                    raise Violation(f"let through on {place}, whose bypass had ended before")

    def _is_unread(self, place: tuple[str, str]) -> bool:
        """Whether a read of its switches got no answer since this call began, and none after it did."""
        read = keys.pk_entity("ns", place[0]), keys.pk_resource("ns", place[1]), keys.pk_system("ns")
        unread_ms = self._process.driver.link.unread_ms
        return any(unread_ms.get(pk, 0) >= self._begun_ms for pk in read)

    def _check_disabled(self, request: AcquireRequest, error: AccessDisabled) -> None:
        """Raise ``Violation`` if no bucket of the call was disabled for as long as copies may be old.

        Where the store gave no answer, what was known last decides, however old it is: one was disabled at any time.
        """
        answered = not isinstance(error.__context__, OUTAGE)
        since = self._begun_ms - self._plan.settings.staleness_ms - SLOW_MS if answered else 0
        now_ms = self._kernel.now_ms
        if self._plan.moves:
            return
        with suppress(Unknown):
            drawn = places(self._plan.tree, request, self._cascades)
            if not any(self._switches.all("disabled", drawn, since, now_ms)):
                raise Violation(f"refused by a switch, and none of {drawn} was disabled")

    def _may_be_opened(self) -> bool:
        """Whether a switch lets the call pass its own bucket, as far as copies of it may be old."""
        since = self._begun_ms - self._plan.settings.staleness_ms - SLOW_MS
        try:
            return bool(self._switches.value("bypass", self.place, since, self._kernel.now_ms))
        except Unknown:
            return True

    def _check_refused(self, request: AcquireRequest, error: RateLimitExceeded) -> None:
        """Raise ``Violation`` if a call was refused only by limits that a switch had opened.

        Where a read of the switches got no answer, what was known last decides. A bucket that was not asked, because
        another one refused the call, counts as it was known last, too.
        """
        refused = {(each.entity_id, each.resource) for each in error.violations}
        if refused and all(map(self._was_opened, refused)):
            raise Violation(f"refused by limits of {sorted(refused)}, which a switch opened before")

    def _was_opened(self, place: tuple[str, str]) -> bool:
        """Whether a switch let every call pass a bucket, for as long as copies may be old."""
        old = self._begun_ms - self._plan.settings.staleness_ms - SLOW_MS
        try:
            opened = bool(self._switches.value("bypass", place, old, self._kernel.now_ms))
        except Unknown:
            return False
        return opened and not self._is_unread(place)

    def _check_limits(self, grant: Grant, begun_ms: int, began_ms: int) -> None:
        """Raises ``Violation`` if the acquire was held to limits that were not in force when they may have been read.

        Without an answer, the last known limits hold; an override that has ended is none of them.
        """
        for claim in grant.all_claims:
            if not claim.config.stored or grant.request.shadow or grant.unavailable is not None:
                continue
            at_any_time = claim.stale and not self._plan.faultless
            self._check_config(claim.home.id, claim.config, begun_ms, began_ms, at_any_time=at_any_time)

    def _check_held(self, grant: Grant, begun_ms: int, began_ms: int) -> None:
        """The same for an acquire without a request, whose claims are made when they are needed."""
        if not isinstance(grant, GrantAtOnce):
            self._check_limits(grant, begun_ms, began_ms)
        for claim in grant.claims if isinstance(grant, GrantAtOnce) else ():
            self._check_config(claim.home.id, claim.resolved.config, begun_ms, began_ms, at_any_time=False)

    def _check_config(self, of: BucketId, config: Config, begun_ms: int, began_ms: int, *, at_any_time: bool) -> None:
        plan, now_ms = self._plan, self._process.namespace_state.now()
        back_ms = GOES_BACK_MS if plan.wrong_clocks else 0
        skew_ms = 2 * (plan.skew_ms + back_ms)
        since_ms = 0 if at_any_time else begun_ms - plan.settings.config_ttl_ms - skew_ms
        span = Span(since_ms, self._kernel.now_ms, began_ms - back_ms, now_ms + skew_ms)
        limits = config.marked
        if plan.switches:  # one of them puts all limits in shadow
            limits = tuple(replace(each, shadow=False) for each in limits)
        if not self._levels.may_hold((of.entity_id, of.resource), limits, span):
            raise Violation(f"held to limits that were not in force: {config.marked} in {span}")

    def _acquire(self, request: AcquireRequest) -> Script[Grant]:
        process, begun_ms = self._process, self._kernel.now_ms
        self.waits.begin(request, opened=self._may_be_opened)
        told = process.driver.told(request)
        try:
            grant = yield from process.driver.run(acquire_with_fallbacks(process.namespace_state, told), self.account)
        except RateLimitExceeded as error:
            if not self._plan.wrong_clocks:
                self.waits.check_refusal(error, 2 * self._plan.skew_ms)
            refuses = process.driver.link.seams.refuses
            raise refuses(error) if refuses else error from None
        finally:
            self.waits.end()
        if grant.request.resource == request.resource:  # else the overflow, which has a line of its own
            self.waits.admit()
        if grant.shared:
            process.driver.by_share(grant.claims, grant.shared, checked=True, asked_ms=begun_ms)
        return grant

    def _roll_back(self, grant: Grant) -> Script[None]:
        self._return_to_share(grant, grant.shared)
        yield from self._process.driver.run(lease.roll_back(self._process.namespace_state, grant), self.account)

    def _correct(self, grant: Grant) -> Script[None]:
        self._expect(grant)
        if grant.has_end:
            shared, corrections = grant.shared, grant.corrections
            back = {name: min(amount, -corrections.get(name, 0)) for name, amount in shared.items()}
            self._return_to_share(grant, {name: amount for name, amount in back.items() if amount > 0})
            self.account.keeps = grant.request.on_unavailable == "share"
            yield from self._process.driver.run(lease.correct(self._process.namespace_state, grant), self.account)
            self.account.keeps = False

    def _return_to_share(self, grant: Grant, amounts: Mapping[str, int]) -> None:
        if amounts:
            back = {name: -amount for name, amount in amounts.items()}
            self._process.driver.by_share(grant.claims, back, checked=False, asked_ms=self._kernel.now_ms)

    def _body(self, grant: Grant) -> Script[None]:
        rng = self._rng
        if not self._plan.busy:
            return
        if rng.random() < self._plan.failing:
            for _ in range(rng.choice((0, 0, 1, 5))):
                yield self._kernel.pause(0)
            raise BodyFailed
        if self._plan.streams and rng.random() < self._plan.streams:
            yield from self._stream(rng.choice(grant.all))
            return
        for _ in range(rng.choice((0, 0, 1, 3))):
            part = rng.choice(grant.all) if grant.draws else grant
            limits = sorted(part.request.amounts)
            deeds = (*DEEDS, "settle", "settle") if self._plan.weighs else DEEDS
            deed, amount = rng.choice(deeds), {rng.choice(limits): 1}
            if deed == "work":
                longest = 200_000_000 if rng.random() < self._plan.long_work else 300_000
                yield self._kernel.pause(rng.randint(0, longest))
            elif deed == "consume":
                yield from self._consume(part, amount)
            elif deed == "keep":
                grant.rollback = False
            elif deed == "fail":
                raise BodyFailed
            else:
                yield from self._book(part, deed, amount)

    def _stream(self, grant: Grant) -> Script[None]:
        """Let tokens flow and take them piece by piece, until a piece is refused or all have flowed. An extension may
        still be under way when the block ends.
        """
        rng = self._rng
        name = rng.choice(sorted(grant.request.amounts))
        if name == SLOTS:
            return
        sizes = pieces.Sizes({name: rng.choice((1, 3, 10)) * MILLI}, rng.choice((1.0, 2.0)), 4.0)
        self.streamed += 1
        self._flowed[grant, name] = 0
        pieces.advance(grant, {name: 0})
        for _ in range(rng.choice((1, 3, 8, 20))):
            used = self._flowed[grant, name] + rng.choice((1, 1, 2, 5)) * MILLI
            told = {name: self._process.driver.link.seams.flows(used)}
            while missing := pieces.advance(grant, told):
                if not (yield from self._extend(grant, sizes, missing)):
                    return
            self._flowed[grant, name] = used
            if rng.random() < 0.2:
                yield self._kernel.pause(rng.randint(0, 300_000))
        if rng.random() < 0.3:
            Task(self._kernel, self._process, self._extend(grant, sizes, {name: MILLI}))
            if rng.random() < 0.5:
                yield self._kernel.pause(rng.randint(0, 30_000))

    def _extend(self, grant: Grant, sizes: pieces.Sizes, missing: Mapping[str, int]) -> Script[bool]:
        """Take the next pieces, or what is left of them; return whether they were there."""
        asked = sizes.next(missing)
        refusal = yield from self._take_more(grant, asked, unused=True)
        if isinstance(refusal, RateLimitExceeded) and (rest := sizes.rest(refusal, asked, missing)):
            refusal = yield from self._take_more(grant, rest, unused=True)
        elif refusal is None:
            sizes.took()
        return refusal is None

    def _consume(self, grant: Grant, amounts: dict[str, int]) -> Script[None]:
        try:
            milli = lease.checked(grant, "consume", amounts)
        except ZAELimiterError:  # the body goes on without
            return
        yield from self._take_more(grant, milli)

    def _take_more(
        self, grant: Grant, milli: Mapping[str, int], *, unused: bool = False
    ) -> Script[ZAELimiterError | None]:
        process, begun_ms = self._process, self._kernel.now_ms
        uncounted, shared = grant.uncounted, grant.shared
        known = {request for claim in grant.claims for request in claim.requests}
        flow = lease.consume(process.namespace_state, grant, milli, unused=unused)
        try:
            yield from process.driver.run(flow, self.account)
        except ZAELimiterError as error:  # not admitted: the body goes on without
            if isinstance(error, RateLimitExceeded):
                self._note_refusal(error)
            return error
        if grant.shared is not shared:
            process.driver.by_share(grant.claims, milli, checked=True, asked_ms=begun_ms)
        if grant.uncounted is uncounted:
            self._note(grant, milli, known)
            self._count_call(grant.claims, milli)
        return None

    def _note_refusal(self, error: RateLimitExceeded) -> None:
        """He counts it, by each limit that was short, or by the disable in their place, and so does each bucket that
        was short; the same on the resource that would have served him then.
        """
        overflow = [each for each in error.overflow or () if each.exceeded and not each.limit.shadow]
        for asker, violations in ((error.resource, error.violations), (OVERFLOW, overflow)):
            own = self.place[0], asker or self.place[1]
            short = {((each.entity_id, each.resource), each.limit_name) for each in violations}
            counting = {own, *(place for place, _ in short)} if short else ()
            self.refusals.update((place, "rj") for place in counting)
            limits = {f"rj_{place[0]}/{name}" for place, name in short}
            disables = {f"rj_{place[0]}/disabled" for place, _ in short if self._may_be_disabled(place)}
            sure = set() if disables else limits
            if isinstance(error, AccessDisabled) and asker == error.resource:
                limits, sure = set(), {f"rj_{error.disabled_id}/disabled"}
            self.refusals.update((own, name) for name in sure)
            self.perhaps.update((own, name) for name in (limits | disables) - sure)

    def _may_be_disabled(self, place: tuple[str, str]) -> bool:
        """Whether a switch disabled a bucket at any time."""
        try:
            return bool(self._switches.value("disabled", place, 0, self._kernel.now_ms))
        except Unknown:
            return True

    def _note(self, grant: Grant, amounts: Mapping[str, int], known: Collection[BucketRequest] = ()) -> None:
        shadowed = statuses.shadowed(grant.claims, known)
        counted = [each for each in shadowed if self._counts(grant, each, amounts)]
        self.shadowed.update({(each.entity_id, each.resource) for each in counted})
        if not (self._plan.changes or self._plan.switches or self._process.shadow or grant.request.limits):
            marked = {limit.name for limit in self._plan.limits[0] if limit.shadow}
            if not marked >= {each.limit_name for each in shadowed}:
                raise Violation(f"an enforced limit refused nobody: {shadowed}")

    def _counts(self, grant: Grant, status: LimitStatus, amounts: Mapping[str, int]) -> bool:
        """Whether the bucket was asked for anything: what asks for 0 is not written."""
        place = status.entity_id, status.resource
        [claim] = [each for each in grant.claims if (each.bucket.entity_id, each.bucket.resource) == place]
        return any(amounts.get(name, 0) for name in claim.config.by_name)

    def _settle(self, grant: Grant) -> None:
        """Settle a call for what a model used. Raises ``Violation`` unless the lease holds what that weighs."""
        usage, weights = use(self._rng), {name: dict(each) for name, each in grant.weights.items()}
        if not weights:
            return
        lease.settle(grant, {}, usage)
        self.settled = True
        for name, each in weights.items():
            if name in grant.consumed and grant.consumed[name] != weighed(each, usage):
                raise Violation(f"{usage} counts {grant.consumed[name]} of {name}, by {each}")

    def _book(self, grant: Grant, deed: str, amounts: dict[str, int]) -> Script[None]:
        if deed == "settle":
            self._settle(grant)
            return
        factor = self._rng.choice((1, 5, -1)) if deed == "adjust" else 1
        try:
            if deed == "adjust":
                lease.adjust(grant, deed, {name: factor * amount for name, amount in amounts.items()})
            else:
                freed = lease.release(grant, amounts)
                if freed:
                    yield from self._process.driver.run(lease.free_slots(freed), self.account)
        except ValidationError:
            return  # more than the lease holds, or slots

    def _expect(self, grant: Grant) -> None:
        """What the lease says that it stands for, on every bucket that it drew on."""
        if self.account.expected is not None:
            self.account.expected = {
                (claim.home.key.pk, name): self._flowed.get((each, name), amount)
                for each in grant.all
                for claim in each.claims
                for name, amount in each.consumed.items()
                if name in _counted(claim) and name != SLOTS
            }


def _counted(claim: Claim) -> frozenset[str]:
    """The names of which the bucket counts what is consumed, with a limit or without."""
    return claim.counted_names.union(claim.config.by_name)
