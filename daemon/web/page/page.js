// The page of one node: it reads /v1/stream and /v1/events of the node that served it. What comes from
// there is put into the page as text, never as markup.
"use strict";

const $ = (id) => document.getElementById(id);
const rowsAtOnce = 500;
let mostRows = rowsAtOnce; // of the indices that are chosen; the button shows more
const history = []; // {at, docs, bytes}, of ten minutes
const historyTime = 10 * 60 * 1000;

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
const share = (done, of) => of > 0 ? Math.min(1, done / of) : 0;
const kinds = { COMPLETED: "done", SKIPPED: "done", FAILED: "bad", IN_PROGRESS: "doing", SETUP: "doing", AUDIT: "doing" };
const words = { COMPLETED: "done", SKIPPED: "skipped", FAILED: "failed", IN_PROGRESS: "in progress", SETUP: "preparing", AUDIT: "checking", NOT_STARTED: "not started" };

function fact(name, value, kind) {
  return node("div", {}, node("dt", { text: name }), node("dd", { text: value, class: kind || "" }));
}

// put changes a text only when it is another: a screen reader reads what changes.
function put(id, text) {
  const n = $(id);
  if (n.textContent !== text) n.textContent = text;
  n.hidden = !text;
}

let lastReport = null; // what came last, and when
let lastAt = 0;
let broken = false;

// losses says what was given up or failed; "" when nothing was.
function losses(view) {
  const all = [];
  if (view.given_up) all.push(count(view.given_up) + " given up");
  if (view.documents_not_delivered) all.push("at most " + count(view.documents_not_delivered) + " documents not delivered");
  if (view.documents_failed) all.push(count(view.documents_failed) + " documents failed");
  return all.join(", ");
}

// worst returns the class of the worst that happened: bad for what was given up, lossy for documents that failed; "" for nothing.
const worst = (view) => view.given_up ? "bad" : view.documents_failed ? "lossy" : "";

function show(r) {
  const m = r.migration;
  const lost = losses(r.progress);
  $("session").textContent = m && m.session ? m.session : "";
  const word = m && m.complete ? r.progress.state : r.progress.state === "no report" ? r.node.state + ", no report of a worker" : r.node.state;
  $("state").textContent = word + (lost ? ", " + lost : "");
  $("state").className = "state " + (worst(r.progress) || (r.progress.state === "no report" ? "lossy" : r.node.state));
  $("node").textContent = "node " + r.node.name + ", version " + r.node.version + ", " + Math.min(r.node.workers_running, r.node.workers_wanted) + " of " + r.node.workers_wanted + " workers"
    + (r.node.workers_running > r.node.workers_wanted ? ", " + (r.node.workers_running - r.node.workers_wanted) + " to end" : "");
  $("reason").textContent = r.node.reason || "";
  document.title = (lost ? "! " : "") + (m ? percent(r.progress.share) + " " : "") + "rfsd " + r.node.state;
  put("silence", m ? silence(m, r.progress) : "");
  showTotals(m, r.progress);
  showFailures(m ? m.failures || [] : []);
  showIndices(m ? m.indices || [] : []);
  showWorkers(r.workers || []);
  showNodes(r.nodes || []);
  $("machines").textContent = r.machines ? machines(r.machines) : "";
  const tenth = Math.floor(r.progress.share * 10) * 10;
  put("said", (m && m.complete ? r.progress.state : tenth + " % done") + (lost ? ", " + lost : ""));
  $("said").hidden = false;
}

// silence says who holds the work of which no process has reported for a while; "" when one has.
function silence(m, view) {
  if (!view.silent_seconds) return "";
  let text = "No worker has reported for " + span(view.silent_seconds) + ", the last at " + new Date(m.last_report).toLocaleString() + ".";
  for (const h of m.holders || []) text += " " + h.name + " holds " + count(h.items) + (h.items === 1 ? " item" : " items") + " until " + new Date(h.lease_expiry).toLocaleTimeString() + ".";
  return text + " If its process has ended, the command that began the session, run again with the same options, continues it.";
}

