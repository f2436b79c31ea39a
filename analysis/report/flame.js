// Flame graph and icicle of nested tasks: a box a node, as wide as its joules or seconds; only what is visible is made.
(() => {
const { at, make, section, data, si, share, COLOURS, placeOf, shadeOf, tag } = drawing, packed = data.flame, area = at("flame"), tip = at("flame-tip");
if (!packed) { at("flame-section").hidden = true; return; }
const nodes = packed.nodes, count = nodes.parent.length, children = nodes.parent.map(() => []), ROW = 23, LEAST = 0.0004, LABELLED = 140, THIN = 26;
for (let i = 1; i < count; i += 1) children[nodes.parent[i]].push(i);
const hasEnergy = nodes.energy_j[0] > 0, state = { width: hasEnergy ? "energy_j" : "time_s", colour: "name", top: 0, focus: 0, find: "" };
const value = (i) => Math.max(nodes[state.width][i] || 0, 0), powerOf = (i) => (nodes.time_s[i] > 0 && nodes.energy_j[i] !== null ? nodes.energy_j[i] / nodes.time_s[i] : null);
const most = Math.max(...nodes.parent.map((_, i) => (nodes.time_s[i] > 0.002 * nodes.time_s[0] ? powerOf(i) || 0 : 0)), 1e-12);
[...nodes.parent.keys()].sort((a, b) => value(b) - value(a)).forEach((i) => { if (i > 0 && nodes.kind[i] !== "rest") placeOf(nodes.name[i]); });
let boxes = new Map();

const percent = (low, high) => `${si(low, "J")} … ${si(high, "J")}`;
function facts(i) {
  const rows = [nodes.name[i]];
  if (nodes.place[i]) rows.push(nodes.place[i]);
  if (nodes.energy_j[i] !== null) rows.push(`${si(nodes.energy_j[i], "J")}${tag}, 95 %: ${percent(nodes.energy_low_j[i], nodes.energy_high_j[i])}; ${share(nodes.energy_j[i] / nodes.energy_j[0])} of all`);
  else rows.push("energy not resolved");
  if (nodes.own_s[i] > 0 && nodes.own_j[i] !== null && children[i].length) rows.push(`itself ${si(nodes.own_j[i], "J")} in ${si(nodes.own_s[i], "s")}`);
  const watts = powerOf(i);
  rows.push(`${si(nodes.time_s[i], "s")}${watts === null ? "" : `, ${si(watts, "W")}`}`);
  if (nodes.kind[i] === "task") rows.push(`${nodes.instances[i].toLocaleString("en")} instance${nodes.instances[i] === 1 ? "" : "s"}`);
  if (nodes.samples[i] !== null) rows.push(`${nodes.samples[i].toLocaleString("en")} stack${nodes.samples[i] === 1 ? "" : "s"} sampled`);
  return rows;
}

// Places of the boxes in view: [node, from, to, row], widths as shares of the node on top.
function placed() {
  const found = [], above = [];
  for (let i = state.top; i >= 0; i = nodes.parent[i]) above.unshift(i);
  above.forEach((i, row) => found.push([i, 0, 1, row]));
  const whole = value(state.top), todo = [[state.top, 0, 1, above.length - 1]];
  while (whole > 0 && todo.length) {
    const [i, from, to, row] = todo.pop(), mine = [...children[i]].sort((a, b) => value(b) - value(a));
    let x = from;
    // Children that were rounded to more than their parent share its width.
    const sum = mine.reduce((total, one) => total + value(one), 0), scale = (to - from) / Math.max(value(i), sum);
    mine.forEach((one) => {
      const wide = value(one) * scale;
      if (wide > LEAST) { found.push([one, x, x + wide, row + 1]); todo.push([one, x, x + wide, row + 1]); }
      x += wide;
    });
  }
  return found;
}

function paint(box, i) {
  const isRest = nodes.kind[i] === "rest", watts = powerOf(i), ratio = watts === null ? 0 : watts / most;
  const colour = isRest || i === 0 ? "var(--quiet)" : state.colour === "power" ? COLOURS[3] : COLOURS[shadeOf(nodes.name[i])];
  box.style.setProperty("--of", colour);
  box.style.setProperty("--part", isRest || i === 0 ? "18%" : state.colour === "power" ? `${Math.round(6 + 54 * ratio)}%` : "34%");
  const isFound = state.find && nodes.name[i].toLowerCase().includes(state.find);
  box.classList.toggle("faded", Boolean(state.find) && !isFound);
  box.classList.toggle("found", Boolean(isFound));
}

function draw() {
  const held = area.contains(document.activeElement), all = placed(), high = 1 + Math.max(...all.map((one) => one[3])), way = document.querySelector("[name=flame-way]:checked").value;
  area.style.height = `${high * ROW + 1}px`;
  area.replaceChildren();
  boxes = new Map();
  all.forEach(([i, from, to, row]) => {
    const wide = (to - from) * area.clientWidth, box = make(area, "div", wide > LABELLED && nodes.energy_j[i] !== null ? `${nodes.name[i]}  ${si(nodes.energy_j[i], "J")}` : nodes.name[i]);
    box.setAttribute("role", "treeitem");
    box.setAttribute("aria-level", row + 1);
    box.setAttribute("aria-label", facts(i).join(", "));
    if (children[i].length) box.setAttribute("aria-expanded", "true");
    box.tabIndex = -1;
    box.style.left = `${100 * from}%`; box.style.width = `${100 * (to - from)}%`;
    box.style.top = `${ROW * (way === "top" ? row : high - 1 - row)}px`;
    box.classList.toggle("thin", wide < THIN); box.classList.toggle("task", nodes.kind[i] === "task");
    box.dataset.node = i;
    paint(box, i);
    boxes.set(i, { box, from, row });
  });
  if (!boxes.has(state.focus)) state.focus = state.top;
  boxes.get(state.focus).box.tabIndex = 0;
  if (held) boxes.get(state.focus).box.focus();
  at("flame-whole").disabled = state.top === 0;
}

function focus(i) {
  if (!boxes.has(i)) return;
  boxes.get(state.focus).box.tabIndex = -1;
  state.focus = i;
  boxes.get(i).box.tabIndex = 0;
  boxes.get(i).box.focus();
}
function enlarge(i) {
  if (!(value(i) > 0)) return;
  state.top = i; state.focus = i;
  hide(); draw();
  drawing.put(at("flame-status"), i === 0 ? "All is shown." : `${nodes.name[i]} is as wide as all.`);
}
// The nearest box beside this one in its row.
function beside(step) {
  const here = boxes.get(state.focus), row = [...boxes].filter(([, one]) => one.row === here.row).sort((a, b) => a[1].from - b[1].from);
  const next = row[row.findIndex(([i]) => i === state.focus) + step];
  if (next) focus(next[0]);
}
const below = () => { const first = [...boxes].filter(([i]) => nodes.parent[i] === state.focus).sort((a, b) => a[1].from - b[1].from)[0]; if (first) focus(first[0]); };
const over = () => { if (nodes.parent[state.focus] >= 0) focus(nodes.parent[state.focus]); };

function show(i) {
  const { box } = boxes.get(i), outer = at("flame-box").getBoundingClientRect(), inner = box.getBoundingClientRect();
  tip.textContent = facts(i).join("\n");
  tip.hidden = false;
  tip.style.left = `${Math.max(0, Math.min(inner.left - outer.left, outer.width - tip.offsetWidth))}px`;
  tip.style.top = `${inner.bottom - outer.top + 4}px`;
}
const hide = () => { tip.hidden = true; };
const nodeAt = (event) => { const box = event.target.closest("[role=treeitem]"); return box ? Number(box.dataset.node) : null; };

area.addEventListener("click", (event) => { const i = nodeAt(event); if (i !== null) { focus(i); enlarge(i); } });
area.addEventListener("mouseover", (event) => { const i = nodeAt(event); if (i === null) hide(); else show(i); });
area.addEventListener("mouseleave", hide);
area.addEventListener("focusin", (event) => { const i = nodeAt(event); if (i !== null) show(i); });
area.addEventListener("focusout", hide);
area.addEventListener("keydown", (event) => {
  const isFlame = document.querySelector("[name=flame-way]:checked").value === "bottom";
  const keys = { ArrowLeft: () => beside(-1), ArrowRight: () => beside(1), ArrowDown: isFlame ? over : below, ArrowUp: isFlame ? below : over, Home: () => focus(state.top), Enter: () => enlarge(state.focus), " ": () => enlarge(state.focus), Escape: () => enlarge(0) };
  if (!keys[event.key]) return;
  event.preventDefault();
  keys[event.key]();
});
at("flame-whole").addEventListener("click", () => enlarge(0));
document.querySelectorAll("[name=flame-width]").forEach((one) => one.addEventListener("change", () => { state.width = one.value; draw(); }));
document.querySelectorAll("[name=flame-colour]").forEach((one) => one.addEventListener("change", () => { state.colour = one.value; boxes.forEach(({ box }, i) => paint(box, i)); note(); }));
document.querySelectorAll("[name=flame-way]").forEach((one) => one.addEventListener("change", draw));
// What is found counts once, however often it nests in itself.
at("flame-find").addEventListener("input", (event) => {
  state.find = event.target.value.trim().toLowerCase();
  boxes.forEach(({ box }, i) => paint(box, i));
  let joules = 0, seconds = 0, boxesFound = 0;
  const todo = state.find ? [0] : [];
  while (todo.length) {
    const i = todo.pop();
    if (i > 0 && nodes.name[i].toLowerCase().includes(state.find)) { joules += nodes.energy_j[i] || 0; seconds += nodes.time_s[i]; boxesFound += 1; } else todo.push(...children[i]);
  }
  at("flame-status").textContent = !state.find ? "" : boxesFound ? `Found: ${si(joules, "J")}${tag} (${share(hasEnergy ? joules / nodes.energy_j[0] : null)}), ${si(seconds, "s")}, in ${boxesFound} place${boxesFound === 1 ? "" : "s"}.` : "Nothing is found.";
});
if (!hasEnergy) { document.querySelector("[name=flame-width][value=time_s]").checked = true; document.querySelectorAll("[name=flame-width],[name=flame-colour]").forEach((one) => { one.disabled = true; }); }
function note() {
  const stacks = packed.sampled ? `Functions rest on ${packed.sampled.toLocaleString("en")} sampled stacks: a box of few stacks has a wide interval.` : "";
  at("flame-note").textContent = `${stacks} ${state.colour === "power" ? `Strongest colour: ${si(most, "W")}${tag}, joules over the seconds in which threads ran a box.` : ""}`.trim();
}
note();
new ResizeObserver(() => boxes.forEach(({ box }) => box.classList.toggle("thin", box.offsetWidth < THIN))).observe(area);
section("flame-section", draw);
})();
