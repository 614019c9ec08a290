package oscms_test

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/coordination/cms/oscms"
)

// scrolls counts the open scrolls, and stops the reader at a given request: the answer to a request whose context has ended is lost.
type scrolls struct {
	flood
	stop         context.CancelFunc
	at           string // method of the request
	items        int    // in the first page
	open, opened int
}

func (s *scrolls) Do(ctx context.Context, method, path string, query url.Values, body []byte) (int, []byte, error) {
	opening, closing := query.Get("scroll") != "", method == http.MethodDelete
	if !opening && strings.HasSuffix(path, "/_search") {
		return http.StatusOK, page(s.items), nil
	}
	if !opening && !closing {
		return s.flood.Do(ctx, method, path, query, body)
	}
	if s.at == method {
		s.stop()
	}
	if closing && ctx.Err() == nil {
		s.open--
		return http.StatusOK, []byte(`{}`), nil
	}
	if opening {
		s.open++
		s.opened++
	}
	if err := ctx.Err(); err != nil {
		return 0, nil, err
	}
	return http.StatusOK, page(1), nil
}

// page returns an answer with n items.
func page(n int) []byte {
	return []byte(`{"_scroll_id":"x","hits":{"hits":[` + strings.TrimSuffix(strings.Repeat(`{"_id":"a","_source":{}},`, n), ",") + `]}}`)
}

// TestAScrollIsOpenedForMoreThanAPage reads sessions with few items and with many.
func TestAScrollIsOpenedForMoreThanAPage(t *testing.T) {
	for _, c := range []struct{ items, read, opened int }{{0, 0, 0}, {999, 999, 0}, {1000, 1, 1}} {
		client := &scrolls{items: c.items}
		s, err := oscms.Open(t.Context(), oscms.Config{Client: client, Session: "s", Mode: oscms.CAS})
		if err != nil {
			t.Fatal(err)
		}
		read := 0
		for _, err := range s.Scan(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			read++
		}
		if read != c.read || client.opened != c.opened || client.open != 0 {
			t.Errorf("a page of %d: %d items read, %d scrolls opened, %d left open, want %d, %d and none", c.items, read, client.opened, client.open, c.read, c.opened)
		}
	}
}

// TestAScrollIsClosedThoughItsReaderIsStopped stops a reader of items while its scroll is being opened and closed. A node allows 500
// scrolls by default, and a forgotten one counts for minutes.
func TestAScrollIsClosedThoughItsReaderIsStopped(t *testing.T) {
	for _, at := range []string{"", http.MethodPost, http.MethodDelete} {
		t.Run("stopped at "+at, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			client := &scrolls{stop: cancel, at: at, items: 1000}
			s, err := oscms.Open(ctx, oscms.Config{Client: client, Session: "s", Mode: oscms.CAS})
			if err != nil {
				t.Fatal(err)
			}
			read := 0
			for _, err = range s.Scan(ctx) {
				if err == nil {
					read++
				}
			}
			if client.open != 0 {
				t.Errorf("%d scrolls are left open", client.open)
			}
			if at == http.MethodPost && !errors.Is(err, context.Canceled) || at != http.MethodPost && (err != nil || read != 1) {
				t.Errorf("%d items read, %v", read, err)
			}
		})
	}
}
