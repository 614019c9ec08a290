package failed

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"

	"github.com/rfsd/rfsd/rfs/destination/bulk"
	"github.com/rfsd/rfsd/rfs/destination/failed/classes"
	"github.com/rfsd/rfsd/rfs/document/doc"
)

// maxSums limits the pairs of index and class that a Watched counts separately. It counts all others under "".
const maxSums = 2000

// Sum counts the failed documents of one target index and class.
type Sum struct {
	Index  string
	Class  string
	Reason doc.Reason // of the first document
	Remedy string
	Count  int64
}

// Watched is a Recorder that logs failures and counts them by index and class. The log never contains ids, or messages of the target,
// which quote values. It is safe for concurrent use.
type Watched struct {
	bulk.Recorder

	Log *slog.Logger
	// Note stores the sums, largest first. It is called before the first document of an index and class is recorded,
	// then whenever the number of failures has doubled, and by Flush.
	Note func(ctx context.Context, sums []Sum) error

	mu    sync.Mutex
	sums  map[[2]string]*Sum // by index and class
	class map[string]*watched
	total int64
	noted int64 // total at the last Note
}

// watched counts the failures of a class for the log.
type watched struct {
	count   int64
	next    int64 // count at which it is logged again
	indices map[string]bool
}

// Record records failures. It logs the first of each class, then each power of ten.
func (w *Watched) Record(ctx context.Context, failures []doc.Failure) error {
	if err := w.watch(ctx, failures); err != nil {
		return err
	}
	return w.Recorder.Record(ctx, failures)
}

func (w *Watched) watch(ctx context.Context, failures []doc.Failure) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.sums == nil {
		w.sums, w.class = map[[2]string]*Sum{}, map[string]*watched{}
	}
	first := false
	for i := range failures {
		f := &failures[i]
		c := classes.Of(f.Reason, f.Detail)
		key := [2]string{f.Index, c.Name}
		sum := w.sums[key]
		if sum == nil && len(w.sums) >= maxSums {
			key = [2]string{}
			sum = w.sums[key]
		}
		if sum == nil {
			first, sum = true, &Sum{}
			if key != [2]string{} {
				*sum = Sum{Index: f.Index, Class: c.Name, Reason: f.Reason, Remedy: c.For(f.Index, f.Detail)}
			}
			w.sums[key] = sum
		}
		sum.Count++
		w.total++
		w.log(ctx, f, c)
	}
	if !first && w.total < 2*w.noted {
		return nil
	}
	return w.note(ctx)
}

// log logs the first document of a class, and the count at each power of ten.
func (w *Watched) log(ctx context.Context, f *doc.Failure, c classes.Class) {
	is := w.class[c.Name]
	if is == nil {
		is = &watched{next: 10, indices: map[string]bool{}}
		w.class[c.Name] = is
		w.Log.WarnContext(ctx, "a document failed", "index", f.Index, "shard", f.Shard, "ordinal", f.Ordinal, "class", c.Name, "reason", string(f.Reason), "remedy", c.For(f.Index, f.Detail))
	}
	if len(is.indices) < maxSums {
		is.indices[f.Index] = true
	}
	if is.count++; is.count == is.next {
		is.next *= 10
		w.Log.WarnContext(ctx, "documents failed", "class", c.Name, "documents", is.count, "indices", len(is.indices))
	}
}

// note passes the sums to Note.
func (w *Watched) note(ctx context.Context) error {
	all := make([]Sum, 0, len(w.sums))
	for _, s := range w.sums {
		all = append(all, *s)
	}
	slices.SortFunc(all, func(a, b Sum) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Index, b.Index), cmp.Compare(a.Class, b.Class))
	})
	if err := w.Note(ctx, all); err != nil {
		return err
	}
	w.noted = w.total
	return nil
}

// Flush calls Note if documents have failed since its last call.
func (w *Watched) Flush(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.total == w.noted {
		return nil
	}
	return w.note(ctx)
}
