package migrationtest

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/destination/bulk"
	"github.com/rfsd/rfsd/rfs/destination/target"
	"github.com/rfsd/rfsd/rfs/destination/tuning"
	"github.com/rfsd/rfsd/rfs/migration/engine"
)

// Whole is a target with everything that a migration needs.
type Whole struct {
	Seen
	Docs map[string]map[string]string // index → id → source; "": deleted by another client
}

// Refresh does nothing while the process is alive.
func (w Whole) Refresh(context.Context, string) error { return w.do(func() error { return nil }) }

// Count returns the documents of an index.
func (w Whole) Count(_ context.Context, index string) (n int64, err error) {
	err = w.do(func() error { n = int64(len(w.Docs[index])) - w.deleted(index); return nil })
	return n, err
}

// CountLucene returns the documents of an index.
func (w Whole) CountLucene(ctx context.Context, index string) (int64, error) {
	return w.Count(ctx, index)
}

// Operations returns the writes and deletions of an index.
func (w Whole) Operations(_ context.Context, index string) (target.Operations, error) {
	deleted := w.deleted(index)
	return target.Operations{Executed: int64(len(w.Docs[index])) + deleted, Deletes: deleted}, w.do(func() error { return nil })
}

func (w Whole) deleted(index string) (n int64) {
	for _, source := range w.Docs[index] {
		if source == "" {
			n++
		}
	}
	return n
}

// GetIndex returns an index without aliases.
func (w Whole) GetIndex(_ context.Context, name string) ([]target.Index, error) {
	return []target.Index{{Name: name, UUID: "uuid of " + name}}, w.do(func() error { return nil })
}

// Tune records that settings were changed.
func (w Whole) Tune(_ context.Context, names []string, _ tuning.Scope) error {
	return w.do(func() error { w.Created["tuned"] = len(names); return nil })
}

// Harden records that settings were changed.
func (w Whole) Harden(context.Context, []string) error {
	return w.do(func() error { w.Created["tuned"] = 1; return nil })
}

// Remember records that settings were changed.
func (w Whole) Remember(context.Context, []string) error {
	return w.do(func() error { w.Created["tuned"] = 1; return nil })
}

// Restore records that settings were restored.
func (w Whole) Restore(context.Context) ([]tuning.Restored, error) {
	return nil, w.do(func() error { delete(w.Created, "tuned"); return nil })
}

// WholeOutput is the destination of documents for a Whole.
type WholeOutput struct{ Whole }

// Durable returns true.
func (w WholeOutput) Durable() bool { return true }

// Commit does nothing.
func (w WholeOutput) Commit(context.Context) error { return w.do(func() error { return nil }) }

// Abort does nothing.
func (w WholeOutput) Abort() error { return nil }

// Open returns the output itself.
func (w WholeOutput) Open(context.Context, cms.ItemID, func() error) (engine.Output, error) {
	return w, w.do(func() error { return nil })
}

// Send stores the documents of a body.
func (w WholeOutput) Send(_ context.Context, body []byte, _ int) (bulk.Result, error) {
	return bulk.Result{}, w.do(func() error {
		for len(body) > 0 {
			action, rest, _ := bytes.Cut(body, []byte("\n"))
			source, next, _ := bytes.Cut(rest, []byte("\n"))
			var a struct{ Index bulk.Key }
			if err := json.Unmarshal(action, &a); err != nil {
				return err
			}
			if w.Docs[a.Index.Index] == nil {
				w.Docs[a.Index.Index] = map[string]string{}
			}
			w.Docs[a.Index.Index][a.Index.ID] = string(source)
			body = next
		}
		return nil
	})
}
