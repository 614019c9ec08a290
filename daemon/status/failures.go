package status

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/destination/failed/classes"
	"github.com/rfsd/rfsd/rfs/document/doc"
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
	Documents []session.Refused `json:"documents"`
	// Omitted is how many refused documents are not listed.
	Omitted int64 `json:"documents_omitted,omitempty"`
	// Failed is how many documents of the session, or of the files, failed and were not delivered since.
	Failed int64 `json:"documents_failed"`
	// Redriven is how many documents failed first and were delivered by rfsd redrive.
	Redriven int64 `json:"documents_redriven,omitempty"`
	// Places are where processes keep their failed documents; documents of former versions are in none.
	Places []FailedPlace `json:"places,omitempty"`
}

// FailedPlace is a directory of a host, or a bucket, that keeps failed documents.
type FailedPlace struct {
	Host  string `json:"host,omitempty"` // "" for a bucket
	Place string `json:"place"`          // absolute path or URI; "": documents were counted only
}

// String returns host and path, or the URI.
func (p FailedPlace) String() string {
	switch {
	case p.Place == "":
		return "no place: --failed-documents was not given"
	case p.Host == "":
		return p.Place
	}
	return p.Host + ":" + p.Place
}

// NewFailures returns that nothing failed.
func NewFailures() *Failures {
	return &Failures{GivenUp: []progress.Failure{}, Groups: []RefusedGroup{}, Documents: []session.Refused{}}
}

// With returns f with what was given up and how many documents failed. A nil f has no refused documents.
func (f *Failures) With(m *progress.Migration) *Failures {
	is := *NewFailures()
	if f != nil {
		is = *f
	}
	is.GivenUp = append([]progress.Failure{}, m.Failures...)
	is.Failed, is.Redriven = m.Totals.Failed, m.Totals.Redriven
	if is.Failed == 0 && len(is.Documents) == 0 && is.Omitted == 0 { // what is known of the classes is of before the redrive
		is.Groups = []RefusedGroup{}
	}
	return &is
}

// ReadRefused returns the refused documents that the workers of a fleet recorded, and where all processes keep theirs. If a bucket
// or a shared directory has the failed documents, or a single process, the classes are known and none is listed.
func ReadRefused(ctx context.Context, store *cms.Coordinator) (*Failures, error) {
	f := NewFailures()
	for d, err := range session.RefusalsOf(store).All(ctx) {
		if err != nil {
			return nil, fmt.Errorf("refused documents: %w", err)
		}
		f.Add(d, "")
	}
	places, groups, err := ReadPlaces(ctx, store)
	if err != nil {
		return nil, err
	}
	if f.Places = places; len(f.Groups) == 0 {
		f.Groups = groups
	}
	f.Sort()
	return f, nil
}

// ReadPlaces returns where the processes of a session keep their failed documents, and the classes of these as they failed first,
// the largest first.
func ReadPlaces(ctx context.Context, store *cms.Coordinator) ([]FailedPlace, []RefusedGroup, error) {
	all, err := session.PlacesOf(store).All(ctx)
	if err != nil {
		return nil, nil, err
	}
	var places []FailedPlace
	sum := &Failures{Groups: []RefusedGroup{}}
	at := map[[2]string]int{}
	for _, p := range all {
		places = append(places, FailedPlace{Host: p.Host, Place: p.Place})
		for _, s := range p.Sums {
			key := [2]string{s.Index, s.Class}
			i, ok := at[key]
			if !ok {
				i = len(sum.Groups)
				at[key], sum.Groups = i, append(sum.Groups, RefusedGroup{Index: s.Index, Class: s.Class, Reason: s.Reason, Remedy: s.Remedy})
			}
			sum.Groups[i].Count += s.Count
		}
	}
	sum.Sort()
	return places, sum.Groups, nil
}

// Add adds a document; detail is the target's message, if it is known.
func (f *Failures) Add(d session.Refused, detail string) {
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
	slices.SortFunc(f.Documents, func(a, b session.Refused) int {
		return cmp.Or(cmp.Compare(a.Index, b.Index), cmp.Compare(a.Shard, b.Shard), cmp.Compare(a.Ordinal, b.Ordinal), cmp.Compare(a.ID, b.ID))
	})
}

// WithoutDocuments returns what readers may see: the ids of documents may name people.
func (f *Failures) WithoutDocuments() *Failures {
	is := *f
	is.Omitted += int64(len(f.Documents))
	is.Documents = []session.Refused{}
	return &is
}

// Of returns the refused documents of one index, of all with "", and what was given up of all indices.
func (f *Failures) Of(index string) *Failures {
	if index == "" {
		return f
	}
	is := *f
	is.Groups = slices.DeleteFunc(slices.Clone(f.Groups), func(g RefusedGroup) bool { return g.Index != index })
	is.Documents = slices.DeleteFunc(slices.Clone(f.Documents), func(d session.Refused) bool { return d.Index != index })
	is.Omitted = -int64(len(is.Documents))
	for _, g := range is.Groups {
		is.Omitted += g.Count
	}
	return &is
}

// accountTimeout limits how long the end of a process waits for the store to take and return the account of failed documents.
const accountTimeout = 10 * time.Second

// FailureClasses returns the classes of the failed documents of a session, of all processes, the largest first; none when there is
// no failed document, or the store does not answer.
func FailureClasses(ctx context.Context, kept *cms.Coordinator, recorder any, documents int64, log *slog.Logger) []RefusedGroup {
	if documents == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), accountTimeout)
	defer cancel()
	var err error
	if w, ok := recorder.(interface{ Flush(context.Context) error }); ok {
		err = w.Flush(ctx)
	}
	var groups []RefusedGroup
	if err == nil {
		_, groups, err = ReadPlaces(ctx, kept)
	}
	if err != nil {
		log.WarnContext(ctx, "the classes of failed documents are unknown", "error", err)
	}
	return groups
}
