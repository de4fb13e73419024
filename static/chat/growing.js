// The text of an answer while it comes, and the whole of it in the end.

import { beginsWithFence, render, settled } from "./markdown.js";

// Where animation frames don't come (another window covers the page), text is taken in at this pace.
const NO_FRAME_MS = 250;
const GAP_IN_SOURCE = "\n\n[…]\n\n";

/**
 * Pieces are gathered and shown once a frame: complete blocks are rendered, the block still being written is one text node
 * that grows. The text is rendered as a whole once, when it ends.
 */
export class GrowingText {
  #place;
  #shown;
  #live = document.createElement("div");
  #tail = "";
  #pending = "";
  #frame = null;
  #timer = null;
  // The text up to the first gap, from there to the next, and so on; gaps[i] stands before parts[i + 1].
  #parts = [""];
  #gaps = [];

  /** place: the element; shown: called whenever all that has come is in it */
  constructor(place, shown) {
    this.#place = place;
    this.#shown = shown;
    this.#live.className = "live";
    this.#live.append("");
    place.classList.add("rendered");
  }

  get isEmpty() {
    return this.#parts.every((part) => !part) && this.#gaps.length === 0;
  }

  /** The text as the model wrote it. */
  get source() {
    return this.#parts.join(GAP_IN_SOURCE);
  }

  append(text) {
    if (!this.#live.isConnected) this.#place.append(this.#live);
    this.#parts.push(this.#parts.pop() + text);
    this.#pending += text;
    // Nobody sees a hidden page, and it gets no frames.
    if (document.hidden) this.#flush();
    else this.#schedule();
  }

  /** A mark where part of the text is missing. */
  gap(mark) {
    this.#flush();
    this.#place.append(this.#live);
    this.#live.before(render(this.#tail), mark);
    this.#live.firstChild.data = this.#tail = "";
    this.#gaps.push(mark);
    this.#parts.push("");
  }

  clear() {
    this.#cancel();
    this.#parts = [""];
    this.#gaps = [];
    this.#live.firstChild.data = this.#tail = this.#pending = "";
    this.#place.replaceChildren();
  }

  /** Render the whole; nothing comes after this. */
  finish() {
    this.#cancel();
    const whole = this.#parts.flatMap((part, index) => [...this.#gaps.slice(index - 1, index), render(part)]);
    this.#place.replaceChildren(...whole);
  }

  #schedule() {
    if (this.#timer !== null) return;
    this.#frame = requestAnimationFrame(() => this.#flush());
    this.#timer = setTimeout(() => this.#flush(), NO_FRAME_MS);
  }

  #cancel() {
    cancelAnimationFrame(this.#frame);
    clearTimeout(this.#timer);
    this.#frame = this.#timer = null;
  }

  #flush() {
    this.#cancel();
    const whole = this.#tail + this.#pending;
    const sure = settled(whole);
    if (sure > 0) {
      this.#live.before(render(whole.slice(0, sure)));
      this.#tail = whole.slice(sure);
      this.#live.firstChild.data = this.#tail;
    } else {
      this.#tail = whole;
      this.#live.firstChild.appendData(this.#pending);
    }
    this.#pending = "";
    this.#live.classList.toggle("live-code", beginsWithFence(this.#tail));
    this.#shown();
  }
}
