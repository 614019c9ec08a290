package bulk

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/document/doc"
)

// shelf is a Finder: the documents of a target by id.
type shelf struct {
	docs    map[string]string
	routing string  // of each
	err     []error // of the first calls
	asked   []Key
}

func (s *shelf) Find(_ context.Context, keys []Key) ([]Found, error) {
	s.asked = append(s.asked, keys...)
	if len(s.err) > 0 {
		err := s.err[0]
		s.err = s.err[1:]
		if err != nil {
			return nil, err
		}
	}
	var out []Found
	for _, k := range keys {
		if d, ok := s.docs[k.ID]; ok {
			out = append(out, Found{Source: []byte(d), Routing: s.routing})
		} else {
			out = append(out, Found{})
		}
	}
	return out, nil
}

func conflict(pos int) Refusal {
	return Refusal{Pos: pos, Status: 409, Type: "version_conflict_engine_exception", Index: "behind"}
}

// TestDocumentsThatTheTargetHas sends three documents, {"n":0} to {"n":2}, of which the target has some.
func TestDocumentsThatTheTargetHas(t *testing.T) {
	conflicts := func(all ...Refusal) Result { return Result{Refused: all} }
	type answer struct {
		res Result
		err error
	}
	for name, c := range map[string]struct {
		existing  Existing
		sentBelow int64
		answers   []answer
		docs      map[string]string
		findErr   []error
		blind     bool // no Finder
		want      Counts
		asked     int
	}{
		"overwrite: a conflict is a failure": {existing: Overwrite, answers: []answer{{res: conflicts(conflict(1))}}, want: Counts{Live: 3, Indexed: 2, Failed: 1}},
		"the default is overwrite":           {answers: []answer{{res: conflicts(conflict(1))}}, want: Counts{Live: 3, Indexed: 2, Failed: 1}},
		"keep: what is there is kept, not compared": {existing: Keep, answers: []answer{{res: conflicts(conflict(0), conflict(2))}}, docs: map[string]string{"0": `{"n":0}`},
			want: Counts{Live: 3, Indexed: 1, Kept: 2}},
		"newer: a higher version is kept": {existing: Newer, sentBelow: 3, answers: []answer{{res: conflicts(conflict(0))}}, docs: map[string]string{"0": `{"n":0}`},
			want: Counts{Live: 3, Indexed: 2, Kept: 1}},
		"follow: a higher version is another client's": {existing: Follow, sentBelow: 3, answers: []answer{{res: conflicts(conflict(0))}}, docs: map[string]string{"0": `{"n":0}`},
			want: Counts{Live: 3, Indexed: 2, Failed: 1}},
		"keep: another 409 is a failure": {existing: Keep, answers: []answer{{res: conflicts(Refusal{Pos: 0, Status: 409, Type: "other_exception"})}}, want: Counts{Live: 3, Indexed: 2, Failed: 1}},
		"keep, range sent before: our copy is indexed, another document is kept": {existing: Keep, sentBelow: 3, answers: []answer{{res: conflicts(conflict(0), conflict(1), conflict(2))}},
			docs: map[string]string{"0": `{"n":0}`, "1": `{"n":"foreign"}`, "2": `{ "n" : 2 }`}, want: Counts{Live: 3, Indexed: 2, Kept: 1, Copies: 2}, asked: 3},
		"keep, range sent before in part: only that part is compared": {existing: Keep, sentBelow: 1, answers: []answer{{res: conflicts(conflict(0), conflict(1))}},
			docs: map[string]string{"0": `{"n":0}`, "1": `{"n":1}`}, want: Counts{Live: 3, Indexed: 2, Kept: 1, Copies: 1}, asked: 1},
		"keep, answer lost: our copies are indexed": {existing: Keep, answers: []answer{{err: fault.ErrUnavailable}, {res: conflicts(conflict(0), conflict(1))}},
			docs: map[string]string{"0": `{"n":0}`, "1": `{"n":"foreign"}`}, want: Counts{Live: 3, Indexed: 2, Kept: 1}, asked: 2},
		"keep, answer lost, then too large: halves are compared": {existing: Keep, answers: []answer{{err: fault.ErrUnavailable}, {err: ErrTooLarge}, {res: conflicts(conflict(0))}, {}},
			docs: map[string]string{"0": `{"n":0}`}, want: Counts{Live: 3, Indexed: 3}, asked: 1},
		"keep, refused for now: what another client wrote meanwhile is kept": {existing: Keep,
			answers: []answer{{res: conflicts(Refusal{Pos: 0, Status: 429})}, {res: conflicts(conflict(0))}}, docs: map[string]string{"0": `{"n":0}`}, want: Counts{Live: 3, Indexed: 2, Kept: 1}},
		"keep, failed inside the target: it may have arrived": {existing: Keep,
			answers: []answer{{res: conflicts(Refusal{Pos: 0, Status: 503})}, {res: conflicts(conflict(0))}}, docs: map[string]string{"0": `{"n":0}`}, want: Counts{Live: 3, Indexed: 3}, asked: 1},
		"keep, the comparison has no answer: it is asked again": {existing: Keep, sentBelow: 3, answers: []answer{{res: conflicts(conflict(1))}, {res: conflicts(conflict(0))}},
			docs: map[string]string{"1": `{"n":1}`}, findErr: []error{fault.ErrUnavailable}, want: Counts{Live: 3, Indexed: 3, Copies: 1}, asked: 2},
		"keep, documents may not be read: they are kept": {existing: Keep, sentBelow: 3, answers: []answer{{res: conflicts(conflict(1))}},
			docs: map[string]string{"1": `{"n":1}`}, findErr: []error{fault.ErrConfig}, want: Counts{Live: 3, Indexed: 2, Kept: 1}, asked: 1},
		"keep, nothing to compare with": {existing: Keep, sentBelow: 3, answers: []answer{{res: conflicts(conflict(1))}}, blind: true, want: Counts{Live: 3, Indexed: 2, Kept: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			var bodies []answer
			s := &target{answer: func(context.Context, []string, int) (Result, error) {
				a := c.answers[len(bodies)]
				bodies = append(bodies, a)
				return a.res, a.err
			}}
			found := &shelf{docs: c.docs, err: c.findErr}
			o := Options{Sender: s, Recorder: &records{}, Existing: c.existing, SentBelow: c.sentBelow, Finder: found, Pause: func(context.Context, time.Duration) error { return nil }}
			if c.blind {
				o.Finder = nil
			}
			l := New(t.Context(), o)
			for i := range 3 {
				d := &doc.Document{Ordinal: int64(i), Index: []byte("i"), ID: fmt.Append(nil, i), Source: fmt.Appendf(nil, `{"n":%d}`, i), Reduced: true}
				if err := l.Add(t.Context(), d); err != nil {
					t.Fatal(err)
				}
			}
			if err := l.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
			w, is := l.Settled()
			c.want.Reduced, c.want.Bytes = c.want.Indexed, 21
			is.Requests, is.Retries, is.Resent = 0, 0, 0
			if w != 3 || is != c.want {
				t.Errorf("watermark %d, %+v, want %+v", w, is, c.want)
			}
			if len(found.asked) != c.asked || slices.ContainsFunc(found.asked, func(k Key) bool { return k.Index != "behind" }) {
				t.Errorf("asked for %v, want %d documents of the index that the target names", found.asked, c.asked)
			}
			if len(bodies) != len(c.answers) {
				t.Errorf("%d requests, want %d", len(bodies), len(c.answers))
			}
		})
	}
}

