// The table of latency: what is delivered beside what is wanted, and how many may run for it.

import { fill, number, texts } from "./settings.js";
import { sparkline } from "./sparkline.js";

const section = document.querySelector("[data-latency]");
const body = section.querySelector("tbody");
const words = texts.latency;

/** Rows are kept and filled anew, so that a selection stays where it is. */
export function showLatency(rows) {
  const before = new Map([...body.children].map((row) => [row.dataset.key, row]));
  rows.forEach((row, index) => {
    const shown = before.get(row.key) ?? document.getElementById("latency-row").content.firstElementChild.cloneNode(true);
    before.delete(row.key);
    fillRow(shown, row);
    if (body.children[index] !== shown) body.insertBefore(shown, body.children[index] ?? null);
  });
  for (const left of before.values()) left.remove();
  section.hidden = rows.length === 0;
}

function fillRow(shown, row) {
  shown.dataset.key = row.key;
  shown.toggleAttribute("data-late", row.objective_ms > 0 && row.p95_ms > row.objective_ms);
  put(shown, "replica", row.replica);
  put(shown, "release", row.release === row.replica ? "" : row.release);
  put(shown, "p95_ms", row.p95_ms ? ms(row.p95_ms) : "–");
  put(shown, "objective_ms", row.objective_ms ? ms(row.objective_ms) : words.none);
  put(shown, "running", number(row.running));
  put(shown, "limit", fill(words.of, { limit: number(row.limit), slots: number(row.slots) }));
  plot(shown, "p95", sparkline(row.p95s_ms, row.p95_ms, words.p95_plot, row.objective_ms));
  plot(shown, "limit", sparkline(row.limits, row.limit, words.limit_plot, row.slots));
}

function ms(value) {
  return fill(words.ms, { count: number(value) });
}

function plot(shown, name, drawn) {
  shown.querySelector(`[data-plot="${name}"]`).replaceChildren(drawn);
}

function put(shown, name, text) {
  const place = shown.querySelector(`[data-field="${name}"]`);
  if (place.textContent !== text) place.textContent = text;
}
