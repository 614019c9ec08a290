package oscms_test

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"testing"

	"github.com/rfsd/rfsd/rfs/coordination/cms/oscms"
)

// scrolls counts the open scrolls, and stops the reader at a given request: the answer to a request whose context has ended is lost.
type scrolls struct {
	flood
	stop context.CancelFunc
	at   string // method of the request
	open int
}

func (s *scrolls) Do(ctx context.Context, method, path string, query url.Values, body []byte) (int, []byte, error) {
	opening, closing := query.Get("scroll") != "", method == http.MethodDelete
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
	}
	if err := ctx.Err(); err != nil {
		return 0, nil, err
	}
	return http.StatusOK, []byte(`{"_scroll_id":"x","hits":{"hits":[{"_id":"a","_source":{}}]}}`), nil
}

// TestAScrollIsClosedThoughItsReaderIsStopped stops a reader of items while its scroll is being opened and closed. A node allows 500
// scrolls by default, and a forgotten one counts for minutes.
func TestAScrollIsClosedThoughItsReaderIsStopped(t *testing.T) {
	for _, at := range []string{"", http.MethodPost, http.MethodDelete} {
		t.Run("stopped at "+at, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			client := &scrolls{stop: cancel, at: at}
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
