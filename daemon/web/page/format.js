// Elements, numbers, times and tables of the page. What comes from the node is put into the page as text, never as markup.
"use strict";

const $ = (id) => document.getElementById(id);

function node(tag, attributes, ...children) {
  const n = document.createElement(tag);
  for (const [k, v] of Object.entries(attributes || {})) {
    if (k === "text") n.textContent = v;
    else if (k === "class") n.className = v;
    else n.setAttribute(k, v);
  }
  n.append(...children);
  return n;
}

const whole = new Intl.NumberFormat("en");
const count = (n) => whole.format(Math.round(n || 0));
const plural = (n, what) => count(n) + " " + what + (n === 1 ? "" : "s");

function bytes(n) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let i = 0;
  for (n = n || 0; n >= 1023.95 && i < units.length - 1; i++) n /= 1024;
  return (i === 0 ? Math.round(n) : n.toFixed(1)) + " " + units[i];
}

function span(seconds) {
  if (seconds === undefined || seconds === null || !isFinite(seconds)) return "unknown";
  const s = Math.round(seconds);
  if (s < 60) return s + " s";
  if (s < 3600) return Math.floor(s / 60) + " min " + (s % 60) + " s";
  if (s < 172800) return Math.floor(s / 3600) + " h " + Math.floor(s % 3600 / 60) + " min";
  return Math.floor(s / 86400) + " d " + Math.floor(s % 86400 / 3600) + " h";
}

const percent = (x) => (x >= 1 ? 100 : Math.min(99.9, Math.floor(x * 1000) / 10)) + " %";

// put changes a text only when it is another: a screen reader reads what changes.
function put(id, text) {
  const n = $(id);
  if (n.textContent !== text) n.textContent = text;
  n.hidden = !text;
}

function fill(table, lines) {
  const heads = [...table.tHead.rows[0].cells].map((h) => h.textContent);
  const cell = (c, i) => {
    const text = typeof c === "number" ? count(c) : c === undefined || c === null ? "" : String(c);
    const isNumber = typeof c === "number" || /^[0-9.]+ ([KMGTP]i)?B$/.test(text);
    return node("td", isNumber ? { class: "n", "data-head": heads[i], text } : { "data-head": heads[i], text });
  };
  table.tBodies[0].replaceChildren(...lines.map((cells) => node("tr", {}, ...cells.map(cell))));
}

function svg(tag, attributes) {
  const n = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [k, v] of Object.entries(attributes)) n.setAttribute(k, v);
  return n;
}

// clock is a time of day in 24 hours with its zone, and the date where that is not today's.
function clock(at) {
  const t = new Date(at);
  const time = t.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23", timeZoneName: "short" });
  return t.toDateString() === new Date().toDateString() ? time : t.toLocaleDateString("sv") + " " + time;
}
