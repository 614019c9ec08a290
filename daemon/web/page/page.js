// The page of one node: it reads /v1/stream, /v1/events and /v1/failures of the node that served it. What comes from
// there is put into the page as text, never as markup.
"use strict";

const rowsAtOnce = 500;
let mostRows = rowsAtOnce; // of the indices that are chosen; the button shows more
const history = []; // {at, docs, bytes}, of ten minutes
const historyTime = 10 * 60 * 1000;

const share = (done, of) => of > 0 ? Math.min(1, done / of) : 0;
const kinds = { COMPLETED: "done", SKIPPED: "done", FAILED: "bad", IN_PROGRESS: "doing", SETUP: "doing", AUDIT: "doing" };
const words = { COMPLETED: "done", SKIPPED: "skipped", FAILED: "failed", IN_PROGRESS: "in progress", SETUP: "preparing", AUDIT: "checking", NOT_STARTED: "not started" };

function fact(name, value, kind) {
  return node("div", {}, node("dt", { text: name }), node("dd", { text: value, class: kind || "" }));
}

let lastReport = null; // what came last, and when
let lastAt = 0;
let broken = false;

// worst returns the class of the worst thing that a status shows, which the colours follow: bad for what was given up and for a node or
// store that fails, lossy for documents that failed, wait while no work is done, done, and doing.
function worst(r) {
  const m = r.migration, view = r.progress;
  if (dead(r) || r.store_error || view.given_up || view.shards_failed || r.node.state === "failed") return "bad";
  if (view.documents_failed || roundsFailed(m)) return "lossy";
  if (gone(r)) return "wait";
  if (m && m.complete && !held(r)) return "done";
  if (r.node.state !== "running" && r.node.state !== "done" || ["unknown", "paused", "no report"].includes(view.state) || waits(r)) return "wait";
  return "doing";
}

// dead reports whether the node does not answer although it has work.
const dead = (r) => broken && !(r.migration && r.migration.complete);

// roundGap is the time between two rounds for which the process that follows may not answer, in ms.
let roundGap = 15 * 1000;

// gone reports whether the process that follows does not answer between two rounds.
const gone = (r) => broken && !dead(r) && following(r.migration) && Date.now() - lastAt > roundGap;

// held reports whether an order of the operator keeps the rounds of a cluster that is followed from starting.
const held = (r) => following(r.migration) && ["paused", "drained", "draining"].includes(r.node.state);

// waits reports whether work is left that no worker holds or is about to take. Between two items it lasts for a moment.
const waits = (r) => r.progress.state === "waiting" && r.node.workers_running === 0;

// stateOf returns the state in words.
function stateOf(r) {
  const m = r.migration, view = r.progress;
  if (dead(r)) return "no answer";
  if (following(m) && m.complete) return (held(r) ? r.node.state : "following") + (gone(r) ? ", no answer" : lag(r) === undefined ? "" : ", " + span(lag(r)) + " behind the source");
  if (m && m.complete) return view.state;
  if (r.node.state !== "running" && r.node.state !== "done") return r.node.state;
  if (view.state === "no report") return "running, no report of a worker";
  const round = following(m) ? m.rounds.rounds[m.rounds.rounds.length - 1] : undefined;
  return (waits(r) ? "waiting" : "running") + (round && !round.arrived ? ", round " + round.number : "");
}

function show(r) {
  const m = r.migration;
  const lost = losses(r.progress);
  $("session").textContent = m && m.session ? m.session : "";
  $("node").textContent = "node " + r.node.name + ", version " + r.node.version + ", " + Math.min(r.node.workers_running, r.node.workers_wanted) + " of " + r.node.workers_wanted + " workers"
    + (r.node.workers_running > r.node.workers_wanted ? ", " + (r.node.workers_running - r.node.workers_wanted) + " to end" : "");
  $("reason").textContent = r.node.reason || "";
  $("reason").hidden = !r.node.reason;
  $("reason").className = r.node.state === "failed" ? "bad" : "";
  put("silence", m ? silence(m, r.progress) || (waits(r) && !dead(r) && r.node.state === "running" ? "Work is left, and no worker holds any of it." : "") : "");
  showTotals(m, r.progress);
  showLosses(r);
  showRounds(r);
  showIndices(m ? m.indices || [] : []);
  showWorkers(r.workers || []);
  showNodes(r.nodes || []);
  $("machines").textContent = r.machines ? machines(r.machines) : "";
  const tenth = Math.floor(r.progress.share * 10) * 10;
  put("said", (m && m.complete ? r.progress.state : tenth + " % done") + (lost ? ", " + lost : ""));
  $("said").hidden = false;
}

// colour shows the state in words and colours, which a node that does not answer any more changes, too.
function colour(r) {
  const m = r.migration, is = worst(r), inRounds = roundsFailed(m);
  const lost = [losses(r.progress), inRounds ? plural(inRounds, "document") + " failed in the rounds so far" : ""].filter(Boolean).join(", ");
  const text = stateOf(r) + (r.store_error && !dead(r) ? ", the store cannot be read" : "") + (lost ? ", " + lost : "");
  if ($("state").textContent !== text) $("state").textContent = text;
  $("state").className = "state " + is;
  $("all").className = "bar " + is;
  document.title = (is === "bad" || is === "lossy" ? "! " : "") + (m ? percent(r.progress.share) + " " : "") + "rfsd " + stateOf(r);
}

