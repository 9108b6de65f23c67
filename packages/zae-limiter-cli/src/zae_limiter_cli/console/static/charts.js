// Draws the pictures with ECharts, whose values the server sent, and says each value as the table has it.
// Colours are the variables of the stylesheet: so a scheme, or paper, changes them without drawing anew.
const colour = (name) => `var(--${name})`;
const TONES = ["accent", "out", "out2", "out3", "out4", "out5"];
const text = { color: colour("dim"), fontFamily: "system-ui, sans-serif", fontSize: 12 };
const still = { animation: false, silent: true, emphasis: { disabled: true } };

const short = (unit) => (value) => {
  const money = unit ? { style: "currency", currency: unit.toUpperCase() } : {};
  const number = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1, minimumFractionDigits: 0, ...money });
  return number.format(unit ? value / 1e6 : value);
};

const axisOfValues = (grid, more) => ({
  type: "value", min: 0, splitNumber: 2, axisLine: { show: false }, axisTick: { show: false },
  minInterval: grid.unit ? 0 : 1,
  splitLine: { lineStyle: { color: colour("line"), width: 1 } }, axisLabel: { ...text, formatter: short(grid.unit) }, ...more,
});

const GAP = 50, TOP = 30, LEFT = 56;
const windows = (spec) => {
  const last = spec.grids.length - 1, HEIGHT = last ? 92 : 150;
  const option = { grid: [], xAxis: [], yAxis: [], series: [], title: [] };
  spec.grids.forEach((grid, index) => {
    const top = TOP + index * (HEIGHT + GAP);
    option.grid.push({ left: LEFT, right: 12, top, height: HEIGHT });
    option.title.push({ text: grid.name, left: 0, top: top - 28, padding: 2, textStyle: { ...text, color: colour("text"), fontWeight: 500 } });
    option.xAxis.push({
      type: "category", data: spec.labels, gridIndex: index, axisTick: { show: false },
      axisLine: { lineStyle: { color: colour("line") } }, axisLabel: { ...text, show: index === last, hideOverlap: true },
    });
    option.yAxis.push(axisOfValues(grid, { gridIndex: index }));
    const place = { xAxisIndex: index, yAxisIndex: index, ...still };
    for (const bars of grid.bars) {
      option.series.push({
        type: "bar", name: bars.name, data: bars.values, stack: `${index}`, barCategoryGap: "22%", ...place,
        itemStyle: { color: colour(TONES[bars.tone]), borderColor: colour("back"), borderWidth: grid.bars.length > 1 ? 0.5 : 0 },
      });
    }
    const marks = {
      symbol: ["none", "none"], ...still, label: { show: false }, lineStyle: { color: colour("text"), type: [2, 3], width: 1 },
      data: spec.marks.map((mark) => ({ xAxis: mark.place })),
    };
    if (grid.line) {
      option.series.push({
        type: "line", name: grid.line.name, data: grid.line.values, step: "middle", symbol: "none", z: 3, ...place,
        lineStyle: { color: colour("text"), width: 1.5 }, markLine: marks,
      });
    } else {
      option.series.push({ type: "line", data: [], ...place, markLine: marks });
    }
  });
  const points = spec.labels.length;
  return { option, height: TOP + spec.grids.length * (HEIGHT + GAP) - 20, points, at: (chart, index) => chart.convertToPixel({ xAxisIndex: 0 }, index) };
};

const budget = (spec) => {
  const tone = spec.gone ? "out" : "accent";
  const line = { type: "line", symbol: "none", ...still };
  const begins = spec.begins ?? spec.left[0][0];
  const values = [...spec.left, ...spec.forecast.slice(1)];
  const ends = spec.ends ?? values.at(-1)[0];
  const option = {
    grid: [{ left: LEFT, right: 12, top: 8, height: 84 }],
    xAxis: [{
      type: "time", min: begins, max: ends, axisTick: { show: false },
      axisLine: { lineStyle: { color: colour("line") } }, splitLine: { show: false },
      axisLabel: { ...text, customValues: [begins, (begins + ends) / 2, ends], alignMinLabel: "left", alignMaxLabel: "right", formatter: ends - begins > 2 * DAY ? (at) => day.format(at) : (at) => hour.format(at) },
    }],
    yAxis: [axisOfValues(spec, { max: Math.max(spec.capacity, ...values.map(([, tokens]) => tokens)) })],
    series: [
      {
        ...line, data: spec.left, lineStyle: { color: colour(tone), width: 2 }, areaStyle: { color: colour(tone), opacity: 0.12 },
        markLine: {
          symbol: ["none", "none"], ...still, label: { show: false }, lineStyle: { color: colour("dim"), type: [2, 3], width: 1 },
          data: [{ xAxis: spec.forecast[0][0] }],
        },
      },
      { ...line, data: spec.forecast, lineStyle: { color: colour(tone), width: 2, type: [4, 4] } },
    ],
  };
  return { option, height: 120, points: values.length, at: (chart, index) => chart.convertToPixel({ xAxisIndex: 0 }, values[index][0]) };
};

