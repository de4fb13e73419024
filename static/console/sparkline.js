// How something of a replica was over the last minutes, as a line without axes; its numbers are in words beside it.

import { fill, number, settings, texts } from "./settings.js";

const SPACE = "http://www.w3.org/2000/svg";
const WIDTH = 104;
const HEIGHT = 28;
const EDGE = 2;
// As many spans as the server keeps: a line that is shorter begins later.
const SPANS = 60;

/** spans: the oldest first; now: of the one that has not ended; words: what a line says of them; bound: drawn as well, if not 0 */
export function sparkline(spans, now, words = texts.plot, bound = 0) {
  const values = [...spans, now].slice(-SPANS);
  const most = Math.max(...values);
  const top = Math.max(most, bound);
  const plot = element("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, width: WIDTH, height: HEIGHT, role: "img" });
  const minutes = number(Math.max(1, Math.round((values.length * settings.span_s) / 60)));
  plot.setAttribute("aria-label", fill(words, { minutes, most: number(most), now: number(now) }));
  const points = values.map((value, index) => point(value, SPANS - values.length + index, top));
  const first = points[0].split(",")[0];
  const floor = HEIGHT - EDGE;
  plot.append(element("line", { x1: EDGE, y1: floor, x2: WIDTH - EDGE, y2: floor }));
  plot.append(element("polygon", { points: `${first},${floor} ${points.join(" ")} ${WIDTH - EDGE},${floor}` }));
  if (bound > 0) {
    const height = point(bound, 0, top).split(",")[1];
    plot.append(element("line", { class: "bound", x1: EDGE, y1: height, x2: WIDTH - EDGE, y2: height }));
  }
  plot.append(element("polyline", { points: points.join(" ") }));
  return plot;
}

function point(value, index, most) {
  const x = EDGE + ((WIDTH - 2 * EDGE) * index) / (SPANS - 1);
  const y = HEIGHT - EDGE - (most > 0 ? ((HEIGHT - 2 * EDGE) * value) / most : 0);
  return `${x.toFixed(1)},${y.toFixed(1)}`;
}

function element(name, attributes) {
  const made = document.createElementNS(SPACE, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}
