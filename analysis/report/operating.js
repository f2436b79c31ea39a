"use strict";
// The section of a policy's decisions; `tools` are what report.js draws everything with.
const drawOperating = (data, tools) => {
  const { at, make, si, plain, style, draw, named, COLOURS } = tools, of = data.operating;
  at("operating").hidden = !of;
  if (!of) return;
  at("operating-note").textContent = `Policy ${of.policies.join(", ")}: the frequency was set ${of.changes.toLocaleString("en")} times.${of.workers.workers.length ? ` Active workers: ${of.workers.workers.join(", then ")}.` : ""}`;
  const { axis, layout } = style(), gigahertz = (hz) => hz.map((one) => (one === null ? null : one / 1e9));
  const steps = (one, name, line) => ({ type: "scatter", mode: "lines", line: { shape: "hv", ...line }, name: plain(name), x: [0, ...one.time_s, of.duration_s], y: gigahertz([one.former_hz[0], ...one.frequency_hz, one.frequency_hz[one.frequency_hz.length - 1]]), hovertemplate: "%{y:.3f} GHz at %{x:.4g} s<extra></extra>" });
  const lines = of.controls.map((one, i) => steps(one, `processors ${one.cpus}`, { color: COLOURS[i % COLOURS.length] }));
  if (of.allowed.time_s.length) lines.push(steps(of.allowed, "allowed by the cap", { dash: "dot", color: "#888" }));
  at("frequencies").hidden = !lines.length;
  draw("frequencies", lines,
    Object.assign(layout, { xaxis: named(axis, "time", "s"), yaxis: { ...axis, title: { text: "frequency in GHz" } } }));
  const left = of.controls.reduce((total, one) => total + one.left_out, 0);
  at("operating-left").textContent = left ? `${left.toLocaleString("en")} changes in between are not drawn.` : "";
  const head = at("chosen").tHead, body = at("chosen").tBodies[0];
  head.replaceChildren(); body.replaceChildren();
  const titles = make(head, "tr");
  ["Task", "Frequency", "Energy of a mean instance there", "Time of a mean instance there", "From", "Decided at", "Changes at its begin"].forEach((title) => { make(titles, "th", title).scope = "col"; });
  of.chosen.forEach((row) => {
    const line = make(body, "tr");
    [row.task, row.frequency_hz === null ? "–" : `${(row.frequency_hz / 1e9).toFixed(3)} GHz`, si(row.energy_j, "J"), si(row.instance_s, "s"), row.why, si(row.time_s, "s"), row.changes.toLocaleString("en")].forEach((text) => make(line, "td", text));
  });
};
