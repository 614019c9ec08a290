package sim

import (
	"cmp"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/document/doc"
)

// The invariants of a world. Each fault of the simulation tests one of them; see DESIGN.md.

// check checks the invariants at the end.
func (w *world) check() Report {
	r := &w.report
	r.History, r.Results = w.history, w.server.applied
	if !r.Ended {
		w.bad("not ended after %v", w.cfg.Limit)
	}
	deadly := map[shardKey]bool{}
	for k := range w.deadly {
		deadly[w.truth[k].shard] = true
	}
	failed := w.checkItems(deadly)
	r.Taken = w.checkDocuments(failed)
	for s := range deadly {
		if !failed[s] {
			w.bad("%v holds a deadly document and did not fail", s)
		}
	}
	r.Problems = w.problems
	return *r
}

// checkItems checks that every item is done, that none failed without a reason, and that the counts add up.
func (w *world) checkItems(deadly map[shardKey]bool) (failed map[shardKey]bool) {
	failed = map[shardKey]bool{}
	for id, why := range w.failed {
		at, err := cms.ParseID(id)
		if err != nil {
			w.bad("%v", err)
			continue
		}
		w.report.Failed++
		if failed[shardOf(at)] = true; !deadly[shardOf(at)] {
			w.bad("%s failed and is healthy: %s", id, why)
		}
	}
	for id := range w.server.records {
		if w.cfg.Lose == 0 && strings.HasSuffix(id, ":audit_repair") {
			w.bad("the audit had to repair %s", id)
		}
	}
	counted, again := map[shardKey]int64{}, map[shardKey]int64{}
	for _, id := range slices.Sorted(maps.Keys(w.server.items)) {
		it := w.server.items[id]
		if id == cms.SetupID {
			continue
		}
		at, err := it.Range()
		if err != nil {
			w.bad("%v", err)
			continue
		}
		if it.Open() {
			w.bad("%s is open", id)
		}
		if it.FailedItem() && w.cfg.Lose == 0 && w.server.records["event:"+cms.EventKey(id)+":failed"].Revision.Seq == 0 {
			w.bad("%s failed without an event", id)
		}
		counted[shardOf(at)] += it.Counts.Ordinals
		again[shardOf(at)] += it.Counts.Resent + it.Counts.Replaced
		if it.End != 0 {
			w.report.Parts++
		}
		if w.server.parts(shardOf(at)) != nil != (it.End != 0) {
			w.bad("%s ends at %d, its shard has the parts %v", id, it.End, w.server.parts(shardOf(at)))
		}
	}
	if w.cfg.Lose > 0 || w.cfg.File {
		return failed
	}
	if w.rounds == nil { // a round replaces documents of other rounds
		w.checkCopies(again)
	}
	for id := range w.roots() {
		s := shardOf(id)
		if !failed[s] && counted[s] != w.ends[s] {
			w.bad("%v has %d ordinals, the items count %d", s, w.ends[s], counted[s])
		}
	}
	return failed
}

// checkCopies checks that no shard counts more copies of documents than the target accepted in addition to the first ones.
func (w *world) checkCopies(counted map[shardKey]int64) {
	taken := map[shardKey]int64{}
	for k, n := range w.target.copies {
		taken[w.truth[k].shard] += n - 1
	}
	for _, s := range slices.SortedFunc(maps.Keys(counted), func(a, b shardKey) int {
		return cmp.Or(strings.Compare(a.index, b.index), cmp.Compare(a.shard, b.shard))
	}) {
		if counted[s] > taken[s] {
			w.bad("%v counts %d copies, the target took %d", s, counted[s], taken[s])
		}
		w.report.Copies, w.report.Counted = w.report.Copies+taken[s], w.report.Counted+counted[s]
	}
}

// checkDocuments checks that every document of a complete shard is at the destination with the same bytes, or is recorded as failed if the
// target rejects it. It returns how many documents and deletions the target has accepted.
func (w *world) checkDocuments(failed map[shardKey]bool) (taken int) {
	w.target.mu.Lock() // requests whose sender did not wait for them may still arrive
	defer w.target.mu.Unlock()
	there := w.target.docs
	if w.cfg.File {
		there = w.exported()
	}
	w.report.Documents, w.report.Hot = len(w.truth), w.target.asked
	missing := map[shardKey]int{}
	for _, k := range w.keys() {
		t := w.truth[k]
		source, ok := there[k]
		_, recorded := w.recorded[k]
		switch {
		case failed[t.shard]:
		case t.refused != nil && recorded, ok && source == t.source && !recorded:
		case ok && source != t.source:
			w.bad("%v arrived changed", k)
		case ok && recorded && w.server.forgot && (w.recorded[k].Reason == doc.Collision || w.recorded[k].Reason == doc.Foreign):
			// It is no longer known that it was sent before: it may share its id with another document, and is recorded.
		case recorded:
			w.bad("%v is recorded as failed: %s", k, w.recorded[k].Detail)
		default:
			if missing[t.shard]++; missing[t.shard] == 1 {
				w.bad("%v lost ordinal %d: %v", t.shard, t.ordinal, k)
			}
		}
	}
	for k := range there {
		if _, ok := w.truth[k]; !ok {
			w.bad("%v arrived and does not exist or was left out", k)
		}
	}
	return w.target.taken
}

// exported reads the finished files of the export directory; a document in two of them is a problem.
func (w *world) exported() map[key]string {
	all := map[key]string{}
	for name, text := range w.disk.content() {
		if path.Ext(name) != ".ndjson" {
			if strings.Contains(path.Base(name), ".tmp-") {
				w.bad("unfinished file %s is left", name)
			}
			continue
		}
		pairs, err := pairs([]byte(text))
		if err != nil {
			w.bad("%s: %v", name, err)
		}
		for _, p := range pairs {
			if _, twice := all[p.key]; twice {
				w.bad("%v is exported twice", p.key)
			}
			all[p.key] = string(p.source)
		}
	}
	return all
}
