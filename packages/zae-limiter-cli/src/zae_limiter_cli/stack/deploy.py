"""Deploy the stack, the code, the version record, and the namespace `default`."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any, Literal

from ..artifacts.builder import LAMBDAS, Artifact, LambdaName, build_artifact
from ..connection import Connection
from ..errors import CommandError
from ..progress import Reporter
from . import cloudformation, record
from .cloudformation import Stack
from .code import Function, Outcome, find_function, function_name, upload
from .events import Event, Follower, failure, way_out
from .options import StackOptions, check_stack_name, emulator_host, flag
from .ownership import check_ours
from .replicas import refuse_replicas
from .template.build import METADATA, plain
from .template.parameters import options_of

Action = Literal["created", "updated", "unchanged"]


@dataclass(frozen=True, slots=True)
class DeployRequest:
    """The operator's options; ``None`` for one that was left out, which keeps its value."""

    options: Mapping[str, Any] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)
    allow_downgrade: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """The stack to deploy: rendered, beside what exists; ``stack`` is ``None`` if there is none yet."""

    stack: Stack | None
    options: StackOptions
    tags: Mapping[str, str]
    template: Mapping[str, Any]
    equal: bool
    address: str | None = None

    @property
    def source(self) -> cloudformation.Source:
        """The template as a request has it: by its address where it is in a bucket."""
        body = {"TemplateBody": cloudformation.body_of(self.template)}
        return body if self.address is None else {"TemplateURL": self.address}

    @property
    def bucket_left(self) -> str | None:
        """The archive's bucket, if the stack has one now and shall have none: it stays, outside the stack."""
        if self.stack is None or cloudformation.ARCHIVE_OUTPUT in self.template["Outputs"]:
            return None
        return self.stack.archive_bucket


@dataclass(frozen=True, slots=True)
class Deployed:
    """The result of a deployment."""

    action: Action
    stack: Stack
    options: StackOptions
    code: Mapping[LambdaName, Outcome]
    versions: Mapping[LambdaName, str]
    recorded: bool
    default_namespace: bool
    bucket_left: str | None = None

    @property
    def changed(self) -> bool:
        """Whether anything differs from before."""
        return self.action != "unchanged" or bool(self.changed_beside)

    @property
    def changed_beside(self) -> list[str]:
        """What changed outside CloudFormation."""
        uploaded = [f"code of the {name}" for name, outcome in self.code.items() if outcome == "uploaded"]
        return [*uploaded, *(["version record"] if self.recorded else [])]


def make_plan(client: Any, name: str, request: DeployRequest) -> Plan:
    """Return the stack to deploy, from what exists and what was asked for. Raises ``CommandError`` if it cannot be."""
    stack = cloudformation.find(client, name)
    if stack is not None:
        _check_deployable(client, stack)
    before = {} if stack is None else cloudformation.template_of(client, name)
    earlier = earlier_options(before, stack)
    options = earlier.changed(**request.options)
    if stack is not None:
        _check_lock(name, earlier, options)
        _check_warmth(name, earlier, options)
    tags = {**({} if stack is None else _own_tags(stack)), **request.tags}
    template = plain(name, options)
    equal = stack is not None and template == before and tags == _own_tags(stack)
    return Plan(stack, options, tags, template, equal)


def _check_deployable(client: Any, stack: Stack) -> None:
    check_ours(client, stack)
    if not stack.usable:
        raise CommandError(f"stack {stack.name} is {stack.status}: {way_out(stack)}")


def _check_lock(name: str, earlier: StackOptions, options: StackOptions) -> None:
    """Raise ``CommandError`` if the existing archive would get or lose Object Lock: neither works on a bucket in
    use.
    """
    stays = all(each.aggregator and each.archive for each in (earlier, options))
    locked = earlier.archive_lock != "off"
    if not stays or locked == (options.archive_lock != "off"):
        return
    why = "has Object Lock, which S3 never turns off" if locked else "was made without, and what it has stays unlocked"
    again = f"zae-limiter deploy --name {name}"
    lock = f"--archive-lock {options.archive_lock}"
    raise CommandError(
        f"{lock}: the archive of stack {name} {why}. Nothing was changed. For a new archive run "
        f"`{again} --no-archive`, then `{again} --archive {lock}`: the bucket that is there leaves the stack, and "
        "stays with its events"
    )


