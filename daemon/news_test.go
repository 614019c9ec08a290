package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rfsd/rfsd/daemon/metrics"
	"github.com/rfsd/rfsd/daemon/status"
)

type fakeSink struct {
	mu   sync.Mutex
	got  []status.Event
	fail int           // so many deliveries fail first
	hang chan struct{} // deliveries wait for it, or for their context
}

func (s *fakeSink) Name() string { return "fake" }

func (s *fakeSink) Deliver(ctx context.Context, e status.Event) error {
	if s.hang != nil {
		select {
		case <-s.hang:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail > 0 {
		s.fail--
		return errors.New("not now")
	}
	s.got = append(s.got, e)
	return nil
}

func (s *fakeSink) events() []status.Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]status.Event(nil), s.got...)
}

func TestEventsOfTheStoreReachTheSinksOnceAndOldOnesNever(t *testing.T) {
	store := newStore(t, 1)
	if _, err := store.Event(t.Context(), "old", "failed", "before the node"); err != nil {
		t.Fatal(err)
	}
	sink := &fakeSink{fail: 1}
	n := newNewsroom("n1", []Sink{sink}, metrics.NewRegistry(nil), discard())
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { n.run(ctx) })
	n.read(ctx, store, eventsEvery)
	if _, err := store.Event(t.Context(), "bG9ncw__0__0", "failed", "checksum"); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		n.due = time.Time{}
		n.read(ctx, store, eventsEvery)
	}
	n.add("worker", "worker_panic", "index out of range")
	until(t, "both new events arrive, after a failure", func() bool { return len(sink.events()) == 2 })
	got := sink.events()
	if got[0].Subject != "bG9ncw__0__0" || got[0].Code != "failed" || got[0].Detail != "checksum" || got[1].Node != "n1" {
		t.Errorf("%+v", got)
	}
	if all := n.last(0); len(all) != 3 || all[0].Subject != "old" {
		t.Errorf("%+v", all)
	}
	if len(n.last(2)) != 2 {
		t.Error("the limit is not kept")
	}
	cancel()
	wg.Wait()
}

func TestASinkThatHangsHoldsUpNobody(t *testing.T) {
	sink := &fakeSink{hang: make(chan struct{})}
	registry := metrics.NewRegistry(nil)
	n := newNewsroom("n1", []Sink{sink}, registry, discard())
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); n.run(ctx) }()
	begin := time.Now()
	for range 3 * queuedNews {
		n.add("x", "y", "z")
	}
	if took := time.Since(begin); took > time.Second {
		t.Errorf("adding took %v", took)
	}
	cancel()
	close(sink.hang)
	<-done
	rec := httptest.NewRecorder()
	registry.Handler().ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if text := rec.Body.String(); !strings.Contains(text, `rfsd_events_sent_total{result="dropped",sink="fake"}`) || !strings.Contains(text, `result="sent"`) {
		t.Errorf("dropped and sent events are not counted:\n%s", text)
	}
}

func TestAWebhookGetsTheEventAndItsURLStaysSecret(t *testing.T) {
	var got status.Event
	answer := http.StatusNoContent
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil || r.Header.Get("Content-Type") != "application/json" || json.Unmarshal(b, &got) != nil {
			t.Errorf("%s, %v", b, err)
		}
		w.WriteHeader(answer)
	}))
	w := NewWebhook(srv.URL + "/canary")
	if err := w.Deliver(t.Context(), status.Event{Subject: "s", Code: "c"}); err != nil || got.Subject != "s" {
		t.Errorf("%+v, %v", got, err)
	}
	for _, answer = range []int{500, 302, 403} {
		if err := w.Deliver(t.Context(), status.Event{}); err == nil || strings.Contains(err.Error(), "canary") {
			t.Errorf("%d: %v", answer, err)
		}
	}
	srv.Close()
	if err := w.Deliver(t.Context(), status.Event{}); err == nil || strings.Contains(err.Error(), "canary") {
		t.Errorf("%v", err)
	}
}

func TestACommandGetsTheEventAndNoSecrets(t *testing.T) {
	t.Setenv("RFS_TARGET_PASSWORD", "canary")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "canary")
	out := filepath.Join(t.TempDir(), "out")
	c := NewCommand([]string{"/bin/sh", "-c", `cat > "$0"; env >> "$0"`, out})
	if err := c.Deliver(t.Context(), status.Event{Subject: "s; rm -rf /", Code: "c"}); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(out)
	if err != nil || !strings.Contains(string(b), `"subject":"s; rm -rf /"`) || strings.Contains(string(b), "canary") {
		t.Errorf("%s, %v", b, err)
	}
	if err := NewCommand([]string{"/bin/false"}).Deliver(t.Context(), status.Event{}); err == nil {
		t.Error("a command that fails is taken for delivered")
	}
}

func TestTheLogRingKeepsTheLastLinesAsJSON(t *testing.T) {
	r := NewLogRing(3)
	if _, err := r.Write([]byte("{\"n\":1}\n{\"n\":2}\n\n{\"n\":3}\n")); err != nil {
		t.Fatal(err)
	}
	r.Add([]byte("panic: \"x\""))
	r.Add([]byte(strings.Repeat("y", 2*maxLogLine)))
	got := r.Last(0)
	if len(got) != 3 || string(got[0]) != `{"n":3}` || !strings.Contains(string(got[1]), `panic: \"x\"`) || len(got[2]) > maxLogLine+200 {
		t.Errorf("%s", got)
	}
	for _, line := range got {
		if !json.Valid(line) {
			t.Errorf("%s", line)
		}
	}
	if len(r.Last(1)) != 1 {
		t.Error("the limit is not kept")
	}
}
