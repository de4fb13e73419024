// The operators' view: asks once a second how everything is, as long as somebody looks.

import { listenForButtons } from "./asking.js";
import { showLatency } from "./latency.js";
import { showQueues, showReplicas } from "./rows.js";
import { fill, settings, texts } from "./settings.js";
import { showShares } from "./shares.js";

const PAUSE_MS = 1_000;
const TIMEOUT_MS = 10_000;

const page = document.getElementById("replicas");
const announce = page.querySelector("[data-announce]");

function say(name, words) {
  const place = page.querySelector(`[data-${name}]`);
  // Only what changes: an alert is read aloud whenever it is written.
  if (words && place.textContent !== words) place.textContent = words;
  place.hidden = !words;
}

function show(state) {
  say("unreachable", "");
  say("going-on", state.going_on && fill(texts.going_on, { what: state.going_on }));
  say("failed", state.failed && fill(texts.failed, { why: state.failed }));
  page.querySelector("[data-redis]").hidden = state.redis;
  page.querySelector("[data-supervisor]").hidden = state.supervisor !== false;
  page.toggleAttribute("data-stale", !state.redis);
  // What was last known stays, grey, while nothing else is.
  if (!state.redis && page.dataset.shown) return;
  const changes = showReplicas(state.replicas, state.now);
  showLatency(state.latency);
  showQueues(state.queues);
  showShares(state.shares);
  if (state.redis) page.dataset.shown = "yes";
  if (changes.length) announce.textContent = changes.join(". ");
}

async function ask() {
  const response = await fetch(settings.urls.state, { redirect: "manual", signal: AbortSignal.timeout(TIMEOUT_MS) });
  // Signed out, or no operator any more: the page itself tells.
  if (response.type === "opaqueredirect" || response.status === 403) return location.reload();
  if (!response.ok) throw new TypeError(`status ${response.status}`);
  return show(await response.json());
}

async function keepAsking() {
  for (;;) {
    if (document.hidden) await new Promise((seen) => document.addEventListener("visibilitychange", seen, { once: true }));
    try {
      await ask();
    } catch {
      page.toggleAttribute("data-stale", true);
      say("unreachable", texts.unreachable);
    }
    await new Promise((passed) => setTimeout(passed, PAUSE_MS));
  }
}

listenForButtons(page);
keepAsking();