const DAY = 86_400_000;
const day = new Intl.DateTimeFormat("en", { month: "short", day: "numeric", timeZone: "UTC" });
const hour = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", timeZone: "UTC" });
const KINDS = { windows, budget };
const say = (readout, heads, row) => {
  readout.replaceChildren();
  [...row.cells].forEach((cell, index) => {
    if (cell.textContent === "-" || cell.textContent === "") return;
    const part = document.createElement(index ? "span" : "strong");
    part.textContent = index ? `${heads[index]} ${cell.textContent}` : cell.textContent;
    readout.append(part, " ");
  });
};

const drawn = new Map();
const draw = (figure) => {
  const spec = JSON.parse(figure.querySelector("script").textContent);
  const place = figure.querySelector(".chart"), readout = figure.querySelector(".readout");
  const rows = figure.querySelector("tbody").rows;
  const heads = [...figure.querySelectorAll("thead th")].map((head) => head.textContent);
  const { option, height, points, at } = KINDS[spec.kind](spec);
  place.style.height = `${height}px`;
  const chart = echarts.init(place, null, { renderer: "svg", height });
  chart.setOption({ useUTC: true, animation: false, aria: { enabled: false }, ...option });
  place.firstElementChild?.setAttribute("aria-hidden", "true");
  const cursor = document.createElement("span");
  cursor.className = "cursor";
  place.append(cursor);
  let here = -1;
  const show = (index) => {
    here = Math.max(0, Math.min(points - 1, index));
    cursor.style.left = `${at(chart, here)}px`;
    place.classList.add("pointed");
    say(readout, heads, rows[here]);
  };
  const leave = () => {
    place.classList.remove("pointed");
    readout.replaceChildren();
    here = -1;
  };
  place.addEventListener("pointermove", (event) => {
    const x = event.clientX - place.getBoundingClientRect().left;
    let nearest = 0;
    for (let index = 1; index < points; index++) if (Math.abs(at(chart, index) - x) < Math.abs(at(chart, nearest) - x)) nearest = index;
    if (nearest !== here) show(nearest);
  });
  place.addEventListener("pointerleave", leave);
  place.addEventListener("blur", leave);
  place.addEventListener("keydown", (event) => {
    const from = here < 0 ? points : here;
    const to = { ArrowLeft: from - 1, ArrowRight: here < 0 ? 0 : here + 1, Home: 0, End: points - 1 }[event.key];
    if (event.key === "Escape") leave();
    if (to === undefined) return;
    event.preventDefault();
    show(to);
  });
  drawn.set(place, chart);
};

const resized = new ResizeObserver((entries) => {
  for (const { target } of entries) drawn.get(target)?.resize();
});
const drawAll = (root) => {
  for (const [place, chart] of drawn) {
    if (place.isConnected) continue;
    resized.unobserve(place);
    chart.dispose();
    drawn.delete(place);
  }
  for (const figure of root.querySelectorAll("[data-figure]")) {
    draw(figure);
    resized.observe(figure.querySelector(".chart"));
  }
};
drawAll(document);
document.addEventListener("replaced", (event) => drawAll(event.target));
addEventListener("beforeprint", () => {
  for (const chart of drawn.values()) chart.resize({ width: 640 });
});
addEventListener("afterprint", () => {
  for (const chart of drawn.values()) chart.resize({ width: "auto" });
});

for (const heat of document.querySelectorAll("[data-heat]")) {
  const readout = heat.nextElementSibling, rows = heat.querySelector("tbody").rows;
  let row = 0, column = 0, cell;
  heat.scrollLeft = heat.scrollWidth; // to now
  const show = (to) => {
    cell?.classList.remove("here");
    cell = to;
    cell?.classList.add("here");
    readout.textContent = cell ? `${cell.parentElement.cells[0].textContent}, ${cell.title}` : "";
  };
  heat.addEventListener("pointerover", (event) => show(event.target.closest("td") ?? undefined));
  heat.addEventListener("pointerleave", () => show());
  heat.addEventListener("blur", () => show());
  heat.addEventListener("keydown", (event) => {
    const by = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
    if (!by) return;
    event.preventDefault();
    row = Math.max(0, Math.min(rows.length - 1, row + (cell ? by[0] : 0)));
    column = Math.max(1, Math.min(rows[row].cells.length - 1, column + (cell ? by[1] : 1)));
    show(rows[row].cells[column]);
    cell.scrollIntoView({ block: "nearest", inline: "nearest" });
  });
}
