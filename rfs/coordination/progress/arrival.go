package progress

import (
	"strconv"
	"strings"
)

// Arrival is what the target reported of an index of the snapshot when all of its documents were sent.
type Arrival struct {
	// Expected are the documents that the target acknowledged; those it kept do not count.
	Expected int64 `json:"expected"`
	// Found are the root documents that the target indices hold; nested ones do not count.
	Found int64 `json:"found"`
	// Lucene are the Lucene documents that the target indices hold, nested ones included; 0 beside a Found that is not: not
	// known.
	Lucene int64 `json:"lucene,omitempty"`
	// Uncounted means that the target was not asked, or did not let its documents be counted: Found is not known.
	Uncounted bool `json:"uncounted,omitempty"`
	// Shared means that the numbers are those of all indices of the snapshot with the same target.
	Shared bool `json:"shared,omitempty"`
	// Operations are the sequence numbers that the target indices have used, Deletes the deletions among them since their
	// shards were started or moved, Written those that the documents of this session account for; all are 0 unless Accounted,
	// which means that they can be compared.
	Operations int64 `json:"operations,omitempty"`
	Deletes    int64 `json:"deletes,omitempty"`
	Written    int64 `json:"written,omitempty"`
	Accounted  bool  `json:"accounted,omitempty"`
	// SentAgain are documents that the target lacked when it was counted, and that were sent again.
	SentAgain int64 `json:"sent_again,omitempty"`
	// Note is why fewer documents are no problem, or why they were not compared.
	Note string `json:"note,omitempty"`
	// Problem is why the documents are not there, "" when they are.
	Problem string `json:"problem,omitempty"`
	// Gone means that a target index does not exist, or is another one.
	Gone bool `json:"gone,omitempty"`
}

// Foreign returns how many operations on the target indices this session has no answer for: those of other clients, and its own
// requests whose answers were lost and that nothing repeated. It is 0 when that is not known.
func (a *Arrival) Foreign() int64 {
	if a == nil || !a.Accounted {
		return 0
	}
	return max(a.Operations-a.Written, 0)
}

// Texts returns the root and the Lucene documents on the target as a table shows them: "-" where they are not known.
func (a *Arrival) Texts() (roots, lucene string) {
	if a == nil || a.Uncounted || a.Gone {
		return "-", "-"
	}
	if a.Lucene == 0 && a.Found > 0 {
		return strconv.FormatInt(a.Found, 10), "-"
	}
	return strconv.FormatInt(a.Found, 10), strconv.FormatInt(a.Lucene, 10)
}

// ArrivalTotal adds up what targets hold: indices of the snapshot with the same targets count once. What is not known of
// one of them is not known of the total.
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

// Texts is that of Arrival.
func (t *ArrivalTotal) Texts() (roots, lucene string) {
	sum := t.sum
	if sum.Uncounted = t.unknown; t.noLucene {
		sum.Lucene = 0
	}
	return sum.Texts()
}
