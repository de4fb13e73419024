// Where the person writes. Event "send" (detail: the text) and "stop".

export class Composer extends EventTarget {
  #form = document.querySelector("[data-composer]");
  #area = document.getElementById("composer-text");
  #send = this.#form.querySelector('[data-testid="send"]');
  #stop = this.#form.querySelector('[data-testid="stop"]');
  #ready = false;
  #busy = false;

  constructor() {
    super();
    this.#form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.#submit();
    });
    this.#area.addEventListener("input", () => this.#refresh());
    this.#area.addEventListener("keydown", (event) => {
      // Enter that ends an input method's composition is not meant for us.
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      this.#submit();
    });
    this.#stop.addEventListener("click", () => this.stop());
    this.#refresh();
  }

  /** ready: whether a message can be sent now; busy: whether an answer is being made. */
  set({ ready = this.#ready, busy = this.#busy }) {
    const held = document.activeElement === this.#send || document.activeElement === this.#stop;
    this.#ready = ready;
    this.#busy = busy;
    this.#stop.disabled = false;
    this.#refresh();
    // The button that had the focus may just have gone.
    if (held) this.focus();
  }

  stop() {
    if (!this.#busy || this.#stop.disabled) return;
    this.#stop.disabled = true;
    this.dispatchEvent(new Event("stop"));
  }

  focus() {
    this.#area.focus();
  }

  fill(text) {
    this.#area.value = text;
    this.#refresh();
    this.focus();
  }

  /** Give back a text that was not taken, unless the person has begun another. */
  restore(text) {
    if (!this.#area.value) this.fill(text);
  }

  #submit() {
    const text = this.#area.value.trim();
    if (!text || this.#busy || !this.#ready) return;
    this.#area.value = "";
    this.#refresh();
    this.dispatchEvent(new CustomEvent("send", { detail: text }));
  }

  #refresh() {
    this.#send.hidden = this.#busy;
    this.#stop.hidden = !this.#busy;
    this.#send.disabled = !this.#ready || !this.#area.value.trim();
    this.#area.style.height = "auto";
    this.#area.style.height = `${this.#area.scrollHeight}px`;
  }
}