function showTotals(m, view) {
  const bar = $("all");
  if (!m) {
    $("facts").replaceChildren(fact("progress", "not known yet"));
    return;
  }
  const t = m.totals;
  const done = view.share;
  bar.firstElementChild.style.width = done * 100 + "%";
  bar.className = "bar " + (worst(view) || (m.complete ? "done" : ""));
  bar.setAttribute("aria-valuenow", String(Math.floor(done * 100)));
  bar.setAttribute("aria-valuetext", percent(done) + " of " + bytes(t.bytes) + (worst(view) ? ", with losses" : ""));
  const facts = [
    fact("progress", percent(done)), fact("bytes", bytes(done * t.bytes) + " of " + bytes(t.bytes)),
    fact("shards", count(t.shards_done) + " of " + count(t.shards) + (t.shards_failed ? ", " + count(t.shards_failed) + " failed" : "")), fact("indices", count((m.indices || []).length)),
    fact("documents", count(view.documents)), fact("failed", count(view.documents_failed), view.documents_failed ? "lossy-text" : ""),
    fact("given up", count(view.given_up), view.given_up ? "bad-text" : ""), fact("leases", count(t.items_leased) + (t.items_expired ? ", " + count(t.items_expired) + " expired" : "")),
    fact("per second", count(view.documents_per_second) + " (mean " + count(view.documents_per_second_mean) + ")"),
    fact("time left", m.complete ? "none" : span(view.eta_seconds))];
  if (t.shards_failed) {
    facts.unshift(fact("not delivered", (t.documents_not_delivered ? "at most " + count(t.documents_not_delivered) : "") +
      (t.shards_uncounted ? (t.documents_not_delivered ? ", and of " : "not known of ") + count(t.shards_uncounted) + " shards" : ""), "bad-text"));
  }
  if (view.quiet_seconds) facts.push(fact("no document arrived for", span(view.quiet_seconds)));
  if (view.dry_run) facts.push(fact("dry run", "nothing is sent"));
  $("facts").replaceChildren(...facts);
  $("phases").replaceChildren(...(m.phases || []).map((p) => {
    const lost = p.name === "documents" && p.state === "COMPLETED" ? worst(view) : "";
    let text = p.name + ": " + (words[p.state] || p.state) + (lost ? " with losses" : "");
    if (p.total) text += ", " + (p.unit === "bytes" ? bytes(p.done) + " of " + bytes(p.total) : count(p.done) + " of " + count(p.total) + " " + (p.unit || ""));
    if (p.error) text += " — " + p.error;
    return node("li", { class: lost || kinds[p.state] || "", text: text });
  }));
}

// Rows and cells are kept and changed in place: a reader's place and the pointer stay where they are.
const rows = new Map();
let indices = [];

const failed = (x) => x.state === "FAILED" || (x.shards || []).some((s) => s.state === "FAILED");
const partOf = (x) => x.state === "COMPLETED" ? 1 : share(x.counts.bytes_done, x.counts.bytes);
const orders = {
  failed: (a, b) => failed(b) - failed(a) || !!b.counts.documents_failed - !!a.counts.documents_failed,
  name: () => 0,
  done: (a, b) => partOf(a) - partOf(b),
  bytes: (a, b) => b.counts.bytes - a.counts.bytes,
};

// chosen returns the indices that are to be seen, in their order.
function chosen() {
  const part = $("filter").value.trim().toLowerCase();
  const only = $("only").value;
  const all = indices.filter((x) => x.name.toLowerCase().includes(part) && (!only || (only === "FAILED" ? failed(x) || x.counts.documents_failed > 0 : x.state === only)));
  return all.sort((a, b) => orders[$("order").value](a, b) || (a.name < b.name ? -1 : a.name > b.name ? 1 : 0));
}

function showIndices(all) {
  indices = all;
  const wanted = chosen();
  const shown = wanted.slice(0, mostRows);
  const active = document.activeElement;
  const list = $("indices");
  const seen = new Set();
  shown.forEach((x, i) => {
    seen.add(x.name);
    if (!rows.has(x.name)) rows.set(x.name, newRow(x.name));
    const row = rows.get(x.name);
    if (list.children[i] !== row.li) list.insertBefore(row.li, list.children[i] || null);
    changeRow(row, x);
  });
  for (const [name, row] of rows) {
    if (!seen.has(name)) {
      row.li.remove();
      rows.delete(name);
    }
  }
  if (active && active.isConnected && document.activeElement !== active) active.focus(); // a row that moved loses it
  $("more").hidden = wanted.length <= mostRows;
  $("hiding").textContent = "and " + count(wanted.length - mostRows) + " more";
  put("chosen", wanted.length === indices.length ? "" : count(wanted.length) + " of " + count(indices.length) + " indices");
  $("chosen").hidden = false;
}

