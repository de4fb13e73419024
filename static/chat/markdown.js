// A small, safe part of Markdown: paragraphs, headings, lists, code fences. Makes DOM nodes only.

import { inline } from "./inline.js";

// Indented ones too: models write them under list items.
const FENCE = /^([ \t]*)(`{3,}|~{3,})[ \t]*([^\s`]*)[^`]*$/;
const HEADING = /^ {0,3}(#{1,6})[ \t]+(.*)$/;
const ITEM = /^([ \t]*)([-*+]|(\d{1,9})[.)])[ \t]+(\S.*)$/;
const BLANK = /^\s*$/;
// The page's own headings are h1 and h2.
const HEADING_TAGS = ["h3", "h4", "h5", "h6", "h6", "h6"];
const MAX_LIST_DEPTH = 6;

/** A fragment with the blocks of `text`. */
export function render(text) {
  const out = document.createDocumentFragment();
  const lines = text.replaceAll("\r\n", "\n").split("\n");
  let at = 0;
  while (at < lines.length) {
    if (BLANK.test(lines[at])) {
      at += 1;
      continue;
    }
    const [node, next] = block(lines, at);
    out.append(node);
    at = next;
  }
  return out;
}

/**
 * How many characters from the start of `text` are whole blocks, so that they may be rendered while
 * the rest still streams. 0 if none.
 */
export function settled(text) {
  let fence = null;
  let sure = 0;
  let start = 0;
  for (let end = text.indexOf("\n"); end !== -1; end = text.indexOf("\n", start)) {
    const line = text.slice(start, end);
    start = end + 1;
    if (fence) {
      if (closes(line, fence)) {
        fence = null;
        sure = start;
      }
    } else {
      fence = FENCE.exec(line)?.[2] ?? null;
      if (!fence && BLANK.test(line)) sure = start;
    }
  }
  return sure;
}

/** Whether `text` ends inside a code fence that it begins with. */
export function beginsWithFence(text) {
  return /^[ \t]*(```|~~~)/.test(text);
}

function block(lines, at) {
  const fence = FENCE.exec(lines[at]);
  if (fence) return codeBlock(lines, at, fence);
  const heading = HEADING.exec(lines[at]);
  if (heading) {
    const node = document.createElement(HEADING_TAGS[heading[1].length - 1]);
    node.append(inline(heading[2].replace(/[ \t]+#+[ \t]*$/, "")));
    return [node, at + 1];
  }
  if (ITEM.test(lines[at])) return list(lines, at, 0);
  return paragraph(lines, at);
}

function codeBlock(lines, at, [, indent, fence, language]) {
  let end = at + 1;
  while (end < lines.length && !closes(lines[end], fence)) end += 1;
  const node = document.getElementById("code-block").content.firstElementChild.cloneNode(true);
  node.querySelector("[data-language]").textContent = language;
  node.querySelector("code").textContent = lines
    .slice(at + 1, end)
    .map((line) => (line.startsWith(indent) ? line.slice(indent.length) : line))
    .join("\n");
  return [node, end + 1];
}

function closes(line, fence) {
  const mark = line.trim();
  return mark.length >= fence.length && mark === fence[0].repeat(mark.length);
}

function paragraph(lines, at) {
  let end = at + 1;
  while (end < lines.length && !startsBlock(lines[end])) end += 1;
  const node = document.createElement("p");
  node.append(inline(lines.slice(at, end).map((line) => line.trim()).join("\n")));
  return [node, end];
}

function startsBlock(line) {
  return BLANK.test(line) || FENCE.test(line) || HEADING.test(line) || ITEM.test(line);
}

/** Items of one indentation, blank lines between them or not; deeper ones become lists within them. */
function list(lines, at, depth) {
  const first = ITEM.exec(lines[at]);
  const indent = width(first[1]);
  const ordered = first[3] !== undefined;
  const node = document.createElement(ordered ? "ol" : "ul");
  if (ordered && first[3] !== "1") node.start = Number(first[3]);
  let next = at;
  for (;;) {
    const found = ITEM.exec(lines[next] ?? "");
    if (!found || (found[3] !== undefined) !== ordered || width(found[1]) < indent) break;
    next = item(lines, next, found, node, { indent, depth });
    const after = pastBlanks(lines, next);
    const continues = ITEM.exec(lines[after] ?? "");
    if (continues && width(continues[1]) >= indent) next = after;
  }
  return [node, next];
}

function item(lines, at, found, parent, { indent, depth }) {
  const content = [found[4]];
  let next = at + 1;
  while (next < lines.length && !startsBlock(lines[next])) {
    content.push(lines[next].trim());
    next += 1;
  }
  const node = document.createElement("li");
  node.append(inline(content.join("\n")));
  parent.append(node);
  for (let inner = pastBlanks(lines, next); ; inner = pastBlanks(lines, next)) {
    const nested = ITEM.exec(lines[inner] ?? "");
    if (!nested || width(nested[1]) < indent + 2 || depth >= MAX_LIST_DEPTH) return next;
    const [child, end] = list(lines, inner, depth + 1);
    node.append(child);
    next = end;
  }
}

function pastBlanks(lines, at) {
  let next = at;
  while (next < lines.length && BLANK.test(lines[next])) next += 1;
  return next;
}

function width(indent) {
  return indent.replaceAll("\t", "    ").length;
}