// TestLoader_DeletionsThatComeAfterNewerDocuments: of three deletions of a snapshot that is followed the target has a newer document for
// one, and none for another.
func TestLoader_DeletionsThatComeAfterNewerDocuments(t *testing.T) {
	s := &afterwards{}
	l := New(t.Context(), Options{Sender: s, Recorder: &records{}, Existing: Follow})
	for i := range 3 {
		if err := l.Add(t.Context(), &doc.Document{Ordinal: int64(i), Index: []byte("i"), ID: fmt.Append(nil, i), Version: 6, Delete: true}); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if w, is := l.Settled(); w != 3 || is != (Counts{Live: 3, Indexed: 2, Kept: 1, Deleted: 3}) {
		t.Errorf("watermark %d, %+v", w, is)
	}
	if line := `{"delete":{"_index":"i","_id":"0","version":6,"version_type":"external_gte"}}`; !strings.Contains(string(s.all), line+"\n") {
		t.Errorf("sent %q", s.all)
	}
}

// afterwards refuses the second document of a body, because it has a newer one.
type afterwards struct{ bodies }

func (s *afterwards) Send(ctx context.Context, body []byte, n int) (Result, error) {
	_, err := s.bodies.Send(ctx, body, n)
	return Result{Refused: []Refusal{conflict(1)}}, err
}

func TestActionLinesByWhatExists(t *testing.T) {
	d := doc.Document{Index: []byte("i"), ID: []byte("1"), Routing: []byte("r"), Version: 1 << 53}
	for existing, want := range map[Existing]string{
		"":        `{"index":{"_index":"i","_id":"1","routing":"r"}}`,
		Overwrite: `{"index":{"_index":"i","_id":"1","routing":"r"}}`,
		Keep:      `{"create":{"_index":"i","_id":"1","routing":"r"}}`,
		Follow:    `{"index":{"_index":"i","_id":"1","routing":"r","version":9007199254740992,"version_type":"external_gte"}}`,
		Newer:     `{"index":{"_index":"i","_id":"1","routing":"r","version":9007199254740992,"version_type":"external_gte"}}`,
	} {
		got := line(t, lines{op: existing.op(), version: existing.versioned()}, &d)
		if got != want {
			t.Errorf("%q: %s, want %s", existing, got, want)
		}
		if a, err := parseAction([]byte(got)); err != nil || a.ID != "1" || a.Routing != "r" || a.Index != "i" {
			t.Errorf("%q: read back as %+v, %v", existing, a, err)
		}
	}
}
