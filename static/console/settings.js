// What the server hands the page: addresses and texts in the reader's language, and how numbers and times are written.

export const settings = JSON.parse(document.getElementById("replicas-settings").textContent);
export const texts = settings.texts;

const language = document.documentElement.lang;
const whole = new Intl.NumberFormat(language, { maximumFractionDigits: 0 });
const fine = new Intl.NumberFormat(language, { maximumFractionDigits: 1 });
const moment = new Intl.DateTimeFormat(language, { dateStyle: "medium", timeStyle: "medium" });

const MINUTE = 60;
const HOUR = 3_600;
const DAY = 86_400;

/** Put values in place of the words in braces. */
export function fill(text, values) {
  return text.replace(/\{(\w+)\}/g, (_match, name) => String(values[name]));
}

export function number(value) {
  return value < 10 ? fine.format(value) : whole.format(value);
}

/** "for 3 min" */
export function since(seconds) {
  return inUnits(seconds, texts.since);
}

/** "3 min" */
export function took(seconds) {
  return inUnits(seconds, texts.took);
}

export function atMoment(unixSeconds) {
  return moment.format(new Date(unixSeconds * 1_000));
}

function inUnits(seconds, words) {
  const left = Math.max(0, Math.floor(seconds));
  if (left < 2 * MINUTE) return fill(words.seconds, { count: whole.format(left) });
  if (left < 2 * HOUR) return fill(words.minutes, { count: whole.format(Math.floor(left / MINUTE)) });
  if (left < 2 * DAY || !words.days) return fill(words.hours, { count: whole.format(Math.floor(left / HOUR)) });
  return fill(words.days, { count: whole.format(Math.floor(left / DAY)) });
}
