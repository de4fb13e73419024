// A part of a whole as a bar, with a mark at what it should be where there is such a thing.

/** percent, mark: from 0 to 100 */
export function showBar(bar, percent, mark = null) {
  bar.hidden = false;
  bar.querySelector("i").style.width = `${Math.min(100, percent)}%`;
  if (mark !== null) bar.querySelector("b").style.left = `${Math.min(100, mark)}%`;
}