function newRow(name) {
  const title = node("span", { class: "name", text: name });
  const shards = node("span", { class: "shards", "aria-hidden": "true" }); // their words are below
  const sum = node("span", { class: "count" });
  const words = node("ul", { class: "words" });
  const details = node("details", {}, node("summary", {}, title, shards, sum), words);
  const row = { li: node("li", {}, details), shards, sum, words, details, cells: [], index: null };
  details.addEventListener("toggle", () => changeWords(row));
  return row;
}

function changeRow(row, x) {
  row.index = x;
  const all = x.shards || [];
  while (row.cells.length < all.length) {
    const cell = node("span", { class: "shard" }, node("span", { class: "fill" }));
    row.cells.push(cell);
    row.shards.append(cell);
  }
  while (row.cells.length > all.length) row.cells.pop().remove();
  all.forEach((s, i) => changeCell(row.cells[i], s));
  const bad = failed(x);
  const rejected = x.counts.documents_failed || 0;
  row.sum.textContent = (bad ? "failed · " : "") + percent(partOf(x)) + " · " + count(x.counts.documents_indexed) + " docs" + (rejected ? " · " + count(rejected) + " failed" : "");
  row.sum.classList.toggle("bad-text", bad);
  row.sum.classList.toggle("lossy-text", !bad && rejected > 0);
  changeWords(row);
}

function changeCell(cell, s) {
  const done = s.state === "COMPLETED" ? 1 : s.fraction || 0;
  cell.className = "shard " + (kinds[s.state] || "") + (s.state !== "FAILED" && s.counts && s.counts.documents_failed ? " lossy" : "");
  cell.style.flexGrow = String(Math.max(s.bytes, 1));
  cell.firstElementChild.style.width = done * 100 + "%";
}

// changeWords writes what an index and its shards are, while its row is open.
function changeWords(row) {
  if (!row.details.open) return;
  const x = row.index;
  const lines = [];
  const to = (x.targets || []).join(", ");
  lines.push((words[x.state] || x.state) + (to ? ", to " + to : "") + (x.error ? ": " + x.error : ""));
  if (x.reduced_source) lines.push("sources are stored in part: " + x.reduced_source);
  for (const s of x.shards || []) lines.push(wordsOf(s));
  while (row.words.children.length > lines.length) row.words.lastElementChild.remove();
  lines.forEach((line, i) => {
    const n = row.words.children[i] || row.words.appendChild(node("li", {}));
    if (n.textContent !== line) n.textContent = line;
  });
}

function wordsOf(s) {
  const done = s.state === "COMPLETED" ? 1 : s.fraction || 0;
  let text = "shard " + s.shard + ": " + (words[s.state] || s.state) + ", " + percent(done) + " of " + bytes(s.bytes) + ", " + count(s.counts.documents_indexed) + " documents";
  if (s.counts.documents_failed) text += ", " + count(s.counts.documents_failed) + " failed";
  if (s.counts.documents_not_delivered) text += ", at most " + count(s.counts.documents_not_delivered) + " not delivered";
  if (s.attempts > 1) text += ", attempt " + s.attempts;
  if (s.holder) text += ", held by " + s.holder;
  if (s.error) text += ": " + s.error;
  return text;
}

for (const id of ["filter", "only", "order"]) {
  $(id).addEventListener("input", () => {
    mostRows = rowsAtOnce;
    showIndices(indices);
  });
}
$("choice").addEventListener("submit", (e) => e.preventDefault());
$("further").addEventListener("click", () => {
  const next = mostRows;
  mostRows += rowsAtOnce;
  showIndices(indices);
  const first = $("indices").children[next]; // where the reader goes on
  if (first) first.querySelector("summary").focus();
});

function fill(table, lines) {
  const heads = [...table.tHead.rows[0].cells].map((h) => h.textContent);
  const cell = (c, i) => {
    const text = typeof c === "number" ? count(c) : c === undefined || c === null ? "" : String(c);
    const isNumber = typeof c === "number" || /^[0-9.]+ ([KMGTP]i)?B$/.test(text);
    return node("td", isNumber ? { class: "n", "data-head": heads[i], text } : { "data-head": heads[i], text });
  };
  table.tBodies[0].replaceChildren(...lines.map((cells) => node("tr", {}, ...cells.map(cell))));
}

function showFailures(all) {
  $("losses").hidden = all.length === 0;
  fill($("failures"), all.map((f) => [f.reason, f.count, (f.examples || []).join(", ")]));
}

function showWorkers(all) {
  fill($("workers"), all.map((w) => [String(w.slot), w.state, ((w.phase || "") + " " + (words[w.phase_state] || w.phase_state || "")).trim(), w.index || "", w.item ? w.shard || 0 : "", w.documents_indexed, w.documents_per_second, bytes(w.resident_bytes), w.restarts || 0, w.last_exit || ""]));
}

