// The tables: rows are kept and filled anew, so that focus and selection stay where they are.

import { showBar } from "./bar.js";
import { atMoment, fill, number, settings, since, texts, took } from "./settings.js";
import { sparkline } from "./sparkline.js";

const COUNTS = ["running", "waiting", "held", "holds", "yields", "restores", "takeovers"];
// In these there is no engine that could count anything.
const IDLE = new Set(["starting", "stopped", "failing", "lost"]);

const body = document.querySelector("[data-replicas]");
const queues = document.querySelector("[data-queues]");

/** Show replicas; the words for what has become of them since the last time, for those who can't see it. */
export function showReplicas(rows, now) {
  const before = new Map([...body.children].map((row) => [row.dataset.key, row]));
  const changes = [];
  rows.forEach((row, index) => {
    const shown = before.get(row.key) ?? copyOf("replica-row");
    if (shown.dataset.state !== row.state && before.size) changes.push(fill(texts.changed, named(row)));
    fillReplica(shown, row, now);
    if (body.children[index] !== shown) body.insertBefore(shown, body.children[index] ?? null);
    before.delete(row.key);
  });
  for (const left of before.values()) {
    changes.push(fill(texts.gone, { replica: left.dataset.replica }));
    handFocusOn(left);
    left.remove();
  }
  body.closest("table").hidden = rows.length === 0;
  document.querySelector("[data-no-replicas]").hidden = rows.length > 0;
  return changes;
}

/** Whoever was at a row's button goes to the one that has taken its place. */
function handFocusOn(left) {
  const ask = document.activeElement?.dataset.ask;
  if (!ask || !left.contains(document.activeElement)) return;
  const others = [...body.children].filter((row) => row !== left && row.dataset.process === left.dataset.process);
  others.at(-1)?.querySelector(`[data-ask="${ask}"]`).focus();
}

function named(row) {
  return { replica: row.replica, state: texts.states[row.state] ?? row.state };
}

function fillReplica(shown, row, now) {
  const idle = IDLE.has(row.state);
  Object.assign(shown.dataset, { key: row.key, state: row.state, replica: row.replica, process: row.process ?? row.replica });
  put(shown, "replica", row.replica);
  put(shown, "release", row.release === row.replica ? "" : row.release);
  put(shown, "state", named(row).state);
  const lasted = now - row.since;
  put(shown, "since", row.state === "lost" ? fill(texts.ago, { count: number(Math.floor(lasted)) }) : since(lasted));
  shown.querySelector('[data-field="since"]').title = atMoment(row.since);
  for (const name of COUNTS) put(shown, name, idle ? "–" : number(row[name]));
  shown.querySelector("[data-counts]").hidden = idle;
  put(shown, "tokens_per_s", idle ? "–" : number(row.tokens_per_s));
  showKV(shown, row, idle);
  shown.querySelector("[data-plot]").replaceChildren(...(idle ? [] : [sparkline(row.rates, row.tokens_per_s)]));
  for (const button of shown.querySelectorAll("[data-ask]")) {
    button.setAttribute("aria-label", `${button.textContent}: ${row.replica}`);
  }
  // A stopped one has nothing to drain; the focus must not be lost with it.
  const drain = shown.querySelector('[data-ask="drain"]');
  drain.setAttribute("aria-disabled", String(row.state === "stopped" || row.state === "draining"));
}

/** Of an engine that can't tell, nothing. */
function showKV(shown, row, idle) {
  const known = !idle && row.kv_total_blocks > 0;
  const percent = known ? (100 * row.kv_used_blocks) / row.kv_total_blocks : 0;
  put(shown, "kv", known ? fill(texts.percent, { count: number(Math.round(percent)) }) : "–");
  const told = known ? fill(texts.kv, { used: number(row.kv_used_blocks), total: number(row.kv_total_blocks) }) : "";
  shown.querySelector('[data-field="kv"]').title = told;
  const bar = shown.querySelector('[data-bar="kv"]');
  if (known) showBar(bar, percent);
  else bar.hidden = true;
}

export function showQueues(rows) {
  const before = new Map([...queues.children].map((table) => [table.dataset.key, table]));
  for (const row of rows) {
    const shown = before.get(row.release) ?? queues.appendChild(copyOf("queue"));
    before.delete(row.release);
    fillQueue(shown, row);
  }
  for (const left of before.values()) left.remove();
  document.querySelector("[data-nothing-waits]").hidden = rows.length > 0;
}

function fillQueue(shown, row) {
  shown.dataset.key = row.release;
  shown.setAttribute("aria-label", row.release);
  put(shown, "release", row.release);
  put(shown, "waiting", fill(texts.waits, { count: number(row.waiting) }));
  shown.querySelector("tbody").replaceChildren(...row.shares.map(shareRow));
  const classes = row.shares.some((share) => share.priority_class !== null);
  for (const cell of shown.querySelectorAll("[data-class]")) cell.hidden = !classes;
}

function shareRow(share) {
  const shown = copyOf("queue-share");
  put(shown, "tenant", share.tenant);
  put(shown, "priority_class", settings.priority_classes[share.priority_class] ?? share.priority_class ?? "");
  put(shown, "waiting", number(share.waiting));
  put(shown, "oldest", took(share.oldest_s));
  put(shown, "begins", begins(share.begins_p50_s, share.begins_p90_s));
  return shown;
}

function begins(p50, p90) {
  if (p50 === null) return texts.unknown;
  return fill(texts.within, { likely: took(Math.ceil(p50)), longest: took(Math.ceil(p90)) });
}

function put(shown, name, text) {
  const place = shown.querySelector(`[data-field="${name}"]`);
  if (place.textContent !== text) place.textContent = text;
}

function copyOf(id) {
  return document.getElementById(id).content.firstElementChild.cloneNode(true);
}
