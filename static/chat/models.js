// The model picker: which models there are, how they are, and which one the person chose.

import { fill, texts } from "./settings.js";

const REMEMBERED = "nehir.model";

/** Event "change" when the choice or its state may have changed. */
export class Models extends EventTarget {
  #label = document.querySelector(".model");
  #select = this.#label.querySelector("select");
  #models = [];

  constructor() {
    super();
    this.#select.addEventListener("change", () => {
      localStorage.setItem(REMEMBERED, this.#select.value);
      this.#refresh();
    });
  }

  /** {name, state} of the chosen model, or null if there is none. */
  get chosen() {
    return this.#models.find((model) => model.name === this.#select.value) ?? null;
  }

  update(models) {
    const wanted = this.chosen?.name ?? localStorage.getItem(REMEMBERED);
    this.#models = models;
    this.#select.replaceChildren(...models.map(option));
    if (models.length === 0) this.#select.append(new Option(texts.model.none, ""));
    const pick = models.find((model) => model.name === wanted) ?? models.find(isReady) ?? models[0];
    this.#select.value = pick?.name ?? "";
    this.#select.disabled = models.length === 0;
    this.#refresh();
  }

  #refresh() {
    this.#label.dataset.state = this.chosen?.state ?? "none";
    this.dispatchEvent(new Event("change"));
  }
}

function isReady(model) {
  return model.state === "ready";
}

function option({ name, state }) {
  const words = texts.model[state];
  return new Option(words ? fill(words, { model: name }) : name, name);
}
