// What every page of tprof draws with; a page's own script follows it in the same element.
const drawing = (() => {
const { at, make, put, section, addSection } = frame, data = JSON.parse(at("data").textContent);
// What stands behind a figure that was not measured.
const tag = data.info && data.info.quality !== "measured" ? ` (${data.info.quality})` : "";
// A job has the models of its hosts.
const sharedBy = data.info?.model ? ` (${data.info.quality}, by ${[data.info.model].flat().join(" and ")})` : "";
const share = (value) => (value === null || value === undefined ? "–" : `${(100 * value).toFixed(1)} %`);
// Plotly reads some tags in its texts; escaped ones are shown as they are.
const plain = (text) => String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
const si = (value, unit) => {
  if (value === null || value === undefined) return "not resolved";
  const steps = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"], [1, ""], [1e-3, "m"], [1e-6, "µ"], [1e-9, "n"]];
  const written = Math.abs(Number(value.toPrecision(3)));
  const step = value === 0 ? [1, ""] : steps.find((s) => written >= s[0]) || steps.at(-1);
  return `${Number((value / step[0]).toPrecision(3))} ${step[1]}${unit}`;
};
// A name in a legend or beside an axis; hovering shows all of it.
const short = (text, most = 36) => { const all = Array.from(String(text)); return plain(all.length > most ? `${all.slice(0, most - 1).join("")}…` : text); };
// Each stands out from the paper of its mode; symbols distinguish what colours may not.
const LIGHT = ["#0072b2", "#b86e00", "#00805a", "#cc4c02", "#b3478c", "#128099", "#7d7300", "#6c757d"];
const DARK = ["#5eb1ef", "#f0a830", "#2fbf8f", "#ff8a5c", "#e08cc0", "#4fd0e0", "#d8cc50", "#a0a8b0"];
const COLOURS = [...LIGHT];
const SYMBOLS = ["circle", "square", "diamond", "cross", "x", "triangle-up", "star", "triangle-down", "pentagon", "hexagon"];
// The place of a name by energy is the same in all sections, and so is its colour: tasks as the table has them, then functions
// and hosts. The last colour is grey, for what is none of them.
const ranks = new Map(), NAMED = LIGHT.length - 1;
const placeOf = (name) => { if (!ranks.has(name)) ranks.set(name, ranks.size); return ranks.get(name); };
const shadeOf = (name) => placeOf(name) % NAMED;
if (Array.isArray(data.summary)) data.summary.forEach((row) => { placeOf(row.task); });
const narrow = () => matchMedia("(max-width: 600px)").matches;
const style = () => {
  const of = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const axis = { gridcolor: of("--line"), zerolinecolor: of("--line"), automargin: true, tickangle: 0, ticklabelstandoff: 4, nticks: narrow() ? 5 : 10 };
  return { of, axis, layout: { paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", font: { color: of("--ink"), family: "system-ui, sans-serif", size: narrow() ? 11 : 12 }, colorway: COLOURS, margin: { l: narrow() ? 44 : 56, r: 12, t: 30, b: 44 }, modebar: { bgcolor: "rgba(0,0,0,0)", color: of("--quiet"), activecolor: of("--ink") }, legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom", maxheight: 160 }, hovermode: "closest", hoverlabel: { namelength: -1 }, dragmode: narrow() ? false : "zoom" } };
};
// A plot of one line a row is as high as its rows need.
const fit = (id, rows, besides = 120) => { Object.assign(at(id).style, { height: `${besides + 26 * rows}px`, minHeight: "0" }); };
// A plot in a section that is folded is drawn when it is opened: without a size it could not be.
const waiting = new Map();
const draw = (id, traces, layout) => {
  const fold = at(id).closest("details.fold");
  if (fold && !fold.open) { waiting.set(id, [traces, layout]); return; }
  waiting.delete(id);
  Plotly.react(at(id), traces, layout, { responsive: true, displaylogo: false, displayModeBar: narrow() ? false : "hover" });
  describePlot(at(id), traces, layout);
};
document.addEventListener("toggle", () => [...waiting].forEach(([id, [traces, layout]]) => draw(id, traces, layout)), true);
const named = (base, text, unit) => Object.assign({ title: { text, standoff: 8 } }, unit ? { exponentformat: "SI", minexponent: 1, ticksuffix: unit } : {}, base);
frame.follow((dark) => { COLOURS.splice(0, COLOURS.length, ...(dark ? DARK : LIGHT)); });
// Values of several series for each label, a line of dots a label: names stand beside it, however long and many.
const dots = (id, { labels, series, format, zero, mark }) => {
  const { of, axis, layout } = style(), places = labels.map((_, i) => labels.length - 1 - i);
  fit(id, labels.length, narrow() ? 190 : 130);
  if (mark) {
    layout.shapes = [{ type: "line", x0: mark[0], x1: mark[0], yref: "paper", y0: 0, y1: 1, line: { color: of("--quiet"), dash: "dash", width: 1 } }];
    layout.annotations = [{ x: mark[0], y: 1, yref: "paper", yanchor: "top", xanchor: "right", text: mark[1], showarrow: false }];
  }
  draw(id, series.map((one) => ({ type: "scatter", mode: "markers", name: plain(one.name), x: one.values, y: places, text: labels.map(plain), marker: { color: one.color, symbol: one.symbol, size: 10, opacity: 0.85 }, hovertemplate: `%{text}: %{x:${format}}` })),
    { ...layout, height: undefined, showlegend: true, margin: { ...layout.margin, l: 8 }, legend: { ...layout.legend, y: -60 / (26 * labels.length + 40) }, xaxis: { ...axis, tickformat: format, rangemode: zero ? "tozero" : "normal" }, yaxis: { ...axis, tickvals: places, ticktext: labels.map((one) => short(one, narrow() ? 18 : 40)), range: [-0.7, labels.length - 0.3], zeroline: false } });
};
// A table of text, its first `texts` columns words; `kind` may give a column a class. It is a section of the page, or with
// level h3 a part of one.
const sheet = (parent, one, id, level = "h2", kind = () => "") => {
  const inside = level === "h2" ? addSection(parent, { id, title: one.title }) : make(parent, "div");
  if (level !== "h2") make(inside, level, one.title).id = `${id}-title`;
  const region = make(inside, "div", undefined, "scroll");
  region.tabIndex = 0; region.setAttribute("role", "region"); region.setAttribute("aria-labelledby", `${id}-title`);
  const drawn = make(region, "table", undefined, "sheet"), titles = make(make(drawn, "thead"), "tr"), body = make(drawn, "tbody");
  const classOf = (column) => `${column < one.texts ? "word" : ""} ${kind(one.headings[column])}`.trim() || undefined;
  one.headings.forEach((heading, column) => { make(titles, "th", heading, classOf(column)).scope = "col"; });
  one.rows.forEach((row) => { const line = make(body, "tr"); row.forEach((cell, column) => make(line, "td", cell, classOf(column))); });
  if (one.note) make(inside, "p", one.note, "quiet");
};
// The rows of a table that the page has: columns of a title, what shows a row's cell, and perhaps a class.
const rows = (id, columns, all) => {
  const head = make(at(id).tHead, "tr"), body = at(id).tBodies[0];
  columns.forEach(([title, , kind]) => { make(head, "th", title, kind).scope = "col"; });
  all.forEach((row) => { const line = make(body, "tr"); columns.forEach(([, show, kind]) => make(line, "td", show(row), kind)); });
  return body;
};
return { at, make, put, rows, section, addSection, follow: frame.follow, redraw: frame.redraw, data, tag, sharedBy, share, plain, short, si, COLOURS, SYMBOLS, placeOf, shadeOf, style, narrow, fit, draw, named, dots, sheet };
})();
