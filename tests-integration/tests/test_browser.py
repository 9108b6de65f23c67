"""What lives here: a real browser on a developer's machine, and what a page in it gets of `zae-limiter local up`.
What never does: the headers that the gate looks at, one by one (test_gate of the CLI).
"""

import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

import pytest

from support.integration.browser import Site, chromium, serving, visit
from support.integration.embedded import Embedded, local_stack
from support.integration.fetch import Unavailable
from zae_limiter_cli.local.credentials import authorization

TEMPLATE: Final = json.dumps({"Resources": {"Evil": {"Type": "AWS::SQS::Queue"}}})
MANIFEST: Final = {"namespace": "evil", "resources": {"r": {"limits": {"rpm": {"capacity": 1}}}}}
# Each tries what it is named after; the page even knows the access key. What is read ends up in the report.
SCRIPT: Final = """
const at = %(at)s, asked = %(asked)s, report = {};
async function read(name, options) {
  try {
    const answer = await fetch(at + asked[name].path, {method: "POST", body: asked[name].body, ...options});
    return answer.type == "opaque" ? "opaque" : answer.status + " " + await answer.text();
  } catch (error) { return "failed"; }
}
function element(tag, name) {
  return new Promise(done => {
    const made = document.createElement(tag);
    made.onload = () => done("loaded");
    made.onerror = () => done("failed");
    made.src = at + asked[name].path;
    document.body.append(made);
  });
}
function form(name) {
  return new Promise(done => {
    const frame = document.createElement("iframe"), made = document.createElement("form");
    frame.name = "to-" + name;
    made.action = at + asked[name].path;
    made.method = "POST";
    made.target = frame.name;
    for (const [key, value] of new URLSearchParams(asked[name].body)) {
      const input = document.createElement("input");
      [input.name, input.value] = [key, value];
      made.append(input);
    }
    document.body.append(frame, made);
    frame.onload = () => {
      try { done("read " + frame.contentDocument.body.textContent); } catch (error) { done("failed"); }
    };
    made.submit();
  });
}
function xhr(name) {
  return new Promise(done => {
    const request = new XMLHttpRequest();
    request.onload = () => done(request.status + " " + request.responseText);
    request.onerror = () => done("failed");
    request.open("POST", at + asked[name].path);
    for (const [key, value] of Object.entries(asked[name].headers)) request.setRequestHeader(key, value);
    request.send(asked[name].body);
  });
}
function socket() {
  return new Promise(done => {
    const made = new WebSocket(at.replace("http", "ws") + "/");
    made.onopen = () => done("open");
    made.onerror = () => done("failed");
  });
}
async function all() {
  for (const name in asked) {
    report[name + " by fetch"] = await read(name, {headers: asked[name].headers});
    report[name + " by fetch, as a form"] = await read(name, {});
    report[name + " by fetch, unread"] = await read(name, {mode: "no-cors"});
    report[name + " by XHR"] = await xhr(name);
    report[name + " by a form"] = await form(name);
    report[name + " by an image"] = await element("img", name);
    report[name + " by a script"] = await element("script", name);
    report[name + " by a beacon"] = String(navigator.sendBeacon(at + asked[name].path, asked[name].body));
  }
  report["a websocket"] = await socket();
  await fetch("/report", {method: "POST", body: JSON.stringify(report)});
}
onload = all;
"""


@pytest.fixture(scope="module")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Embedded]:
    try:
        chromium()
    except Unavailable as reason:
        pytest.skip(str(reason))
    with local_stack(tmp_path_factory.mktemp("state")) as embedded:
        yield embedded


def attacks(embedded: Embedded) -> dict[str, dict[str, Any]]:
    """A scan of the table, a new stack and a call of a function, with the access key where each looks for it."""
    key = embedded.environment["AWS_ACCESS_KEY_ID"]

    def attack(service: str, path: str, body: str, headers: dict[str, str]) -> dict[str, Any]:
        scope = f"?X-Amz-Credential={key}/20200101/us-east-1/{service}/aws4_request"
        signed = {"Authorization": authorization(key, service=service), **headers}
        return {"path": path + scope, "body": body, "headers": signed}

    function = f"/2015-03-31/functions/{embedded.name}-limits-provisioner/invocations"
    stack = urlencode({"Action": "CreateStack", "StackName": "evil", "TemplateBody": TEMPLATE})
    scan = {"X-Amz-Target": "DynamoDB_20120810.Scan", "Content-Type": "application/x-amz-json-1.0"}
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    return {
        "a scan": attack("dynamodb", "/", json.dumps({"TableName": embedded.name}), scan),
        "a call": attack("lambda", function, json.dumps({"action": "apply", "manifest": MANIFEST}), {}),
        "a stack": attack("cloudformation", "/", stack, form),
    }


def everything(embedded: Embedded) -> dict[str, Any]:
    """What an attack would change."""
    table = embedded.client("dynamodb").scan(TableName=embedded.name)["Items"]
    stacks = [each["StackName"] for each in embedded.client("cloudformation").describe_stacks()["Stacks"]]
    return {
        "items": sorted(json.dumps(item, sort_keys=True) for item in table),
        "stacks": stacks,
        "queues": embedded.client("sqs").list_queues().get("QueueUrls", []),
    }


def page(at: str, embedded: Embedded) -> str:
    script = SCRIPT % {"at": json.dumps(at), "asked": json.dumps(attacks(embedded))}
    return f"<!doctype html><title>evil</title><body><script>{script}</script>"


def test_a_page_of_another_site_gets_nothing_and_changes_nothing(embedded: Embedded, tmp_path: Path) -> None:
    before = everything(embedded)
    with serving(Site(page(embedded.endpoint_url, embedded))) as site:
        report = visit(site, tmp_path / "profile")
    unread = {name: told for name, told in report.items() if not name.endswith((" unread", " by a beacon", " a form"))}
    assert set(unread.values()) == {"failed"}, report
    assert {told for name, told in report.items() if name.endswith(", unread")} == {"opaque"}  # sent, and refused
    assert everything(embedded) == before


def test_a_page_whose_name_leads_to_the_stack_gets_nothing_and_changes_nothing(
    embedded: Embedded, tmp_path: Path
) -> None:
    before = everything(embedded)
    site = Site("", rebound=embedded.endpoint_url)
    with serving(site):
        site.page = page(f"http://evil.example:{site.port}", embedded)
        report = visit(site, tmp_path / "profile")
    answered = {name: told for name, told in report.items() if "by fetch" in name or "by XHR" in name}
    refusal = "403 the local AWS of zae-limiter "
    assert all(told.startswith(refusal) for told in answered.values()), report
    assert report["a websocket"] == "failed"
    assert everything(embedded) == before


def send(embedded: Embedded, attack: dict[str, Any], headers: dict[str, str]) -> str:
    """The answer to an attack of a program, which is not an attack."""
    url = embedded.endpoint_url + attack["path"]
    with urllib.request.urlopen(urllib.request.Request(url, attack["body"].encode(), headers)) as answer:
        told: str = answer.read().decode()
    return told


def test_the_same_requests_of_a_program_that_has_the_key_do_what_they_say(embedded: Embedded) -> None:
    before, asked = everything(embedded), attacks(embedded)
    answers = {name: send(embedded, attack, attack["headers"]) for name, attack in asked.items()}
    assert '"Items"' in answers["a scan"]
    assert json.loads(answers["a call"])["status"] == "applied"
    assert json.loads(send(embedded, asked["a call"], {"Content-Type": "text/plain"}))["status"] == "applied"
    after = everything(embedded)
    assert set(before["items"]) < set(after["items"])
    assert "evil" in after["stacks"]
