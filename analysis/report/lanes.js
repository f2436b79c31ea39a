// What the timeline draws: the packed pieces, the lanes they stand in, and how much of each task a column of pixels holds.
const lanesOf = (packed) => {
const bytes = (text) => Uint8Array.from(atob(text), (one) => one.charCodeAt(0));
const leb128 = (text, count) => {
  const from = bytes(text), values = new Float64Array(count);
  let value = 0, scale = 1, at = 0;
  for (const byte of from) {
    value += (byte & 127) * scale;
    if (byte & 128) { scale *= 128; continue; }
    values[at] = value;
    at += 1; value = 0; scale = 1;
  }
  return values;
};

const columns = packed.columns, count = packed.lanes.reduce((total, lane) => total + lane.pieces, 0);
const length = leb128(columns.length, count), start = leb128(columns.start, count);
const task = leb128(columns.task, count), core = leb128(columns.core, count);
const segments = columns.count ? leb128(columns.count, count) : null;
const own = columns.own ? bytes(columns.own) : null, cpu = bytes(columns.cpu);
const lane = new Uint32Array(count);
let piece = 0;
packed.lanes.forEach((one, number) => {
  let last = Number(columns.from_ns);
  for (const end = piece + one.pieces; piece < end; piece += 1) {
    last += start[piece];
    start[piece] = last;
    lane[piece] = number;
  }
});
const endOf = (one) => start[one] + length[one];

// A lane's pieces by their start; `reach` is the furthest end up to each, so that the first that reaches into a view is found by halving.
const laneOf = (label, pieces) => {
  const reach = new Float64Array(pieces.length);
  let furthest = -Infinity;
  pieces.forEach((one, at) => { furthest = Math.max(furthest, endOf(one)); reach[at] = furthest; });
  return { label, pieces, reach };
};

const threads = () => {
  let first = 0;
  return packed.lanes.map((one) => {
    const pieces = Uint32Array.from({ length: one.pieces }, (_, at) => first + at);
    first += one.pieces;
    return { ...laneOf(one.name, pieces), process: one.process, pid: one.pid, tid: one.tid, host: one.host };
  });
};

const cores = () => {
  const byCore = new Map();
  for (let one = 0; one < count; one += 1) {
    if (!byCore.has(core[one])) byCore.set(core[one], []);
    byCore.get(core[one]).push(one);
  }
  const numbers = [...byCore.keys()].sort((a, b) => (a || Infinity) - (b || Infinity));
  return numbers.map((number) => laneOf(number ? `core ${number - 1}` : "core not known", Uint32Array.from(byCore.get(number)).sort((a, b) => start[a] - start[b])));
};

const firstReaching = (one, time) => {
  let low = 0, high = one.reach.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (one.reach[middle] > time) high = middle; else low = middle + 1;
  }
  return low;
};

// Calls `each` with the lane's pieces between two times.
const between = (one, from, to, each) => {
  for (let at = firstReaching(one, from); at < one.pieces.length && start[one.pieces[at]] < to; at += 1) {
    if (endOf(one.pieces[at]) > from) each(one.pieces[at]);
  }
};

// Adds up what share of each column's time a lane ran pieces of each class: with a processor, and waiting for something.
// Columns are `sums.width` even parts of the view; class `classOf(task)` is below `sums.classes`.
const addUp = (one, view, sums, classOf) => {
  const { width, classes, busy, waiting } = sums, scale = width / (view.to - view.from);
  busy.fill(0); waiting.fill(0);
  between(one, view.from, view.to, (p) => {
    const x0 = Math.max((start[p] - view.from) * scale, 0), x1 = Math.min((endOf(p) - view.from) * scale, width);
    const kind = classOf(task[p]), ran = cpu[p] / 255, waited = Math.max((own ? own[p] / 255 : 1) - ran, 0);
    for (let column = Math.floor(x0); column < x1; column += 1) {
      const part = Math.min(x1, column + 1) - Math.max(x0, column), at = column * classes + kind;
      busy[at] += part * ran;
      waiting[at] += part * waited;
    }
  });
};

const pieceAt = (one, time, slack) => {
  let best = null;
  between(one, time - slack, time + slack, (p) => {
    const off = Math.max(start[p] - time, time - endOf(p), 0);
    if (best === null || off < best.off || (off === best.off && length[p] < length[best.piece])) best = { piece: p, off };
  });
  return best && best.piece;
};

const facts = (p) => ({ start: start[p], end: endOf(p), length: length[p], task: task[p], core: core[p] - 1, lane: lane[p], segments: segments ? segments[p] : 1, own: length[p] * (own ? own[p] / 255 : 1), cpu: cpu[p] / Math.max(own ? own[p] : 255, 1) });
let last = packed.duration_ns;
for (let one = 0; one < count; one += 1) last = Math.max(last, endOf(one));
return { threads, cores, between, addUp, pieceAt, facts, begin: Math.min(0, Number(columns.from_ns)), end: Math.max(last, 1) };
};
