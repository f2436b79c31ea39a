"use strict";
// The section of a policy's decisions; `tools` are what report.js draws everything with.
const drawOperating = (data, tools) => {
  const { at, make, si, short, style, draw, named, COLOURS } = tools, of = data.operating;
  at("operating").hidden = !of;
  if (!of) return;
  const acted = at("acted");
  acted.replaceChildren();
  of.acted.why.forEach((why, i) => { make(acted, "li", `A budget, at ${si(of.acted.time_s[i], "s")}: ${why}`); });
  at("operating-note").hidden = !of.policies.length;
  at("operating-note").textContent = `Policy ${of.policies.join(", ")}: the frequency was set ${of.changes.toLocaleString("en")} times.${of.workers.workers.length ? ` Active workers: ${of.workers.workers.join(", then ")}.` : ""}`;
  const { axis, layout } = style(), gigahertz = (hz) => hz.map((one) => (one === null ? null : one / 1e9));
  at("frequencies").hidden = !of.lines.length;
  draw("frequencies", of.lines.map((one, i) => ({ type: "scatter", mode: "lines", line: { shape: "hv", ...(one.bound ? { dash: "dot", color: COLOURS[7] } : { color: COLOURS[i % COLOURS.length] }) }, name: short(one.name), showlegend: true, x: one.time_s, y: gigahertz(one.frequency_hz), hovertemplate: "%{y:.3f} GHz at %{x:.4g} s<extra></extra>" })),
    Object.assign(layout, { xaxis: named(axis, "time", "s"), yaxis: { ...axis, title: { text: "frequency in GHz" } } }));
  const left = of.lines.reduce((total, one) => total + one.left_out, 0);
  at("operating-left").textContent = left ? `${left.toLocaleString("en")} changes in between are not drawn.` : "";
  const head = at("chosen").tHead, body = at("chosen").tBodies[0];
  head.replaceChildren(); body.replaceChildren();
  at("chosen").hidden = !of.chosen.length;
  const titles = make(head, "tr");
  ["Task", "Frequency", "Mean energy there", "Mean time there", "From", "Decided at", "Changes"].forEach((title) => { make(titles, "th", title).scope = "col"; });
  of.chosen.forEach((row) => {
    const line = make(body, "tr");
    [row.task, row.frequency_hz === null ? "–" : `${(row.frequency_hz / 1e9).toFixed(3)} GHz`, `${si(row.energy_j, "J")}${row.quality ? `, ${row.quality}` : ""}`, si(row.instance_s, "s"), row.why, si(row.time_s, "s"), row.changes.toLocaleString("en")].forEach((text) => make(line, "td", text));
  });
};
