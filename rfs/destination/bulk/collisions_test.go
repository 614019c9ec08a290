package bulk

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/document/doc"
)

// TestDocumentsOfOneIDCollide sends documents 0 to 2 to an index whose shard already has a document with the id of the second.
func TestDocumentsOfOneIDCollide(t *testing.T) {
	replaced := func(copies int64) Result { return Result{Replaced: []Replacement{{Pos: 1, Copies: copies}}} }
	kept := Result{Refused: []Refusal{conflict(1)}}
	there := func(routing string) *shelf {
		return &shelf{docs: map[string]string{"1": `{"n":1}`}, routing: routing}
	}
	for name, c := range map[string]struct {
		opts    Options
		index   string // of the documents; "": i
		answers []any  // Result or error
		found   *shelf
		want    Counts
	}{
		"replaced in an index of this session": {opts: Options{Own: true, First: true}, answers: []any{replaced(1)},
			want: Counts{Indexed: 2, Failed: 1, Rewrites: 1}},
		"replaced twice": {opts: Options{Own: true, First: true}, answers: []any{replaced(2)},
			want: Counts{Indexed: 2, Failed: 1, Rewrites: 1}},
		"replaced where ids of the session are unique": {opts: Options{Own: true, First: true, Distinct: true}, answers: []any{replaced(1)},
			want: Counts{Indexed: 2, Failed: 1, Rewrites: 1}},
		"replaced by its own repetition": {opts: Options{Own: true, First: true}, answers: []any{fault.ErrUnavailable, replaced(1)},
			want: Counts{Indexed: 3, Rewrites: 1}},
		"replaced by more than its own repetition": {opts: Options{Own: true, First: true}, answers: []any{fault.ErrUnavailable, replaced(2)},
			want: Counts{Indexed: 2, Failed: 1, Rewrites: 1}},
		"replaced after an earlier lease": {opts: Options{Own: true}, answers: []any{replaced(1)},
			want: Counts{Indexed: 3, Copies: 1, Rewrites: 1}},
		"replaced in an index that was there before": {opts: Options{First: true}, answers: []any{replaced(1)},
			want: Counts{Indexed: 3, Copies: 1, Rewrites: 1}},
		"replaced in an index that rules name": {opts: Options{Own: true, First: true}, index: "other", answers: []any{replaced(1)},
			want: Counts{Indexed: 3, Copies: 1, Rewrites: 1}},
		"ids that come again by nature": {opts: Options{Own: true, First: true, Ordered: true}, answers: []any{replaced(1)},
			want: Counts{Indexed: 3}},
		"kept beside one of another routing": {opts: Options{Own: true, Existing: Keep}, answers: []any{kept}, found: there("r"),
			want: Counts{Indexed: 2, Failed: 1}},
		"kept beside one of another routing and of a higher version": {opts: Options{Own: true, Existing: Newer}, answers: []any{kept}, found: there("r"),
			want: Counts{Indexed: 2, Failed: 1}},
		"kept beside one of another client": {opts: Options{Own: true, Existing: Keep}, answers: []any{kept}, found: there(""),
			want: Counts{Indexed: 2, Kept: 1}},
		"kept in an index that was there before": {opts: Options{Existing: Keep}, answers: []any{kept}, found: there("r"),
			want: Counts{Indexed: 2, Kept: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			calls := 0
			lost := &records{}
			c.opts.Sender = &target{answer: func(context.Context, []string, int) (Result, error) {
				calls++
				if err, failed := c.answers[calls-1].(error); failed {
					return Result{}, err
				}
				return c.answers[calls-1].(Result), nil
			}}
			c.opts.Recorder, c.opts.Targets, c.opts.Breaker = lost, []string{"i"}, NewBreaker(0)
			c.opts.Pause = func(context.Context, time.Duration) error { return nil }
			if c.found != nil {
				c.opts.Finder = c.found
			}
			index := "i"
			if c.index != "" {
				index = c.index
			}
			l := New(t.Context(), c.opts)
			for i := range 3 {
				if err := l.Add(t.Context(), &doc.Document{Ordinal: int64(i), Index: []byte(index), ID: fmt.Append(nil, i), Source: fmt.Appendf(nil, `{"n":%d}`, i)}); err != nil {
					t.Fatal(err)
				}
			}
			if err := l.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
			_, is := l.Settled()
			c.want.Live, c.want.Bytes = 3, 21
			is.Requests, is.Retries, is.Resent = 0, 0, 0
			if is != c.want {
				t.Errorf("%+v, want %+v", is, c.want)
			}
			if n := len(lost.synced); int64(n) != c.want.Failed {
				t.Fatalf("%d documents recorded", n)
			}
			reason := doc.Collision
			if c.opts.Distinct {
				reason = doc.Foreign
			}
			for _, f := range lost.synced {
				if f.ID != "1" || f.Reason != reason || f.Status != 0 || f.Ordinal != 1 || string(f.Source) != `{"n":1}` {
					t.Errorf("%+v", f)
				}
			}
		})
	}
}
