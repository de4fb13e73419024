// The list of conversations: found, renamed, deleted, brought to the top; on a phone a drawer.

import { Dialogs } from "./dialogs.js";
import { conversationUrl, settings, texts } from "./settings.js";

const LOOK_AGAIN_MS = 10_000;

/** Event "renamed" (detail: {id, title}) and "deleted" (detail: {id}). */
export class Sidebar extends EventTarget {
  #element = document.getElementById("sidebar");
  #list = this.#element.querySelector("[data-conversations]");
  #search = this.#element.querySelector("[data-search]");
  #opener = document.querySelector("[data-open-sidebar]");
  #dialogs = new Dialogs();

  constructor() {
    super();
    this.#list.addEventListener("click", (event) => this.#click(event));
    this.#search.addEventListener("input", () => this.#refresh());
    this.#opener.addEventListener("click", () => this.toggle(true));
    for (const closer of document.querySelectorAll("[data-close-sidebar]")) {
      closer.addEventListener("click", () => this.toggle(false));
    }
    this.#dialogs.addEventListener("renamed", ({ detail }) => {
      this.#title(detail.id).textContent = detail.title;
      this.#tell("renamed", detail);
    });
    this.#dialogs.addEventListener("deleted", ({ detail }) => {
      this.#item(detail.id).remove();
      this.#tell("deleted", detail);
    });
    this.#closeAccountOutside();
    this.#refresh();
    setInterval(() => this.#lookAgain(), LOOK_AGAIN_MS);
  }

  get isOpen() {
    return document.body.classList.contains("sidebar-open");
  }

  toggle(open) {
    document.body.classList.toggle("sidebar-open", open);
    this.#opener.setAttribute("aria-expanded", String(open));
    if (open) this.#element.querySelector("[data-close-sidebar]").focus();
    else this.#opener.focus();
  }

  find() {
    // The drawer's own button is only shown on small screens.
    if (this.#opener.offsetParent !== null) this.toggle(true);
    this.#search.focus();
    this.#search.select();
  }

  /** Put a conversation at the top of today, as the current one. */
  bringUp({ id, title }) {
    const item = this.#item(id) ?? this.#make(id);
    const link = item.querySelector("a");
    link.textContent = title;
    for (const other of this.#list.querySelectorAll("[aria-current]")) other.removeAttribute("aria-current");
    link.setAttribute("aria-current", "page");
    this.#list.querySelector('[data-day="today"] ul').prepend(item);
    this.#refresh();
  }

  /** Show that a conversation is being answered ("open"), waits for its reader to go on ("suspended"), or neither (null). */
  mark(id, state) {
    const item = this.#item(id);
    if (item === null) return;
    item.dataset.answer = state ?? "";
    const mark = item.querySelector("[data-mark]");
    mark.hidden = state === null;
    mark.title = mark.querySelector("[data-words]").textContent = texts.sidebar[state] ?? "";
  }

  /** Answers of other conversations end without a word to this page. */
  async #lookAgain() {
    const marked = [...this.#list.querySelectorAll('[data-answer]:not([data-answer=""])')];
    const others = marked.filter((item) => item.querySelector("[aria-current]") === null);
    if (others.length === 0 || document.hidden) return;
    let running;
    try {
      const response = await fetch(settings.urls.running, { redirect: "manual" });
      if (!response.ok) return;
      ({ running } = await response.json());
    } catch (error) {
      // Away just now: the next look finds out.
      if (!(error instanceof TypeError)) throw error;
      return;
    }
    for (const { dataset } of others) this.mark(dataset.conversation, running[dataset.conversation] ?? null);
  }

  #make(id) {
    const template = document.getElementById("conversation-item");
    const item = template.content.firstElementChild.cloneNode(true);
    const place = conversationUrl("ID");
    item.dataset.conversation = id;
    item.querySelector("a").href = conversationUrl(id);
    for (const name of ["rename", "delete"]) {
      const button = item.querySelector(`[data-${name}]`);
      button.dataset[name] = button.dataset[name].replace(place, conversationUrl(id));
    }
    return item;
  }

  #item(id) {
    return this.#list.querySelector(`[data-conversation="${CSS.escape(id)}"]`);
  }

  #title(id) {
    return this.#item(id).querySelector("a");
  }

  #click(event) {
    const button = event.target.closest("button");
    if (button === null) return;
    const id = button.closest("[data-conversation]").dataset.conversation;
    const about = { id, title: this.#title(id).textContent };
    if ("rename" in button.dataset) this.#dialogs.rename({ ...about, url: button.dataset.rename });
    if ("delete" in button.dataset) this.#dialogs.delete({ ...about, url: button.dataset.delete });
  }

  #tell(name, detail) {
    this.#refresh();
    this.dispatchEvent(new CustomEvent(name, { detail }));
  }

  /** Show what the search asks for, and no heading without anything under it. */
  #refresh() {
    const wanted = this.#search.value.trim().toLocaleLowerCase();
    let shown = 0;
    for (const day of this.#list.querySelectorAll("[data-day]")) {
      let here = 0;
      for (const item of day.querySelectorAll("[data-conversation]")) {
        const title = item.querySelector("a").textContent.toLocaleLowerCase();
        item.hidden = !title.includes(wanted);
        if (!item.hidden) here += 1;
      }
      day.hidden = here === 0;
      shown += here;
    }
    const any = this.#list.querySelector("[data-conversation]") !== null;
    this.#list.querySelector("[data-none]").hidden = any;
    this.#list.querySelector("[data-no-match]").hidden = !any || shown > 0;
  }

  #closeAccountOutside() {
    const account = this.#element.querySelector(".account");
    document.addEventListener("click", (event) => {
      if (!account.contains(event.target)) account.open = false;
    });
  }
}
