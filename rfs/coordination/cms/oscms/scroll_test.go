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
	items        int    // in the store
	plain        int    // searches without a scroll
	open, opened int
}

func (s *scrolls) Do(ctx context.Context, method, path string, query url.Values, body []byte) (int, []byte, error) {
	opening, closing := query.Get("scroll") != "", method == http.MethodDelete
	switch {
	case !opening && strings.HasSuffix(path, "/_search"):
		s.plain++
		return http.StatusOK, page(s.items), nil
	case method == http.MethodPost && path == "/_search/scroll":
		return http.StatusOK, page(0), nil
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
	return http.StatusOK, page(s.items), nil
}

// page returns an answer with n items.
func page(n int) []byte {
	return []byte(`{"_scroll_id":"x","hits":{"hits":[` + strings.TrimSuffix(strings.Repeat(`{"_id":"a","_source":{}},`, n), ",") + `]}}`)
}

// TestAScrollIsOpenedForMoreThanAPage reads sessions with few items and with many, repeatedly. The first page of many items is read twice
// only by the first reader.
func TestAScrollIsOpenedForMoreThanAPage(t *testing.T) {
	for _, c := range []struct {
		name   string
		reads  []int // items in the store at each read
		plain  int   // searches without a scroll
		opened int
	}{
		{"none", []int{0, 0}, 2, 0},
		{"less than a page", []int{999, 999}, 2, 0},
		{"a page", []int{1000, 1000, 1000}, 1, 3},
		{"more and more", []int{999, 1000, 1000}, 2, 2},
		{"less again", []int{1000, 999, 999, 1000}, 3, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			client := &scrolls{}
			s, err := oscms.Open(t.Context(), oscms.Config{Client: client, Session: "s", Mode: oscms.CAS})
			if err != nil {
				t.Fatal(err)
			}
			for _, client.items = range c.reads {
				read := 0
				for _, err := range s.Scan(t.Context()) {
					if err != nil {
						t.Fatal(err)
					}
					read++
				}
				if read != client.items {
					t.Errorf("%d of %d items read", read, client.items)
				}
			}
			if client.plain != c.plain || client.opened != c.opened || client.open != 0 {
				t.Errorf("%d searches, %d scrolls opened, %d left open, want %d, %d and none", client.plain, client.opened, client.open, c.plain, c.opened)
			}
		})
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
			if at == http.MethodPost && !errors.Is(err, context.Canceled) || at != http.MethodPost && (err != nil || read != 1000) {
				t.Errorf("%d items read, %v", read, err)
			}
		})
	}
}