def _check_warmth(name: str, earlier: StackOptions, options: StackOptions) -> None:
    """Raise ``CommandError`` for less warm throughput than before, which DynamoDB refuses."""
    for option in ("warm_reads", "warm_writes"):
        before, now = getattr(earlier, option), getattr(options, option)
        if 0 < now < before:
            raise CommandError(
                f"{flag(option)} {now}: stack {name} has {before}, and DynamoDB never takes warm throughput back. "
                f"Nothing was changed: pass {before} or more, or 0 to leave it as it is"
            )


def deploy(connection: Connection, request: DeployRequest, report: Reporter) -> Deployed:
    """Bring the stack to the requested form, as ``carry_out`` does."""
    return carry_out(connection, *begin(connection, request), report)


def carry_out(connection: Connection, client: Any, plan: Plan, report: Reporter) -> Deployed:
    """Bring the stack to its plan, with our code and record; ``report`` gets the progress.

    Raises ``CommandError`` and errors of the SDK.
    """
    artifacts = build_artifacts(plan.options)  # before anything is changed: they may be impossible
    action, stack = _settle(client, connection.name, plan, report)
    return replace(finish(connection, stack, plan.options, action, artifacts, report), bucket_left=plan.bucket_left)


def upgrade_code(connection: Connection, stack: Stack, options: StackOptions, report: Reporter) -> Deployed:
    """Bring the stack, as it is, to our code and record. Raises the errors of ``deploy``."""
    return finish(connection, stack, options, "unchanged", build_artifacts(options), report)


def begin(connection: Connection, request: DeployRequest) -> tuple[Any, Plan]:
    """Return a client and the plan; refuse a plan that would downgrade by accident."""
    check_stack_name(connection.name)  # before anybody asks for credentials
    client = connection.client("cloudformation")
    plan = make_plan(client, connection.name, request)
    if plan.stack is None:  # there may be a table, and CloudFormation would not say whose it is
        with connection.open_table() as table:
            record.read_record(table)
    else:
        refuse_replicas(connection)
        with connection.open_table() as table:
            found = record.known_record(table, connection.name)
        if not request.allow_downgrade:
            record.refuse_downgrade(connection.name, found)
        record.refuse_unusable(connection.name, found)
    return client, replace(plan, address=None if plan.equal else _put(connection, plan))


def check_unchanged(client: Any, name: str, plan: Plan) -> None:
    """Raise ``CommandError`` if the stack has been changed since the plan was made, as while a question waits."""
    if cloudformation.find(client, name) != plan.stack:
        raise CommandError(f"stack {name} has been changed meanwhile. Nothing was changed: run the command again")


def _put(connection: Connection, plan: Plan) -> str | None:
    """Put a template that no request holds into the bucket for it, and return its address; ``None`` if a request does.

    Raises ``CommandError`` without a bucket.
    """
    body, bucket = cloudformation.body_of(plan.template).encode(), plan.options.template_bucket
    if len(body) <= cloudformation.LARGEST_BODY:
        return None
    if not bucket:
        raise CommandError(
            f"the template has {len(body):,} bytes, and a request of CloudFormation holds "
            f"{cloudformation.LARGEST_BODY:,}. Nothing was changed: pass --template-bucket, the name of a bucket of "
            "this region that you may write, or switch something off, such as --no-dashboard or --no-app-roles"
        )
    client, key = connection.client("s3"), f"zae-limiter/{connection.name}-{sha256(body).hexdigest()[:16]}.json"
    client.put_object(Bucket=bucket, Key=key, Body=body, ContentType="application/json")
    # Emulators find their bucket by an address of AWS, and not all by one of their own.
    at_aws = emulator_host(client.meta.endpoint_url) is None
    host = client.meta.endpoint_url if at_aws else f"https://s3.{client.meta.region_name}.amazonaws.com"
    return f"{host}/{bucket}/{key}"


