package status

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/rfsd/rfsd/rfs/cms"
	"github.com/rfsd/rfsd/rfs/doc"
	"github.com/rfsd/rfsd/rfs/failed/classes"
	"github.com/rfsd/rfsd/rfs/progress"
)

// MaxRefused is how many refused documents are listed; all are counted.
const MaxRefused = 10_000

// RefusedGroup is a number of refused documents of one index with one remedy.
type RefusedGroup struct {
	Index  string `json:"index"`
	Class  string `json:"class"`
	Reason string `json:"reason"` // of the first
	Count  int64  `json:"count"`
	Remedy string `json:"remedy"`
}

// Failures are what failed in a session.
type Failures struct {
	// GivenUp are the failed items, indices and phases, grouped by reason; nil: they are not known.
	GivenUp []progress.Failure `json:"given_up"`
	// Groups are the refused documents by index and class, the largest first.
	Groups []RefusedGroup `json:"groups"`
	// Documents are the refused documents, which may name people: at most MaxRefused, and none for readers.
	Documents []cms.Refused `json:"documents"`
	// Omitted is how many refused documents are not listed.
	Omitted int64 `json:"documents_omitted,omitempty"`
}

// NewFailures returns that nothing failed.
func NewFailures() *Failures {
	return &Failures{GivenUp: []progress.Failure{}, Groups: []RefusedGroup{}, Documents: []cms.Refused{}}
}

// With returns f with what was given up. A nil f has no refused documents.
func (f *Failures) With(givenUp []progress.Failure) *Failures {
	is := *NewFailures()
	if f != nil {
		is = *f
	}
	is.GivenUp = append([]progress.Failure{}, givenUp...)
	return &is
}

// ReadRefused returns the refused documents that the workers of a fleet recorded. If a bucket or shared directory has the failed
// documents, none are recorded.
func ReadRefused(ctx context.Context, store *cms.Coordinator) (*Failures, error) {
	f := NewFailures()
	for d, err := range store.Refused(ctx) {
		if err != nil {
			return nil, fmt.Errorf("refused documents: %w", err)
		}
		f.Add(d, "")
	}
	f.Sort()
	return f, nil
}

// Add adds a document; detail is the target's message, if it is known.
func (f *Failures) Add(d cms.Refused, detail string) {
	class, ok := classes.Named(d.Class)
	if !ok {
		class = classes.Of(doc.Reason(d.Reason), detail)
	}
	at := slices.IndexFunc(f.Groups, func(g RefusedGroup) bool { return g.Index == d.Index && g.Class == class.Name })
	if at < 0 {
		at = len(f.Groups)
		f.Groups = append(f.Groups, RefusedGroup{Index: d.Index, Class: class.Name, Reason: d.Reason, Remedy: class.For(d.Index, detail)})
	}
	f.Groups[at].Count++
	if len(f.Documents) == MaxRefused {
		f.Omitted++
		return
	}
	f.Documents = append(f.Documents, d)
}

// Sort orders groups, the largest first, and documents by index, shard and ordinal.
func (f *Failures) Sort() {
	slices.SortFunc(f.Groups, func(a, b RefusedGroup) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Index, b.Index), cmp.Compare(a.Class, b.Class))
	})
	slices.SortFunc(f.Documents, func(a, b cms.Refused) int {
		return cmp.Or(cmp.Compare(a.Index, b.Index), cmp.Compare(a.Shard, b.Shard), cmp.Compare(a.Ordinal, b.Ordinal), cmp.Compare(a.ID, b.ID))
	})
}

// WithoutDocuments returns what readers may see: the ids of documents may name people.
func (f *Failures) WithoutDocuments() *Failures {
	is := *f
	is.Omitted += int64(len(f.Documents))
	is.Documents = []cms.Refused{}
	return &is
}

// Of returns the refused documents of one index, of all with "", and what was given up of all indices.
func (f *Failures) Of(index string) *Failures {
	if index == "" {
		return f
	}
	is := *f
	is.Groups = slices.DeleteFunc(slices.Clone(f.Groups), func(g RefusedGroup) bool { return g.Index != index })
	is.Documents = slices.DeleteFunc(slices.Clone(f.Documents), func(d cms.Refused) bool { return d.Index != index })
	is.Omitted = -int64(len(is.Documents))
	for _, g := range is.Groups {
		is.Omitted += g.Count
	}
	return &is
}
