(() => {
const { at, make, plain, COLOURS, SYMBOLS, style, draw, named, sheet, theme } = drawing;
const data = JSON.parse(at("data").textContent);
const scale = (base, one) => named({ ...base, type: one.log ? "log" : "linear", ...(one.log ? { exponentformat: "power" } : {}) }, plain(one.title), one.log ? "" : one.unit);

function heat(one) {
  return {
    type: "contour", x: one.surface.x, y: one.surface.y, z: one.surface.z, colorscale: "Viridis", reversescale: true, ncontours: 24,
    connectgaps: false, colorbar: { title: { text: plain(one.surface.name), side: "right" } }, contours: { coloring: "fill", showlines: false },
    hovertemplate: `%{x:.4s}, %{y:.4s}: %{z:.3g}<extra>${plain(one.surface.name)}</extra>`,
  };
}

function lines(one) {
  return one.curves.map((curve, place) => ({
    type: "scatter", mode: curve.points ? "markers" : "lines", name: plain(curve.name), x: curve.x, y: curve.y,
    line: { color: COLOURS[place % 8], width: 2.5, dash: curve.dash },
    marker: { color: COLOURS[place % 8], symbol: SYMBOLS[place % 10], size: 9 },
    hovertemplate: `%{x:.4s}: %{y:.4s}${one.y.unit}<extra>${plain(curve.name)}</extra>`,
  }));
}

function band(one, layout, ink) {
  const [from, to, text] = one.band, place = (value) => (one.x.log ? Math.log10(value) : value);
  layout.shapes = [{ type: "rect", xref: "x", yref: "paper", x0: from, x1: to, y0: 0, y1: 1, fillcolor: COLOURS[2], opacity: 0.14, line: { width: 0 } }];
  layout.annotations = [{ xref: "x", yref: "paper", x: (place(from) + place(to)) / 2, y: 1, yanchor: "bottom", text: plain(text), showarrow: false, font: { color: ink, size: 12 } }];
}

function figure(one, place) {
  const { axis, layout } = style();
  Object.assign(layout, { xaxis: scale(axis, one.x), yaxis: scale(axis, one.y), height: one.surface ? 520 : 380, showlegend: true });
  if (one.band) band(one, layout, layout.font.color);
  draw(`figure-${place}`, [...(one.surface ? [heat(one)] : []), ...lines(one)], layout);
}

function addSection(one, place) {
  const section = make(at("figures-of-the-model"), "section");
  make(section, "h2", one.title);
  if (one.note) make(section, "p", one.note, "quiet");
  make(section, "div", undefined, "plot").id = `figure-${place}`;
}

const figures = () => data.figures.forEach(figure);
make(at("badges"), "span", "CALCULATED", "badge");
at("title").textContent = data.title;
document.title = data.title;
data.sentences.forEach((text) => make(at("sentences"), "li", text));
data.notes.forEach((text) => make(at("notes"), "li", text));
data.figures.forEach(addSection);
data.tables.forEach((one, place) => sheet(at("tables"), one, `table-${place}`));
theme(figures);
figures();
document.documentElement.dataset.drawn = "yes";
})();
