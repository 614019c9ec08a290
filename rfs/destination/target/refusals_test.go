package target

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// answering answers with statuses, one after the other; 0 is no answer.
type answering []int

func (a *answering) RoundTrip(*http.Request) (*http.Response, error) {
	status := (*a)[0]
	*a = (*a)[1:]
	if status == 0 {
		return nil, errors.New("no route to host")
	}
	return &http.Response{StatusCode: status}, nil
}

// TestRefusalsLastUntilTheNextAnswer sends a request each second.
func TestRefusalsLastUntilTheNextAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &Refusals{}
		all := r.Wrap(&answering{200, 429, 429, 503, 200, 0, 404, 500, 400, 201, 429})
		for _, want := range []time.Duration{0, 0, 1, 2, 3, 3, 4, 4, 4, 4, 4} {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost", nil)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = all.RoundTrip(req) //nolint:bodyclose // there is none
			if got := r.Total(); got != want*time.Second {
				t.Errorf("refused for %v, want %d s", got, want)
			}
			time.Sleep(time.Second)
		}
		if got := r.Total(); got != 5*time.Second {
			t.Errorf("while it refuses: %v", got)
		}
		stopped, cancel := context.WithCancel(t.Context())
		cancel()
		req, err := http.NewRequestWithContext(stopped, http.MethodGet, "http://localhost", nil)
		if err != nil {
			t.Fatal(err)
		}
		other := &Refusals{}
		_, _ = other.Wrap(&answering{0}).RoundTrip(req) //nolint:bodyclose // there is none
		time.Sleep(time.Second)
		if got := other.Total(); got != 0 {
			t.Errorf("of a request that was given up: %v", got)
		}
	})
}
