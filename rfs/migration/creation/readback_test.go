package creation

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/testing/creationtest"
)

// answering is a target that answers every request for an index in one way.
type answering struct {
	status int
	body   string
	err    error
}

func (a answering) Do(context.Context, string, string, url.Values, []byte) (int, []byte, error) {
	return a.status, []byte(a.body), a.err
}

func TestACreatedIndexIsReadBack(t *testing.T) {
	const asked = `{"mappings":{"properties":{"a":{"type":"text"}}}}`
	for _, c := range []struct {
		name string
		to   answering
		want string // in the only difference, or in the log after "log: "; empty: neither
	}{
		{"as it was asked for", answering{200, `{"logs":{"mappings":{"properties":{"a":{"type":"text"}}},"settings":{"index":{}},"aliases":{}}}`, nil}, ""},
		{"with a field of a template", answering{200, `{"logs":{"mappings":{"properties":{"a":{"type":"text"},"b":{"type":"keyword"}}},"settings":{"index":{}},"aliases":{}}}`, nil}, "b"},
		{"it is gone", answering{404, `{"error":{}}`, nil}, "log: status 404"},
		{"no answer", answering{err: fault.ErrUnavailable}, "log: unavailable"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out bytes.Buffer
			x := &Indices{Requester: c.to, Log: slog.New(slog.NewTextHandler(&out, nil))}
			found := x.readBack(t.Context(), map[string][]byte{"logs": []byte(asked)}, nil)
			words, inLog := strings.CutPrefix(c.want, "log: ")
			switch {
			case inLog:
				if len(found) != 0 || !strings.Contains(out.String(), "could not be read back") || !strings.Contains(out.String(), words) {
					t.Errorf("%+v, log %s; want %s", found, out.String(), words)
				}
			case c.want == "":
				if len(found) != 0 || out.Len() != 0 {
					t.Errorf("%+v, log %s", found, out.String())
				}
			default:
				if len(found) != 1 || !strings.Contains(found[0].Path, words) {
					t.Errorf("%+v, want %s", found, words)
				}
			}
		})
	}
}

func TestAbsentNamesWhatTheTargetLacks(t *testing.T) {
	on := creationtest.NewIndices()
	on.Bodies["b"] = "{}"
	got, err := (&Indices{Cluster: on}).Absent(t.Context(), []string{"a", "b", "c"})
	if err != nil || !slices.Equal(got, []string{"a", "c"}) {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := (&Indices{Cluster: unasked{on}}).Absent(t.Context(), []string{"a"}); !errors.Is(err, fault.ErrUnavailable) || got != nil {
		t.Errorf("%v, %v", got, err)
	}
}

// unasked does not say which indices it has.
type unasked struct{ *creationtest.Indices }

func (unasked) IndexExists(context.Context, string) (bool, error) {
	return false, fault.ErrUnavailable
}
