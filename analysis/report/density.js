// A density that the page holds packed: edges of its cells, and their counts row by row; null without any.
const unpackGrid = (packed) => {
  if (!packed) return null;
  const counts = new Array(packed.columns * packed.rows).fill(0);
  let value = 0, scale = 1, cell = -1, isCount = false;
  for (const byte of Uint8Array.from(atob(packed.counts), (one) => one.charCodeAt(0))) {
    value += (byte & 127) * scale;
    scale *= 128;
    if (byte & 128) continue;
    if (isCount) counts[cell] = value; else cell += value + 1;
    isCount = !isCount;
    value = 0; scale = 1;
  }
  const edges = ([least, most], cells, log) => Array.from({ length: cells + 1 }, (_, i) => (log ? least * (most / least) ** (i / cells) : least + (most - least) * i / cells));
  return {
    x: edges(packed.x, packed.columns, packed.log_x), y: edges(packed.y, packed.rows, true),
    z: Array.from({ length: packed.rows }, (_, row) => counts.slice(row * packed.columns, (row + 1) * packed.columns)),
  };
};