def start(client: Any, name: str, plan: Plan) -> Action:
    """Start CloudFormation; do not wait for an operation that runs already."""
    protected = plan.options.deletion_protection
    if plan.stack is None:
        cloudformation.create(client, name, plan.source, plan.tags, protected=protected)
        return "created"
    turned = cloudformation.protect(client, plan.stack, protected=protected)
    updated = not plan.equal and cloudformation.update(client, name, plan.source, plan.tags)
    return "updated" if turned or updated else "unchanged"


def build_artifacts(options: StackOptions) -> list[Artifact]:
    """Build the code of the Lambdas that the stack shall have."""
    return [build_artifact(name) for name in lambdas_of(options)]


def upload_code(connection: Connection, artifacts: Sequence[Artifact], report: Reporter) -> dict[LambdaName, Outcome]:
    """Upload the code of each Lambda, and return the outcomes. Raises ``CommandError`` before the first upload if one
    is missing.
    """
    client = connection.client("lambda")
    functions = [_function(client, connection.name, artifact.name) for artifact in artifacts]
    outcomes: dict[LambdaName, Outcome] = {}
    for artifact, function in zip(artifacts, functions, strict=True):
        if function.code_sha256 != artifact.code_sha256:
            report(f"uploading the code of {function.name}, {len(artifact.content) / 1e6:.1f} MB")
        outcomes[artifact.name] = upload(client, function, artifact)
    return outcomes


def _function(client: Any, stack: str, name: LambdaName) -> Function:
    if function := find_function(client, function_name(stack, name)):
        return function
    way = f"run `zae-limiter deploy --name {stack}`, or deploy the template of `zae-limiter cfn-template` again"
    raise CommandError(f"there is no Lambda {function_name(stack, name)}: {way}")


def lambdas_of(options: StackOptions) -> list[LambdaName]:
    """Return the Lambdas that are switched on."""
    return [name for name in LAMBDAS if getattr(options, name)]


def earlier_options(template: Mapping[str, Any], stack: Stack | None) -> StackOptions:
    """Return the options that a stack has."""
    return StackOptions.kept(options_in(template, stack))


def options_in(template: Mapping[str, Any], stack: Stack | None) -> dict[str, Any]:
    """Return the options of a template, unchecked: what differs from the defaults, by its parameters if it has any."""
    chosen = template.get("Metadata", {}).get(METADATA, {}).get("Options", {})
    given = {} if stack is None else options_of(stack.parameters)
    return {**chosen, **given}


def finish(
    connection: Connection,
    stack: Stack,
    options: StackOptions,
    action: Action,
    artifacts: Sequence[Artifact],
    report: Reporter,
) -> Deployed:
    """Do what CloudFormation does not: code, version record, the namespace `default`. Raises ``CommandError``."""
    try:
        code = upload_code(connection, artifacts, report)
        with connection.open_table() as table:
            recorded, default = record.write_record(table, connection.name), record.register_default(table)
    except KeyboardInterrupt:
        rest = f"run `zae-limiter upgrade --code-only --name {connection.name}`, which does the rest"
        raise CommandError(f"interrupted while uploading Lambda code: {rest}") from None
    versions = {artifact.name: artifact.version for artifact in artifacts}
    return Deployed(action, stack, options, code, versions, recorded, default)


def _settle(client: Any, name: str, plan: Plan, report: Reporter) -> tuple[Action, Stack]:
    follower = _follower(client, name, plan.stack, lambda event: report(str(event)))
    action = start(client, name, plan)
    if action == "unchanged" and plan.stack is not None:
        return action, plan.stack
    stack = follower.wait()
    if stack is None:
        raise CommandError(f"stack {name} is gone: it was deleted meanwhile")
    if not stack.well:
        raise failure(stack, action, follower.failures)
    return action, stack


def _follower(client: Any, name: str, stack: Stack | None, report: Callable[[Event], None]) -> Follower:
    return Follower(client, name, report) if stack is None else Follower.of(client, stack, report)


def _own_tags(stack: Stack) -> dict[str, str]:
    """Return the tags that an operator may have set."""
    return {
        key: value
        for key, value in stack.tags.items()
        if key != cloudformation.STACK_TAG and not key.startswith("aws:")
    }
