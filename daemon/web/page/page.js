// The page of one node: it reads /v1/stream and /v1/events of the node that served it. What comes from
// there is put into the page as text, never as markup.
"use strict";

const $ = (id) => document.getElementById(id);
const mostIndices = 500; // rows; failed ones are among them, rfsctl lists all
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
  const units = ["B", "kB", "MB", "GB", "TB", "PB"];
  let i = 0;
  for (n = n || 0; n >= 1000 && i < units.length - 1; i++) n /= 1000;
  return (i === 0 ? Math.round(n) : n.toFixed(n < 10 ? 2 : 1)) + " " + units[i];
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
const words = { COMPLETED: "done", SKIPPED: "skipped", FAILED: "failed", IN_PROGRESS: "in work", SETUP: "preparing", AUDIT: "checking", NOT_STARTED: "not begun" };

function fact(name, value) {
  return node("div", {}, node("dt", { text: name }), node("dd", { text: value }));
}

function alarm(text) {
  $("alarm").textContent = text;
  $("alarm").hidden = !text;
}

let lastReport = null; // what came last, and when
let lastAt = 0;
let broken = false;

function show(r) {
  const m = r.migration;
  $("session").textContent = m && m.session ? m.session : "";
  $("state").textContent = r.node.state;
  $("state").className = "state " + r.node.state;
  $("node").textContent = "node " + r.node.name + ", version " + r.node.version + ", " + r.node.workers_running + " of " + r.node.workers_wanted + " workers";
  $("reason").textContent = r.node.reason || "";
  document.title = (m ? percent(share(m.totals.bytes_done, m.totals.bytes)) + " " : "") + "rfsd " + r.node.state;
  showTotals(m, r.progress);
  showIndices(m ? m.indices || [] : []);
  showFailures(m ? m.failures || [] : []);
  showWorkers(r.workers || []);
  showNodes(r.nodes || []);
}

function showTotals(m, view) {
  const bar = $("all");
  if (!m) {
    $("facts").replaceChildren(fact("progress", "not known yet"));
    return;
  }
  const t = m.totals;
  const done = m.complete ? 1 : share(t.bytes_done, t.bytes);
  bar.firstElementChild.style.width = done * 100 + "%";
  bar.className = "bar" + (m.complete ? " done" : "");
  bar.setAttribute("aria-valuenow", String(Math.floor(done * 100)));
  bar.setAttribute("aria-valuetext", percent(done) + " of " + bytes(t.bytes));
  $("facts").replaceChildren(
    fact("progress", percent(done)), fact("bytes", bytes(t.bytes_done) + " of " + bytes(t.bytes)),
    fact("shards", count(t.shards_done) + " of " + count(t.shards)), fact("indices", count((m.indices || []).length)),
    fact("documents", count(t.documents_indexed)), fact("refused", count(t.documents_failed)),
    fact("items given up", count(t.items_failed)), fact("leases", count(t.items_leased)),
    fact("time left", m.complete ? "none" : span(view.eta_seconds)));
  $("phases").replaceChildren(...(m.phases || []).map((p) => {
    let text = p.name + ": " + (words[p.state] || p.state);
    if (p.total) text += ", " + (p.unit === "bytes" ? bytes(p.done) + " of " + bytes(p.total) : count(p.done) + " of " + count(p.total) + " " + (p.unit || ""));
    if (p.error) text += " — " + p.error;
    return node("li", { class: kinds[p.state] || "", text: text });
  }));
}

// Rows and cells are kept and changed in place: a reader's place and the pointer stay where they are.
const rows = new Map();

const failed = (x) => x.state === "FAILED" || (x.shards || []).some((s) => s.state === "FAILED");

// shown are the indices that have a row: all, or of too many the failed ones first.
function shown(indices) {
  if (indices.length <= mostIndices) return indices;
  return [...indices.filter(failed), ...indices.filter((x) => !failed(x))].slice(0, mostIndices);
}

function showIndices(indices) {
  const seen = new Set();
  for (const x of shown(indices)) {
    seen.add(x.name);
    let row = rows.get(x.name);
    if (!row) {
      row = newRow(x.name);
      rows.set(x.name, row);
      if (indices.length > mostIndices && failed(x)) $("indices").prepend(row.li);
      else $("indices").append(row.li);
    }
    changeRow(row, x);
  }
  for (const [name, row] of rows) {
    if (!seen.has(name)) {
      row.li.remove();
      rows.delete(name);
    }
  }
  $("more").hidden = indices.length <= mostIndices;
  $("more").textContent = "and " + count(indices.length - mostIndices) + " more: rfsctl status lists them all";
}

function newRow(name) {
  const title = node("span", { class: "name", text: name, title: name });
  const shards = node("ul", { class: "shards" });
  const sum = node("span", { class: "count" });
  return { li: node("li", {}, title, shards, sum), shards, sum, title, cells: [] };
}