// silence says who holds the work of which no process has reported for a while; "" when one has.
function silence(m, view) {
  if (!view.silent_seconds) return "";
  let text = "No worker has reported for " + span(view.silent_seconds) + ", the last at " + clock(m.last_report) + ".";
  for (const h of m.holders || []) text += " " + h.name + " holds " + plural(h.items, "item") + " until " + clock(h.lease_expiry) + ".";
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
  bar.setAttribute("aria-valuenow", String(Math.floor(done * 100)));
  bar.setAttribute("aria-valuetext", percent(done) + " of " + bytes(t.bytes) + (losses(view) ? ", with losses" : ""));
  const facts = [
    fact("progress", percent(done)), fact("bytes", bytes(done * t.bytes) + " of " + bytes(t.bytes)),
    fact("shards", count(t.shards_done) + " of " + count(t.shards) + (t.shards_failed ? ", " + count(t.shards_failed) + " failed" : "")), fact("indices", count((m.indices || []).length)),
    fact("documents", count(view.documents)), fact("failed", count(view.documents_failed), view.documents_failed ? "lossy-text" : ""),
    fact("given up", count(view.given_up), view.given_up ? "bad-text" : ""), fact("leases", count(t.items_leased) + (t.items_expired ? ", " + count(t.items_expired) + " expired" : "")),
    fact("documents per second", count(view.documents_per_second) + " (mean " + count(view.documents_per_second_mean) + ")"),
    fact("time left", m.complete ? "none" : span(view.eta_seconds))];
  if (t.shards_failed) {
    facts.unshift(fact("not delivered", (t.documents_not_delivered ? "at most " + count(t.documents_not_delivered) : "") +
      (t.shards_uncounted ? (t.documents_not_delivered ? ", and of " : "not known of ") + count(t.shards_uncounted) + " shards" : ""), "bad-text"));
  }
  if (view.quiet_seconds) facts.push(fact("no document arrived for", span(view.quiet_seconds)));
  if (view.dry_run) facts.push(fact("dry run", "nothing is sent"));
  const set = m.intent.set || {};
  for (const [name, value, shown] of [["max-rate", set.max_rate, bytes], ["max-read-rate", set.max_read_rate, bytes], ["target-max-latency", set.target_max_latency_ms, (ms) => count(ms) + " ms"]])
    if (value != null) facts.push(fact(name + ", as set", value ? shown(value) + (shown === bytes ? "/s" : "") : "no limit"));
  $("facts").replaceChildren(...facts);
  $("phases").replaceChildren(...(m.phases || []).map((p) => {
    const lost = p.name !== "documents" || p.state !== "COMPLETED" ? "" : view.given_up ? "bad" : view.documents_failed ? "lossy" : "";
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

function showWorkers(all) {
  $("slots").hidden = all.length === 0;
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

function draw() {
  if (history.length === 0) return;
  const now = history[history.length - 1];
  const from = Math.min(history[0].at, now.at - 10 * 1000);
  const most = Math.max(0, ...history.map((p) => p.docs));
  $("throughput").hidden = most === 0; // before anything was sent, and for a page that was opened after the end
  put("most", count(most) + " documents/s");
  put("from", clock(from));
  put("to", clock(now.at));
  const shown = history.length > 1 ? history : [{ ...now, at: now.at - 1000 }, now]; // the first value is seen, too
  const points = shown.map((p) => ((p.at - from) / (now.at - from) * 600).toFixed(1) + " " + (155 - p.docs / (most || 1) * 145).toFixed(1));
  const first = points[0].split(" ")[0];
  $("chart").replaceChildren(
    svg("line", { x1: 0, y1: 155, x2: 600, y2: 155 }), svg("line", { x1: 0, y1: 10, x2: 600, y2: 10 }),
    svg("path", { class: "area", d: "M" + first + " 155L" + points.join("L") + "L600 155Z" }), svg("path", { d: "M" + points.join("L") }));
  $("rate").textContent = count(now.docs) + " documents per second, " + bytes(now.bytes) + " of the repository per second; most " + count(most) + " documents per second in the last " + span((now.at - from) / 1000);
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

// answerTimeout is the time without a status after which the node counts as dead; it sends one every 15 s.
let answerTimeout = 40 * 1000;

// age says what is wrong, and beside it how old what is shown is: the node may have lost its store, or this page its node.
function age() {
  if (!lastReport) {
    put("alarm", broken ? "The node does not answer." : "");
    return;
  }
  const here = (Date.now() - lastAt) / 1000;
  if (here * 1000 > answerTimeout) broken = true;
  const r = lastReport;
  const stale = (r.stale_seconds || 0) + here;
  let what = "", old = 0;
  if (dead(r)) {
    what = "The node does not answer. Its last answer came at " + clock(lastAt) + ".";
    old = here;
  } else if (!broken) {
    what = r.store_error || "";
    if (what ? r.migration : stale > 60) old = stale;
  }
  put("alarm", what);
  put("age", old >= 5 ? "What is shown of the migration is " + span(old) + " old." : "");
  let end = "";
  if (broken && !dead(r)) {
    if (gone(r)) end = "The process that follows does not answer. Its last answer came at " + clock(lastAt) + ".";
    else if (!following(r.migration)) end = "The node does not answer any more. Its last answer, after the end of all work, came at " + clock(lastAt) + ".";
  }
  put("ended", end);
  colour(r);
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
