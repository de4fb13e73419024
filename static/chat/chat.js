// The chat page: wires the socket to what is seen.

import "./timezone.js";
import { Composer } from "./composer.js";
import { Connection } from "./connection.js";
import { ordinal } from "./countdown.js";
import { Exchange } from "./exchange.js";
import { Messages } from "./messages.js";
import { Models } from "./models.js";
import { Scroll } from "./scroll.js";
import { conversationUrl, fill, settings, signIn, texts } from "./settings.js";
import { Sidebar } from "./sidebar.js";

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
  // The exchange whose answer is in the making.
  #current = null;
  #trouble = "";

  start() {
    this.#connection.addEventListener("state", ({ detail }) => this.#onState(detail));
    this.#connection.addEventListener("frame", ({ detail }) => this.#onFrame(detail));
    this.#composer.addEventListener("send", ({ detail }) => this.#ask(detail));
    this.#composer.addEventListener("stop", () => this.#current?.stop());
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
    this.#takeUp();
    this.#connection.open();
  }

  /** The page came while its conversation was being answered. */
  #takeUp() {
    const running = this.#messages.running;
    if (running === null) return;
    this.#begin(running.text, running.makeAnswer).takeUp(running.generation, this.#conversation);
    this.#refresh();
  }

  #ask(text) {
    if (this.#current !== null) return;
    const exchange = this.#begin(text, (shown) => this.#messages.ask(text, shown));
    this.#trouble = "";
    this.#scroll.follow();
    exchange.ask({ conversation: this.#conversation, model: this.#models.chosen?.name ?? "", text });
    this.#refresh();
  }

  #begin(text, makeAnswer) {
    const exchange = new Exchange(this.#connection, text, makeAnswer);
    this.#current = exchange;
    exchange.addEventListener("accepted", ({ detail }) => this.#enter(detail, { answering: true }));
    exchange.addEventListener("kept", ({ detail }) => this.#enter(detail, { answering: false }));
    exchange.addEventListener("ended", ({ detail }) => this.#onEnded(detail));
    return exchange;
  }

  #onEnded({ words, giveBack }) {
    const { text } = this.#current;
    this.#announce.textContent = words;
    this.#current = null;
    this.#sidebar.mark(this.#conversation, null);
    this.#refresh();
    if (giveBack) this.#composer.restore(text);
  }

  #enter(conversation, { answering }) {
    this.#conversation = conversation.id;
    history.replaceState(null, "", conversationUrl(conversation.id));
    this.#entitle(conversation.title);
    this.#sidebar.bringUp(conversation);
    this.#sidebar.mark(conversation.id, answering ? "open" : null);
  }

  #onState(state) {
    if (state === "signed-out") return signIn();
    if (state === "open") this.#current?.reconnected();
    else this.#current?.disconnected();
    this.#refresh();
  }

  #onFrame(frame) {
    if (frame.type === "hello") this.#trouble = "";
    if (frame.type === "hello" || frame.type === "models") this.#models.update(frame.models);
    else if (frame.type === "error" && frame.ref === null && frame.generation === null) {
      this.#trouble = texts.errors[frame.error.code] ?? frame.error.message;
      this.#refresh();
    } else this.#current?.onFrame(frame);
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
    this.#indicator.querySelector("[data-text]").textContent = this.#connectionWords(state, busy);
    const lost = state === "refused" ? texts.connection.refused : "";
    const waiting = state === "open" ? texts.banner[this.#models.chosen?.state ?? "none"] : "";
    const words = lost || this.#trouble || waiting || "";
    this.#banner.dataset.kind = lost || this.#trouble ? "bad" : "wait";
    if (this.#banner.textContent !== words) this.#banner.textContent = words;
    this.#banner.hidden = !words;
  }

  #connectionWords(state, busy) {
    if (state === "closed" && busy) return texts.answer.resuming;
    if (state !== "queued") return texts.connection[state] ?? "";
    return fill(texts.connection.queued, { place: ordinal(this.#connection.place.position) });
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
