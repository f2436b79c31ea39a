"use strict";
// What every page of tprof draws with; a page's own script follows it in the same element.
const drawing = (() => {
const at = (id) => document.getElementById(id);
const make = (parent, tag, text, kind) => {
  const one = document.createElement(tag);
  if (text !== undefined) one.textContent = text;
  if (kind) one.className = kind;
  parent.appendChild(one);
  return one;
};
// Plotly reads some tags in its texts; escaped ones are shown as they are.
const plain = (text) => String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
const si = (value, unit) => {
  if (value === null || value === undefined) return "not resolved";
  const steps = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"], [1, ""], [1e-3, "m"], [1e-6, "µ"], [1e-9, "n"]];
  const step = value === 0 ? [1, ""] : steps.find((s) => Math.abs(value) >= s[0]) || steps.at(-1);
  return `${Number((value / step[0]).toPrecision(3))} ${step[1]}${unit}`;
};
// A name in a legend or beside an axis; hovering shows all of it.
const short = (text, most = 36) => { const all = Array.from(String(text)); return plain(all.length > most ? `${all.slice(0, most - 1).join("")}…` : text); };
// Each stands out from the paper of its mode; symbols tell apart what colours may not.
const LIGHT = ["#0072b2", "#b86e00", "#00805a", "#cc4c02", "#b3478c", "#128099", "#7d7300", "#6c757d"];
const DARK = ["#5eb1ef", "#f0a830", "#2fbf8f", "#ff8a5c", "#e08cc0", "#4fd0e0", "#d8cc50", "#a0a8b0"];
const COLOURS = [...LIGHT];
const SYMBOLS = ["circle", "square", "diamond", "cross", "x", "triangle-up", "star", "triangle-down", "pentagon", "hexagon"];
const narrow = () => matchMedia("(max-width: 600px)").matches;
const style = () => {
  const of = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const axis = { gridcolor: of("--line"), zerolinecolor: of("--line"), automargin: true, tickangle: 0, nticks: narrow() ? 5 : 0 };
  return { of, axis, layout: { paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", font: { color: of("--ink"), family: "system-ui, sans-serif", size: narrow() ? 11 : 12 }, colorway: COLOURS, margin: { l: narrow() ? 44 : 56, r: 12, t: 30, b: 44 }, modebar: { bgcolor: "rgba(0,0,0,0)", color: of("--quiet"), activecolor: of("--ink") }, legend: { orientation: "h", y: -0.2, yanchor: "top", maxheight: 90 }, hovermode: "closest", hoverlabel: { namelength: -1 }, dragmode: narrow() ? false : "zoom" } };
};
const draw = (id, traces, layout) => Plotly.react(at(id), traces, layout, { responsive: true, displaylogo: false, displayModeBar: !narrow() });
const named = (base, text, unit) => Object.assign({ title: { text } }, unit ? { exponentformat: "SI", minexponent: 1, ticksuffix: unit } : {}, base);
// The page follows the system's choice until its button is pressed; what is drawn takes its colours anew.
const theme = (redraw) => {
  const system = matchMedia("(prefers-color-scheme: dark)"), root = document.documentElement.classList;
  const paint = (dark) => { root.toggle("dark", dark); root.toggle("light", !dark); COLOURS.splice(0, COLOURS.length, ...(dark ? DARK : LIGHT)); };
  let chosen = false;
  paint(system.matches);
  system.addEventListener("change", () => { if (!chosen) { paint(system.matches); redraw(); } });
  at("theme").addEventListener("click", () => { chosen = true; paint(!root.contains("dark")); redraw(); });
};
return { at, make, plain, short, si, COLOURS, SYMBOLS, style, narrow, draw, named, theme };
})();
