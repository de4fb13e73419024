// The messages of the page: those the server rendered, and those that are added as the person asks.

import { Answer } from "./answer.js";
import { copy } from "./copy.js";
import { render } from "./markdown.js";
import { texts } from "./settings.js";
import { sources } from "./sources.js";

const UNFINISHED = ["failed", "stopped"];

/** Event "retry" (detail: the text to ask again). */
export class Messages extends EventTarget {
  #list = document.querySelector("[data-messages]");
  #empty = document.querySelector("[data-empty]");

  constructor() {
    super();
    for (const element of this.#list.querySelectorAll('[data-author="assistant"]')) {
      if (element !== this.#running) upgrade(element);
    }
    this.#list.addEventListener("click", (event) => this.#click(event));
    this.#offerRetry();
  }

  get #last() {
    return this.#list.lastElementChild;
  }

  get #running() {
    return this.#list.querySelector('[data-state="resuming"]');
  }

  /** The answer that was in the making when the page was: {generation, text, makeAnswer}; text: the question. Or null. */
  get running() {
    const element = this.#running;
    if (element === null) return null;
    const question = element.previousElementSibling;
    return {
      generation: element.dataset.generation,
      text: question === null ? "" : textOf(question),
      makeAnswer: (shown) => new Answer(element, shown),
    };
  }

  /** Show a question and an empty answer to it; asked again, it replaces the unfinished answer. `shown`: as Answer's. */
  ask(text, shown) {
    this.#empty.hidden = true;
    const question = this.#unansweredQuestion();
    if (question !== null && textOf(question) === text) {
      while (this.#last !== question) this.#last.remove();
      question.querySelector("[data-note]").hidden = true;
      question.querySelector("[data-retry]").hidden = true;
    } else {
      this.#withdrawRetry();
      textNode(this.#add("user-message")).textContent = text;
    }
    return new Answer(this.#add("assistant-message"), shown);
  }

  /** The last question, if the answer to it is missing or was not finished. */
  #unansweredQuestion() {
    const last = this.#last;
    if (last === null || last.dataset.author === "user") return last;
    const question = last.previousElementSibling;
    const unfinished = UNFINISHED.includes(last.dataset.state);
    return unfinished && question?.dataset.author === "user" ? question : null;
  }

  #offerRetry() {
    const last = this.#last;
    if (last === null || last === this.#running || this.#unansweredQuestion() === null) return;
    last.querySelector("[data-retry]").hidden = false;
    if (last.dataset.author !== "user") return;
    const note = last.querySelector("[data-note]");
    note.textContent = texts.answer.unanswered;
    note.hidden = false;
  }

  #withdrawRetry() {
    for (const button of this.#list.querySelectorAll("[data-retry]")) button.hidden = true;
  }

  #add(template) {
    const content = document.getElementById(template).content;
    const element = content.firstElementChild.cloneNode(true);
    this.#list.append(element);
    return element;
  }

  #click(event) {
    const button = event.target.closest("button");
    if (button === null) return;
    const code = button.closest(".code");
    const message = button.closest(".message");
    if ("retry" in button.dataset) {
      this.dispatchEvent(new CustomEvent("retry", { detail: textOf(this.#unansweredQuestion()) }));
    } else if ("copy" in button.dataset) {
      copy(code ? code.querySelector("code").textContent : sources.get(message), button);
    }
  }
}

/** Render an answer that came with the page, and say how it ended. */
function upgrade(element) {
  const text = textOf(element);
  sources.set(element, text);
  textNode(element).classList.add("rendered");
  textNode(element).replaceChildren(render(text));
  const words = { length: "length", cancelled: "stopped", error: "failed" }[element.dataset.finish];
  if (words) {
    const note = element.querySelector("[data-note]");
    note.textContent = texts.answer[words];
    note.hidden = false;
  }
}

function textNode(element) {
  return element.querySelector("[data-text]");
}

function textOf(element) {
  return textNode(element).textContent;
}
