package lucene

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"
)

// records returns what a reader of a range returns, one line each.
func records(t *testing.T, c *Commit, opt ReadOptions) (out []string) {
	t.Helper()
	r := c.Reader(opt)
	defer r.Close()
	for {
		rec, err := r.Next(t.Context())
		if errors.Is(err, io.EOF) {
			return append(out, fmt.Sprint(r.Checks(r.to)))
		}
		if err != nil {
			t.Fatal(err)
		}
		line := fmt.Sprintf("%d %s %d %q %.40q", rec.Ordinal, rec.Segment.Name, rec.DocID, rec.ID, rec.Source)
		if v := rec.Values; v != nil {
			children, whole := v.Children()
			line += fmt.Sprint(" nested ", v.Nested(), len(children), whole)
		}
		out = append(out, line)
	}
}

// TestWhatIsNotHeldIsReadAgain: a commit of which nothing may be held has the same documents, counts, roots and checksums,
// wherever a reader starts.
func TestWhatIsNotHeldIsReadAgain(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	unheld := 0
	for name, dir := range testShards(t) {
		dir = dir.without(documentsFile)
		for _, values := range []bool{false, true} {
			want, err := Open(t.Context(), dir, Options{Values: values})
			if err != nil {
				t.Fatal(err)
			}
			got, err := Open(t.Context(), dir, Options{Values: values, Held: 1})
			if err != nil {
				t.Fatal(name, err)
			}
			for i, s := range got.Segments {
				w := want.Segments[i]
				if s.LiveCount != w.LiveCount || s.DelCount != w.DelCount || s.SoftDelCount != w.SoftDelCount {
					t.Errorf("%s: %+v, want %+v", name, s, w)
				}
				if s.live != nil || s.roots.docs != nil || s.fields != nil || s.infos != nil || (s.unheld == nil) != (w.live == nil && w.roots.docs == nil) {
					t.Errorf("%s: segment %s: %+v", name, s.Name, s)
				}
				if s.unheld != nil {
					unheld++
				}
			}
			for try := range int64(4) {
				opt := ReadOptions{Values: values}
				if try > 0 {
					opt.From = rnd.Int64N(want.MaxOrdinal + 1)
					opt.To = opt.From + rnd.Int64N(want.MaxOrdinal-opt.From+1)
				}
				a, b := records(t, want, opt), records(t, got, opt)
				if fmt.Sprint(a) != fmt.Sprint(b) {
					t.Errorf("%s, values %t, %d to %d:\n%.600s\n%.600s", name, values, opt.From, opt.To, fmt.Sprint(b), fmt.Sprint(a))
				}
			}
		}
	}
	if unheld < 20 {
		t.Errorf("%d segments only have deletions", unheld)
	}
}
