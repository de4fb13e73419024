// What the server hands the page: addresses and texts in the reader's language.

export const settings = JSON.parse(document.getElementById("chat-settings").textContent);
export const texts = settings.texts;

const language = document.documentElement.lang;
const whole = new Intl.NumberFormat(language, { maximumFractionDigits: 0 });
const fine = new Intl.NumberFormat(language, { minimumFractionDigits: 1, maximumFractionDigits: 1 });

/** Put values in place of the words in braces; numbers are written as the reader's language does. */
export function fill(text, values) {
  return text.replace(/\{(\w+)\}/g, (_match, name) => {
    const value = values[name];
    if (typeof value !== "number") return String(value);
    return Number.isInteger(value) ? whole.format(value) : fine.format(value);
  });
}

export function conversationUrl(id) {
  return settings.urls.conversation.replace("ID", encodeURIComponent(id));
}

/** A person whose session has ended goes to the login and comes back to this page after it. */
export function signIn() {
  location.assign(`${settings.urls.login}?next=${encodeURIComponent(location.pathname)}`);
}
