package importer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/migration/worker"
)

// PriorRecords keeps what target indices held before the session. *cms.Coordinator is one.
type PriorRecords interface {
	Prior(ctx context.Context, index string) (cms.Prior, error)
	AnyPrior(ctx context.Context) (bool, error)
	NotePrior(ctx context.Context, index string, h cms.Prior) (cms.Prior, error)
	ChoosePrior(ctx context.Context, index string) error
}

// Existing asks what becomes of documents that target indices held before the first document of the session was sent there.
type Existing struct {
	Counts  worker.HeldCounts
	Records PriorRecords
	// Chosen means that --existing-documents was given.
	Chosen bool
	// Sent reports whether the session has sent documents before. Without any record it was begun by a former release, whose documents
	// are not taken for those of others.
	Sent func(ctx context.Context) (bool, error)
	Log  *slog.Logger

	mu     sync.Mutex
	known  bool // whether former is
	former bool
}

// Ask returns a fault.ErrConfig for an index that had documents, unless it was chosen what becomes of them. It is called before the
// first document of a process is sent there.
func (x *Existing) Ask(ctx context.Context, index string) error {
	h, err := x.Records.Prior(ctx, index)
	if errors.Is(err, cms.ErrNotFound) {
		h, err = x.look(ctx, index)
	}
	switch {
	case err != nil:
		return fmt.Errorf("documents of index %s: %w", index, err)
	case h.Documents == 0 || h.Chosen:
		return nil
	case x.Chosen:
		return x.Records.ChoosePrior(ctx, index)
	}
	return worker.HeldError(map[string]int64{index: h.Documents}, worker.FilesHave)
}

// look counts the documents of an index of which nothing is recorded, and records it.
func (x *Existing) look(ctx context.Context, index string) (cms.Prior, error) {
	former, err := x.begunBefore(ctx)
	if err != nil {
		return cms.Prior{}, err
	}
	h := cms.Prior{Chosen: x.Chosen}
	if !former {
		if h.Documents, _, err = worker.CountHeld(ctx, x.Counts, index, x.Log); err != nil {
			return h, err
		}
	}
	if h.Documents > 0 {
		x.Log.WarnContext(ctx, "the target has documents in an index already", "index", index, "documents", h.Documents, "chosen", x.Chosen)
	}
	return x.Records.NotePrior(ctx, index, h)
}

// begunBefore reports whether a former release has sent documents in this session.
func (x *Existing) begunBefore(ctx context.Context) (bool, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.known {
		return x.former, nil
	}
	sent, err := x.Sent(ctx)
	if err == nil && sent {
		sent, err = x.Records.AnyPrior(ctx)
		sent = !sent
	}
	if err != nil {
		return false, err
	}
	x.known, x.former = true, sent
	return sent, nil
}
