(() => {
const { at, make, plain, short, si, COLOURS, SYMBOLS, style, draw, named, section, data } = drawing;
const estimated = data.qualities.filter((one) => one !== "measured");

function head() {
  at("title").textContent += `: ${data.title}`;
  estimated.forEach((one) => make(at("badges"), "span", one.toUpperCase(), "badge"));
  at("machine").textContent = `This machine: ${data.machine}.`;
  at("how").textContent = data.how;
  data.sensors.forEach((text) => make(at("sensors"), "li", `Sensor: ${text}.`));
  data.warnings.forEach((text) => make(at("warnings"), "li", text));
  at("warnings-section").hidden = !data.warnings.length;
  const over = data.panels.length && data.panels[0].over === "frequency" ? "the highest frequency" : "the fewest workers";
  at("reading").textContent = `Dashed: energy${estimated.length ? ` (${estimated.join(", ")})` : ""} of an instance; continuous: its time. Both against those at ${over}; means over the repeats, bars from the least to the most of them.`;
}

// Bars are drawn only where repeats differ: one run has no spread to show.
const spread = (curve) => ({
  type: "data", symmetric: false, thickness: 1, width: 3, visible: curve.value.some((_, i) => curve.least[i] !== curve.most[i]),
  array: curve.value.map((value, i) => (value === null ? 0 : curve.most[i] - value)),
  arrayminus: curve.value.map((value, i) => (value === null ? 0 : value - curve.least[i])),
});

function panel(one, place) {
  const { axis, layout } = style();
  const lines = one.tasks.flatMap((task, number) => ["energy", "time"].map((what) => ({
    type: "scatter", mode: "lines+markers", name: `${short(task.name)}: ${what}`, x: task.x, y: task[what].value,
    line: { color: COLOURS[number % COLOURS.length], width: number ? 2 : 3, dash: what === "energy" ? "dash" : "solid" },
    marker: { symbol: SYMBOLS[number % SYMBOLS.length], size: 7 }, error_y: { ...spread(task[what]), color: COLOURS[number % COLOURS.length] },
    hovertemplate: `${plain(task.name)}, ${what}: %{y:.3f} of the reference ${one.over === "frequency" ? "at %{x:.4s}Hz" : "with workers: %{x}"}<extra></extra>`,
  })));
  const across = one.over === "frequency" ? named(axis, "frequency", "Hz") : { ...axis, title: { text: "workers" }, dtick: 1 };
  draw(`panel-${place}`, lines, { ...layout, height: 460, xaxis: across, yaxis: { ...axis, title: { text: "against the reference" }, rangemode: "tozero" } });
}

function addPanels() {
  data.panels.forEach((one, place) => {
    make(at("panels"), "h3", one.title + (one.left_out ? ` (${one.left_out} tasks of less energy are in the table only)` : ""));
    make(at("panels"), "div", undefined, "plot").id = `panel-${place}`;
  });
}

const sure = (figure, unit) => si(figure.value, unit) + (figure.part === null ? "" : `\n± ${Number((100 * figure.part).toPrecision(2))} %`);

function table() {
  const head = make(make(at("table"), "thead"), "tr"), body = make(at("table"), "tbody");
  const energy = estimated.length ? `energy (${estimated.join(", ")})` : "energy";
  ["task", "frequency", "workers", "runs", "instances", energy, "time", "power", "EDP", "ED²P"].forEach((text) => { make(head, "th", text).scope = "col"; });
  data.table.forEach((row) => {
    const line = make(body, "tr");
    const setting = row.setting === null ? "as it was" : `${Number((row.setting / 1e9).toPrecision(7))} GHz`;
    [row.task, setting, row.workers, row.repeats, Number(row.instances.toPrecision(4)), sure(row.energy_j, "J"), sure(row.time_s, "s"), sure(row.power_w, "W"), sure(row.edp_js, "Js"), sure(row.ed2p_js2, "Js²")]
      .forEach((cell) => make(line, "td", String(cell)));
  });
}

const figures = () => data.panels.forEach(panel);
head();
addPanels();
table();
section("figure", figures);
document.documentElement.dataset.drawn = "yes";
})();
