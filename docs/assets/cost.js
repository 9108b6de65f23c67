// The calculator of docs/operate/cost.md. tools/website/cost.py has the same arithmetic in Python; a test compares them.

function month(load, prices) {
  const writes = (load.calls * load.writes) / Math.max(load.together, 1);
  const reads = Math.min(load.calls, (load.processes * load.buckets) / 60) * prices.unitsPerRead;
  const window = Math.max(load.window, 1);
  const counted = load.aggregator
    ? 2 * Math.min(writes, load.buckets / window) + Math.min(writes, load.buckets / 3600)
    : 0;
  const batches = load.aggregator ? prices.seconds / window : 0;
  const dollars = {
    decisions: writes * prices.seconds * prices.write,
    limits: reads * prices.seconds * prices.read,
    usage: counted * prices.seconds * prices.write,
    lambda: (load.aggregator ? prices.lambda : 0) + batches * prices.invocation,
    storage: load.gigabytes * (prices.stored + (load.backups ? prices.backedUp : 0)),
    alarms: load.alarms ? prices.alarms : 0,
  };
  dollars.total = Object.values(dollars).reduce((sum, each) => sum + each, 0);
  return dollars;
}

const FIELDS = [
  ["calls", "Calls a second, on average", 100],
  ["together", "Calls that share a write (1: none)", 1],
  ["processes", "Processes that acquire", 10],
  ["buckets", "Buckets in use at a time", 1000],
  ["window", "Batch window of the aggregator, seconds", 2],
  ["gigabytes", "GB in the table", 1],
];
const SWITCHES = [
  ["aggregator", "Usage is counted (aggregator)"],
  ["backups", "Continuous backups"],
  ["alarms", "Alarms"],
];
const PAID_FOR = {
  decisions: "Decisions",
  limits: "Reading limits, at most",
  usage: "Counting usage, at most",
  lambda: "Lambda, one shard of the stream, at most",
  storage: "Storage and backups",
  alarms: "Alarms",
  total: "A month",
};

function element(name, attributes, ...children) {
  const made = Object.assign(document.createElement(name), attributes);
  made.append(...children);
  return made;
}

function calculator(place) {
  const { prices, kinds } = JSON.parse(place.dataset.cost);
  const writes = element("select", { id: "cost-writes" });
  for (const [kind, units] of Object.entries(kinds)) {
    writes.append(element("option", { value: units, selected: units === 2 }, kind));
  }
  const numbers = FIELDS.map(([name, , value]) =>
    element("input", { id: `cost-${name}`, type: "number", min: 0, step: "any", value }),
  );
  const switches = SWITCHES.map(([name]) => element("input", { id: `cost-${name}`, type: "checkbox", checked: true }));
  const labels = [
    element("label", {}, "A decision", writes),
    ...FIELDS.map(([, text], index) => element("label", {}, text, numbers[index])),
    ...SWITCHES.map(([, text], index) => element("label", { className: "cost-switch" }, switches[index], text)),
  ];
  const result = element("dl", { id: "cost-result" });
  const form = element("form", { id: "cost-form" }, ...labels);

  function show() {
    const load = { writes: Number(writes.value) };
    FIELDS.forEach(([name], index) => (load[name] = Math.max(Number(numbers[index].value) || 0, 0)));
    SWITCHES.forEach(([name], index) => (load[name] = switches[index].checked));
    const dollars = month(load, prices);
    const rows = Object.entries(PAID_FOR).map(([name, text]) => [text, dollars[name]]);
    const calls = load.calls * prices.seconds;
    if (calls > 0) rows.push(["A million calls", (dollars.total / calls) * 1e6]);
    const cells = rows.flatMap(([text, amount]) => [element("dt", {}, text), element("dd", {}, money(amount))]);
    result.replaceChildren(...cells);
  }

  form.addEventListener("input", show);
  form.addEventListener("submit", (event) => event.preventDefault());
  place.append(form, result);
  show();
}

function money(amount) {
  return `$${amount.toLocaleString("en-US", { minimumFractionDigits: 2, maximumFractionDigits: 2 })}`;
}

if (typeof document !== "undefined") {
  const place = document.getElementById("cost-calculator");
  if (place) calculator(place);
} else {
  module.exports = { month }; // for the test, in Node.js
}
