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
const COLOURS = ["#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#F0E442", "#888888"];
const SYMBOLS = ["circle", "square", "diamond", "cross", "x", "triangle-up", "star", "triangle-down", "pentagon", "hexagon"];
const style = () => {
  const of = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const axis = { gridcolor: of("--line"), zerolinecolor: of("--line"), automargin: true };
  return { axis, layout: { paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", font: { color: of("--ink"), family: "system-ui, sans-serif" }, margin: { l: 56, r: 12, t: 30, b: 44 }, modebar: { bgcolor: "rgba(0,0,0,0)", color: of("--quiet"), activecolor: of("--ink") }, legend: { orientation: "h", y: -0.2 }, hovermode: "closest" } };
};
const draw = (id, traces, layout) => Plotly.react(at(id), traces, layout, { responsive: true, displaylogo: false, displayModeBar: matchMedia("(min-width: 600px)").matches });
const named = (base, text, unit) => Object.assign({ title: { text } }, unit ? { exponentformat: "SI", minexponent: 1, ticksuffix: unit } : {}, base);
// The page follows the system's choice until its button is pressed; what is drawn takes its colours anew.
const theme = (redraw) => {
  document.documentElement.classList.toggle("dark", matchMedia("(prefers-color-scheme: dark)").matches);
  at("theme").addEventListener("click", () => { document.documentElement.classList.toggle("dark"); redraw(); });
};
return { at, make, plain, si, COLOURS, SYMBOLS, style, draw, named, theme };
})();
