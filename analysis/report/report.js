(() => {
const { at, make, rows, section, data, tag, sharedBy, share, plain, short, si, COLOURS, SYMBOLS, placeOf, shadeOf, style, narrow, fit, draw, named } = drawing;
const BINS = 60;
const info = data.info;

// Of a job the joules of hosts of unlike quality are not added.
const sums = Object.entries(data.measured_j), hosts = (data.hosts || []).filter((row) => row.quality !== "missing");
function cost() {
  make(at("badges"), "span", info.quality.toUpperCase(), "badge");
  if (info.complete === false) make(at("badges"), "span", "INCOMPLETE", "badge");
  if (Object.keys(info.missing || {}).length) make(at("badges"), "span", "PARTS MISSING", "badge");
  const [measured] = sums.length === 1 ? sums[0].slice(1) : [null], watts = measured !== null && info.duration_s ? measured / info.duration_s : null;
  const energies = sums.length > 1 ? sums.map(([quality, value]) => [si(value, "J"), `energy, ${quality}`]) : [[si(measured, "J"), `energy${tag}`], [si(watts, "W"), `mean power${tag}`]];
  const of = hosts.length ? [[`${hosts.length}`, hosts.length === 1 ? "host" : "hosts"]] : [];
  for (const [text, label] of [...energies, ...of, [si(info.duration_s, "s"), "duration"], [data.instances_count.toLocaleString("en"), "task instances"]]) {
    const one = make(at("figures"), "div", undefined, "figure");
    make(one, "b", text); make(one, "span", label, "quiet");
  }
  at("sensor").textContent = `Sensor: ${data.sources.join(". ")}. Program: ${data.argv.join(" ") || "not known"}.${data.lead_in ? ` ${data.lead_in}.` : ""}${data.uncertainty ? ` ${data.uncertainty[0].toUpperCase()}${data.uncertainty.slice(1)}.` : ""}`;
  const lost = Object.entries(info.dropped || {}).filter((pair) => pair[1]).map(([why, n]) => `${n} samples dropped (${why})`);
  const left = data.left_out.map((one) => `${one.name} not counted: ${one.why}`);
  const warnings = [...info.warnings, ...lost, ...left];
  if (info.lost_threads) warnings.push(`${info.lost_threads} threads were not recorded`);
  if (data.more_warnings) warnings.push(`and ${data.more_warnings} more: tprof summary --json has them all`);
  warnings.forEach((text) => make(at("warnings"), "li", text));
}

const accountNames = [["tasks", "tasks_j", 0], ["runtime", "runtime_j", 1], ["other", "other_j", 4], ["idle", "idle_j", 7], ["spinning", "spin_j", 3], ["unidentified", "unidentified_j", 5]].filter(([, key], place) => place < 4 || data.accounts.some((row) => row[key] > 0));
function account() {
  const counted = data.accounts.filter((row) => row.counted !== false), sum = (name) => (counted.length ? counted.reduce((total, row) => total + (row[name] || 0), 0) : null), measured = sum("measured_j");
  at("accounts").replaceChildren();
  if (sums.length > 1) return;
  const bar = make(at("accounts"), "div", undefined, "bar"), legend = make(at("accounts"), "ul", undefined, "legend");
  bar.setAttribute("aria-hidden", "true");
  accountNames.forEach(([name, key, colour]) => {
    const joules = sum(key), part = measured ? joules / measured : null;
    make(bar, "span").style.cssText = `background:${COLOURS[colour]};width:${100 * (part || 0)}%`;
    const item = make(legend, "li");
    make(item, "span", undefined, "swatch").style.background = COLOURS[colour];
    make(item, "span", `${name} ${si(joules, "J")} · ${share(part)}`);
  });
  if (data.accounts.length > 1 && !hosts.length) domains();
}

function domains() {
  const list = make(at("accounts"), "ul", undefined, "quiet");
  data.accounts.forEach((row) => {
    const parts = accountNames.map(([name, key]) => `${name} ${si(row[key], "J")}`).join(", ");
    make(list, "li", `${row.domain}: ${si(row.measured_j, "J")} (${parts})${row.counted ? "" : ", part of another domain or around it: not added"}`);
  });
}

// Plotly's own histogram bins evenly in the data even where the axis is logarithmic.
function distribution(axisName, values, log) {
  const good = values.filter((value) => value !== null && (value > 0 || !log)).map((value) => (log ? Math.log10(value) : value));
  const least = Math.min(...good), width = (Math.max(...good) - least) / BINS || 1, counts = new Array(BINS).fill(0);
  good.forEach((value) => { counts[Math.min(Math.floor((value - least) / width), BINS - 1)] += 1; });
  const edge = (i) => (log ? 10 ** (least + i * width) : least + i * width);
  const places = counts.map((_, i) => (edge(i) + edge(i + 1)) / 2), widths = counts.map((_, i) => edge(i + 1) - edge(i));
  return axisName === "x" ? { type: "bar", x: places, y: counts, width: widths } : { type: "bar", orientation: "h", y: places, x: counts, width: widths };
}

// Axes say nothing of one instance: the table and the timeline do.
const single = !data.instances || data.instances.count === 1;
function instances() {
  const all = data.instances, task = at("task").value, core = at("core").value, { axis, layout } = style();
  const rows = all.task.map((_, i) => i).filter((i) => (task === "" || all.task[i] === Number(task)) && (core === "" || all.cpu[i] === Number(core)));
  const key = task === "" ? (core === "" ? "all" : `cpu ${core}`) : core === "" ? `task ${all.names[Number(task)]}` : "";
  const packed = all.views[key], view = packed && { energy: unpackGrid(packed.energy), time_energy: unpackGrid(packed.time_energy), time_duration: unpackGrid(packed.time_duration) };
  at("note").textContent = [all.dense ? (view ? `Density of all instances in cells, with a sample of ${rows.length.toLocaleString("en")} of the ${all.count.toLocaleString("en")} as points over it.` : `A sample of the instances: ${rows.length.toLocaleString("en")} points.`) : "", all.unresolved ? `${all.unresolved} instances are not resolved by the sensor and not drawn.` : "", all.count ? "" : "No task ran."].join(" ");
  const points = (x, y, more) => [...new Set(rows.map((i) => all.task[i]))].sort((a, b) => a - b).map((code) => {
    const mine = rows.filter((i) => all.task[i] === code);
    return Object.assign({ type: "scatter", mode: "markers", name: short(all.names[code]), legendgroup: String(code), x: mine.map((i) => all[x][i]), y: mine.map((i) => all[y][i]), text: mine.map((i) => `${plain(all.names[code])}<br>${si(all.energy_j[i], "J")}${tag}, ${si(all.duration_s[i], "s")}, core ${all.cpu[i]}`), hoverinfo: "text", marker: { color: COLOURS[shadeOf(all.names[code])], symbol: SYMBOLS[placeOf(all.names[code]) % 10], size: 7, opacity: 0.75 } }, more);
  });
  const heat = (grid, more) => grid ? [Object.assign({ type: "heatmap", x: grid.x, y: grid.y, z: grid.z.map((row) => row.map((n) => (n ? Math.log10(n) : null))), colorscale: "Cividis", showscale: false, hoverinfo: "skip" }, more)] : [];
  // Within a decade a logarithmic axis has too many labels or none.
  const isWide = (name) => { const good = rows.map((i) => all[name][i]).filter((value) => value > 0); return Math.max(...good) >= 10 * Math.min(...good); };
  const log = { duration_s: isWide("duration_s"), energy_j: isWide("energy_j") }, wanted = at("log").checked || all.dense;
  const scale = (name) => (wanted && log[name] ? { type: "log" } : {});
  const bins = (axisName, values) => {
    if (!view || !view.energy) return distribution(axisName, rows.map((i) => all[values][i]), wanted && log[values]);
    const grid = view.energy, counts = axisName === "x" ? grid.x.map((_, c) => grid.z.reduce((n, row) => n + row[c], 0)) : grid.z.map((row) => row.reduce((a, b) => a + b, 0));
    const edges = axisName === "x" ? grid.x : grid.y;
    const places = counts.map((_, i) => (edges[i] + edges[i + 1]) / 2), width = counts.map((_, i) => edges[i + 1] - edges[i]);
    return axisName === "x" ? { type: "bar", x: places, y: counts, width } : { type: "bar", orientation: "h", y: places, x: counts, width };
  };
  const side = { showlegend: false, marker: { color: COLOURS[0] }, hoverinfo: "skip" };
  // On a phone the points need the width of the histogram beside them.
  const beside = narrow() ? [] : [Object.assign(bins("y", "energy_j"), side, { xaxis: "x2" })], wide = beside.length ? 0.82 : 1;
  draw("scatter", heat(view && view.energy).concat(points("duration_s", "energy_j"), Object.assign(bins("x", "duration_s"), side, { yaxis: "y2" }), beside),
    Object.assign(layout, { bargap: 0.05, showlegend: all.names.length > 1, xaxis: named({ ...axis, ...scale("duration_s"), domain: [0, wide] }, "duration", "s"), yaxis: named({ ...axis, ...scale("energy_j"), domain: [0, 0.8] }, `energy${tag}`, "J"), xaxis2: { ...axis, domain: [0.85, 1], showticklabels: false, nticks: 4 }, yaxis2: { ...axis, domain: [0.84, 1], showticklabels: false, nticks: 4 } }));
  draw("overtime", heat(view && view.time_energy).concat(points("start_s", "energy_j"), heat(view && view.time_duration, { yaxis: "y2" }), points("start_s", "duration_s", { yaxis: "y2", showlegend: false })),
    Object.assign(style().layout, { showlegend: all.names.length > 1 && !narrow(), xaxis: named({ ...axis, anchor: "y2" }, "time of the run", "s"), yaxis: named({ ...axis, ...scale("energy_j"), nticks: 5, domain: [0.54, 1] }, `energy${tag}`, "J"), yaxis2: named({ ...axis, ...scale("duration_s"), nticks: 5, domain: [0, 0.46] }, "duration", "s") }));
}

// A line of steps for each of a few, each value until the next time; many are rows of a map whose colour is the power.
const FEW = 8, kindOf = new Map(hosts.map((row) => [row.host, row.quality])), called = (name) => (sums.length > 1 && kindOf.has(name) ? `${name} (${kindOf.get(name)})` : name);
function power(id, found) {
  const { axis, layout } = style(), names = Object.keys(found.watts), time = named(axis, "time of the run", "s");
  if (!names.length) return;
  if (names.length > FEW && hosts.length) {
    fit(id, Math.min(names.length, 40), 110);
    draw(id, [{ type: "heatmap", x: found.x, y: names.map((_, i) => i), z: names.map((name) => found.watts[name]), zmin: 0, colorscale: "Viridis", colorbar: { title: { text: `W${tag}` } }, text: names.map((name) => found.x.map(() => plain(called(name)))), hovertemplate: "%{text}: %{z:.3s}W at %{x:.4s}s<extra></extra>" }],
      { ...layout, xaxis: time, yaxis: { ...axis, tickvals: names.length > 40 ? undefined : names.map((_, i) => i), ticktext: names.map((name) => short(called(name), narrow() ? 12 : 36)), range: [names.length - 0.5, -0.5] } });
    return;
  }
  const ends = (watts) => watts.concat(watts.slice(-1));
  draw(id, names.map((name, i) => ({ type: "scatter", mode: "lines", line: { shape: "hv", width: 1.5, color: COLOURS[i % 8] }, name: short(called(name)), showlegend: names.length > 1, x: found.x, y: ends(found.watts[name]), hovertemplate: "%{y:.3s}W at %{x:.4s}s" })),
    Object.assign(layout, { xaxis: time, yaxis: named({ ...axis, rangemode: "tozero" }, `power${tag}`, "W") }));
}

const MOST_MEANS = 30;
function means() {
  const rows = data.summary.filter((row) => row.energy_mean_j > 0 && row.energy_mean_low_j !== null).slice(0, MOST_MEANS).reverse(), { axis, layout } = style();
  at("means-part").hidden = rows.length < 2;
  if (rows.length < 2) return;
  fit("means", rows.length, 110);
  const all = rows.map((row) => row.energy_mean_j), wide = Math.max(...all) > 20 * Math.min(...all);
  const far = (name) => rows.map((row) => Math.abs(row[name] - row.energy_mean_j));
  draw("means", [{ type: "scatter", mode: "markers", x: all, y: rows.map((row, i) => i), marker: { size: 9, color: COLOURS[0], symbol: rows.map((row) => (row.resolved ? "circle" : "circle-open")) }, error_x: { type: "data", symmetric: false, array: far("energy_mean_high_j"), arrayminus: far("energy_mean_low_j"), color: COLOURS[3], thickness: 2 }, text: rows.map((row) => `${si(row.energy_mean_low_j, "J")} … ${si(row.energy_mean_high_j, "J")}${row.resolved ? "" : ", not resolved"}`), hovertemplate: "%{x:.3s}J, 95 %: %{text}<extra></extra>" }],
    Object.assign(layout, { margin: { ...layout.margin, l: 12 }, xaxis: { ...named(axis, `mean energy${tag}`, "J"), ...(wide ? { type: "log" } : { rangemode: "tozero" }) }, yaxis: { ...axis, tickvals: rows.map((_, i) => i), ticktext: rows.map((row) => short(row.task, narrow() ? 16 : 36)), range: [-0.6, rows.length - 0.4] } }));
}

function expected() {
  const all = data.expected, { axis, layout } = style();
  at("expected").hidden = all.length_s.length < 2;
  if (!all.length_s.length) return;
  at("sure-note").textContent = `This recording played again with known powers under its own sensor (simulated): the root mean square error of one instance's energy above static power, by the instance's length. Not in it: ${all.left_out}.${all.length_s.length === 1 ? ` About ${si(all.length_s[0], "s")} long: ${share(all.error[0])}.` : ""}`;
  if (all.length_s.length < 2) return;
  draw("expected", [{ type: "scatter", mode: "lines+markers", x: all.length_s, y: all.error, line: { color: COLOURS[0], width: 2 }, marker: { size: 8 }, text: all.instances.map((n) => `${n.toLocaleString("en")} instances`), hovertemplate: "%{x:.2s}s: %{y:.2%}<br>%{text}<extra></extra>" }],
    Object.assign(layout, { xaxis: named({ ...axis, type: "log" }, "length of an instance", "s"), yaxis: { ...axis, type: "log", title: { text: "expected error (simulated)" }, tickformat: "~p", dtick: "D2" } }));
}

const KNOWN_BY = { calls: "seen calling the library", creator: "ran on the thread that created them", alone: "ran while the threads worked", onsets: "ran when the threads began to work", unknown: "not known which: those that ran alone" };
const MOST_NAMES = 5;
const several = (names) => names.slice(0, MOST_NAMES).join(", ") + (names.length > MOST_NAMES ? ` and ${names.length - MOST_NAMES} more` : "");
const under = (text, quiet) => (quiet ? `${text}\n${quiet}` : text);
const POOL_COLUMNS = [
  ["Threads of", (one) => one.title || "a library not known"],
  ["Used by", (one) => under(several(one.served) || "–", one.served.length ? KNOWN_BY[one.known_by] : ""), "word"],
  ["Threads", (one) => one.threads.toLocaleString("en")],
  ["CPU time", (one) => si(one.cpu_s, "s")],
  ["In tasks", (one) => si(one.tasks_j, "J")],
  ["Spinning", (one) => under(si(one.spin_j, "J"), one.spin_j > 0 ? `after ${several(one.spins_after)}` : "")],
  ["Unidentified", (one) => under(si(one.unidentified_j, "J"), one.unidentified_j > 0 ? `of ${several(one.users)}` : "")],
  ["Outside tasks", (one) => si(one.outside_j, "J")],
];
function native() {
  at("native-part").hidden = at("native-legend").hidden = !data.native;
  if (!data.native) return;
  const body = rows("native", POOL_COLUMNS, data.native.pools);
  data.native.pools.forEach((one, place) => { body.rows[place].cells[0].title = one.libraries.filter((name) => name).join(", "); });
}
const pick = (id, first, pairs) => { [["", first], ...pairs].forEach(([value, text]) => { make(at(id), "option", text).value = value; }); at(id).addEventListener("change", instances); };
let timeline = null;
const tools = { at, make, si, share, plain, short, style, fit, draw, named, COLOURS, shadeOf, tag, atMost, meanWithin };
const joules = (value) => (value === null || value === undefined ? "–" : si(value, "J"));
const further = hosts.length ? [["hosts", "Hosts", (value) => value.toLocaleString("en")], ...(sums.length > 1 ? [...new Set(hosts.map((row) => row.quality))].map((quality) => [`${quality}_j`, quality[0].toUpperCase() + quality.slice(1), joules]) : [])] : [];
const table = taskTable(data, { at, make, si, share, further, opens: () => timeline });
if (data.job) at("title").textContent = `tprof report: ${data.job}`;
at("tasks-section-title").textContent += sharedBy;
if (data.findings) {
  data.findings.forEach((text) => make(at("findings"), "li", text));
  at("found-section-title").textContent += tag;
}
at("unresolved").hidden = data.summary.every((row) => row.resolved || row.energy_high_j === null);
at("uncovered").hidden = data.summary.every((row) => row.energy_high_j !== null);
showAnswer(data); cost(); native(); showSources(data);
if (data.instances) {
  pick("task", "all tasks", data.instances.names.map((name, i) => [String(i), name]));
  pick("core", "all cores", data.instances.cpus.map((cpu) => [String(cpu), `core ${cpu}`]));
  at("log").addEventListener("change", instances);
  at("log").parentElement.hidden = data.instances.dense;
  at("task").parentElement.hidden = data.instances.names.length < 2;
  at("core").parentElement.hidden = data.instances.cpus.length < 2;
  at("instances").hidden = single;
  section("instances", () => { if (!single) instances(); });
}
if (data.timeline) {
  if (data.timeline.lanes.length) timeline = exploreTimeline(data, tools);
  at("timeline-section").hidden = !timeline;
  // Cores of unlike hosts have the same numbers.
  document.querySelector("#timeline-section .switch").hidden = hosts.length > 0;
  if (timeline) section("timeline-section", timeline.redraw);
}
if (data.expected) {
  at("sure").hidden = !data.expected.length_s.length;
  section("sure", expected);
}
at("power-section").hidden = !Object.keys(data.power.watts).length;
section("cost", account);
section("tasks-section", means);
section("power-section", () => power("power", data.power));
if (data.over_time) section("over-time", () => power("tasks-over-time", data.over_time));
table();
filterTasks(data);
if (data.left_out_tasks.tasks) {
  at("tasks-left").hidden = false;
  at("tasks-left").textContent = `${data.left_out_tasks.tasks.toLocaleString("en")} more tasks of less energy, together ${si(data.left_out_tasks.energy_j, "J")}, are not on this page: tprof summary lists them.`;
}
at("answer-more").hidden = !timeline || data.answer.task === null;
at("answer-show").addEventListener("click", () => timeline.open(data.answer.task));
document.documentElement.dataset.drawn = "yes";
})();