function showNodes(all) {
  $("fleet").hidden = all.length === 0;
  fill($("nodes"), all.map((n) => [n.name, n.state, n.workers_running, n.address || "", n.zone || "", n.version]));
}

// machines says what the scaler of the fleet did.
function machines(m) {
  return m.machines_running + " of " + m.machines_wanted + " machines run: " + m.reason + (m.error ? ". They could not be changed: " + m.error : "");
}

function remember(r, now) {
  history.push({ at: now, docs: r.progress.documents_per_second || 0, bytes: r.progress.repository_bytes_per_second || 0 });
  while (history.length > 2 && history[0].at < now - historyTime) history.shift();
}

function svg(tag, attributes) {
  const n = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [k, v] of Object.entries(attributes)) n.setAttribute(k, v);
  return n;
}

function draw() {
  if (history.length === 0) return;
  const now = history[history.length - 1];
  const from = Math.min(history[0].at, now.at - 10 * 1000);
  const most = Math.max(1, ...history.map((p) => p.docs));
  put("most", count(most) + " documents/s");
  put("from", clock(from));
  put("to", clock(now.at));
  const points = history.map((p) => ((p.at - from) / (now.at - from) * 600).toFixed(1) + " " + (155 - p.docs / most * 145).toFixed(1));
  const first = points[0].split(" ")[0];
  $("chart").replaceChildren(
    svg("line", { x1: 0, y1: 155, x2: 600, y2: 155 }), svg("line", { x1: 0, y1: 10, x2: 600, y2: 10 }),
    svg("path", { class: "area", d: "M" + first + " 155L" + points.join("L") + "L600 155Z" }), svg("path", { d: "M" + points.join("L") }));
  $("rate").textContent = count(now.docs) + " documents per second, " + bytes(now.bytes) + " of the repository per second; most " + count(most) + " documents per second in the last " + span((now.at - from) / 1000);
}

// clock is a time of day in 24 hours with its zone, and the date where that is not today's.
function clock(at) {
  const t = new Date(at);
  const time = t.toLocaleTimeString("en-GB", { hour12: false, timeZoneName: "short" });
  return t.toDateString() === new Date().toDateString() ? time : t.toLocaleDateString("sv") + " " + time;
}

// together returns events, of which those that are alike and follow each other are one with their number.
function together(all) {
  const few = [];
  for (const e of all) {
    const last = few[few.length - 1];
    if (last && last.code === e.code && (last.detail || "") === (e.detail || "")) {
      last.times++;
      if (last.subject !== e.subject) last.subject = last.subject.replace(/ and others$/, "") + " and others";
    } else few.push({ ...e, times: 1 });
  }
  return few;
}

async function events() {
  try {
    const answer = await fetch("/v1/events?limit=20", { cache: "no-store" });
    if (!answer.ok) return;
    const all = await answer.json();
    fill($("events"), together(all.reverse()).map((e) => [clock(e.time), e.code + (e.times > 1 ? " × " + e.times : ""), e.subject, e.detail || ""]));
  } catch {
    // the stream tells that the node is gone
  }
}

// age says what is wrong, and beside it how old what is shown is: the node may have lost its store, or this page its node.
function age() {
  const here = lastAt ? (Date.now() - lastAt) / 1000 : 0;
  let what = "", old = 0;
  if (broken) {
    what = "The node does not answer.";
    old = here;
  } else if (lastReport) {
    const stale = (lastReport.stale_seconds || 0) + here;
    if (lastReport.store_error) what = lastReport.store_error;
    if (lastReport.store_error ? lastReport.migration : stale > 60) old = stale;
  }
  put("alarm", what);
  put("age", old ? "What is shown of the migration is " + span(old) + " old." : "");
}

function follow() {
  const source = new EventSource("/v1/stream");
  source.addEventListener("status", (e) => {
    lastReport = JSON.parse(e.data);
    lastAt = Date.now();
    broken = false;
    remember(lastReport, lastAt);
    show(lastReport);
    draw();
    age();
    document.body.dataset.updates = String(Number(document.body.dataset.updates || 0) + 1);
  });
  source.onerror = () => {
    broken = true;
    age();
    if (source.readyState === EventSource.CLOSED) setTimeout(follow, 3000); // refused: try again
  };
}

follow();
events();
setInterval(events, 5000);
setInterval(age, 1000);
