// Renaming and deleting a conversation, each asked in a dialog and posted without leaving the page.

import { signIn, texts } from "./settings.js";

/** Event "renamed" (detail: {id, title}) and "deleted" (detail: {id}). */
export class Dialogs extends EventTarget {
  #rename = document.getElementById("rename-dialog");
  #delete = document.getElementById("delete-dialog");
  #id = null;

  constructor() {
    super();
    for (const dialog of [this.#rename, this.#delete]) {
      dialog.querySelector("[data-cancel]").addEventListener("click", () => dialog.close());
      dialog.querySelector("form").addEventListener("submit", (event) => {
        event.preventDefault();
        this.#submit(dialog);
      });
    }
  }

  rename({ id, title, url }) {
    const field = this.#rename.querySelector("[name=title]");
    field.value = title;
    this.#open(this.#rename, id, url);
    field.select();
  }

  delete({ id, title, url }) {
    this.#delete.querySelector("[data-title]").textContent = title;
    this.#open(this.#delete, id, url);
  }

  #open(dialog, id, url) {
    this.#id = id;
    dialog.querySelector("form").action = url;
    this.#complain(dialog, "");
    dialog.showModal();
  }

  async #submit(dialog) {
    const button = dialog.querySelector("[type=submit]");
    button.disabled = true;
    try {
      await this.#post(dialog);
    } finally {
      button.disabled = false;
    }
  }

  async #post(dialog) {
    const form = dialog.querySelector("form");
    const id = this.#id;
    let response;
    try {
      response = await fetch(form.action, { method: "POST", body: new FormData(form), redirect: "manual" });
    } catch (error) {
      if (!(error instanceof TypeError)) throw error;
      return this.#complain(dialog, texts.actions.notSaved);
    }
    // The server sends those who are signed out to the login.
    if (response.type === "opaqueredirect") return signIn();
    if (response.ok) return this.#done(dialog, id, response);
    const gone = response.status === 404;
    if (gone && dialog === this.#delete) return this.#done(dialog, id, response);
    const refused = response.status === 400 ? (await response.json()).error.message : null;
    const missing = gone ? texts.errors.conversation_not_found : null;
    return this.#complain(dialog, refused ?? missing ?? texts.actions.notSaved);
  }

  async #done(dialog, id, response) {
    dialog.close();
    if (dialog === this.#delete) {
      this.dispatchEvent(new CustomEvent("deleted", { detail: { id } }));
    } else {
      this.dispatchEvent(new CustomEvent("renamed", { detail: await response.json() }));
    }
  }

  #complain(dialog, words) {
    const place = dialog.querySelector("[data-error]");
    place.textContent = words;
    place.hidden = !words;
  }
}
