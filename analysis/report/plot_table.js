// The text alternative of a plot: a name for it, and its figures as a table that is filled when it is opened.
const describePlot = (() => {
const { make } = frame, MOST = 500, drawn = new Map();
const textOf = (axis, otherwise) => String((axis && axis.title && axis.title.text) || otherwise).replace(/<[^>]*>/g, " ");
const axisOf = (layout, trace, name) => layout[`${name}axis${String(trace[`${name}axis`] || "").slice(1)}`] || {};
const written = (value, axis) => {
  const place = axis.tickvals && axis.ticktext ? axis.tickvals.indexOf(value) : -1;
  if (place >= 0) return axis.ticktext[place];
  if (value === null || value === undefined) return "–";
  return typeof value === "number" ? `${Number(value.toPrecision(5))}${axis.ticksuffix ? ` ${axis.ticksuffix}` : ""}` : String(value);
};
const isShown = (trace) => trace.hoverinfo !== "skip" && trace.x && trace.x.length;
const unescape = (text) => new DOMParser().parseFromString(String(text), "text/html").body.textContent;

function rowsOf(traces, layout) {
  const rows = [];
  let count = 0;
  traces.forEach((trace) => {
    const x = axisOf(layout, trace, "x"), y = axisOf(layout, trace, "y"), name = unescape(trace.name || "");
    const add = (...cells) => { count += 1; if (rows.length < MOST) rows.push([name, ...cells]); };
    if (trace.z) trace.z.forEach((line, i) => [...line].forEach((value, j) => { if (value !== null) add(written(trace.x[j], x), written(trace.y[i], y), written(value, {})); }));
    else [...trace.x].forEach((value, i) => { if (value !== null && trace.y[i] !== null) add(written(value, x), written(trace.y[i], y)); });
  });
  return { rows, count };
}

function fill(details) {
  const { traces, layout } = drawn.get(details), shown = traces.filter(isShown), { rows, count } = rowsOf(shown, layout);
  details.querySelectorAll(":scope > :not(summary)").forEach((one) => one.remove());
  const region = make(details, "div", undefined, "scroll");
  region.tabIndex = 0; region.setAttribute("role", "region"); region.setAttribute("aria-label", details.firstChild.textContent);
  const table = make(region, "table", undefined, "sheet"), head = make(make(table, "thead"), "tr"), body = make(table, "tbody");
  table.createCaption().textContent = count > rows.length ? `The first ${rows.length.toLocaleString("en")} of ${count.toLocaleString("en")} values` : `${count.toLocaleString("en")} values`;
  const first = shown[0] || {}, titles = [textOf(axisOf(layout, first, "x"), "across"), textOf(axisOf(layout, first, "y"), "up")];
  const heads = ["Series", ...titles, ...(shown.some((one) => one.z) ? ["Value"] : [])];
  heads.forEach((text) => { make(head, "th", unescape(text)).scope = "col"; });
  rows.forEach((row) => { const line = make(body, "tr"); heads.forEach((_, i) => make(line, "td", row[i] === undefined ? "" : unescape(row[i]))); });
}

// The heading that a reader sees above the plot.
function headingOf(plot) {
  for (let one = plot; one && one.tagName !== "MAIN"; one = one.parentElement) {
    for (let before = one.previousElementSibling; before; before = before.previousElementSibling) {
      const found = before.matches("h2,h3,h4") ? before : before.querySelector("h2,h3,h4");
      if (found) return found.textContent;
    }
  }
  return document.title;
}

return (plot, traces, layout) => {
  let details = plot.nextElementSibling;
  if (!details || !details.matches("details.figures-of")) {
    details = document.createElement("details");
    details.className = "figures-of";
    plot.after(details);
    make(details, "summary");
    details.addEventListener("toggle", () => { if (details.open) fill(details); });
  }
  const heading = headingOf(plot), names = [...new Set(traces.filter(isShown).map((one) => unescape(one.name || "")).filter(Boolean))];
  plot.setAttribute("role", "figure");
  plot.setAttribute("aria-label", `Plot: ${heading}${names.length ? `; ${names.slice(0, 8).join(", ")}${names.length > 8 ? ` and ${names.length - 8} more` : ""}` : ""}. A table of its figures follows.`);
  details.firstChild.textContent = `Figures of this plot as a table`;
  details.firstChild.setAttribute("aria-label", `Figures of the plot “${heading}” as a table`);
  drawn.set(details, { traces, layout });
  if (details.open) fill(details);
};
})();
