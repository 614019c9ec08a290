package oscms_test

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/oscms"
)

// flood answers bulk requests with many items, and other requests as a cluster with a known session.
type flood struct{ items string }

func (f flood) Do(_ context.Context, _, path string, _ url.Values, _ []byte) (int, []byte, error) {
	switch {
	case strings.HasSuffix(path, "_bulk"):
		return http.StatusOK, []byte(`{"errors":false,"items":[` + f.items + `]}`), nil
	case strings.HasSuffix(path, "_settings"):
		index, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
		return http.StatusOK, []byte(`{"` + index + `":{"settings":{"index":{"uuid":"u"}}}}`), nil
	case strings.Contains(path, "/_doc/"):
		return http.StatusOK, []byte(`{"found":true,"_source":{"id":"incarnation","kind":"incarnation","body":{"uuid":"u"}}}`), nil
	}
	return http.StatusOK, []byte(`{}`), nil
}

// TestAnswersToCreatedItemsAreBounded: a store may answer with more than was requested.
func TestAnswersToCreatedItemsAreBounded(t *testing.T) {
	for name, c := range map[string]struct {
		items   string
		created int
		want    error
	}{
		"one for one":        {`{"create":{"status":201}}`, 1, nil},
		"two for one":        {`{"create":{"status":201}},{"create":{"status":201}}`, 0, fault.ErrUnavailable},
		"a megabyte for one": {strings.Repeat(`{"a":{}},`, 1<<17) + `{}`, 0, fault.ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := oscms.Open(t.Context(), oscms.Config{Client: flood{c.items}, Session: "s", Mode: oscms.CAS})
			if err != nil {
				t.Fatal(err)
			}
			created, err := s.Create(t.Context(), []cms.Item{{ID: "x"}})
			if created != c.created || !errors.Is(err, c.want) {
				t.Errorf("%d, %v", created, err)
			}
			if strings.HasPrefix(name, "a megabyte") && !strings.Contains(err.Error(), "bytes, more than") {
				t.Errorf("not refused by its length: %v", err)
			}
		})
	}
}
