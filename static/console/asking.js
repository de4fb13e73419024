// Drain and restart, each asked in a dialog and posted without leaving the page.

import { settings, texts } from "./settings.js";

export function listenForButtons(table) {
  table.addEventListener("click", (event) => {
    const button = event.target.closest("[data-ask]");
    if (button && button.getAttribute("aria-disabled") !== "true") open(button);
  });
  for (const what of ["drain", "restart"]) {
    const dialog = dialogOf(what);
    dialog.querySelector("[data-cancel]").addEventListener("click", () => dialog.close());
    dialog.querySelector("form").addEventListener("submit", (event) => {
      event.preventDefault();
      submit(dialog, settings.urls[what]);
    });
  }
}

function dialogOf(what) {
  return document.getElementById(`${what}-dialog`);
}

function open(button) {
  const row = button.closest("tr");
  const dialog = dialogOf(button.dataset.ask);
  dialog.querySelector("form").reset();
  dialog.querySelector("[name=replica]").value = row.dataset.process;
  dialog.querySelector("[data-name]").textContent = row.dataset.replica;
  complain(dialog, "");
  dialog.showModal();
}

async function submit(dialog, url) {
  const button = dialog.querySelector("[type=submit]");
  button.disabled = true;
  try {
    await post(dialog, url);
  } finally {
    button.disabled = false;
  }
}

async function post(dialog, url) {
  let response;
  try {
    const body = new FormData(dialog.querySelector("form"));
    response = await fetch(url, { method: "POST", body, redirect: "manual" });
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    return complain(dialog, texts.not_sent);
  }
  // The server sends those who are signed out to the login.
  if (response.type === "opaqueredirect") return location.reload();
  if (response.ok) return dialog.close();
  const refused = response.status === 409 ? (await response.json()).error.message : null;
  return complain(dialog, refused ?? texts.not_sent);
}

function complain(dialog, words) {
  const place = dialog.querySelector("[data-error]");
  place.textContent = words;
  place.hidden = !words;
}
