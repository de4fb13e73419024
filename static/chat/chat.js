// The chat page: wires the socket to what is seen.

import "./timezone.js";
import { Composer } from "./composer.js";
import { Connection } from "./connection.js";
import { Messages } from "./messages.js";
import { Models } from "./models.js";
import { Scroll } from "./scroll.js";
import { conversationUrl, fill, settings, signIn, texts } from "./settings.js";
import { Sidebar } from "./sidebar.js";

// Asking the same again would fail the same way.
const NOT_AGAIN = ["invalid_request", "context_length_exceeded", "conversation_not_found"];

class Chat {
  #connection = new Connection(settings.socket);
  #composer = new Composer();
  #messages = new Messages();
  #models = new Models();
  #sidebar = new Sidebar();
  #scroll = new Scroll();
  #banner = document.querySelector('[data-testid="banner"]');
  #indicator = document.querySelector('[data-testid="connection"]');
  #announce = document.querySelector("[data-announce]");
  #title = document.querySelector("h1[data-title]");
  #conversation = settings.conversation;
  // The answer in the making: {ref, generation, text, answer, seq, stopping}.
  #current = null;
  #asked = 0;
  #trouble = "";

  start() {
    this.#connection.addEventListener("state", ({ detail }) => this.#onState(detail));
    this.#connection.addEventListener("frame", ({ detail }) => this.#onFrame(detail));
    this.#composer.addEventListener("send", ({ detail }) => this.#ask(detail));
    this.#composer.addEventListener("stop", () => this.#stop());
    this.#messages.addEventListener("retry", ({ detail }) => this.#ask(detail));
    this.#models.addEventListener("change", () => this.#refresh());
    this.#sidebar.addEventListener("renamed", ({ detail }) => {
      if (detail.id === this.#conversation) this.#entitle(detail.title);
    });
    this.#sidebar.addEventListener("deleted", ({ detail }) => {
      if (detail.id === this.#conversation) location.assign(settings.urls.newChat);
    });
    for (const button of document.querySelectorAll(".suggestion")) {
      button.addEventListener("click", () => this.#composer.fill(button.textContent));
    }
    document.addEventListener("keydown", (event) => this.#onKey(event));
    this.#connection.open();
  }

  #ask(text) {
    if (this.#current !== null) return;
    this.#asked += 1;
    const ref = `${Date.now().toString(36)}-${this.#asked}`;
    const answer = this.#messages.ask(text);
    this.#current = { ref, generation: null, text, answer, seq: 0, stopping: false };
    this.#trouble = "";
    this.#scroll.follow();
    const sent = this.#connection.send({
      type: "send",
      ref,
      conversation: this.#conversation,
      model: this.#models.chosen?.name ?? "",
      text,
    });
    if (sent) this.#refresh();
    else this.#fail(texts.answer.interrupted, { retry: true });
  }

  #stop() {
    this.#current.stopping = true;
    const { generation } = this.#current;
    // Not accepted yet: it is stopped as soon as it has a name.
    if (generation !== null) this.#connection.send({ type: "stop", generation });
  }

  #fail(words, { retry }) {
    this.#current.answer.fail(words, { retry });
    this.#announce.textContent = words;
    this.#end();
  }

  #end() {
    this.#current = null;
    this.#refresh();
  }

  #onState(state) {
    if (state === "signed-out") return signIn();
    if (state !== "open" && this.#current !== null) {
      this.#fail(texts.answer.interrupted, { retry: true });
    }
    this.#refresh();
  }

  #onFrame(frame) {
    if (frame.type === "hello" || frame.type === "models") this.#models.update(frame.models);
    else if (frame.type === "accepted") this.#onAccepted(frame);
    else if (frame.type === "error") this.#onError(frame);
    else if (frame.generation === this.#current?.generation) this.#onProgress(frame);
  }

  #onAccepted({ ref, conversation, generation }) {
    if (ref !== this.#current?.ref) return;
    this.#current.generation = generation;
    this.#current.answer.progress(texts.answer.waiting);
    this.#enter(conversation);
    if (this.#current.stopping) this.#stop();
  }

  #enter(conversation) {
    this.#conversation = conversation.id;
    history.replaceState(null, "", conversationUrl(conversation.id));
    this.#entitle(conversation.title);
    this.#sidebar.bringUp(conversation);
  }

  #onProgress(frame) {
    const { answer } = this.#current;
    if (frame.type === "waiting") {
      const { position } = frame;
      const words = position === 1 ? texts.answer.next : texts.answer.position;
      answer.progress(fill(words, { position }));
    } else if (frame.type === "tokens" && frame.seq > this.#current.seq) {
      this.#current.seq = frame.seq;
      answer.append(frame.text);
    } else if (frame.type === "finished") {
      answer.finish(frame.finish_reason, frame.usage);
      this.#announce.textContent = texts.answer.announced;
      this.#end();
    }
  }

  #onError({ ref, generation, error, conversation }) {
    const words = texts.errors[error.code] ?? error.message;
    const current = this.#current;
    const named = ref ?? generation;
    const mine = current !== null && named !== null && [current.ref, current.generation].includes(named);
    if (mine) {
      // The question was kept though it could not be answered: asked again, it is asked there.
      if (conversation) this.#enter(conversation);
      const again = !NOT_AGAIN.includes(error.code);
      this.#fail(words, { retry: again });
      if (!again) this.#composer.restore(current.text);
    } else if (named === null) {
      this.#trouble = words;
      this.#refresh();
    }
  }

  #entitle(title) {
    this.#title.textContent = title;
    document.title = `${title} · Nehir`;
  }

  #refresh() {
    const { state } = this.#connection;
    const busy = this.#current !== null;
    this.#composer.set({ ready: state === "open" && this.#models.chosen !== null, busy });
    this.#indicator.dataset.state = state;
    this.#indicator.querySelector("[data-text]").textContent = texts.connection[state] ?? "";
    const lost = state === "refused" ? texts.connection.refused : "";
    const waiting = state === "open" ? texts.banner[this.#models.chosen?.state ?? "none"] : "";
    const words = lost || this.#trouble || waiting || "";
    this.#banner.dataset.kind = lost || this.#trouble ? "bad" : "wait";
    if (this.#banner.textContent !== words) this.#banner.textContent = words;
    this.#banner.hidden = !words;
  }

  #onKey(event) {
    const elsewhere = document.querySelector("dialog[open]") !== null;
    if (elsewhere || event.isComposing) return;
    const writing = event.target.closest("input, textarea, select") !== null;
    if (event.key === "Escape") {
      if (this.#sidebar.isOpen) this.#sidebar.toggle(false);
      else this.#composer.stop();
    } else if (event.key === "/" && !writing) {
      event.preventDefault();
      this.#composer.focus();
    } else if (event.key.toLowerCase() === "k" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      this.#sidebar.find();
    }
  }
}

new Chat().start();
