(() => {
const { at, make, plain, si, COLOURS, SYMBOLS, style, draw, named, section, data } = drawing;
const BY = { energy: "energy", edp: "energy × time (EDP)", ed2p: "energy × time² (ED²P)" };
const percent = (value) => (value === null ? "–" : `${(100 * value).toFixed(1)} %`);
const point = (task, place) => {
  if (!place) return "–";
  const many = new Set(task.points.map((one) => one.workers)).size > 1, words = [];
  if (place.setting !== null) words.push(task.setting_unit === "Hz" ? `${Number((place.setting / 1e9).toPrecision(4))} GHz` : `${Number(place.setting.toPrecision(4))} W`);
  if (many || place.setting === null) words.push(`${place.workers} worker${place.workers === 1 ? "" : "s"}`);
  return words.join(", ");
};
const same = (one, other) => one && other && one.setting === other.setting && one.workers === other.workers;
const tag = ` (${data.qualities.join(", ")})`;

function choices() {
  const head = make(at("choices").tHead, "tr"), body = at("choices").tBodies[0];
  for (const title of ["Task", "Run at", "Instead of", `Energy saved${tag}`, "Extra time", "May lose", "Measure next"]) make(head, "th", title).scope = "col";
  for (const task of data.tasks) {
    const row = make(body, "tr"), energy = task.energy_saving, time = task.time_saving;
    const cells = [task.name, point(task, task.chosen), point(task, task.base), `${percent(energy.mean)}\n${percent(energy.low)} … ${percent(energy.high)}`, time.mean === null ? "–" : `${percent(-time.mean)}\n${percent(-time.high)} … ${percent(-time.low)}`, percent(task.expected_loss), task.next ? `${point(task, task.next)}${task.next.again ? " again" : ""}\nthen ${percent(task.next.loss_after)}` : "–"];
    cells.forEach((text) => make(row, "td", task.chosen || text === task.name ? text : "–"));
  }
}

const bars = (rows, stem, unit, colour) => ({ type: "data", symmetric: false, thickness: 1.5, color: colour, array: rows.map((one) => one[`${stem}_high_${unit}`] - one[`${stem}_${unit}`]), arrayminus: rows.map((one) => one[`${stem}_${unit}`] - one[`${stem}_low_${unit}`]) });
const summary = (task, one) => `${point(task, one)}: ${si(one.energy_j, "J")} (${si(one.energy_low_j, "J")} … ${si(one.energy_high_j, "J")}), ${si(one.time_s, "s")}, ${si(one.power_w, "W")}${one.allowed ? "" : ", breaks a condition"}`;

function fronts(task) {
  const { axis, layout } = style();
  const shown = (rows, more) => Object.assign({ type: "scatter", mode: "markers", x: rows.map((one) => one.time_s), y: rows.map((one) => one.energy_j), text: rows.map((one) => plain(summary(task, one))), hoverinfo: "text" }, more);
  const front = task.points.filter((one) => one.front).sort((a, b) => a.time_s - b.time_s), guessed = task.points.filter((one) => !one.measured), run = task.points.filter((one) => one.measured);
  draw("front", [
    { type: "scatter", mode: "lines", name: "front", x: front.map((one) => one.time_s), y: front.map((one) => one.energy_j), line: { color: COLOURS[2], width: 2 }, hoverinfo: "skip" },
    shown(guessed, { name: "predicted", marker: { symbol: "circle-open", size: 8, color: COLOURS[0] }, error_x: bars(guessed, "time", "s", COLOURS[5]), error_y: bars(guessed, "energy", "j", COLOURS[5]) }),
    shown(run, { name: `run (${task.quality})`, marker: { symbol: "circle", size: 10, color: COLOURS[0] }, error_x: bars(run, "time", "s", COLOURS[0]), error_y: bars(run, "energy", "j", COLOURS[0]) }),
    shown(task.points.filter((one) => same(one, task.chosen)), { name: "chosen", marker: { symbol: "star", size: 18, color: COLOURS[3] } }),
    shown(task.points.filter((one) => same(one, task.next)), { name: "measure next", marker: { symbol: "diamond-open", size: 15, color: COLOURS[4], line: { width: 3 } } }),
  ], Object.assign(layout, { xaxis: named(axis, "time", "s"), yaxis: named(axis, `energy${tag}`, "J") }));
}

function over(task) {
  const { axis, layout } = style(), by = task.over, traces = [];
  const groups = by === "workers" ? [null] : [...new Set(task.points.map((one) => one.workers))];
  groups.slice(0, 8).forEach((workers, i) => {
    const rows = task.points.filter((one) => workers === null || one.workers === workers), colour = COLOURS[i];
    for (const [stem, unit, place] of [["energy", "j", "y"], ["time", "s", "y2"]]) traces.push({
      type: "scatter", mode: "lines+markers", yaxis: place, legendgroup: String(workers), showlegend: groups.length > 1 && place === "y", name: workers === null ? "" : `${workers} worker${workers === 1 ? "" : "s"}`,
      x: rows.map((one) => one[by]), y: rows.map((one) => one[`${stem}_${unit}`]), error_y: bars(rows, stem, unit, colour), line: { color: colour, width: 1.5 },
      marker: { color: colour, size: rows.map((one) => (same(one, task.chosen) ? 16 : 8)), symbol: rows.map((one) => (same(one, task.chosen) ? "star" : one.measured ? "circle" : "circle-open")) },
      text: rows.map((one) => plain(summary(task, one))), hoverinfo: "text",
    });
  });
  const below = by === "workers" ? named({ ...axis, anchor: "y2" }, "workers") : named({ ...axis, anchor: "y2" }, task.setting_unit === "Hz" ? "frequency" : "power limit", task.setting_unit);
  draw("over", traces, Object.assign(layout, { xaxis: below, yaxis: named({ ...axis, domain: [0.54, 1], rangemode: "tozero" }, `energy${tag}`, "J"), yaxis2: named({ ...axis, domain: [0, 0.46], rangemode: "tozero" }, "time", "s") }));
}

function plots() {
  const task = data.tasks[Number(at("task").value)];
  at("why").textContent = task.why;
  for (const id of ["front", "over"]) at(id).hidden = !task.points.length;
  if (task.points.length) { fronts(task); over(task); }
}

data.qualities.forEach((one) => make(at("badges"), "span", one, "badge"));
const conditions = [data.max_slowdown === null ? "" : `at most ${percent(data.max_slowdown)} of extra time`, data.max_power_w === null ? "" : `at most ${data.max_power_w} W`].filter(Boolean);
at("uncertainty").textContent = data.uncertainty || "";
at("objective").textContent = [`For the least ${BY[data.by]}`, ...conditions].join(", ") + ".";
data.tasks.forEach((task, i) => { make(at("task"), "option", task.name).value = String(i); });
at("task").addEventListener("change", plots);
choices();
section("points", plots);
document.documentElement.dataset.drawn = "yes";
})();
