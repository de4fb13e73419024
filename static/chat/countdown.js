// A place in a queue and how long it may still take, in words, counted down.

import { fill, texts } from "./settings.js";

const TICK_MS = 1_000;
// An estimate that rises by less than this share, or these seconds, is not worth a jump: the countdown stands still instead.
const JUMP = 0.25;
const JUMP_S = 5;
const ordinals = new Intl.PluralRules(document.documentElement.lang, { type: "ordinal" });

/** "3rd", "3." */
export function ordinal(position) {
  return fill(texts.ordinal[ordinals.select(position)] ?? texts.ordinal.other, { position });
}

/** Never goes up by itself. */
export class Countdown {
  #show;
  #timer = null;
  // When it is likely, and nearly sure, to be over, in milliseconds of the page's clock.
  #likely = null;
  #longest = null;

  /** show: takes the words to show */
  constructor(show) {
    this.#show = show;
  }

  /** Seconds from now, as likely later as sooner, and nearly sure; null if nothing is known. */
  set(likelyS, longestS) {
    if (likelyS === null) return this.stop();
    this.#likely = steady(this.#likely, likelyS);
    this.#longest = Math.max(this.#likely, steady(this.#longest, longestS));
    this.#timer ??= setInterval(() => this.#tick(), TICK_MS);
    this.#tick();
  }

  stop() {
    clearInterval(this.#timer);
    this.#timer = this.#likely = this.#longest = null;
    this.#show("");
  }

  #tick() {
    const likely = duration(this.#likely);
    const longest = duration(this.#longest);
    if (likely === null) return this.#show(texts.queue.soon);
    const words = likely === longest ? texts.queue.about : texts.queue.within;
    this.#show(fill(words, { likely, longest }));
  }
}

function steady(before, seconds) {
  const now = performance.now();
  const then = now + seconds * 1000;
  const rise = before === null ? Infinity : (then - Math.max(before, now)) / 1000;
  return rise > 0 && rise <= Math.max(JUMP_S, seconds * JUMP) ? before : then;
}

/** What is left until then; the further away, the rounder. Null when it is over. */
function duration(then) {
  const seconds = Math.ceil((then - performance.now()) / 1000);
  if (seconds <= 0) return null;
  if (seconds <= 20) return fill(texts.queue.seconds, { count: seconds });
  if (seconds <= 90) return fill(texts.queue.seconds, { count: Math.ceil(seconds / 5) * 5 });
  if (seconds <= 5400) return fill(texts.queue.minutes, { count: Math.ceil(seconds / 60) });
  return fill(texts.queue.hours, { count: Math.ceil(seconds / 3600) });
}
