(() => {
const { at, make, plain, COLOURS, SYMBOLS, style, draw, named, dots, sheet, section, data } = drawing;
const ofModel = (model) => { const place = data.models.indexOf(model); return { color: COLOURS[place % COLOURS.length], symbol: SYMBOLS[place % SYMBOLS.length] }; };

function errors(one, place) {
  const { axis, layout } = style();
  const points = one.series.map((series) => ({
    type: "scatter", mode: "markers", name: plain(series.model), legendgroup: series.model, x: series.length_s, y: series.error, text: series.text.map(plain),
    marker: { ...ofModel(series.model), size: 8, opacity: 0.7 }, hovertemplate: "%{x:.3s}s: %{y:.3~p}<br>%{text}",
  }));
  const medians = one.series.map((series) => ({
    type: "scatter", mode: "lines", legendgroup: series.model, showlegend: false, x: series.lengths_s, y: series.median,
    line: { color: ofModel(series.model).color, width: 2 }, hoverinfo: "skip",
  }));
  draw(`errors-${place}`, [...points, ...medians], { ...layout, height: 460, showlegend: true,
    xaxis: named({ ...axis, type: "log", dtick: 1 }, "length of the task", "s"), yaxis: { ...axis, type: "log", tickformat: "~p", dtick: 1, title: { text: "error" } } });
}

function panels(id, all) {
  all.forEach((one, place) => {
    const part = make(at(id), "div");
    if (one.title) make(part, "h3", one.title);
    make(part, "div", undefined, "plot").id = `${id}-${place}`;
  });
}

const colours = (series) => series.map((one, place) => (data.models.includes(one.name) ? { name: one.name, ...ofModel(one.name) } : { name: one.name, color: COLOURS[place ? 3 : 0], symbol: SYMBOLS[place] }));
const beside = (id, format, zero, mark) => (one, place) => dots(`${id}-${place}`, { labels: one.labels, series: one.series.map((series, i) => ({ ...series, ...colours(one.series)[i] })), format, zero, mark });

function figures() {
  data.errors.forEach(errors);
  [data.coverage].forEach(beside("coverage", ".0%", true, [0.95, "95 %"]));
  data.kernels.forEach(beside("kernels", ".0%", true));
  data.pairs.forEach(beside("pairs", "+.0%", true));
}

at("setup").textContent = data.setup;
make(at("badges"), "span", "SIMULATED", "badge");
panels("errors", data.errors);
panels("coverage", [data.coverage]);
panels("kernels", data.kernels);
panels("pairs", data.pairs);
data.tables.forEach((one, place) => sheet(at("tables"), one, `table-${place}`, "h3"));
section("main", figures);
document.documentElement.dataset.drawn = "yes";
})();
