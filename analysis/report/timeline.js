// The timeline on a canvas: only what is in view is added up, column by column, and drawn.
const makeTimeline = (packed, tools) => {
const { at, si, COLOURS, shadeOf, style } = tools, lanes = lanesOf(packed), canvas = at("timeline-canvas"), frame = at("timeline");
const AXIS = 24, LEAST_NS = 200, CLASSES = COLOURS.length + 1, FADED = COLOURS.length, LABELLED = 44, LEAST_HIGH = 1.5;
const nameOf = (code) => (code < packed.names.length ? packed.names[code] : "a task without a name");
const shades = [...packed.names.map(shadeOf), COLOURS.length - 1];
const views = { threads: lanes.threads(), cores: null };
const state = { by: "threads", from: lanes.begin, to: lanes.end, marked: null, matching: null, lane: 0, piece: null };
let layout = { items: [], height: 0, gutter: 0 }, waitingFrame = 0;

const lanesInView = () => {
  if (state.by === "cores" && !views.cores) views.cores = lanes.cores();
  return views[state.by];
};
const isWide = () => frame.clientWidth >= 600;
const gutter = () => (isWide() ? layout.gutter : 0);
const font = "12px system-ui, sans-serif";

function arrange() {
  const label = isWide() ? 0 : 16, several = new Set(packed.lanes.map((one) => one.process)).size > 1, items = [];
  let y = AXIS, process = null;
  lanesInView().forEach((lane, number) => {
    if (state.by === "threads" && several && lane.process !== process) {
      process = lane.process;
      items.push({ text: lane.host ? `${lane.host}, process ${lane.pid}` : `process ${lane.pid}`, y, height: 22 });
      y += 22;
    }
    items.push({ lane, number, y: y + label, height: 24, top: y });
    y += label + 28;
  });
  const measure = canvas.getContext("2d");
  measure.font = font;
  const widest = Math.max(0, ...items.slice(0, 1000).map((one) => (one.lane ? measure.measureText(one.lane.label).width : 0)));
  layout = { items, height: y + 4, gutter: Math.min(widest + 14, 0.25 * frame.clientWidth) };
  at("timeline-area").style.height = `${layout.height}px`;
  frame.style.height = `${Math.min(layout.height, Math.max(innerHeight * 0.7, 200)) + 2}px`;
}

const STEPS_S = [60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 28800, 43200, 86400];
function stepFor(span, columns) {
  const least = span / columns, power = 10 ** Math.floor(Math.log10(least));
  if (least > 20e9) return (STEPS_S.find((one) => one * 1e9 >= least) || Math.ceil(least / 864e11) * 86400) * 1e9;
  return [1, 2, 5, 10].map((one) => one * power).find((one) => one >= least);
}

// A time of the run, as fine as steps of `step` nanoseconds need; its unit is that of the end of what is in view.
function timeText(ns, step, of = Math.abs(ns)) {
  if (step >= 1e9 && Math.abs(ns) >= 60e9) {
    const seconds = Math.round(ns / 1e9), two = (value) => String(value).padStart(2, "0");
    return `${Math.floor(seconds / 3600)}:${two(Math.floor(seconds / 60) % 60)}:${two(seconds % 60)}`;
  }
  const [unit, name] = [[1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]].find(([one]) => of >= one || one <= step) || [1, "ns"];
  return `${(ns / unit).toFixed(Math.max(0, Math.ceil(Math.log10(unit / step) - 1e-9)))} ${name}`;
}

function drawAxis(context, width, colours) {
  const left = gutter(), span = state.to - state.from, step = stepFor(span, Math.max((width - left) / 116, 2));
  context.fillStyle = colours.paper;
  context.fillRect(0, 0, width, AXIS);
  context.font = font;
  context.textBaseline = "middle";
  for (let time = Math.ceil(state.from / step) * step; time <= state.to; time += step) {
    const x = left + (time - state.from) / span * (width - left);
    context.fillStyle = colours.line;
    context.fillRect(Math.round(x), AXIS - 5, 1, 5);
    context.fillStyle = colours.quiet;
    const text = timeText(time, step, state.to), wide = context.measureText(text).width;
    if (x + wide < width) context.fillText(text, x + 3, AXIS / 2);
  }
  context.fillStyle = COLOURS[2];
  packed.windows.forEach(([from, to]) => {
    const x0 = left + (Math.max(from, state.from) - state.from) / span * (width - left), x1 = left + (Math.min(to, state.to) - state.from) / span * (width - left);
    if (to > state.from && from < state.to) context.fillRect(x0, AXIS - 3, Math.max(x1 - x0, 2), 3);
  });
}

// The stack of a column: each class's share with a processor, solid, then what waited, pale (in threads only). However
// small a share is, something is drawn: a microsecond of an hour can be seen, and zoomed to.
function stackOf(sums, column) {
  const parts = [], first = column * CLASSES;
  for (let kind = 0; kind < CLASSES; kind += 1) if (sums.busy[first + kind] > 0) parts.push([kind, sums.busy[first + kind], 1]);
  if (state.by === "threads") for (let kind = 0; kind < CLASSES; kind += 1) if (sums.waiting[first + kind] > 0) parts.push([kind, sums.waiting[first + kind], 0.32]);
  return parts;
}
const isSame = (one, other) => one.length === other.length && one.every((part, i) => part[0] === other[i][0] && part[2] === other[i][2] && Math.abs(part[1] - other[i][1]) < 0.004);

function drawColumns(context, item, sums, left, ratio, colours) {
  const paint = (parts, from, to) => {
    let y = item.y + item.height;
    parts.forEach(([kind, share, alpha]) => {
      const high = Math.min(Math.max(share * item.height, LEAST_HIGH), y - item.y);
      context.globalAlpha = alpha;
      context.fillStyle = kind === FADED ? colours.line : COLOURS[kind];
      y -= high;
      context.fillRect(left + from / ratio, y, (to - from) / ratio, high);
    });
    context.globalAlpha = 1;
  };
  let begin = 0, stack = stackOf(sums, 0);
  for (let column = 1; column < sums.width; column += 1) {
    const next = stackOf(sums, column);
    if (isSame(next, stack)) continue;
    paint(stack, begin, column);
    begin = column; stack = next;
  }
  paint(stack, begin, sums.width);
}

// Of a qualified name that does not fit, its end says most.
const lastPart = (name) => (/^[\w.:]+$/.test(name) ? name.split(/[.:]/).filter(Boolean).at(-1) || name : name);

// Borders between pieces and their names, where there is room for them.
function drawNames(context, item, left, width, colours) {
  const scale = (width - left) / (state.to - state.from);
  let drawn = -Infinity;
  lanes.between(item.lane, state.from, state.to, (piece) => {
    const one = lanes.facts(piece), x0 = Math.max(left + (one.start - state.from) * scale, left), x1 = Math.min(left + (one.end - state.from) * scale, width);
    if (x1 - x0 < 4 || (state.by === "cores" && one.cpu < 0.3)) return;
    context.fillStyle = colours.paper;
    context.fillRect(x0, item.y, 1, item.height);
    if (x1 - x0 < LABELLED || x0 < drawn) return;
    drawn = x1;
    context.save();
    context.beginPath();
    context.rect(x0 + 4, item.y, x1 - x0 - 8, item.height);
    context.clip();
    // A halo, since a piece may be solid below and pale above.
    context.lineWidth = 3;
    context.lineJoin = "round";
    context.strokeStyle = colours.paper;
    context.fillStyle = colours.ink;
    const name = nameOf(one.task), text = context.measureText(name).width < x1 - x0 - 8 ? name : lastPart(name);
    for (const put of ["strokeText", "fillText"]) context[put](text, x0 + 6, item.y + item.height / 2 + 1);
    context.restore();
  });
}

const isFaded = (code) => state.matching !== null && !state.matching.has(code);
const classOf = (code) => (isFaded(code) ? FADED : shades[code]);

function drawMark(context, item, left, width, colours) {
  const scale = (width - left) / (state.to - state.from), outline = (from, to, colour) => {
    const x0 = Math.max(left + (from - state.from) * scale, left - 2), x1 = Math.min(left + (to - state.from) * scale, width + 2);
    if (x1 < left || x0 > width) return;
    context.strokeStyle = colour;
    context.lineWidth = 2;
    context.strokeRect(x0, item.y - 1, Math.max(x1 - x0, 2), item.height + 2);
  };
  if (state.marked && state.marked.lane === item.lane) outline(state.marked.from, state.marked.to, colours.ink);
  if (state.piece !== null && state.lane === item.number) { const one = lanes.facts(state.piece); outline(one.start, one.end, colours.accent); }
}

function draw() {
  waitingFrame = 0;
  const ratio = devicePixelRatio || 1, width = frame.clientWidth, height = Math.min(frame.clientHeight, layout.height), left = gutter();
  if (!width) return;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio); canvas.height = Math.round(height * ratio);
    canvas.style.width = `${width}px`; canvas.style.height = `${height}px`;
  }
  const context = canvas.getContext("2d"), { of } = style(), colours = { paper: of("--paper"), ink: of("--ink"), quiet: of("--quiet"), line: of("--line"), accent: of("--accent") };
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  context.font = font;
  context.textBaseline = "middle";
  const columns = Math.max(Math.round((width - left) * ratio), 1), sums = { width: columns, classes: CLASSES, busy: new Float32Array(columns * CLASSES), waiting: new Float32Array(columns * CLASSES) };
  layout.items.forEach((one) => {
    const item = { ...one, y: one.y - frame.scrollTop };
    if (item.y + item.height < AXIS || item.y - 20 > height) return;
    if (!one.lane) {
      context.fillStyle = colours.quiet;
      context.fillText(one.text, 2, item.y + item.height / 2 + 2);
      return;
    }
    lanes.addUp(one.lane, state, sums, classOf);
    drawColumns(context, item, sums, left, ratio, colours);
    drawNames(context, item, left, width, colours);
    drawMark(context, item, left, width, colours);
    context.fillStyle = colours.line;
    context.fillRect(left, item.y + item.height + 1, width - left, 1);
    context.fillStyle = state.lane === one.number && document.activeElement === frame ? colours.accent : colours.ink;
    if (left) { context.save(); context.beginPath(); context.rect(0, item.y, left - 8, item.height); context.clip(); }
    context.fillText(one.lane.label, 2, left ? item.y + item.height / 2 : item.y - 8);
    if (left) context.restore();
  });
  drawAxis(context, width, colours);
}

