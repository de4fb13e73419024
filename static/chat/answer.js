// An answer in the making: waiting, streaming or resuming, then finished, stopped or failed.

import { Countdown, ordinal } from "./countdown.js";
import { GrowingText } from "./growing.js";
import { fill, texts } from "./settings.js";
import { sources } from "./sources.js";

export class Answer {
  #element;
  #text;
  #countdown = new Countdown((words) => {
    this.#part("progress-time").textContent = words;
  });
  #firstTokenAt = null;
  #wasResumed = false;
  #seq = 0;

  /** shown: called with the sequence number up to which the answer is on the page */
  constructor(element, shown = () => {}) {
    this.#element = element;
    this.#text = new GrowingText(element.querySelector("[data-text]"), () => shown(this.#seq));
    element.setAttribute("aria-busy", "true");
  }

  /** The sequence number up to which the answer has come. */
  get seq() {
    return this.#seq;
  }

  /** Which generation makes it. */
  name(generation) {
    this.#element.dataset.generation = generation;
  }

  /** Say what the answer waits for. */
  wait(words) {
    this.#progress(words);
    this.#show("waiting");
  }

  queued({ position, eta_p50_s, eta_p90_s }) {
    const words = position === 1 ? texts.answer.next : texts.answer.position;
    this.wait(fill(words, { place: ordinal(position) }));
    this.#countdown.set(eta_p50_s ?? null, eta_p90_s ?? null);
  }

  /** The way to it is lost; it goes on when there is one again. */
  lost(words) {
    this.#wasResumed = true;
    this.#countdown.stop();
    this.#progress(words);
    this.#show("resuming");
  }

  /** Its engine is lost or leaves; another goes on with it. */
  interrupted(reason) {
    this.lost(reason === "engine_lost" ? texts.answer.engineLost : texts.answer.engineLeft);
  }

  /** It goes on from where it was. */
  resumed() {
    this.#wasResumed = true;
    if (this.#text.isEmpty) return this.wait(texts.answer.waiting);
    this.#stream();
  }

  append(seq, text) {
    this.#firstTokenAt ??= performance.now();
    this.#seq = seq;
    this.#stream();
    this.#text.append(text);
  }

  /** Some of it is no longer kept. */
  gap() {
    const mark = document.createElement("p");
    mark.className = "gap";
    mark.textContent = texts.answer.gap;
    this.#text.gap(mark);
  }

  /** What has come is not what comes: begin anew. */
  restart() {
    this.#seq = 0;
    this.#text.clear();
  }

  /** The whole text, as it is kept. */
  replace(text) {
    this.#text.clear();
    this.#text.append(text);
  }

  finish(reason, usage) {
    const words = { length: texts.answer.length, cancelled: texts.answer.stopped }[reason] ?? "";
    this.#end(reason === "cancelled" ? "stopped" : "finished", words);
    this.#part("usage").textContent = this.#measure(usage);
    this.#part("retry").hidden = reason !== "cancelled";
  }

  fail(words, { retry }) {
    this.#end("failed", words);
    this.#part("retry").hidden = !retry;
  }

  #progress(words) {
    this.#part("progress-text").textContent = words;
    this.#part("progress").hidden = false;
  }

  #stream() {
    this.#countdown.stop();
    this.#part("progress").hidden = true;
    this.#show("streaming");
  }

  #end(state, words) {
    this.#countdown.stop();
    this.#text.finish();
    const { source } = this.#text;
    sources.set(this.#element, source);
    this.#part("progress").hidden = true;
    this.#part("note").textContent = words;
    this.#part("note").hidden = !words;
    this.#part("copy").hidden = !source;
    this.#element.removeAttribute("aria-busy");
    this.#show(state);
  }

  #measure(usage) {
    const tokens = usage?.completion_tokens ?? 0;
    if (tokens < 2 || this.#firstTokenAt === null) return "";
    const seconds = (performance.now() - this.#firstTokenAt) / 1000;
    // What came in a burst, or with a pause, says nothing about the model's pace.
    if (this.#wasResumed || seconds <= 0) return fill(texts.answer.tokens, { tokens });
    // The first token has no time of its own here: its wait is the queue's and the prompt's.
    const rate = Math.round(((tokens - 1) / seconds) * 10) / 10;
    return fill(texts.answer.speed, { tokens, rate });
  }

  #show(state) {
    this.#element.dataset.state = state;
  }

  #part(name) {
    // Not in the text itself: its code blocks have copy buttons of their own.
    const places = [".message", ".progress > span", ".message-foot"];
    return this.#element.querySelector(places.map((place) => `${place} > [data-${name}]`).join());
  }
}
