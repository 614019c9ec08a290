package importer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/destination/bulk"
	"github.com/rfsd/rfsd/rfs/migration/arrival"
	"github.com/rfsd/rfsd/rfs/migration/engine"
	"github.com/rfsd/rfsd/rfs/operation/rollback"
)

// PriorRecords records the content of target indices before the session; session.Priors is one.
type PriorRecords interface {
	Read(ctx context.Context, index string) (session.Prior, error)
	Note(ctx context.Context, index string, h session.Prior) (session.Prior, error)
	Choose(ctx context.Context, index string) error
	All(ctx context.Context) ([]session.Prior, error)
}

// Existing checks target indices for documents before the first document of the session is sent there.
type Existing struct {
	Counts  arrival.Counts
	Records PriorRecords
	// Policy is the policy for existing documents.
	Policy bulk.Existing
	// Chosen means that --existing-documents was given.
	Chosen bool
	Log    *slog.Logger
}

// Ask returns fault.ErrConfig for an index that had documents, unless --existing-documents was given, and reports whether the
// index was untouched. It is called before the process sends its first document there.
func (x *Existing) Ask(ctx context.Context, index string) (untouched bool, err error) {
	h, err := x.Records.Read(ctx, index)
	if errors.Is(err, cms.ErrNotFound) {
		h, err = x.look(ctx, index)
	}
	switch {
	case err != nil:
		return false, fmt.Errorf("documents of index %s: %w", index, err)
	case h.Documents == 0 || h.Chosen:
		return h.Untouched, nil
	case x.Chosen:
		return false, x.Records.Choose(ctx, index)
	}
	return false, engine.HeldError(map[string]int64{index: h.Documents}, engine.FilesHave)
}

// AskAll returns fault.ErrConfig with the names of all indices that have documents, unless --existing-documents was given. It is
// called before the session sends its first document, and records nothing.
func (x *Existing) AskAll(ctx context.Context, indices []string) error {
	if x.Chosen {
		return nil
	}
	held := map[string]int64{}
	for _, index := range indices {
		h, err := x.Records.Read(ctx, index)
		if errors.Is(err, cms.ErrNotFound) {
			h.Documents, _, err = engine.CountHeld(ctx, x.Counts, index, x.Log)
		}
		if err != nil {
			return fmt.Errorf("documents of index %s: %w", index, err)
		}
		if h.Documents > 0 && !h.Chosen {
			held[index] = h.Documents
		}
	}
	if len(held) == 0 {
		return nil
	}
	return engine.HeldError(held, engine.FilesHave)
}

// look counts the documents of an index without a record, and records the number.
func (x *Existing) look(ctx context.Context, index string) (session.Prior, error) {
	h := session.Prior{Chosen: x.Chosen}
	held, there, err := engine.CountHeld(ctx, x.Counts, index, x.Log)
	if h.Documents = held; err != nil {
		return h, err
	}
	if there && h.Documents == 0 {
		did, err := x.Counts.Operations(ctx, index)
		if errors.Is(err, fault.ErrUnavailable) {
			return h, err
		}
		h.Untouched = err == nil && did.Executed == 0
	}
	if h.UUID, err = x.uuid(ctx, index); err != nil && !fault.HasStatus(err, http.StatusNotFound) {
		return h, err
	}
	if h.Documents > 0 {
		x.Log.WarnContext(ctx, "the target has documents in an index already", "index", index, "documents", h.Documents, "chosen", x.Chosen)
	}
	return x.Records.Note(ctx, index, h)
}

// uuid returns the UUID of an index; "" for an alias or a data stream, and if the target forbids the request.
func (x *Existing) uuid(ctx context.Context, index string) (string, error) {
	all, err := x.Counts.GetIndex(ctx, index)
	switch {
	case errors.Is(err, fault.ErrConfig) && !fault.HasStatus(err, http.StatusNotFound):
		return "", nil
	case err != nil:
		return "", err
	case len(all) != 1 || all[0].Name != index:
		return "", nil
	}
	return all[0].UUID, nil
}

// Missing returns the sorted names of the indices that documents were sent to and that the target no longer has: they were deleted, or
// deleted and created again.
func (x *Existing) Missing(ctx context.Context) ([]string, error) {
	all, err := x.Records.All(ctx)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, h := range all {
		is, err := x.uuid(ctx, h.Index)
		if gone := fault.HasStatus(err, http.StatusNotFound); gone || err == nil && is != "" && h.UUID != "" && is != h.UUID {
			names = append(names, h.Index)
		} else if err != nil {
			return nil, fmt.Errorf("index %s: %w", h.Index, err)
		}
	}
	slices.Sort(names)
	return names, nil
}

// Arrived compares the documents of the target with the documents that a session has sent, after all were answered. Only indices that
// this session created or found untouched can be compared, and only together, since a file may have documents of several.
// own is the number of operations of this import in its indices, if known.
func (x *Existing) Arrived(ctx context.Context, sent cms.Counts) (is progress.Arrival, own []rollback.Own, err error) {
	all, err := x.Records.All(ctx)
	if err != nil {
		return progress.Arrival{}, nil, err
	}
	var names, others []string
	for _, h := range all {
		names = append(names, h.Index)
		if !h.Untouched {
			others = append(others, h.Index)
		}
	}
	slices.Sort(names)
	if len(names) == 0 {
		return progress.Arrival{Expected: sent.Indexed, Uncounted: true, Note: "not compared: no index is recorded to which documents were sent"}, nil, nil
	}
	return arrival.OfFiles(ctx, x.Counts, names, others, sent, x.Policy, x.Log)
}
