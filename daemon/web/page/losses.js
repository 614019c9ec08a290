// What was lost, with what to do about it.
"use strict";

// losses says what was given up or failed; "" when nothing was.
function losses(view) {
  const all = [];
  if (view.given_up) all.push(count(view.given_up) + " given up");
  if (view.documents_not_delivered) all.push("at most " + plural(view.documents_not_delivered, "document") + " not delivered");
  if (view.documents_failed) all.push(plural(view.documents_failed, "document") + " failed");
  return all.join(", ");
}

// Rows of the table of failed documents; rfsctl failures lists all.
const groupsAtOnce = 100;
const groupsPause = 5000; // between two questions for the groups of failed documents, in ms
let asked = "", askedAt = 0; // the numbers of the last question, and when it was asked
let known = []; // groups of failed documents, as the node answered last

function showLosses(r) {
  const m = r.migration, view = r.progress;
  const given = (m && m.failures) || [];
  const failed = view.documents_failed || 0;
  $("losses").hidden = given.length === 0 && !failed;
  $("given-up").hidden = given.length === 0;
  $("failed-documents").hidden = !failed;
  fill($("failures"), given.map((f) => [f.reason, f.count, (f.examples || []).join(", ")]));
  if (!failed) known = [];
  showGroups(known, (m && m.indices) || []);
  const numbers = failed ? [m && m.session, failed].join() : "";
  if (numbers === asked || Date.now() < askedAt + groupsPause) return;
  asked = numbers;
  askedAt = Date.now();
  if (failed) groups((m && m.indices) || []);
}

// groups asks the node for the failed documents by index and class; until it has answered, only their numbers are known.
async function groups(indices) {
  try {
    const answer = await fetch("/v1/failures?documents=false", { cache: "no-store" });
    if (!answer.ok) throw new Error(answer.statusText);
    known = (await answer.json()).groups || [];
    showGroups(known, indices);
  } catch {
    asked = ""; // ask again
  }
}

function showGroups(all, indices) {
  let rows = all.map((g) => [g.index, g.count, g.class, g.reason, g.remedy]);
  if (rows.length === 0) {
    rows = indices.filter((x) => x.counts.documents_failed).sort((a, b) => b.counts.documents_failed - a.counts.documents_failed)
      .map((x) => [x.name, x.counts.documents_failed, "", "", ""]);
  }
  fill($("groups"), rows.slice(0, groupsAtOnce));
  put("more-groups", rows.length > groupsAtOnce ? "and " + count(rows.length - groupsAtOnce) + " more, which rfsctl failures lists" : "");
}
