package resend

import (
	"context"
	"iter"
	"slices"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/destination/bulk"
	"github.com/rfsd/rfsd/rfs/destination/failed"
	"github.com/rfsd/rfsd/rfs/destination/failed/classes"
	"github.com/rfsd/rfsd/rfs/document/doc"
	"github.com/rfsd/rfsd/rfs/operation/redrive"
)

// ControlIndex is the name of the storage of documents that a session has recorded.
const ControlIndex = "control index"

// Own returns a storage without the files of other sessions, such as one of the same name whose state was removed.
func (s *State) Own(ctx context.Context, storage redrive.Storage) (redrive.Storage, error) {
	if s.Kept == nil {
		return storage, nil
	}
	mark, err := session.IdentityOf(s.Kept).Mark(ctx)
	return ownFiles{storage, mark}, err
}

type ownFiles struct {
	redrive.Storage
	mark string
}

// Names returns the names of the session's files.
func (p ownFiles) Names(ctx context.Context) ([]string, error) {
	all, err := p.Storage.Names(ctx)
	return slices.DeleteFunc(all, func(name string) bool { return failed.OfAnother(name, p.mark) }), err
}

// Recorded returns the documents that the session has recorded.
func (s *State) Recorded() redrive.Recorded {
	records := session.RefusalsOf(s.Kept)
	return redrive.Recorded{
		Name: ControlIndex,
		List: func(ctx context.Context) iter.Seq2[redrive.Record, error] {
			return func(yield func(redrive.Record, error) bool) {
				for d, err := range records.All(ctx) {
					f := doc.Failure{Index: d.Index, ID: d.ID, Shard: d.Shard, Ordinal: d.Ordinal, Reason: doc.Reason(d.Reason), Status: d.Status}
					if !yield(redrive.Record{Failure: f, Class: d.Class}, err) {
						return
					}
				}
			}
		},
		Note: func(ctx context.Context, failures []doc.Failure) error { return records.Keep(ctx, refused(failures)) },
	}
}

// Recorder is a recorder of failed documents that also records them in the session, for redrives that cannot read its files.
type Recorder struct {
	bulk.Recorder
	Kept *cms.Coordinator
}

// Record keeps failures. The records of the session are durable when it returns.
func (r *Recorder) Record(ctx context.Context, failures []doc.Failure) error {
	if err := r.Recorder.Record(ctx, failures); err != nil {
		return err
	}
	return session.RefusalsOf(r.Kept).Keep(ctx, refused(failures))
}

// refused returns what a session records of failures.
func refused(failures []doc.Failure) []session.Refused {
	all := make([]session.Refused, len(failures))
	for i, f := range failures {
		all[i] = session.Refused{
			Index: f.Index, ID: f.ID, Shard: f.Shard, Ordinal: f.Ordinal, Reason: string(f.Reason), Status: f.Status, Class: classes.Of(f.Reason, f.Detail).Name,
		}
	}
	return all
}
