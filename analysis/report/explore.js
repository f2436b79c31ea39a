// What a reader does with the timeline: wheel, fingers, keys, finding a task, and the instances of one.
const exploreTimeline = (data, tools) => {
const { at, make, si, COLOURS, shadeOf, tag, share, atMost, meanWithin } = tools, packed = data.timeline, timeline = makeTimeline(packed, tools), { frame, state } = timeline;
const MOST_FOUND = 12, SPEED = 0.0016, PINCH_SPEED = 0.012;
const codeOf = new Map(packed.names.map((name, code) => [name, code]));
const byTask = new Map(data.summary.map((row) => [codeOf.get(row.task), row]));
const codes = [...byTask.keys()];
let opened = null;

function followWheel() {
  frame.addEventListener("wheel", (event) => {
    const across = event.shiftKey ? event.deltaY || event.deltaX : event.deltaX, lines = event.deltaMode ? 16 : 1;
    if (Math.abs(across) > Math.abs(event.deltaY) || event.shiftKey) {
      event.preventDefault();
      pan(across * lines / frame.clientWidth);
      return;
    }
    // From the whole run there is nothing to zoom out to: the page scrolls on.
    if (event.deltaY > 0 && isWhole()) return;
    event.preventDefault();
    timeline.zoom(Math.exp(event.deltaY * lines * (event.ctrlKey ? PINCH_SPEED : SPEED)), timeline.timeAt(event.clientX - frame.getBoundingClientRect().left));
  }, { passive: false });
}

const isWhole = () => state.to - state.from >= timeline.lanes.end - timeline.lanes.begin;
const pan = (part) => { const way = part * (state.to - state.from); timeline.show(state.from + way, state.to + way); };

// One finger or the mouse pans, two fingers zoom around what lies between them.
function followPointers() {
  const down = new Map();
  let moved = 0;
  const place = (event) => { const box = frame.getBoundingClientRect(); return { x: event.clientX - box.left, y: event.clientY - box.top }; };
  const end = (event) => { down.delete(event.pointerId); };
  frame.addEventListener("pointerdown", (event) => {
    if (event.button || place(event).x > frame.clientWidth) return;
    if (!down.size) moved = 0;
    down.set(event.pointerId, place(event));
  });
  frame.addEventListener("pointermove", (event) => {
    const now = place(event), before = down.get(event.pointerId);
    if (!before) { hover(now); return; }
    const [other] = [...down].filter(([id]) => id !== event.pointerId).map(([, one]) => one);
    moved += Math.abs(now.x - before.x) + Math.abs(now.y - before.y);
    if (other) timeline.zoom(Math.max(Math.abs(before.x - other.x), 8) / Math.max(Math.abs(now.x - other.x), 8), timeline.timeAt(other.x));
    else if (moved > 4) {
      if (!frame.hasPointerCapture(event.pointerId)) frame.setPointerCapture(event.pointerId);
      pan((before.x - now.x) / frame.clientWidth);
      if (event.pointerType === "mouse") frame.scrollTop += before.y - now.y;
    }
    down.set(event.pointerId, now);
  });
  frame.addEventListener("pointerup", (event) => {
    const hit = moved <= 4 && down.has(event.pointerId) ? timeline.hit(place(event).x, place(event).y) : null;
    end(event);
    if (hit) { Object.assign(state, { lane: hit.number, piece: hit.piece }); open(timeline.lanes.facts(hit.piece).task); }
  });
  frame.addEventListener("pointercancel", end);
  frame.addEventListener("pointerleave", () => { at("timeline-tip").hidden = true; });
  frame.addEventListener("scroll", timeline.redraw);
}

function hover({ x, y }) {
  const hit = timeline.hit(x, y), tip = at("timeline-tip");
  frame.style.cursor = hit ? "pointer" : "";
  tip.hidden = !hit;
  if (!hit) return;
  tip.textContent = timeline.describe(hit.piece);
  tip.style.left = `${Math.max(Math.min(x + 12, frame.clientWidth - tip.offsetWidth - 4), 0)}px`;
  tip.style.top = `${y + 18}px`;
}

// From piece to piece of a lane, and from lane to lane; what is reached is read out.
function step(way) {
  const lane = timeline.laneOf(state.lane);
  if (!lane || !lane.pieces.length) return;
  const middle = (state.from + state.to) / 2, now = lane.pieces.indexOf(state.piece);
  const nearest = now >= 0 ? now + way : Math.max(lane.pieces.findIndex((one) => timeline.lanes.facts(one).end >= middle), 0);
  state.piece = lane.pieces[Math.min(Math.max(nearest, 0), lane.pieces.length - 1)];
  const one = timeline.lanes.facts(state.piece), span = state.to - state.from;
  if (one.start < state.from || one.end > state.to) timeline.show((one.start + one.end - span) / 2, (one.start + one.end + span) / 2);
  drawing.put(at("timeline-status"), timeline.describe(state.piece));
  timeline.redraw();
}

function stepLane(way) {
  state.lane = Math.min(Math.max(state.lane + way, 0), timeline.count() - 1);
  state.piece = null;
  const item = timeline.itemOf(state.lane);
  if (!item) return;
  if (item.y - 40 < frame.scrollTop) frame.scrollTop = item.y - 40;
  if (item.y + item.height + 8 > frame.scrollTop + frame.clientHeight) frame.scrollTop = item.y + item.height + 8 - frame.clientHeight;
  at("timeline-status").textContent = item.lane.label;
  timeline.redraw();
}

function nextWindow() {
  const next = packed.windows.find(([from]) => from > (state.from + state.to) / 2) || packed.windows[0];
  if (next) timeline.show(next[0], next[1]);
}

function followKeys() {
  const KEYS = {
    ArrowLeft: (event) => (event.shiftKey ? step(-1) : pan(-0.2)), ArrowRight: (event) => (event.shiftKey ? step(1) : pan(0.2)),
    ArrowUp: () => stepLane(-1), ArrowDown: () => stepLane(1), "+": () => timeline.zoom(0.6), "=": () => timeline.zoom(0.6), "-": () => timeline.zoom(1 / 0.6),
    0: timeline.whole, Home: timeline.whole, n: nextWindow, Enter: () => { if (state.piece !== null) open(timeline.lanes.facts(state.piece).task); }, Escape: close,
  };
  frame.addEventListener("keydown", (event) => {
    const act = KEYS[event.key];
    if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    act(event);
  });
  ["focus", "blur"].forEach((name) => frame.addEventListener(name, timeline.redraw));
}

// The legend: tasks that were found, else those of most energy; each opens its instances.
function legend() {
  const text = at("find").value.trim().toLowerCase(), found = codes.filter((code) => timeline.nameOf(code).toLowerCase().includes(text));
  at("found").replaceChildren();
  found.slice(0, MOST_FOUND).forEach((code) => {
    const button = make(make(at("found"), "li"), "button");
    button.type = "button"; button.title = timeline.nameOf(code);
    make(button, "span", undefined, "swatch").style.background = COLOURS[shadeOf(timeline.nameOf(code))];
    make(button, "span", timeline.nameOf(code), "name");
    button.setAttribute("aria-pressed", String(code === opened));
    button.addEventListener("click", () => open(code));
  });
  const more = found.length - MOST_FOUND;
  if (more > 0) make(at("found"), "li", `and ${more.toLocaleString("en")} more: find them by name`, "quiet");
  if (!found.length) make(at("found"), "li", "No task has this in its name.", "quiet");
  timeline.match(text ? found : opened === null ? null : [opened]);
  return found;
}

const interval = (low, high) => (low === null || high === null || low === undefined ? "" : `${si(low, "J")} … ${si(high, "J")}`);
function facts(row) {
  const within = meanWithin(row), means = within && row.energy_mean_high_j !== null ? `95 %: ${within}` : within;
  const parts = [
    ["instances", row.instances.toLocaleString("en")], ["mean time", si(row.duration_mean_s, "s")], ["mean own time", si(row.own_mean_s, "s")],
    [`energy of all${tag}`, `${si(row.energy_j, "J")}${row.share === null ? "" : `, ${share(row.share)}`}`],
    [`mean energy${tag}`, `${atMost(row.energy_mean_j, row.energy_mean_at_most_j, row, "J")}${means ? ` (${means})` : row.energy_high_j === null ? "" : ", not resolved"}`], ["power", atMost(row.power_w, row.power_high_w, row, "W")],
  ];
  at("details-facts").replaceChildren();
  parts.forEach(([name, value]) => { const one = make(at("details-facts"), "div"); make(one, "dt", name); make(one, "dd", value); });
}

const instanceOf = (of, i) => ({ start_ns: of.start_ns[i], duration_ns: of.duration_ns[i], pid: of.pid[i], tid: of.tid[i], name: of.thread[i] });
function longest(code) {
  const of = data.longest[String(code)], head = at("details-list").tHead, body = at("details-list").tBodies[0];
  head.replaceChildren(); body.replaceChildren();
  const count = of ? of.start_ns.length : 0, titles = make(head, "tr");
  at("details-longest").textContent = count > 1 ? `The ${count} longest` : count ? "The only one" : "";
  ["Began at", "Time", "Own time", `Energy${tag}`, "At least … at most", "Core", "Thread"].forEach((title) => { make(titles, "th", title).scope = "col"; });
  for (let i = 0; i < count; i += 1) {
    const line = make(body, "tr"), instance = instanceOf(of, i);
    const button = make(make(line, "td"), "button", timeline.timeText(instance.start_ns, Math.max(instance.duration_ns / 10, 1)));
    button.type = "button"; button.title = "Show it in the timeline";
    button.addEventListener("click", () => { timeline.goTo(instance); frame.scrollIntoView({ block: "nearest" }); });
    [si(instance.duration_ns / 1e9, "s"), si(of.own_s[i], "s"), si(of.energy_j[i], "J"), interval(of.energy_low_j[i], of.energy_high_j[i]) || "–", of.cpu[i] < 0 ? "–" : String(of.cpu[i]), timeline.threadOf(instance)].forEach((text) => make(line, "td", text));
  }
  at("details-none").hidden = count > 0;
}

function open(code) {
  const row = byTask.get(code);
  if (!row) return;
  opened = code;
  at("details").hidden = false;
  drawing.put(at("details-title"), timeline.nameOf(code));
  at("details-place").textContent = row.places.map((place) => (place.file ? `${place.file}:${place.line}` : "source not known")).join(", ");
  facts(row); longest(code); legend();
  drawing.put(at("timeline-status"), `${timeline.nameOf(code)}: ${row.instances.toLocaleString("en")} instances, listed below the timeline`);
}

function close() {
  opened = null;
  Object.assign(state, { piece: null, marked: null });
  at("details").hidden = true;
  at("find").value = "";
  legend();
}

function notes() {
  const n = (value) => value.toLocaleString("en"), sentences = [];
  if (packed.merged) sentences.push(`Drawn in part as aggregates: of ${n(packed.segments)} segments, ${n(packed.merged)} that are shorter than ${si(packed.cell_ns / 1e9, "s")} are put together by task, core and ${si(packed.cell_ns / 1e9, "s")} of time.`);
  if (packed.windows.length) sentences.push(`In the ${packed.windows.length} places that are marked on the time axis every segment is drawn; key n goes to the next.`);
  if (packed.not_drawn) sentences.push(`${n(packed.not_drawn)} segments of the shortest are not drawn.`);
  if (packed.threads_left_out) sentences.push(`${n(packed.threads_left_out)} more threads are not drawn.`);
  at("timeline-note").textContent = sentences.join(" ");
  at("timeline-note").hidden = !sentences.length;
  at("next-detail").hidden = !packed.windows.length;
}

followWheel(); followPointers(); followKeys(); notes(); legend();
document.querySelectorAll("input[name=lanes]").forEach((one) => one.addEventListener("change", () => timeline.choose(one.value)));
at("find").addEventListener("input", legend);
at("find").addEventListener("keydown", (event) => {
  if (event.key === "Escape") close();
  if (event.key !== "Enter") return;
  const [first] = legend(), of = first === undefined ? null : data.longest[String(first)];
  if (first !== undefined) open(first);
  if (of) timeline.goTo(instanceOf(of, 0));
});
for (const [id, act] of [["zoom-in", () => timeline.zoom(0.5)], ["zoom-out", () => timeline.zoom(2)], ["zoom-whole", timeline.whole], ["next-detail", nextWindow], ["details-close", close]]) at(id).addEventListener("click", act);
new ResizeObserver(() => { timeline.arrange(); timeline.redraw(); }).observe(at("timeline-box"));
return { open: (name) => { open(codeOf.get(name)); at("details").scrollIntoView({ block: "nearest" }); at("details-title").focus(); }, redraw: () => { legend(); timeline.redraw(); } };
};
