package wiring

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/migration/phase"
)

// connKey is the key of a request's connection in its context.
type connKey struct{}

// TestRequestsToTheStoreHaveConnectionsOfTheirOwn: documents and the state of the work go to one cluster. While every bulk
// request hangs the store is asked all the same, and never over a connection that has carried documents.
func TestRequestsToTheStoreHaveConnectionsOfTheirOwn(t *testing.T) {
	const hanging = 4
	release := make(chan struct{})
	var mu sync.Mutex
	bulks, others := map[net.Conn]int{}, map[net.Conn]int{} // connections by what they carried
	under, after := 0, 0
	changed := sync.NewCond(&mu)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn := r.Context().Value(connKey{}).(net.Conn)
		bulk := strings.HasSuffix(r.URL.Path, "/_bulk")
		mu.Lock()
		if bulk {
			bulks[conn]++
			under++
		} else if under > 0 {
			others[conn]++
			if under > 1 {
				after++
			}
		}
		hangs := under > 1
		changed.Broadcast()
		mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		switch {
		case bulk:
			if hangs { // the first is answered, so that a connection of documents is idle
				<-release
			}
			fmt.Fprint(w, `{"took":1,"errors":false,"items":[{"index":{"_index":"i","_id":"1","status":201}}]}`)
		case r.URL.Path == "/":
			fmt.Fprint(w, `{"cluster_uuid":"u","version":{"distribution":"opensearch","number":"2.19.4"}}`)
		default:
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"error":{"type":"x","reason":"nothing here"},"status":404}`)
		}
	}))
	s.Config.ConnContext = func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connKey{}, c) }
	s.Start()
	defer s.Close()
	o, err := parsedMigration(t, "--repo-uri", "/repo", "--snapshot-name", "s", "--target-host", s.URL, "--max-connections", fmt.Sprint(hanging))
	if err != nil {
		t.Fatal(err)
	}
	destination, client, done, err := openDestination(t.Context(), o, &phase.Session{Log: slog.New(slog.DiscardHandler)}, NewResources(o))
	if err != nil {
		t.Fatal(err)
	}
	defer done()         //nolint:errcheck // nothing was written through it
	defer client.Close() //nolint:errcheck // nothing was written through it
	out, err := destination.Open(t.Context(), cms.ItemID{Index: "i"}, func() error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	send := func() {
		_, _ = out.Send(t.Context(), []byte(`{"index":{"_index":"i","_id":"1"}}`+"\n{}\n"), 1) //nolint:errcheck // the server counts
	}
	ask := func() {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		store, closeStore, err := OpenStore(ctx, o, false)
		if err == nil { // the server has no state; what counts is that it was asked and answered
			_, _, err = store.Now(ctx)
			defer closeStore() //nolint:errcheck // nothing was written through it
		}
		if ctx.Err() != nil {
			t.Errorf("the store was not answered: %v", err)
		}
	}
	send()
	ask() // beside an idle connection that has carried documents
	var sending sync.WaitGroup
	for range hanging {
		sending.Go(send)
	}
	defer sending.Wait()
	defer close(release)
	mu.Lock()
	for under < hanging+1 {
		changed.Wait()
	}
	mu.Unlock()
	ask() // beside requests that all hang
	mu.Lock()
	defer mu.Unlock()
	if after == 0 {
		t.Error("the store was not asked")
	}
	for conn := range others {
		if bulks[conn] > 0 {
			t.Error("a connection of documents carried a request to the store")
		}
	}
}
