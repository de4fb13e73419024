// An answer as the server keeps it, when it can no longer be received token by token.

import { conversationUrl, signIn } from "./settings.js";

/** {text, finish} of a generation's kept answer, or null. */
export async function keptAnswer(conversation, generation) {
  let response;
  try {
    response = await fetch(conversationUrl(conversation), { redirect: "manual" });
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    return null;
  }
  if (response.type === "opaqueredirect") {
    signIn();
    return null;
  }
  if (!response.ok) return null;
  const page = new DOMParser().parseFromString(await response.text(), "text/html");
  const found = page.querySelector(`[data-generation="${CSS.escape(generation)}"]`);
  if (found === null || found.dataset.state === "resuming") return null;
  return { text: found.querySelector("[data-text]").textContent, finish: found.dataset.finish };
}
