(() => {
const { at, make, plain, short, si, COLOURS, SYMBOLS, style, draw, named, sheet, addSection, section, data } = drawing;
const GAP = 0.08, ABOVE = 32, PANEL = 240, BELOW = 58, CELL = ABOVE + PANEL + BELOW;  // pixels, but the gap

function head() {
  data.qualities.filter((one) => one !== "measured").forEach((one) => make(at("badges"), "span", one.toUpperCase(), "badge"));
  at("machine").textContent = `This machine: ${data.machine}.`;
  at("how").textContent = data.how;
  data.sensors.forEach((text) => make(at("sensors"), "li", `Sensor: ${text}.`));
  data.warnings.forEach((text) => make(at("warnings"), "li", text));
  at("warnings-section").hidden = !data.warnings.length;
  data.checks.forEach((one) => make(at("checks"), "li", one.text));
}

function table(one, place) {
  sheet(at("tables"), one, `table-${place}`, "h2", (heading) => (heading.startsWith("paper") ? "paper" : ""));
}

const title = (one) => `${one.number ? `Figure ${one.number}: ` : ""}${one.program}`;
const tag = (one) => (one.quality === "measured" ? "" : ` (${one.quality})`);
const most = () => (matchMedia("(min-width: 700px)").matches ? 3 : 1);
const isLog = (one) => at(`log-${one.program}`).checked;

function addProgram(one) {
  const inside = addSection(at("programs"), { id: `figure-${one.program}`, title: `${title(one)} – energy of each instance over its time, core by core` });
  const controls = make(inside, "p", undefined, "controls"), label = make(controls, "label"), box = make(label, "input");
  box.type = "checkbox"; box.checked = one.wide; box.id = `log-${one.program}`;
  label.append(" Logarithmic axes");
  box.addEventListener("change", () => figure(one));
  make(inside, "p", undefined, "quiet").id = `note-${one.program}`;
  make(inside, "div", undefined, "plot").id = `cores-${one.program}`;
  make(inside, "h3", `${one.program} over the run's time, and how its instances are distributed`);
  make(inside, "div", undefined, "plot").id = `time-${one.program}`;
}

// Panels are placed by hand: row by row from the top, all of the same size, their titles and axes between them.
function panel(layout, titles, place, columns) {
  const rows = Math.ceil(titles.length / columns), column = place % columns, row = Math.floor(place / columns), pixel = 1 / (rows * CELL);
  const width = (1 - GAP * (columns - 1)) / columns, left = column * (width + GAP), top = 1 - (row * CELL + ABOVE) * pixel;
  layout.annotations.push({ text: plain(titles[place]), x: left, xanchor: "left", y: top, yanchor: "bottom", xref: "paper", yref: "paper", showarrow: false, font: { size: 14 } });
  return { x: [left, left + width], y: [top - PANEL * pixel, top], suffix: place ? String(place + 1) : "" };
}

const grid = (count, columns) => {
  const { axis, layout } = style();
  return { axis, layout: Object.assign(layout, { annotations: [], height: Math.ceil(count / columns) * CELL + 50, margin: { ...layout.margin, t: 40, b: 10 }, legend: { orientation: "h", y: 1, yanchor: "bottom", x: 0 } }) };
};

function markers(one, rows, x, y, suffix, legend) {
  return one.names.map((name, code) => [name, code, rows.filter((i) => one.task[i] === code)]).filter(([, code, mine]) => mine.length || legend.has(code)).map(([name, code, mine]) => ({
    type: "scatter", mode: "markers", name: short(name), legendgroup: String(code), showlegend: legend.delete(code), xaxis: `x${suffix}`, yaxis: `y${suffix}`,
    x: mine.map((i) => one[x][i]), y: mine.map((i) => one[y][i]), hoverinfo: "text",
    text: mine.map((i) => `${plain(name)}<br>${si(one.energy_j[i], "J")}${tag(one)}, ${si(one.duration_s[i], "s")}, core ${one.cpu[i]}`),
    marker: { color: COLOURS[code % 8], symbol: SYMBOLS[code % 10], size: 6, opacity: 0.7 },
  }));
}

const everyName = (one) => new Set(one.names.map((_, code) => code));
const nameOf = (cpu, one) => `${cpu < 0 ? "core not known" : `core ${cpu}`}: ${(one.counts[String(cpu)] || 0).toLocaleString("en")} instances`;

function cores(one) {
  const columns = Math.min(one.cpus.length, one.cpus.length > 6 ? 3 : 2, most()) || 1, { axis, layout } = grid(one.cpus.length || 1, columns);
  const scale = isLog(one) ? { type: "log" } : { rangemode: "tozero" }, legend = everyName(one), titles = one.cpus.map((cpu) => nameOf(cpu, one));
  const traces = one.cpus.flatMap((cpu, place) => {
    const { x, y, suffix } = panel(layout, titles, place, columns);
    layout[`xaxis${suffix}`] = { ...named({ ...axis, ...scale, domain: x, anchor: `y${suffix}` }, "execution time", "s"), ...(place ? { matches: "x" } : {}) };
    layout[`yaxis${suffix}`] = { ...named({ ...axis, ...scale, domain: y, anchor: `x${suffix}` }, `energy${tag(one)}`, "J"), ...(place ? { matches: "y" } : {}) };
    return markers(one, one.task.map((_, i) => i).filter((i) => one.cpu[i] === cpu), "duration_s", "energy_j", suffix, legend);
  });
  draw(`cores-${one.program}`, traces, layout);
}

function curves(one, column, suffix) {
  return one.curves.map((curve) => {
    const code = one.names.indexOf(curve.name), own = code >= 0;
    return {
      type: "scatter", mode: "lines", name: short(curve.name), legendgroup: String(code), showlegend: !own && suffix === "3", xaxis: `x${suffix}`, yaxis: `y${suffix}`,
      x: curve[column], y: curve.share, line: own ? { color: COLOURS[code % 8], width: 2, shape: "hv" } : { color: COLOURS[7], width: 2, dash: "dot", shape: "hv" },
      hovertemplate: `%{y:.0%} of ${plain(curve.name)}: at most %{x:.3s}${column === "energy_j" ? "J" : "s"}<extra></extra>`,
    };
  });
}

function overTime(one) {
  const columns = Math.min(2, most()), { axis, layout } = grid(4, columns), all = one.task.map((_, i) => i), legend = everyName(one), scale = isLog(one) ? { type: "log" } : { rangemode: "tozero" };
  const energy = `energy${tag(one)}`, time = "execution time", during = "time of the run";
  const titles = ["a) energy over the run's time", "b) execution time over the run's time", "c) cumulative distribution of energy", "d) cumulative distribution of execution time"];
  const set = (place, below, belowUnit, left, leftUnit) => {
    const { x, y, suffix } = panel(layout, titles, place, columns), value = place < 2 ? { y: scale, x: {} } : { x: scale, y: { tickformat: ".0%", range: [0, 1.03] } };
    layout[`xaxis${suffix}`] = named({ ...axis, ...value.x, domain: x, anchor: `y${suffix}` }, below, belowUnit);
    layout[`yaxis${suffix}`] = named({ ...axis, ...value.y, domain: y, anchor: `x${suffix}` }, left, leftUnit);
    return suffix;
  };
  draw(`time-${one.program}`, [
    ...markers(one, all, "start_s", "energy_j", set(0, during, "s", energy, "J"), legend),
    ...markers(one, all, "start_s", "duration_s", set(1, during, "s", time, "s"), legend),
    ...curves(one, "energy_j", set(2, energy, "J", "instances")),
    ...curves(one, "duration_s", set(3, time, "s", "instances")),
  ], layout);
}

function figure(one) {
  const none = one.energy_j.filter((value) => value <= 0).length;
  at(`note-${one.program}`).textContent = [...one.notes, isLog(one) && none ? `${none.toLocaleString("en")} of the points have no energy above 0 and cannot stand on a logarithmic axis.` : ""].join(" ");
  cores(one); overTime(one);
}

head();
data.tables.forEach(table);
data.figures.forEach(addProgram);
data.figures.forEach((one) => section(`figure-${one.program}`, () => figure(one)));
document.documentElement.dataset.drawn = "yes";
})();
