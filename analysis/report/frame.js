"use strict";
// The frame of every page: sections that fold, their contents, the theme, and printing. What the reader folded and the
// theme are kept in the address after #, so that a link or a reload shows the same; nothing is stored in the browser.
const frame = (() => {
const at = (id) => document.getElementById(id);
// A word longer than a line, such as a task's name, is cut as tprof/trace/short_names.py does: hovering shows all of it.
const LONGEST = 120, LONG = new RegExp(`\\S{${LONGEST + 1},}`, "gu");
const digest = (word) => {
  let sum = -1;
  for (const byte of new TextEncoder().encode(word)) {
    sum ^= byte;
    for (let bit = 0; bit < 8; bit += 1) sum = (sum >>> 1) ^ (sum & 1 ? 0xedb88320 : 0);
  }
  sum = ~sum;
  return ((sum >>> 16) ^ (sum & 0xffff)).toString(16).padStart(4, "0");
};
const brief = (text) => String(text).replace(LONG, (found) => {
  const word = found.replace(/[.,:;]+$/, ""), letters = Array.from(word), tail = Math.floor((LONGEST - 6) * 2 / 3);
  if (letters.length <= LONGEST) return found;
  return `${letters.slice(0, LONGEST - 6 - tail).join("")}…${digest(word)}…${letters.slice(-tail).join("")}${found.slice(word.length)}`;
});
const put = (one, text) => {
  one.textContent = brief(text);
  if (one.textContent !== String(text)) one.title = text;
};
const make = (parent, tag, text, kind) => {
  const one = document.createElement(tag);
  if (text !== undefined) put(one, text);
  if (kind) one.className = kind;
  parent.appendChild(one);
  return one;
};
const FOLD = "section > details.fold", SECTION = "main section:not(.answer):has(> h2)", root = document.documentElement.classList;
const opensFirst = new Map(), drawers = [], painters = [];
const chosen = { anchor: "", theme: "auto", open: new Set(), closed: new Set() };
const system = matchMedia("(prefers-color-scheme: dark)");
let printing = false;

// The address: #tasks&open=runtime,flame&closed=cost&theme=dark
function readAddress() {
  const [anchor, ...rest] = location.hash.slice(1).split("&"), given = new Map((anchor.includes("=") ? [anchor, ...rest] : rest).map((one) => one.split("=")));
  const ids = (key) => new Set((given.get(key) || "").split(",").filter(Boolean));
  return { anchor: anchor.includes("=") ? "" : decodeURIComponent(anchor), theme: given.get("theme"), open: ids("open"), closed: ids("closed"), isBare: !given.size };
}
function writeAddress() {
  if (location.protocol === "about:") return;  // a page inside another page has no address of its own
  const parts = chosen.anchor ? [encodeURIComponent(chosen.anchor)] : [];
  for (const key of ["open", "closed"]) if (chosen[key].size) parts.push(`${key}=${[...chosen[key]].join(",")}`);
  if (chosen.theme !== "auto") parts.push(`theme=${chosen.theme}`);
  const hash = parts.length ? `#${parts.join("&")}` : "";
  if (hash !== location.hash) history.replaceState(null, "", hash || location.href.split("#")[0]);
}

const folds = () => [...document.querySelectorAll(FOLD)];
// Make a section with a heading one that folds; the attribute data-folded says that it is folded at first.
function fold(one) {
  const heading = one.querySelector(":scope > h2"), details = document.createElement("details"), rest = [...one.childNodes].filter((node) => node !== heading);
  const name = heading.id.replace(/-title$/, "");
  one.id = one.id || (at(name) ? `${name}-section` : name);
  details.className = "fold";
  make(details, "summary").append(heading);
  const inside = make(details, "div", undefined, "inside");
  inside.append(...rest);
  one.append(details);
  opensFirst.set(details, !("folded" in one.dataset));
  details.open = chosen.open.has(one.id) || (opensFirst.get(details) && !chosen.closed.has(one.id));
  return inside;
}
function remember(details) {
  const { id } = details.parentElement;
  chosen.open.delete(id); chosen.closed.delete(id);
  if (details.open !== opensFirst.get(details)) chosen[details.open ? "open" : "closed"].add(id);
  writeAddress();
}

// A section is drawn when it is open, and again after the colours or the width of the page changed.
const isOpen = (one) => !one.details || one.details.open;
function drawOpen() { drawers.forEach((one) => { if (one.stale && isOpen(one)) { one.stale = false; one.draw(); } }); }
function section(id, draw) {
  const place = at(id);
  drawers.push({ details: place && place.closest("details.fold") || (place && place.querySelector(":scope > details.fold")), draw, stale: true });
  drawOpen();
}
const redraw = () => { drawers.forEach((one) => { one.stale = true; }); drawOpen(); };

// A section that a script adds, as embed.Section writes one; returns what its content goes into.
function addSection(parent, { id, title, folded = false }) {
  const one = make(parent, "section");
  one.id = id;
  one.setAttribute("aria-labelledby", make(one, "h2", title).id = `${id}-title`);
  if (folded) one.dataset.folded = "";
  return fold(one);
}

function reveal(id) {
  const target = id && at(id);
  if (!target) return;
  for (let one = target.querySelector(":scope > details.fold") || target; one; one = one.parentElement) if (one.tagName === "DETAILS") one.open = true;
  drawOpen();
  target.scrollIntoView();
}

const isDark = () => (printing ? false : chosen.theme === "auto" ? system.matches : chosen.theme === "dark");
function paint() {
  root.toggle("dark", isDark()); root.toggle("light", !isDark());
  painters.forEach((one) => one(isDark()));
  redraw();
}
const follow = (painter) => { painters.push(painter); painter(isDark()); };

let closedBefore = [];
function print(begins) {
  printing = begins;
  if (begins) closedBefore = folds().filter((one) => !one.open);
  closedBefore.forEach((one) => { one.open = begins; });
  paint();
}

function contents() {
  const nav = at("contents"), found = folds().filter((one) => !one.closest("[hidden]"));
  nav.replaceChildren();
  nav.hidden = found.length < 2;
  const list = make(nav, "ul");
  found.forEach((one) => { make(make(list, "li"), "a", one.querySelector("h2").textContent).href = `#${one.parentElement.id}`; });
  const all = make(nav, "button", "Open all");
  all.type = "button";
  const name = () => { all.textContent = folds().every((one) => one.open) ? "Fold all" : "Open all"; };
  all.addEventListener("click", () => { const opens = !folds().every((one) => one.open); folds().forEach((one) => { one.open = opens; }); });
  document.addEventListener("toggle", name, true);
  name();
}

Object.assign(chosen, readAddress());
if (!["light", "dark"].includes(chosen.theme)) chosen.theme = "auto";
at("theme").value = chosen.theme;
document.querySelectorAll(SECTION).forEach(fold);
paint();
at("theme").addEventListener("change", () => { chosen.theme = at("theme").value; writeAddress(); paint(); });
system.addEventListener("change", paint);
matchMedia("(max-width: 600px)").addEventListener("change", redraw);
document.addEventListener("toggle", (event) => {
  if (!event.target.matches(FOLD) || printing) return;
  remember(event.target);
  drawOpen();
}, true);
// A link within the page keeps what is folded; an address that was pasted brings its own.
addEventListener("hashchange", () => {
  const given = readAddress();
  chosen.anchor = given.anchor;
  if (!given.isBare) {
    if (given.theme !== undefined) { chosen.theme = given.theme; at("theme").value = given.theme; paint(); }
    folds().forEach((one) => { const { id } = one.parentElement; one.open = given.open.has(id) || (opensFirst.get(one) && !given.closed.has(id)); });
  }
  reveal(chosen.anchor);
  writeAddress();
});
addEventListener("load", () => { contents(); reveal(chosen.anchor); });
addEventListener("beforeprint", () => print(true));
addEventListener("afterprint", () => print(false));
return { at, make, put, section, addSection, follow, redraw };
})();
