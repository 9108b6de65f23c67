"""The manifest package: text, parsed documents, and every format that is read back."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from hypothesis import strategies as st

from support.manifest.any_input import TOKENS, plain_values
from support.manifest.manifests import manifests, situations
from zae_limiter_manifest import (
    Answer,
    FormatError,
    LimitsManifest,
    ManifestError,
    Plan,
    Request,
    StackProperties,
    compute_diff,
    dump,
    load,
    load_all,
    plans_hash,
    unpack,
)
from zae_limiter_manifest.packing import LARGEST_REQUEST
from zae_limiter_manifest.render import as_json, as_markdown, as_text

from .. import mistakes
from ..batches import Surface
from ..judging import Tally, Unclean, bounded, check_text, judging
from ..junk import damaged, damaged_text, json_junk
from ..packs import packed, unpack_bombs

Read = Callable[[Any], Any]

sound_texts = manifests.map(dump)
bombs = st.sampled_from([
    "[" * 200_000,
    "{a: " * 50_000,
    "a: &a [*a]",
    "\n".join(["a0: &a0 [x]", *(f"a{n}: &a{n} [{', '.join(4 * [f'*a{n - 1}'])}]" for n in range(1, 12))]),
    "- " * 100_000,
    "a: " + "9" * 4_000_000,
    "namespace: a\nresources:\n" + "".join(f"  r{n}: {{limits: {{rpm: {{capacity: 1}}}}}}\n" for n in range(3000)),
])  # fmt: skip
plans = situations().map(lambda made: compute_diff(made[0], made[1], managed=made[2]))
requests = manifests.map(lambda made: Request.of("apply", made, principal="ann", lock_timeout=5).to_dict())


def _manifest(raw: Any) -> None:
    _same(LimitsManifest.from_dict(raw))


def _with_marked_levels(manifest: LimitsManifest, word: str, mark: Any) -> dict[str, Any]:
    """The manifest, whose every level has a mark, which its limits may contradict, or seconds that may not fit."""
    plain = manifest.to_dict()
    resources = [plain, *plain.get("entities", {}).values()]
    levels = [level for each in resources for level in each.get("resources", {}).values()]
    for level in (*levels, *([plain["system"]] if "system" in plain else [])):
        level[word] = mark
    return plain


def _properties(raw: Any) -> None:
    _same(StackProperties.from_dict(raw).manifest)


def _text(text: Any) -> None:
    _same(load(text))
    load_all([("a.yaml", text), ("b.yaml", text)])


def _same(manifest: LimitsManifest) -> None:
    if load(dump(manifest)) != manifest:
        raise Unclean(f"what is dumped is read as something else: {dump(manifest)!r}")


def _plan(raw: Any) -> None:
    plan = Plan.from_dict(raw)
    if Plan.from_dict(plan.to_dict()) != plan:
        raise Unclean("the plan is read back as another one")
    plans_hash([plan])
    for render in (as_json, as_markdown, as_text):
        render.render_plan(plan)


def _packed(raw: Any) -> None:
    Request.from_dict(unpack([raw], largest=LARGEST_REQUEST))


READERS: tuple[tuple[Read, st.SearchStrategy[Any]], ...] = (
    (_text, damaged_text(sound_texts, TOKENS)),
    (_text, st.lists(st.sampled_from(TOKENS), max_size=25).map("".join)),
    (_text, st.text(st.characters(exclude_categories=[])) | st.binary(max_size=40)),
    (_text, bombs | mistakes.texts),
    (_manifest, damaged(manifests.map(LimitsManifest.to_dict)) | plain_values),
    (_manifest, st.builds(_with_marked_levels, manifests, st.just("shadow"), st.booleans() | json_junk)),
    (_manifest, st.builds(_with_marked_levels, manifests, st.just("prefetch"), st.floats(0, 4000) | json_junk)),
    (_properties, damaged(manifests.map(lambda made: StackProperties(made).to_dict()))),
    (_plan, damaged(plans.map(Plan.to_dict))),
    (Answer.from_dict, damaged(plans.map(lambda plan: Answer.planned(plan).to_dict()))),
    (Request.from_dict, damaged(requests) | json_junk),
    (lambda raw: unpack([raw], largest=1_000_000), damaged(requests.map(packed)) | unpack_bombs),
    (_packed, mistakes.requests),
)  # fmt: skip


@contextmanager
def opened() -> Iterator[Surface]:
    """Each reader, with input of its own kind."""

    def feed(drawn: tuple[int, Any], tally: Tally) -> None:
        number, value = drawn
        with bounded(), judging(tally, FormatError):
            try:
                READERS[number][0](value)
            except ManifestError as error:
                for problem in error.problems:
                    check_text(str(problem))
                raise FormatError("refused") from error

    yield Surface(st.one_of([st.tuples(st.just(n), each) for n, (_, each) in enumerate(READERS)]), feed)
