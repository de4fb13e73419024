// Copying to the clipboard, also over plain HTTP, where browsers have no clipboard API.

import { texts } from "./settings.js";

const SHOWN_MS = 1_600;

/** Copy `text` and say on the button whether it worked. */
export async function copy(text, button) {
  const label = button.querySelector("[data-label]");
  label.textContent = (await toClipboard(text)) ? texts.actions.copied : texts.actions.notCopied;
  setTimeout(() => (label.textContent = texts.actions.copy), SHOWN_MS);
}

async function toClipboard(text) {
  if (!navigator.clipboard) return bySelection(text);
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch (error) {
    if (!(error instanceof DOMException)) throw error;
    return bySelection(text);
  }
}

function bySelection(text) {
  const area = document.createElement("textarea");
  area.className = "visually-hidden";
  area.value = text;
  document.body.append(area);
  area.select();
  const copied = document.execCommand("copy");
  area.remove();
  return copied;
}
