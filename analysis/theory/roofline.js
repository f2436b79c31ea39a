(() => {
const { at, make, plain, short, si, COLOURS, SYMBOLS, style, narrow, draw, addSection, section, data } = drawing;
const ROOF = 3, ARCH = 0, POWER = 2, CAP = 7;  // places in the palette, which changes with light and dark
const LOG2 = Math.log10(2);

function head() {
  data.qualities.forEach((one) => make(at("badges"), "span", `TASKS: ${one.toUpperCase()}`, one === "measured" ? "quiet" : "badge"));
  at("name").textContent = data.name;
  at("where").textContent = data.where;
  data.notes.forEach((text) => make(at("notes"), "li", text));
}

const flopsByte = (value) => `${Number(value.toPrecision(3))} flop/B`;

function facts(view) {
  const { machine } = view, rows = [["peak", si(machine.peak_flops_per_s, "flop/s")], ["memory", si(machine.peak_bytes_per_s, "B/s")], ["time balance", flopsByte(machine.time_balance_flops_per_byte)]];
  if (view.has_energy) rows.push(
    ["energy balance, without constant power", flopsByte(machine.energy_balance_flops_per_byte)],
    ["half of the best energy from", flopsByte(machine.half_efficiency_flops_per_byte)],
    ["best energy", si(machine.peak_flops_per_j, "flop/J")],
    ["constant power", si(view.pi0_w, "W")], ["most power", si(machine.most_power_w, "W")],
    ["race to halt", machine.race_to_halt ? "saves energy: what is fast is within a factor of two of the best energy" : "may not save energy: the best energy needs more than speed"]);
  if (view.cap_w !== null) rows.push(["power cap", si(view.cap_w, "W")]);
  return rows;
}

function addView(view) {
  const id = view.precision, inside = addSection(at("views"), { id, title: `${id} precision` });
  const table = make(make(inside, "div", undefined, "scroll"), "table", undefined, "facts"), body = make(table, "tbody");
  facts(view).forEach(([name, value]) => { const row = make(body, "tr"); make(row, "td", name); make(row, "td", value); });
  make(inside, "h3", view.has_energy ? "Roofline (time) and arch line (energy), relative to the best of each" : "Roofline (time), relative to the peak; energies are not known");
  make(inside, "div", undefined, "plot tall").id = `roof-${id}`;
  if (!view.has_energy) return;
  make(inside, "h3", "Power line");
  make(inside, "div", undefined, "plot tall").id = `power-${id}`;
}

const fraction = (power) => (power >= 0 ? String(2 ** power) : `1/${2 ** -power}`);
function ticks(low, high) {
  const first = Math.floor(Math.log2(low)), last = Math.ceil(Math.log2(high)), step = last - first > (narrow() ? 7 : 14) ? 2 : 1, powers = [];
  for (let power = first; power <= last; power += step) powers.push(power);
  return { type: "log", tickvals: powers.map((p) => 2 ** p), ticktext: powers.map(fraction), range: [first * LOG2, last * LOG2] };
}

const line = (view, y, name, colour, more) => ({ type: "scatter", mode: "lines", x: view.curves.intensity, y, name, line: { color: COLOURS[colour], width: 2, simplify: false, ...more }, hoverinfo: "skip" });
const text = (one, name) => `${name}<br>${flopsByte(one.intensity)}, ${si(one.flops_per_s, "flop/s")}${one.flops_per_j === null ? "" : `<br>${si(one.flops_per_j, "flop/J")}, ${si(one.power_w, "W")}${one.quality ? ` (${one.quality})` : ""}`}`;
const bytesFrom = (one) => (one.bytes_from === "declared" ? "" : `<br>bytes ${one.bytes_from}`);

function dots(points, key, best, name, colour, symbol) {
  const known = points.filter((one) => one[key] !== null);
  return known.length ? [{ type: "scatter", mode: "markers", name, x: known.map((one) => one.intensity), y: known.map((one) => one[key] / best), text: known.map((one) => text(one, plain(name))), hoverinfo: "text", marker: { color: COLOURS[colour], symbol, size: 7, opacity: 0.8 } }] : [];
}

// A task has one colour and shape in all plots; time is filled, energy hollow.
function tasks(view, key, best, hollow) {
  return view.tasks.flatMap((one, place) => (one[key] === null ? [] : [{
    type: "scatter", mode: "markers", name: short(one.task), legendgroup: one.task, showlegend: !hollow, x: [one.intensity], y: [one[key] / best], hoverinfo: "text",
    text: [text(one, plain(one.task)) + bytesFrom(one)], marker: { color: COLOURS[place % 8], symbol: SYMBOLS[place % 10] + (hollow ? "-open" : ""), size: 13, line: { width: 2 } },
  }]));
}

function balances(view, layout) {
  const { machine } = view, marks = [[machine.time_balance_flops_per_byte, "time balance", ROOF, "dash", 0.18]];
  if (view.has_energy) marks.push([machine.energy_balance_flops_per_byte, narrow() ? "energy balance" : "energy balance, no constant power", ARCH, "dot", 0.1], [machine.half_efficiency_flops_per_byte, "half of the best energy", ARCH, "dash", 0.02]);
  layout.shapes = marks.map(([x, , colour, dash]) => ({ type: "line", x0: x, x1: x, yref: "paper", y0: 0, y1: 1, line: { color: COLOURS[colour], width: 1, dash } }));
  // Away from the nearer end of the axis, so that no name is cut off.
  const middle = Math.sqrt(view.curves.intensity[0] * view.curves.intensity.at(-1));
  layout.annotations = marks.map(([x, name, colour, , y]) => ({ x: Math.log10(x), y, yref: "paper", xanchor: x > middle && narrow() ? "right" : "left", yanchor: "bottom", showarrow: false, text: `${name} ${Number(x.toPrecision(3))}`, font: { color: COLOURS[colour], size: 12 } }));
}

function roof(view) {
  const { axis, layout } = style(), { curves, machine } = view, peak = machine.peak_flops_per_s, best = machine.peak_flops_per_j;
  const traces = [line(view, curves.roof.map((y) => y / peak), "roofline", ROOF)];
  if (curves.capped) traces.push(line(view, curves.capped.map((y) => y / peak), "roofline under the power cap", CAP, { dash: "dash" }));
  if (curves.arch) traces.push(line(view, curves.arch.map((y) => y / best), "arch line", ARCH));
  traces.push(...dots(view.runs, "flops_per_s", peak, "runs, time", ROOF, "circle"), ...tasks(view, "flops_per_s", peak, false));
  if (curves.arch) traces.push(...dots(view.runs, "flops_per_j", best, "runs, energy", ARCH, "circle-open"), ...tasks(view, "flops_per_j", best, true));
  const all = traces.flatMap((one) => one.y);
  balances(view, layout);
  layout.xaxis = { ...axis, ...ticks(curves.intensity[0], curves.intensity.at(-1)), title: { text: "intensity, flop/B" } };
  layout.yaxis = { ...axis, ...ticks(Math.min(...all), Math.max(1.2, ...all)), title: { text: "relative performance" } };
  draw(`roof-${view.precision}`, traces, layout);
}

function power(view) {
  if (!view.has_energy) return;
  const { axis, layout } = style(), { curves, machine } = view, known = view.tasks.filter((one) => one.power_w !== null);
  const traces = [line(view, curves.power, "power line", POWER)];
  if (curves.capped_power) traces.push(line(view, curves.capped_power, "power line under the cap", CAP, { dash: "dash" }));
  traces.push(...dots(view.runs, "power_w", 1, "runs", POWER, "circle"), ...tasks(view, "power_w", 1, true).map((one, place) => ({ ...one, name: `${one.name} (${known[place].quality})`, showlegend: true })));
  balances(view, layout);
  const levels = [[machine.compute_power_w, "flops alone"], [machine.memory_power_w, "memory alone"], [machine.most_power_w, "most"], [view.cap_w, "cap"], [view.pi0_w || null, "constant"]].filter(([y]) => y !== null);
  layout.shapes.push(...levels.map(([y, name]) => ({ type: "line", xref: "paper", x0: 0, x1: 1, y0: y, y1: y, line: { color: name === "cap" ? COLOURS[CAP] : style().axis.gridcolor, width: name === "cap" ? 2 : 1, dash: "dot" } })));
  layout.annotations.push(...levels.map(([y, name]) => ({ xref: "paper", x: 1, xanchor: "right", y, yanchor: "bottom", showarrow: false, text: `${name} ${si(y, "W")}`, font: { size: 12 } })));
  layout.xaxis = { ...axis, ...ticks(curves.intensity[0], curves.intensity.at(-1)), title: { text: "intensity, flop/B" } };
  layout.yaxis = { ...axis, rangemode: "tozero", title: { text: "power, W" } };
  draw(`power-${view.precision}`, traces, layout);
}

head();
data.views.forEach((view) => { addView(view); section(view.precision, () => { roof(view); power(view); }); });
document.documentElement.dataset.drawn = "yes";
})();
