// What only the page of a job shows: its hosts, its tasks by host, its longest chain, and its accounts.
(() => {
const { at, make, rows, plain, short, si, COLOURS, style, narrow, fit, draw, named, section, data, share, tag } = drawing;
if (!data.hosts) return;
const known = data.hosts.filter((row) => row.quality !== "missing"), mixed = new Set(known.map((row) => row.quality)).size > 1;
const joules = (value) => (value === null || value === undefined ? "–" : si(value, "J"));

const signed = (value) => (value === null ? "–" : `${value < 0 ? "−" : "+"}${(100 * Math.abs(value)).toFixed(1)} %`);
const HOST_COLUMNS = [["Host", (row) => row.host], ["Quality", (row) => row.quality], ["Energy", (row) => joules(row.energy_j)], ["Mean power", (row) => (row.power_w === null ? "–" : si(row.power_w, "W"))], ["Tasks", (row) => joules(row.tasks_j)], ["Runtime", (row) => joules(row.runtime_j)], ["Other", (row) => joules(row.other_j)], ["Idle", (row) => joules(row.idle_j)], ["Busy", (row) => share(row.busy_share)], ["Imbalance", (row) => signed(row.imbalance)], ["Instances", (row) => (row.instances === null ? "–" : row.instances.toLocaleString("en"))], ["Processes", (row) => (row.processes === null ? "–" : row.processes.toLocaleString("en"))]];
const ACCOUNT_COLUMNS = [["Host and domain", (row) => `${row.host}\n${row.domain}`], ["Energy", (row) => joules(row.measured_j)], ...["tasks", "runtime", "other", "idle", "spin", "unidentified"].map((name) => [{ spin: "Spinning" }[name] || name[0].toUpperCase() + name.slice(1), (row) => joules(row[`${name}_j`])]), ["Quality", (row) => row.quality], ["In the total", (row) => (row.counted ? "yes" : "no: part of another domain or around it")]];
function hosts() {
  const body = rows("hosts", HOST_COLUMNS, data.hosts);
  data.hosts.forEach((row, place) => { if (row.missing) body.rows[place].cells[0].textContent += `\n${row.missing}`; });
  at("offsets").textContent = data.offsets.length ? `Compared by: ${data.offsets.join("; ")}.` : "";
  if (at("domains")) rows("domain-accounts", ACCOUNT_COLUMNS, data.accounts);
}

const label = (row) => short(mixed ? `${row.host} (${row.quality})` : row.host, narrow() ? 16 : 36);
const ofHosts = (axis, all) => ({ ...axis, tickvals: all.map((_, i) => i), ticktext: all.map(label), range: [all.length - 0.5, -0.5] });
const ACCOUNTS = [["tasks", "tasks_j", 0], ["runtime", "runtime_j", 1], ["other", "other_j", 4], ["idle", "idle_j", 7]];
function shares() {
  const { axis, layout } = style();
  fit("shares", known.length, 130);
  draw("shares", ACCOUNTS.map(([name, key, colour]) => ({ type: "bar", orientation: "h", name, x: known.map((row) => row[key]), y: known.map((_, i) => i), marker: { color: COLOURS[colour] }, text: known.map((row) => plain(`${row.host}: ${name} ${joules(row[key])}, ${row.quality}`)), textposition: "none", hovertemplate: "%{text}<extra></extra>" })),
    { ...layout, barmode: "stack", bargap: 0.3, margin: { ...layout.margin, l: 12 }, xaxis: named({ ...axis, rangemode: "tozero" }, `energy${tag}`, "J"), yaxis: ofHosts(axis, known) });
}

const MOST_TASKS = 7;
function byHost() {
  const { axis, layout } = style(), names = data.summary.slice(0, MOST_TASKS).map((row) => row.task), places = new Map(known.map((row, i) => [row.host, i]));
  const of = (belongs) => { const sums = known.map(() => 0); data.by_host.filter(belongs).forEach((row) => { sums[places.get(row.host)] += row.energy_j || 0; }); return sums; };
  const series = names.map((name) => [name, of((row) => row.task === name)]);
  if (data.summary.length > MOST_TASKS) series.push(["all other tasks", of((row) => !names.includes(row.task))]);
  fit("by-host", known.length, 140);
  draw("by-host", series.map(([name, sums], i) => ({ type: "bar", orientation: "h", name: short(name), x: sums, y: known.map((_, place) => place), marker: { color: COLOURS[i] }, text: known.map((row, place) => plain(`${name} on ${row.host}: ${joules(sums[place])}, ${row.quality}`)), textposition: "none", hovertemplate: "%{text}<extra></extra>" })),
    { ...layout, barmode: "stack", bargap: 0.3, showlegend: true, margin: { ...layout.margin, l: 12 }, xaxis: named({ ...axis, rangemode: "tozero" }, `energy of tasks${tag}`, "J"), yaxis: ofHosts(axis, known) });
}

function path() {
  const of = data.path;
  const facts = of.facts, kind = of.quality === "measured" ? "" : ` (${of.quality})`, part = (name) => share(facts.makespan_s ? facts[`run_${name}_s`] / facts.makespan_s : null);
  [[si(facts.makespan_s, "s"), "from first start to last end"], [si(facts.span_s, "s"), `longest chain, ${share(facts.share)} of it`], [facts.parallelism === null ? "–" : facts.parallelism.toFixed(1), "workers at once that the dependences allow (work / longest chain)"], [joules(facts.path_j), `of the longest chain${kind}`], [of.host_changes.toLocaleString("en"), "changes of the host"]].forEach(([text, name]) => { const one = make(at("path-figures"), "div", undefined, "figure"); make(one, "b", text); make(one, "span", name, "quiet"); });
  at("path-parts").textContent = `What this run waited for, backwards from its last instance: running ${part("running")}, for data ${part("data")}, for data of another host ${part("transfer")}, for a worker ${part("worker")}, for the program to spawn ${part("spawning")}, paused ${part("paused")}.${facts.contradicting ? ` ${facts.contradicting.toLocaleString("en")} dependences contradict the recorded times, and are left out.` : ""}`;
  rows("chain", [["Host", (row) => row.host], ["Task", (row) => row.task], ["Instances", (row) => row.instances.toLocaleString("en")], ["Time on it", (row) => si(row.path_s, "s")], [`Energy on it${kind}`, (row) => joules(row.energy_j)], ["Share", (row) => share(facts.span_s ? row.path_s / facts.span_s : null)]], of.chain);
  if (of.links_left_out) at("links-title").textContent += ` (${of.links_left_out.toLocaleString("en")} more are not shown)`;
  rows("links", [["Host", (row) => row.host], ["Task", (row) => row.task], ["Instance", (row) => String(row.instance)], ["Started at", (row) => si(row.start_s, "s")], ["Time on it", (row) => si(row.path_s, "s")], [`Energy on it${kind}`, (row) => joules(row.energy_j)]], of.links);
}

at("hosts-section-title").textContent += tag;
hosts();
if (data.path) path();
section("hosts-section", shares);
section("by-host-section", byHost);
})();
