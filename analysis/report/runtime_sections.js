// The section of a task runtime.
if (drawing.data.runtime) drawing.section("runtime", () => {
  const { at, make, si, share, short, fit, style, draw, named, COLOURS, tag, data } = drawing, of = data.runtime;
  const facts = of.facts, rest = (name) => share(facts.makespan_s ? facts[`run_${name}_s`] / facts.makespan_s : null);
  at("runtime-figures").replaceChildren();
  for (const [text, label] of [[si(facts.makespan_s, "s"), "from first spawn to last end"], [si(facts.span_s, "s"), `longest chain, ${share(facts.share)} of it`], [facts.parallelism === null ? "–" : facts.parallelism.toFixed(1), "workers at once that the dependences allow (work / longest chain)"], [si(facts.path_j, "J"), `of the longest chain${tag}`]]) {
    const one = make(at("runtime-figures"), "div", undefined, "figure");
    make(one, "b", text); make(one, "span", label, "quiet");
  }
  at("runtime-parts").textContent = `What this run waited for, backwards from its last instance: running ${rest("running")}, for data ${rest("data")}, for a worker ${rest("worker")}, for the program to spawn ${rest("spawning")}, paused ${rest("paused")}.`;
  const bars = (id, rows, label, parts, unit) => {
    const { axis, layout } = style(), ordered = rows.slice().reverse();
    at(id).hidden = !rows.length;
    fit(id, rows.length, 130);
    draw(id, parts.map(([key, name, colour]) => ({ type: "bar", orientation: "h", name, x: ordered.map((row) => row[key]), y: ordered.map((_, i) => i), marker: { color: colour }, hovertemplate: `%{x:.3s}${unit} ${name}<extra></extra>` })),
      Object.assign(layout, { barmode: "stack", margin: { ...layout.margin, l: 12 }, xaxis: named(axis, "", unit), yaxis: { ...axis, tickvals: ordered.map((_, i) => i), ticktext: ordered.map((row) => short(label(row))), range: [-0.6, ordered.length - 0.4] } }));
  };
  bars("waits", of.waits, (row) => row.task, [["wait_data_mean_s", "waiting for data", COLOURS[1]], ["wait_worker_mean_s", "waiting for a worker", COLOURS[4]], ["own_mean_s", "running", COLOURS[0]]], "s");
  bars("workers", of.workers, (row) => `worker ${row.worker}${row.cpu < 0 ? "" : ` (core ${row.cpu})`}, ${row.thread}`, [["running_s", "running", COLOURS[0]], ["suspended_s", "suspended inside an instance", COLOURS[5]], ["starved_s", "starved: nothing was ready", COLOURS[1]], ["overhead_s", "overhead: something was ready", COLOURS[3]]], "s");
  at("workers-title").hidden = !of.workers.length;
  const fill = (id, columns, rows) => {
    const head = at(id).tHead, body = at(id).tBodies[0];
    head.replaceChildren(); body.replaceChildren();
    const titles = make(head, "tr");
    columns.forEach(([title]) => { make(titles, "th", title).scope = "col"; });
    rows.forEach((row) => { const line = make(body, "tr"); columns.forEach(([, show]) => show(row, make(line, "td"))); });
  };
  const link = (row, cell) => { make(cell, "a", row.task).href = `#task-${data.summary.findIndex((one) => one.task === row.task)}`; };
  const text = (show) => (row, cell) => { cell.textContent = show(row); };
  const chain = (id, rows, by, total) => fill(id, [["Task", link], ["Instances", text((row) => row.instances.toLocaleString("en"))], ["Time on it", text((row) => si(row.path_s, "s"))], [`Energy on it${tag}`, text((row) => si(row.energy_j, "J"))], ["Share", text((row) => share(total && row[by] !== null ? row[by] / total : null))]], rows);
  chain("chain", of.chain, "path_s", facts.span_s);
  chain("heaviest", of.heaviest, "energy_j", facts.heaviest_j);
  at("links-title").textContent = `The longest chain, instance by instance${of.links_left_out ? ` (${of.links_left_out.toLocaleString("en")} more are not shown)` : ""}`;
  fill("links", [["Task", link], ["Instance", text((row) => String(row.instance))], ["Started at", text((row) => si(row.start_s, "s"))], ["Time on it", text((row) => si(row.path_s, "s"))], [`Energy on it${tag}`, text((row) => si(row.energy_j, "J"))]], of.links);
});
// The section of a policy's decisions.
if (drawing.data.operating) drawing.section("operating", () => {
  const { at, make, si, short, style, draw, named, COLOURS, data } = drawing, of = data.operating;
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
});
