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

// MaxRefused limits the refused documents that are listed; all are counted.
const MaxRefused = 10_000

// RefusedGroup is a number of refused documents of one index with one remedy.
type RefusedGroup struct {
	Index  string `json:"index"`
	Class  string `json:"class"`
	Reason string `json:"reason"` // of the first document
	Count  int64  `json:"count"`
	Remedy string `json:"remedy"`
}

// Failures are the failures of a session.
type Failures struct {
	// GivenUp are the failed items, indices and phases, grouped by reason; nil: unknown.
	GivenUp []progress.Failure `json:"given_up"`
	// Groups are the refused documents by index and class, largest first.
	Groups []RefusedGroup `json:"groups"`
	// Documents are the refused documents: at most MaxRefused, and none for readers, because ids may contain personal data.
	Documents []session.Refused `json:"documents"`
	// Omitted is the number of refused documents that are not listed.
	Omitted int64 `json:"documents_omitted,omitempty"`
	// Failed is the number of documents of the session, or of the files, that failed and were not delivered later.
	Failed int64 `json:"documents_failed"`
	// FailedLater are the documents that failed first in later rounds, by round; the session NAME-round-N has them.
	FailedLater map[int]int64 `json:"documents_failed_later,omitempty"`
	// Redriven is the number of documents that failed first and were delivered by rfsd redrive.
	Redriven int64 `json:"documents_redriven,omitempty"`
	// Places are the locations where processes keep failed documents. Documents of former versions have none.
	Places []FailedPlace `json:"places,omitempty"`
}

// FailedPlace is a directory of a host, or a bucket, that keeps failed documents.
type FailedPlace struct {
	Host  string `json:"host,omitempty"` // "" for a bucket
	Place string `json:"place"`          // absolute path or URI; "": documents were only counted
}

// String returns host and path, or the URI.
func (p FailedPlace) String() string {
	if p.Place == "" {
		return "no place: --failed-documents was not given"
	}
	return session.FailedAt{Host: p.Host, Place: p.Place}.Name()
}

// NewFailures returns Failures without any failure.
func NewFailures() *Failures {
	return &Failures{GivenUp: []progress.Failure{}, Groups: []RefusedGroup{}, Documents: []session.Refused{}}
}

// With returns f with the failures and counts of m. A nil f has no refused documents.
func (f *Failures) With(m *progress.Migration) *Failures {
	is := *NewFailures()
	if f != nil {
		is = *f
	}
	is.GivenUp = append([]progress.Failure{}, m.Failures...)
	is.Failed, is.Redriven = m.Totals.Failed, m.Totals.Redriven
	is.FailedLater = m.FailedLater()
	if is.Failed == 0 && len(is.Documents) == 0 && is.Omitted == 0 { // the classes are from before the redrive
		is.Groups = []RefusedGroup{}
	}
	return &is
}

// ReadRefused returns the refused documents that the workers of a fleet recorded, and the places of all processes. If a bucket, a shared
// directory or a single process keeps the failed documents, it returns their classes but lists none.
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

// ReadPlaces returns the places where the processes of a session keep their failed documents, and the classes of these as they first
// failed, largest first.
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

// Add adds a document. detail is the target's message, if known.
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

// Sort sorts groups, largest first, and documents by index, shard and ordinal.
func (f *Failures) Sort() {
	slices.SortFunc(f.Groups, func(a, b RefusedGroup) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Index, b.Index), cmp.Compare(a.Class, b.Class))
	})
	slices.SortFunc(f.Documents, func(a, b session.Refused) int {
		return cmp.Or(cmp.Compare(a.Index, b.Index), cmp.Compare(a.Shard, b.Shard), cmp.Compare(a.Ordinal, b.Ordinal), cmp.Compare(a.ID, b.ID))
	})
}

// WithoutDocuments returns f for readers: ids of documents may contain personal data.
func (f *Failures) WithoutDocuments() *Failures {
	is := *f
	is.Omitted += int64(len(f.Documents))
	is.Documents = []session.Refused{}
	return &is
}

// Of returns f with the refused documents of one index, or of all for "". GivenUp always covers all indices.
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

// accountTimeout limits the time that the end of a process waits for the store to write and read the account of failed documents.
const accountTimeout = 10 * time.Second

// FailureClasses returns the classes of the failed documents of a session, of all processes, largest first. It returns none if no document
// failed, or if the store does not answer.
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
