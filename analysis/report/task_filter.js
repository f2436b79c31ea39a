// The field above the table of tasks: rows whose name has the text stay; how many is read out.
const filterTasks = (data) => {
  const { at } = drawing, field = at("filter"), rows = () => [...at("tasks").tBodies[0].rows];
  at("filter-part").hidden = data.summary.length < 5;
  const apply = () => {
    const text = field.value.trim().toLowerCase();
    rows().forEach((row) => { row.hidden = !row.cells[0].textContent.toLowerCase().includes(text); });
    const left = rows().filter((row) => !row.hidden).length;
    at("filter-count").textContent = text ? `${left.toLocaleString("en")} of ${rows().length.toLocaleString("en")} tasks` : "";
  };
  field.addEventListener("input", apply);
  at("tasks").addEventListener("sorted", apply);
  field.addEventListener("keydown", (event) => { if (event.key === "Escape") { field.value = ""; apply(); } });
  return apply;
};
