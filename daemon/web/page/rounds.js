// The rounds of a cluster that is followed (rfsd follow).
"use strict";

const roundsDrawn = 20, roundsListed = 5;

const ms = (time) => new Date(time).getTime();
const changed = (x) => (x.inserted || 0) + (x.updated || 0) + (x.deleted || 0);
const following = (m) => Boolean(m && m.rounds && !m.rounds.finished);

// roundsFailed is the number of documents that failed in all rounds.
const roundsFailed = (m) => m && m.rounds ? m.rounds.failed || 0 : 0;

// lag is how far the target lags behind the source in seconds, as of now; undefined when that is not known.
function lag(r) {
  const m = r.migration;
  return m && m.lag_seconds !== undefined ? m.lag_seconds + (r.stale_seconds || 0) : undefined;
}

function showRounds(r) {
  const m = r.migration;
  const all = m && m.rounds ? (m.rounds.rounds || []) : [];
  $("following").hidden = all.length === 0;
  if (all.length === 0) return;
  const behind = lag(r);
  put("lag", m.rounds.finished ? "The following was finished at " + clock(m.rounds.finished) + "."
    : behind === undefined ? "The first round is in progress."
      : "The target lags " + span(behind) + " behind the source. Do not write to the target while it follows.");
  put("failing", m.rounds.failures && !m.rounds.finished ? plural(m.rounds.failures, "attempt") + " failed since a round arrived last; the last one: " + m.rounds.failure : "");
  put("cutover", m.cutover ? cutover(m.cutover) : "");
  timeline(all.slice(-roundsDrawn), new Date(m.read_at).getTime());
  fill($("rounds"), all.slice(-roundsListed).reverse().map((x) => [String(x.number), x.snapshot || "", clock(x.started),
    ...(x.arrived ? [clock(x.arrived), span((ms(x.arrived) - ms(x.started)) / 1000), x.inserted || 0, x.updated || 0, x.deleted || 0, x.failed || 0]
      : [x.replaced ? "replaced" : m.rounds.finished ? "not brought" : "in progress", "", "", "", "", ""])]));
  for (const row of $("rounds").tBodies[0].rows) {
    const failed = row.cells[8];
    if (!["", "0"].includes(failed.textContent)) failed.classList.add("lossy-text");
  }
}

// timeline draws each round from its start to its arrival, as high as it has changed documents.
function timeline(all, now) {
  const from = ms(all[0].started);
  const to = Math.max(now, from + 1000, ...all.map((x) => ms(x.arrived || x.started)));
  const most = Math.max(1, ...all.map(changed));
  const at = (t) => (t - from) / (to - from) * 600;
  $("timeline").replaceChildren(svg("line", { x1: 0, y1: 75, x2: 600, y2: 75 }), ...all.map((x) => {
    const high = 6 + changed(x) / most * 64, left = at(ms(x.started));
    return svg("rect", { class: x.failed ? "lossy" : x.arrived ? "done" : "doing", x: Math.min(left, 597).toFixed(1), y: (75 - high).toFixed(1), width: Math.max(3, at(x.arrived ? ms(x.arrived) : x.replaced ? ms(x.started) : now) - left).toFixed(1), height: high.toFixed(1) });
  }));
  put("rounds-from", clock(from));
  put("rounds-to", clock(to));
  put("rounds-words", "each bar is a round, from the start of its snapshot to its arrival; the highest changed " + count(most) + " documents");
}

function cutover(c) {
  switch (c.state) {
    case "ORDERED": return "Cut-over ordered by " + c.ordered_by + " at " + clock(c.ordered) + ": rounds run until one is short enough.";
    case "BLOCKED": return "Cut-over: writes to the source have ended at " + clock(c.blocked) + "; the last round is in progress.";
    case "FINISHING": case "DONE": return "Cut over: everything had arrived at " + clock(c.arrived) + " with round " + c.round + ". Point applications to the target.";
    case "RETURNING": case "RETURNED": return "The cut-over has returned, and following continues: " + (c.reason || "no reason was recorded");
  }
  return "";
}