const showRange = () => { at("timeline-range").textContent = [state.from, state.to].map((time) => timeText(time, (state.to - state.from) / 100, state.to)).join(" to "); };
const redraw = () => { waitingFrame = waitingFrame || requestAnimationFrame(draw); };

function show(from, to) {
  const span = Math.min(Math.max(to - from, LEAST_NS), lanes.end - lanes.begin), middle = (from + to) / 2;
  state.from = Math.min(Math.max(middle - span / 2, lanes.begin), lanes.end - span);
  state.to = state.from + span;
  showRange();
  redraw();
}

const timeAt = (x) => state.from + (x - gutter()) / Math.max(frame.clientWidth - gutter(), 1) * (state.to - state.from);
const zoom = (factor, around = (state.from + state.to) / 2) => {
  // Around the pointer, or the edge of the run where that is out of reach.
  const span = Math.min(Math.max((state.to - state.from) * factor, LEAST_NS), lanes.end - lanes.begin), part = (around - state.from) / (state.to - state.from);
  show(around - part * span, around + (1 - part) * span);
};
const itemAt = (y) => layout.items.find((one) => one.lane && y + frame.scrollTop >= one.top && y + frame.scrollTop < one.y + one.height + 4);
const hit = (x, y) => {
  const item = y > AXIS && x >= gutter() ? itemAt(y) : null;
  if (!item) return null;
  const piece = lanes.pieceAt(item.lane, timeAt(x), 3 * (state.to - state.from) / frame.clientWidth);
  return piece === null ? null : { piece, number: item.number };
};

