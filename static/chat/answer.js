// An answer in the making: waiting, streaming, then finished, stopped or failed.

import { beginsWithFence, render, settled } from "./markdown.js";
import { fill, texts } from "./settings.js";
import { sources } from "./sources.js";

/**
 * Tokens are gathered and shown once a frame: complete blocks are rendered, the block still being written is one text node
 * that grows. The answer is rendered as a whole once, when it ends.
 */
export class Answer {
  #element;
  #text;
  #live = document.createElement("div");
  #tail = "";
  #pending = "";
  #frame = null;
  #firstTokenAt = null;
  #source = "";

  constructor(element) {
    this.#element = element;
    this.#text = element.querySelector("[data-text]");
    this.#text.classList.add("rendered");
    this.#live.className = "live";
    this.#live.append("");
    element.setAttribute("aria-busy", "true");
    this.#show("waiting");
    this.progress(texts.answer.sending);
  }

  /** Say what the answer waits for. */
  progress(words) {
    this.#part("progress-text").textContent = words;
    this.#part("progress").hidden = false;
  }

  append(text) {
    if (this.#firstTokenAt === null) {
      this.#firstTokenAt = performance.now();
      this.#part("progress").hidden = true;
      this.#text.append(this.#live);
      this.#show("streaming");
    }
    this.#source += text;
    this.#pending += text;
    this.#frame ??= requestAnimationFrame(() => this.#flush());
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

  #flush() {
    this.#frame = null;
    const sure = settled(this.#tail + this.#pending);
    if (sure > 0) {
      const whole = this.#tail + this.#pending;
      this.#live.before(render(whole.slice(0, sure)));
      this.#tail = whole.slice(sure);
      this.#live.firstChild.data = this.#tail;
    } else {
      this.#tail += this.#pending;
      this.#live.firstChild.appendData(this.#pending);
    }
    this.#pending = "";
    this.#live.classList.toggle("live-code", beginsWithFence(this.#tail));
  }

  #end(state, words) {
    if (this.#frame !== null) cancelAnimationFrame(this.#frame);
    this.#frame = null;
    this.#text.replaceChildren(render(this.#source));
    sources.set(this.#element, this.#source);
    this.#part("progress").hidden = true;
    this.#part("note").textContent = words;
    this.#part("note").hidden = !words;
    this.#part("copy").hidden = !this.#source;
    this.#element.removeAttribute("aria-busy");
    this.#show(state);
  }

  #measure(usage) {
    const tokens = usage?.completion_tokens ?? 0;
    if (tokens < 2 || this.#firstTokenAt === null) return "";
    const seconds = (performance.now() - this.#firstTokenAt) / 1000;
    if (seconds <= 0) return "";
    // The first token has no time of its own here: its wait is the queue's and the prompt's.
    const rate = Math.round(((tokens - 1) / seconds) * 10) / 10;
    return fill(texts.answer.speed, { tokens, rate });
  }

  #show(state) {
    this.#element.dataset.state = state;
  }

  #part(name) {
    // Not in the text itself: its code blocks have copy buttons of their own.
    const places = [".message", ".progress", ".message-foot"];
    return this.#element.querySelector(places.map((place) => `${place} > [data-${name}]`).join());
  }
}
