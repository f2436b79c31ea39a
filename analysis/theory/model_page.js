(() => {
const { at, make, style, draw, sheet, addSection, section, data } = drawing;
function figure(one, place) {
  const { axis, layout } = style(), { xaxis, yaxis, ...given } = one.plot.layout;
  draw(`figure-${place}`, one.plot.data, { ...layout, ...given, xaxis: { ...axis, ...xaxis }, yaxis: { ...axis, ...yaxis } });
}

function addFigure(one, place) {
  const inside = addSection(at("figures-of-the-model"), { id: `section-${place}`, title: one.title });
  if (one.note) make(inside, "p", one.note, "quiet");
  make(inside, "div", undefined, "plot").id = `figure-${place}`;
  section(`section-${place}`, () => figure(one, place));
}

make(at("badges"), "span", "CALCULATED", "badge");
at("title").textContent = data.title;
document.title = data.title;
data.sentences.forEach((text) => make(at("sentences"), "li", text));
data.notes.forEach((text) => make(at("notes"), "li", text));
data.figures.forEach(addFigure);
data.tables.forEach((one, place) => sheet(at("tables"), one, `table-${place}`));
document.documentElement.dataset.drawn = "yes";
})();
