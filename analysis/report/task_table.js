// The table of tasks, sorted by the column that is pressed; `opens` returns the timeline in which a task is shown, or null.
// What goes with an energy that is not resolved is shown as what it is at most, as in tprof summary.
const atMost = (value, most, row, unit) => { const shown = row.resolved ? value : most; return shown === null ? "–" : (row.resolved ? "" : "≤ ") + drawing.si(shown, unit); };
const mostEdp = (row) => (row.energy_mean_at_most_j === null ? null : row.energy_mean_at_most_j * row.own_mean_s);
// A mean is of all instances that could have run: the spread of a single one is not known.
const meanWithin = (row) => (!row.resolved ? "" : row.energy_mean_high_j === null ? "one instance" : `${drawing.si(row.energy_mean_low_j, "J")} … ${drawing.si(row.energy_mean_high_j, "J")}`);
// A cell breaks between the ends of an interval only.
const unbroken = (text) => text.replace(/([\d≤]) (?=\S)/g, "$1\u00a0").replace(/ …/g, "\u00a0…");
const taskTable = (data, { at, make, si, share, opens, further = [] }) => {
const budgeted = (v, r) => (typeof r.over_budget === "number" ? `${v}\nover budget: ${r.over_budget.toLocaleString("en")} of ${r.instances.toLocaleString("en")} (${si(r.budget_j, "J")})` : String(v));
const within = (value, row, name, suffix, unit) => (value !== null && row.resolved && row[`${name}_low_${suffix}`] !== null ? `\n${si(row[`${name}_low_${suffix}`], unit)} … ${si(row[`${name}_high_${suffix}`], unit)}` : "");
const mean = (value, row) => [atMost(value, row.energy_mean_at_most_j, row, "J"), meanWithin(row)].filter(Boolean).join("\n");
const COLUMNS = [
  ["task", "Task", budgeted], ["instances", "Instances", (v) => v.toLocaleString("en")], ["energy_j", "Energy", (v) => (v === null ? "–" : si(v, "J"))], ["share", "Share", share], ...further,
  ["dynamic_j", "Dynamic", (v, r) => atMost(v, r.dynamic_high_j, r, "J") + within(v, r, "dynamic", "j", "J")], ["energy_mean_j", "Mean", mean], ["duration_mean_s", "Mean time", (v) => si(v, "s")], ["own_mean_s", "Own time", (v) => si(v, "s")],
  ["power_w", "Power", (v, r) => atMost(v, r.power_high_w, r, "W") + within(v, r, "power", "w", "W")], ["edp_js", "EDP", (v, r) => atMost(v, mostEdp(r), r, "Js")],
  ["energy_time_corr", "Correlation", (v, r) => (v === null || r.instances < 10 ? "–" : v.toFixed(2))],
  ...(data.summary.some((r) => r.gpu_j !== undefined) ? [["gpu_j", "GPU", (v) => (v === null ? "–" : si(v, "J"))]] : []),
  ...(data.summary.some((r) => r.native_j !== undefined) ? [["native_j", "Native", (v, r) => `${v === null ? "–" : si(v, "J")}${v !== null && r.native_high_j > 1.005 * v ? `\n≤ ${si(r.native_high_j, "J")}` : ""}`], ["spin_j", "Spinning", (v) => (v === null ? "–" : si(v, "J"))]] : []),
];
let order = ["energy_j", -1];
const table = () => {
  const head = at("tasks").tHead, body = at("tasks").tBodies[0], [by, way] = order;
  const focused = document.activeElement && document.activeElement.dataset.key;
  head.replaceChildren(); body.replaceChildren();
  const titles = make(head, "tr");
  COLUMNS.forEach(([key, title]) => {
    const cell = make(titles, "th"), button = make(cell, "button", title + (key === by ? (way < 0 ? " ↓" : " ↑") : ""));
    cell.scope = "col"; button.type = "button"; button.dataset.key = key;
    cell.setAttribute("aria-sort", key !== by ? "none" : way < 0 ? "descending" : "ascending");
    button.addEventListener("click", () => { order = [key, key === by ? -way : -1]; table(); });
    if (key === focused) button.focus();
  });
  const compare = (a, b) => (a === b ? 0 : a === null ? 1 : b === null ? -1 : (a < b ? -1 : 1) * way);
  [...data.summary].sort((a, b) => compare(a[by], b[by])).forEach((row) => {
    const line = make(body, "tr");
    line.id = `task-${data.summary.indexOf(row)}`;
    COLUMNS.forEach(([key, , show]) => {
      const timeline = opens(), cell = make(line, "td", key === "task" && timeline ? undefined : key === "task" ? show(row[key], row) : unbroken(show(row[key], row)));
      if (key !== "task" || !timeline) return;
      const button = make(cell, "button", row.task);
      button.type = "button"; button.title = button.title || "Show its instances";
      button.addEventListener("click", () => timeline.open(row.task));
      cell.append(show("", row));
    });
  });
  at("tasks").dispatchEvent(new Event("sorted"));
};
return table;
};
// Where the tasks are defined: a list that folds, of those whose place is known.
const showSources = (data) => {
  const { at, make } = drawing, known = data.summary.flatMap((row) => row.places.filter((place) => place.file).map((place) => ({ task: row.task, ...place })));
  if (!known.length) return;
  const all = make(at("sources"), "details");
  make(all, "summary", "Where the tasks are defined");
  known.forEach((place) => {
    const text = `${place.task} – ${place.file}:${place.line}`;
    if (!place.source) { make(all, "p", text); return; }
    const one = make(all, "details");
    make(one, "summary", text);
    Object.assign(make(one, "pre"), { textContent: place.source, tabIndex: 0 });
  });
};
