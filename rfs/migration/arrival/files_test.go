package arrival_test

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
	"github.com/rfsd/rfsd/rfs/destination/bulk"
	"github.com/rfsd/rfsd/rfs/destination/target"
	"github.com/rfsd/rfsd/rfs/migration/arrival"
	"github.com/rfsd/rfsd/rfs/operation/rollback"
)

const filesRemedy = "; rfsd verify --from names the documents; find the cause, such as a lost target node or ids that several documents have, then start a new session (--session-name) with --existing-documents overwrite, which sends everything again"

var errBroken = errors.New("broken")

// TestOfFiles_Compares compares what was sent from files with what their target indices hold: a with 5 documents, and b with 3.
func TestOfFiles_Compares(t *testing.T) {
	for _, c := range []struct {
		name     string
		change   func(k *cluster)
		targets  []string // nil: a
		others   []string
		sent     cms.Counts // 0: 5 documents
		existing bulk.Existing
		want     progress.Arrival
		own      int64 // operations; 0: they are not accounted for
		fails    string
	}{
		{name: "equal", want: progress.Arrival{Expected: 5, Found: 5, Lucene: 10, Operations: 5, Written: 5, Accounted: true}, own: 5},
		{name: "two targets", targets: []string{"a", "b"}, sent: indexed(8), want: progress.Arrival{Expected: 8, Found: 8, Lucene: 16, Operations: 8, Written: 8, Accounted: true}, own: 8},
		{name: "missing", sent: indexed(6), change: func(k *cluster) { k.did["a"] = target.Operations{Executed: 6} },
			want: progress.Arrival{Expected: 6, Found: 5, Lucene: 10, Operations: 6, Written: 6, Accounted: true, Problem: "the target has 5 documents in a, 6 were indexed: 1 are missing" + filesRemedy}, own: 6},
		{name: "missing, and an alias leads to it", sent: indexed(6), change: func(k *cluster) { k.aliases["a"], k.did["a"] = `{"all":{}}`, target.Operations{Executed: 6} },
			want: progress.Arrival{Expected: 6, Found: 5, Lucene: 10, Operations: 6, Written: 6, Accounted: true, Problem: "the target has 5 documents in a, 6 were indexed: 1 are missing" + filesRemedy}, own: 6},
		{name: "deleted by others", sent: indexed(6), change: func(k *cluster) {
			k.aliases["a"], k.did["a"] = `{"all":{}}`, target.Operations{Executed: 7, Deletes: 1}
		}, want: progress.Arrival{Expected: 6, Found: 5, Lucene: 10, Operations: 7, Deletes: 1, Written: 6, Accounted: true, Note: "1 documents fewer than were indexed: other clients have deleted documents meanwhile"}, own: 6},
		{name: "moved", sent: cms.Counts{Live: 7, Indexed: 7, Moved: 2}, want: progress.Arrival{Expected: 5, Found: 5, Lucene: 10, Operations: 5, Written: 5, Accounted: true}, own: 5},
		{name: "newer", existing: bulk.Newer, want: progress.Arrival{Expected: 5, Found: 5, Lucene: 10}},
		{name: "lost writes", change: func(k *cluster) { k.did["a"] = target.Operations{Executed: 3} },
			want: progress.Arrival{Expected: 5, Found: 5, Lucene: 10, Operations: 3, Written: 5, Accounted: true,
				Problem: "the target has lost writes of a that it had acknowledged: its shards have executed 3 operations, 5 of this session were acknowledged" + filesRemedy}, own: 5},
		{name: "others were there", targets: []string{"a", "b"}, others: []string{"b"}, sent: indexed(9), want: progress.Arrival{Expected: 9, Found: 8, Lucene: 16, Note: "not compared: b was there before this session"}},
		{name: "twenty others were there", others: numbered(20), want: progress.Arrival{Expected: 5, Found: 5, Lucene: 10, Note: "not compared: " + strings.Join(numbered(20), ", ") + " was there before this session"}},
		{name: "more others were there", others: numbered(22), want: progress.Arrival{Expected: 5, Found: 5, Lucene: 10, Note: "not compared: " + strings.Join(numbered(20), ", ") + " and 2 others was there before this session"}},
		{name: "gone", change: func(k *cluster) { k.fails["refresh a"] = &fault.StatusError{Status: 404} },
			want: progress.Arrival{Expected: 5, Gone: true, Problem: "refresh a: " + fault.Text(&fault.StatusError{Status: 404}) + "; 5 documents were sent to it"}},
		{name: "gone, and others were there", others: []string{"a"}, change: func(k *cluster) { k.fails["count a"] = &fault.StatusError{Status: 404} },
			want: progress.Arrival{Expected: 5, Gone: true, Problem: "count a: " + fault.Text(&fault.StatusError{Status: 404}) + "; 5 documents were sent to it"}},
		{name: "no permission", others: []string{"a"}, change: func(k *cluster) { k.fails["count a"] = fmt.Errorf("denied: %w", fault.ErrConfig) },
			want: progress.Arrival{Expected: 5, Uncounted: true, Note: "not counted: count a: denied"}},
		{name: "no permission for the Lucene documents", change: func(k *cluster) { k.fails["lucene a"] = fault.ErrConfig }, want: progress.Arrival{Expected: 5, Found: 5, Operations: 5, Written: 5, Accounted: true}, own: 5},
		{name: "no permission for the operations", change: func(k *cluster) { k.fails["operations a"] = fault.ErrConfig }, want: progress.Arrival{Expected: 5, Found: 5, Lucene: 10}},
		{name: "operations are unknown to the target", change: func(k *cluster) { k.fails["operations a"] = fault.ErrRejected }, want: progress.Arrival{Expected: 5, Found: 5, Lucene: 10}},
		{name: "the refresh fails", others: []string{"b"}, change: func(k *cluster) { k.fails["refresh a"] = errBroken }, fails: "refresh a: broken"},
		{name: "the count fails", others: []string{"b"}, change: func(k *cluster) { k.fails["count a"] = errBroken }, fails: "count a: broken"},
		{name: "the Lucene count fails", change: func(k *cluster) { k.fails["lucene a"] = errBroken }, fails: "Lucene documents of a: broken"},
		{name: "the operations fail", change: func(k *cluster) { k.fails["operations a"] = errBroken }, fails: "operations on a: broken"},
		{name: "the aliases fail", sent: indexed(6), change: func(k *cluster) { k.fails["index a"] = errBroken }, fails: "aliases of a: broken"},
		{name: "the aliases are not needed", change: func(k *cluster) { k.fails["index a"] = errBroken }, want: progress.Arrival{Expected: 5, Found: 5, Lucene: 10, Operations: 5, Written: 5, Accounted: true}, own: 5},
		{name: "the aliases cannot be read", sent: indexed(6), change: func(k *cluster) { k.aliases["a"] = "[" }, fails: "aliases of a: unexpected end of JSON input: unavailable"},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := newAudit().cluster
			k.holds("a", 5)
			k.holds("b", 3)
			if c.change != nil {
				c.change(k)
			}
			if c.targets == nil {
				c.targets = []string{"a"}
			}
			if c.sent == (cms.Counts{}) {
				c.sent = indexed(5)
			}
			is, accounted, err := arrival.OfFiles(t.Context(), k, c.targets, c.others, c.sent, c.existing, slog.New(slog.DiscardHandler))
			if c.fails != "" {
				if err == nil || err.Error() != c.fails || is.Note != "" || is.Problem != "" {
					t.Fatalf("%v, %+v", err, is)
				}
				return
			}
			if err != nil || is != c.want {
				t.Fatalf("%v\n%+v, want\n%+v", err, is, c.want)
			}
			var want []rollback.Own
			if c.own > 0 {
				want = []rollback.Own{{Targets: c.targets, Operations: c.own}}
			}
			if !slices.EqualFunc(accounted, want, func(a, b rollback.Own) bool {
				return slices.Equal(a.Targets, b.Targets) && a.Operations == b.Operations
			}) {
				t.Errorf("own: %+v, want %+v", accounted, want)
			}
		})
	}
}

