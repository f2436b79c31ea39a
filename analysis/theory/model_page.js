(() => {
const { at, make, style, draw, sheet, theme } = drawing;
const data = JSON.parse(at("data").textContent);
function figure(one, place) {
  const { axis, layout } = style(), { xaxis, yaxis, ...given } = one.plot.layout;
  draw(`figure-${place}`, one.plot.data, { ...layout, ...given, xaxis: { ...axis, ...xaxis }, yaxis: { ...axis, ...yaxis } });
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
