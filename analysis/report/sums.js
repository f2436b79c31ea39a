// The page of a recording that kept sums.
(() => {
const { at, data, tag, sharedBy, share, si, short, plain, style, draw, named, section, sheet, COLOURS } = drawing;
const rows = data.tasks.map((one) => [one.task, one.instances.toLocaleString("en"), si(one.energy_j, "J"), share(one.share), one.mean, si(one.duration_mean_s, "s"), si(one.power_w, "W")]);
sheet(at("tasks-section"), { title: `Energy by task${sharedBy}`, headings: ["task", "instances", "energy", "share", "mean, 95 %", "mean time", "power"], texts: 1, rows, note: "Energy is without nested tasks." }, "tasks", "h3");
// A line of steps: each value holds until the next time.
const steps = (id, found, label) => section(id === "power" ? "power-section" : "over-time", () => {
  const { axis, layout } = style();
  const traces = Object.entries(found.watts).map(([name, watts], place) => ({ type: "scatter", mode: "lines", name: short(name), x: found.x, y: [...watts, watts.at(-1)], line: { shape: "hv", width: 1.5, color: COLOURS[place % COLOURS.length] }, hovertemplate: `${plain(name)}: %{y:.3s}W at %{x:.4s}s` }));
  draw(id, traces, { ...layout, showlegend: true, xaxis: named(axis, "time from the begin of the recording", "s"), yaxis: named({ ...axis, rangemode: "tozero" }, label + tag, "W") });
});
steps("tasks-over-time", data.over_time, "power");
steps("power", data.power, "power");
})();
