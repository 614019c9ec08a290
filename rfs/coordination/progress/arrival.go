package progress

import (
	"strconv"
	"strings"
)

// Arrival is the state that the target reported for an index of the snapshot after all of its documents were sent.
type Arrival struct {
	// Expected counts the documents that the target acknowledged, without kept ones.
	Expected int64 `json:"expected"`
	// Found counts the root documents in the target indices, without nested ones.
	Found int64 `json:"found"`
	// Lucene is the number of Lucene documents in the target indices, including nested ones. It is 0 if Found is unknown, and also if Found
	// is positive but this number is unknown.
	Lucene int64 `json:"lucene,omitempty"`
	// Uncounted means that Found is unknown: the target was not asked, or did not allow counting its documents.
	Uncounted bool `json:"uncounted,omitempty"`
	// Shared means that the numbers include all indices of the snapshot with the same target.
	Shared bool `json:"shared,omitempty"`
	// Operations is the number of sequence numbers that the target indices have used, Deletes the number of deletions among them since
	// their shards were started or moved, and Written the number accounted for by the documents of this session. All are 0 unless
	// Accounted, which means that they can be compared.
	Operations int64 `json:"operations,omitempty"`
	Deletes    int64 `json:"deletes,omitempty"`
	Written    int64 `json:"written,omitempty"`
	Accounted  bool  `json:"accounted,omitempty"`
	// SentAgain counts documents that the count at the target lacked, and that were sent again.
	SentAgain int64 `json:"sent_again,omitempty"`
	// Note is the reason why fewer documents are not a problem, or why they were not compared.
	Note string `json:"note,omitempty"`
	// Problem is the reason why documents are missing, or "".
	Problem string `json:"problem,omitempty"`
	// Gone means that a target index does not exist, or was replaced by another.
	Gone bool `json:"gone,omitempty"`
}

// Foreign returns the number of operations on the target indices for which this session has no response: operations of other clients, and
// its own requests whose responses were lost and that were not retried. It is 0 if the number is unknown.
func (a *Arrival) Foreign() int64 {
	if a == nil || !a.Accounted {
		return 0
	}
	return max(a.Operations-a.Written, 0)
}

// Texts returns the counts of root and Lucene documents on the target for a table: "-" if unknown.
func (a *Arrival) Texts() (roots, lucene string) {
	if a == nil || a.Uncounted || a.Gone {
		return "-", "-"
	}
	if a.Lucene == 0 && a.Found > 0 {
		return strconv.FormatInt(a.Found, 10), "-"
	}
	return strconv.FormatInt(a.Found, 10), strconv.FormatInt(a.Lucene, 10)
}

// ArrivalTotal adds up the documents of targets. Indices of the snapshot with the same targets count once. A number that is unknown for one
// target is unknown in the total.
type ArrivalTotal struct {
	sum               Arrival
	unknown, noLucene bool
	seen              map[string]bool
}

// Add adds an index of the snapshot; a is nil before its documents were sent.
func (t *ArrivalTotal) Add(targets []string, a *Arrival) {
	key := strings.Join(targets, " ")
	if t.seen[key] {
		return
	}
	if t.seen == nil {
		t.seen = map[string]bool{}
	}
	t.seen[key] = true
	roots, lucene := a.Texts()
	t.unknown, t.noLucene = t.unknown || roots == "-", t.noLucene || lucene == "-"
	if a != nil {
		t.sum.Found, t.sum.Lucene = t.sum.Found+a.Found, t.sum.Lucene+a.Lucene
	}
}

// Texts returns the total like Arrival.Texts.
func (t *ArrivalTotal) Texts() (roots, lucene string) {
	sum := t.sum
	if sum.Uncounted = t.unknown; t.noLucene {
		sum.Lucene = 0
	}
	return sum.Texts()
}
