// Tells the server how far an answer has been shown, so that it sends and makes no more than this page can take.

const APART_MS = 100;

export class Acknowledger {
  #send;
  #seq = 0;
  #sentAt = -Infinity;
  #timer = null;

  /** send: takes a sequence number to the server */
  constructor(send) {
    this.#send = send;
  }

  /** The answer is shown up to `seq`. Told at once, or with what comes until it may be told again. */
  shown(seq) {
    this.#seq = seq;
    if (this.#timer !== null) return;
    const wait = this.#sentAt + APART_MS - performance.now();
    if (wait <= 0) this.#tell();
    else this.#timer = setTimeout(() => this.#tell(), wait);
  }

  stop() {
    clearTimeout(this.#timer);
    this.#timer = null;
  }

  #tell() {
    this.#timer = null;
    this.#sentAt = performance.now();
    this.#send(this.#seq);
  }
}
