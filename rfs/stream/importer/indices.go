package importer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/destination/objects"
	"github.com/rfsd/rfsd/rfs/destination/target"
	"github.com/rfsd/rfsd/rfs/operation/rollback"
)

// Cluster is the part of the target that TargetIndices needs.
type Cluster interface {
	// IndexExists reports whether an index, alias or data stream has the name.
	IndexExists(ctx context.Context, name string) (bool, error)
	CreateIndex(ctx context.Context, name string, body []byte) error
}

// TargetIndices ensures that documents are sent only to existing indices: the target would
// create a missing index with guessed mappings.
type TargetIndices struct {
	Cluster Cluster
	Creates bool // create missing indices, with the target's defaults and templates unless Make creates them
	// Make creates an index with a mark, as an export describes it, unless the target has it. known is false if no export describes the
	// index. nil: no index is described.
	Make func(ctx context.Context, index string, mark objects.Mark) (created, known bool, err error)
	// Ledger records the indices that the session creates; nil: nothing is recorded.
	Ledger objects.Ledger
	// Ask returns the reason why documents may not be sent to an existing index, and reports whether the session found the index
	// without documents and operations. It is called once for each index. nil: not called.
	Ask func(ctx context.Context, index string) (untouched bool, err error)

	mu    sync.Mutex
	last  []byte // name in the last call of Ensure
	known map[string]bool
	made  map[string]bool // created by this process, or untouched before the session
}

// Made reports whether an index has only documents of this session, as far as this process knows: it has created the index, or the
// session found it untouched.
func (x *TargetIndices) Made(name string) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.made[name]
}

// Ensure returns fault.ErrConfig for a name that does not exist and may not be created. It queries the target once for each name.
func (x *TargetIndices) Ensure(ctx context.Context, name []byte) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if bytes.Equal(name, x.last) || x.known[string(name)] {
		x.last = append(x.last[:0], name...)
		return nil
	}
	index := string(name)
	exists, err := x.Cluster.IndexExists(ctx, index)
	if err != nil {
		return fmt.Errorf("index %s: %w", index, err)
	}
	var made, untouched bool
	switch {
	case exists && x.Ledger != nil: // an earlier process of the session may have created it, and died
		err = x.Ledger.Decide(ctx, rollback.Index, index)
	case exists:
	case !x.Creates:
		return fmt.Errorf("index %s is not on the target: create it with its mappings first (rfsd migrate --phases metadata,indices does that from a snapshot), or give --create-indices: %w", index, fault.ErrConfig)
	default:
		made, err = x.create(ctx, index)
	}
	if err == nil && x.Ask != nil {
		untouched, err = x.Ask(ctx, index)
	}
	if err != nil {
		return err
	}
	if made || untouched {
		if x.made == nil {
			x.made = map[string]bool{}
		}
		x.made[index] = true
	}
	if x.known == nil {
		x.known = map[string]bool{}
	}
	x.known[index] = true
	x.last = append(x.last[:0], name...)
	return nil
}

// Create creates an index unless the target has it.
func (x *TargetIndices) Create(ctx context.Context, name string) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	exists, err := x.Cluster.IndexExists(ctx, name)
	if err != nil {
		return fmt.Errorf("index %s: %w", name, err)
	}
	if !exists {
		_, err = x.create(ctx, name)
	}
	return err
}

// create creates an index and records it. After a request without an answer the record stays an intent. made reports
// whether this call created the index.
func (x *TargetIndices) create(ctx context.Context, index string) (made bool, err error) {
	var mark objects.Mark
	if x.Ledger != nil {
		if mark, err = x.Ledger.Mark(ctx); err == nil {
			err = x.Ledger.Intend(ctx, rollback.Index, index)
		}
		if err != nil {
			return false, err
		}
	}
	made, err = x.make(ctx, index, mark)
	switch {
	case x.Ledger == nil:
	case err == nil && made:
		err = x.Ledger.Confirm(ctx, rollback.Index, index)
	case err == nil: // another process was faster
		err = x.Ledger.Decide(ctx, rollback.Index, index)
	case errors.Is(err, fault.ErrRejected):
		err = errors.Join(err, x.Ledger.Withdraw(ctx, rollback.Index, index))
	}
	return made && err == nil, err
}

// make creates an index with a mark. made is false if the target has it already.
func (x *TargetIndices) make(ctx context.Context, index string, mark objects.Mark) (made bool, err error) {
	if x.Make != nil {
		if made, known, err := x.Make(ctx, index, mark); known || err != nil {
			return made, err
		}
	}
	body, err := mark.Put(objects.IndexMark, index, json.RawMessage("{}"))
	if err != nil {
		return false, err
	}
	switch err = x.Cluster.CreateIndex(ctx, index, body); {
	case target.IsExists(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("create index %s: %w", index, err)
	}
	return true, nil
}
