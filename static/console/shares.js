// The tables of shares: what each tenant has had of a class, beside what its weight entitles it to.

import { showBar } from "./bar.js";
import { fill, number, settings, texts } from "./settings.js";

const section = document.querySelector("[data-shares]");
const releases = section.querySelector("[data-releases]");
const words = texts.shares;

section.querySelector("[data-within]").textContent = fill(words.within, { minutes: number(settings.shares_s / 60) });

/** Tables are kept and filled anew, so that a selection stays where it is. */
export function showShares(rows) {
  const before = new Map([...releases.children].map((table) => [table.dataset.key, table]));
  for (const row of rows) {
    const shown = before.get(row.release) ?? releases.appendChild(copyOf("shares"));
    before.delete(row.release);
    shown.dataset.key = row.release;
    shown.setAttribute("aria-label", row.release);
    put(shown, "release", row.release);
    fillBody(shown.querySelector("tbody"), row.shares);
  }
  for (const left of before.values()) left.remove();
  section.hidden = rows.length === 0;
}

function fillBody(body, shares) {
  while (body.children.length > shares.length) body.lastElementChild.remove();
  shares.forEach((share, index) => fillRow(body.children[index] ?? body.appendChild(copyOf("tenant-share")), share));
}

function fillRow(shown, share) {
  shown.toggleAttribute("data-short", share.short);
  put(shown, "tenant", share.tenant);
  put(shown, "priority_class", settings.priority_classes[share.priority_class] ?? share.priority_class);
  put(shown, "per_s", number(share.per_s));
  put(shown, "part", fill(texts.percent, { count: number(share.part) }));
  put(shown, "entitled", fill(texts.percent, { count: number(share.entitled) }));
  put(shown, "waiting", number(share.waiting));
  const bar = shown.querySelector("[data-bar]");
  const told = fill(words.bar, { part: number(share.part), entitled: number(share.entitled) });
  bar.setAttribute("aria-label", share.short ? `${told}. ${words.short}` : told);
  bar.title = bar.getAttribute("aria-label");
  showBar(bar, share.part, share.entitled);
}

function put(shown, name, text) {
  const place = shown.querySelector(`[data-field="${name}"]`);
  if (place.textContent !== text) place.textContent = text;
}

function copyOf(id) {
  return document.getElementById(id).content.firstElementChild.cloneNode(true);
}