// numbered returns names of indices.
func numbered(n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprint("index-", i))
	}
	return names
}

// TestCountAgain_Sums adds up what two indices hold.
func TestCountAgain_Sums(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	k := newAudit().cluster
	k.holds("a", 5)
	k.holds("b", 3)
	is, err := arrival.CountAgain(t.Context(), k, []string{"b", "a"}, log)
	if err != nil || *is != (progress.Arrival{Found: 8, Lucene: 16}) {
		t.Errorf("%+v, %v", is, err)
	}
	if want := []string{"refresh a", "count a", "refresh b", "count b"}; !slices.Equal(k.calls[:4], want) {
		t.Errorf("calls %q, want %q first", k.calls, want)
	}
	for call, text := range map[string]string{"refresh b": "refresh b: broken", "count b": "count b: broken", "lucene b": "Lucene documents of b: broken"} {
		k.fails = map[string]error{call: errBroken}
		if _, err := arrival.CountAgain(t.Context(), k, []string{"b", "a"}, log); !errors.Is(err, errBroken) || err.Error() != text {
			t.Errorf("%s: %v, want %s", call, err, text)
		}
	}
	k.fails = map[string]error{"lucene b": fault.ErrConfig}
	if is, err := arrival.CountAgain(t.Context(), k, []string{"b", "a"}, log); err != nil || *is != (progress.Arrival{Found: 8}) {
		t.Errorf("without the permission to read Lucene documents: %+v, %v", is, err)
	}
}