function changeRow(row, x) {
  const all = x.shards || [];
  row.shards.setAttribute("aria-label", "shards of " + x.name);
  while (row.cells.length < all.length) {
    const cell = node("li", { class: "shard", role: "img" }, node("span", { class: "fill" }));
    row.cells.push(cell);
    row.shards.append(cell);
  }
  while (row.cells.length > all.length) row.cells.pop().remove();
  all.forEach((s, i) => changeCell(row.cells[i], x, s));
  const c = x.counts;
  row.sum.textContent = percent(x.state === "COMPLETED" ? 1 : share(c.bytes_done, c.bytes)) + " · " + count(c.documents_indexed) + " docs";
  row.sum.classList.toggle("bad-text", x.state === "FAILED");
  const to = (x.targets || []).join(", ");
  row.title.title = x.name + (to && to !== x.name ? " → " + to : "") + (x.error ? ": " + x.error : "") + (x.reduced_source ? " (source stored in part: " + x.reduced_source + ")" : "");
}

function changeCell(cell, x, s) {
  const done = s.state === "COMPLETED" ? 1 : s.fraction || 0;
  cell.className = "shard " + (kinds[s.state] || "");
  cell.style.flexGrow = String(Math.max(s.bytes, 1));
  cell.firstElementChild.style.width = done * 100 + "%";
  let text = x.name + ", shard " + s.shard + ": " + (words[s.state] || s.state) + ", " + percent(done) + " of " + bytes(s.bytes) + ", " + count(s.counts.documents_indexed) + " documents";
  if (s.attempts > 1) text += ", attempt " + s.attempts;
  if (s.holder) text += ", held by " + s.holder;
  if (s.error) text += ": " + s.error;
  cell.setAttribute("aria-label", text);
  cell.title = text;
}

function fill(table, lines) {
  table.tBodies[0].replaceChildren(...lines.map((cells) =>
    node("tr", {}, ...cells.map((c) => typeof c === "number" ? node("td", { class: "n", text: count(c) }) : node("td", { text: c === undefined || c === null ? "" : String(c) })))));
}

function showFailures(all) {
  $("nofailures").hidden = all.length > 0;
  $("failures").hidden = all.length === 0;
  fill($("failures"), all.map((f) => [f.reason, f.count, (f.examples || []).join(", ")]));
}

function showWorkers(all) {
  fill($("workers"), all.map((w) => [String(w.slot), w.state, w.index || "", w.item ? w.shard || 0 : "", w.documents_indexed, w.documents_per_second, bytes(w.resident_bytes), w.restarts || 0, w.last_exit || ""]));
}

function showNodes(all) {
  $("fleet").hidden = all.length === 0;
  fill($("nodes"), all.map((n) => [n.name, n.state, n.workers_running, n.address || "", n.zone || "", n.version]));
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
  const from = Math.min(history[0].at, now.at - 60 * 1000);
  const most = Math.max(1, ...history.map((p) => p.docs));
  const points = history.map((p) => ((p.at - from) / (now.at - from) * 600).toFixed(1) + " " + (155 - p.docs / most * 145).toFixed(1));
  const first = points[0].split(" ")[0];
  $("chart").replaceChildren(
    svg("line", { x1: 0, y1: 155, x2: 600, y2: 155 }), svg("line", { x1: 0, y1: 10, x2: 600, y2: 10 }),
    svg("path", { class: "area", d: "M" + first + " 155L" + points.join("L") + "L600 155Z" }), svg("path", { d: "M" + points.join("L") }));
  $("rate").textContent = count(now.docs) + " documents per second, " + bytes(now.bytes) + " of the repository per second; most " + count(most) + " documents per second in the last " + span((now.at - from) / 1000);
}

async function events() {
  try {
    const answer = await fetch("/v1/events?limit=20", { cache: "no-store" });
    if (!answer.ok) return;
    const all = await answer.json();
    fill($("events"), all.reverse().map((e) => [new Date(e.time).toLocaleTimeString(), e.code, e.subject, e.detail || ""]));
  } catch {
    // the stream tells that the node is gone
  }
}

// age says how old what is shown is: the node may have lost its store, or this page its node.
function age() {
  const here = lastAt ? (Date.now() - lastAt) / 1000 : 0;
  if (broken) {
    alarm(lastAt ? "The node does not answer; what is shown is " + span(here) + " old." : "The node does not answer.");
    return;
  }
  if (!lastReport) return;
  const stale = (lastReport.stale_seconds || 0) + here;
  if (lastReport.store_error) alarm((lastReport.migration ? "What is shown of the migration is " + span(stale) + " old: " : "") + lastReport.store_error);
  else if (stale > 60) alarm("What is shown of the migration is " + span(stale) + " old.");
  else alarm("");
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