// A trace that another writer made may know no process.
const threadOf = (one) => (one.pid ? `${one.name}, process ${one.pid}` : one.name);
function describe(piece) {
  const one = lanes.facts(piece), thread = packed.lanes[one.lane], share = `${Math.round(100 * one.cpu)} % of it with a processor`;
  const what = one.segments > 1 ? `${one.segments.toLocaleString("en")} segments of ${nameOf(one.task)}, drawn as one: ${si(one.own / 1e9, "s")} in ${si(one.length / 1e9, "s")}` : `${nameOf(one.task)}: ${si(one.length / 1e9, "s")}`;
  return `${what}, ${share}; at ${timeText(one.start, one.length / 10)}, ${one.core < 0 ? "core not known" : `core ${one.core}`}, ${threadOf(thread)}`;
}

function goTo(instance) {
  const from = instance.start_ns, span = Math.max(instance.duration_ns, 1);
  if (state.by !== "threads") choose("threads");
  const lane = views.threads.find((one) => one.pid === instance.pid && one.tid === instance.tid && one.label === instance.name);
  state.marked = { lane, from, to: from + span };
  show(from - span / 4, from + span * 1.25);
  const item = layout.items.find((one) => one.lane && one.lane === lane);
  if (item) { state.lane = item.number; frame.scrollTop = Math.max(item.y - frame.clientHeight / 2, 0); }
}

function choose(by) {
  Object.assign(state, { by, marked: null, piece: null, lane: 0 });
  document.querySelectorAll("input[name=lanes]").forEach((one) => { one.checked = one.value === by; });
  arrange();
  redraw();
}

// Fades every task but these; null: none.
const match = (codes) => { state.matching = codes === null ? null : new Set(codes); redraw(); };
arrange(); showRange();
return { state, lanes, frame, redraw, timeText, threadOf, arrange, show, zoom, hit, timeAt, describe, goTo, choose, match, nameOf, laneOf: (number) => lanesInView()[number], count: () => lanesInView().length, whole: () => show(lanes.begin, lanes.end), itemOf: (number) => layout.items.find((one) => one.number === number) };
};
