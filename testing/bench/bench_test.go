package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rfsd/rfsd/testing/bench/corpus"
	"github.com/rfsd/rfsd/testing/rest"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == measureVerb {
		os.Exit(measureChild(os.Args[2:]))
	}
	os.Exit(m.Run())
}

func TestAProgramIsMeasuredByItselfNotWithItsParent(t *testing.T) {
	ballast := bytes.Repeat([]byte("memory that is resident in the parent "), 4<<20)
	out, u, err := measured(t.Context(), "echo", "hello")
	if err != nil {
		t.Fatal(err)
	}
	runtime.KeepAlive(ballast)
	if string(out) != "hello\n" {
		t.Errorf("output %q", out)
	}
	if u.Seconds <= 0 || u.PeakBytes < 100<<10 || u.PeakBytes > 100<<20 {
		t.Errorf("echo took %.3f s and %d bytes", u.Seconds, u.PeakBytes)
	}
}

func TestAProgramThatFailsIsAnErrorWithItsWords(t *testing.T) {
	_, _, err := measured(t.Context(), "sh", "-c", "echo no such thing >&2; exit 3")
	if err == nil || !strings.Contains(err.Error(), "no such thing") || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("got %v", err)
	}
}

func TestBodiesAreCutBetweenPairsOfLines(t *testing.T) {
	pair := "{\"index\":{}}\n{\"n\":1}\n"
	data := []byte(strings.Repeat(pair, 10))
	for limit, want := range map[int]int{1: 1, len(pair): 1, len(pair)*3 + 5: 3, 1 << 20: 10} {
		if got := cut(data, limit); got != want*len(pair) {
			t.Errorf("limit %d: %d bytes, want %d pairs", limit, got, want)
		}
	}
}

func TestTheFillerSendsWhatTheSourceClaims(t *testing.T) {
	var mu sync.Mutex
	live := map[string]int{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		if !strings.HasSuffix(r.URL.Path, "/_bulk") {
			_, _ = w.Write([]byte(`{"snapshot":{"state":"SUCCESS"}}`))
			return
		}
		mu.Lock()
		defer mu.Unlock()
		applyBulk(t, body, live)
		_, _ = w.Write([]byte(`{"errors":false}`))
	}))
	defer server.Close()
	s, err := fill(t.Context(), rest.Client{URL: server.URL}, t.TempDir(), kind{Corpus: corpus.Mixed, Codec: "default", Shards: 4, Documents: 6000})
	if err != nil {
		t.Fatal(err)
	}
	var total int64
	for _, size := range live {
		total += int64(size)
	}
	if s.Documents != len(live) || s.Bytes != total || s.Documents != 6000-6000/50 {
		t.Errorf("claims %d documents of %d bytes, sent %d of %d", s.Documents, s.Bytes, len(live), total)
	}
}

func applyBulk(t *testing.T, body []byte, live map[string]int) {
	lines := bytes.Split(bytes.TrimSuffix(body, []byte("\n")), []byte("\n"))
	for i := 0; i < len(lines); i++ {
		var action map[string]struct {
			ID string `json:"_id"`
		}
		if err := json.Unmarshal(lines[i], &action); err != nil {
			t.Errorf("action %s: %v", lines[i], err)
			return
		}
		if d, ok := action["delete"]; ok {
			delete(live, d.ID)
			continue
		}
		i++
		live[action["index"].ID] = len(lines[i])
	}
}

func TestASnapshotIsKeptWholeOrNotAtAll(t *testing.T) {
	cache, from := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(from, "index-0"), []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}
	k := kind{Corpus: corpus.Logs, Codec: "default", Documents: 10}
	_, err := cached(cache, k)
	if !isAbsent(err) {
		t.Fatalf("found before it was made: %v", err)
	}
	s := &source{Kind: corpus.Logs, Documents: 9, Bytes: 99}
	if err := s.keep(filepath.Join(cache, "bench", k.folder()), from); err != nil {
		t.Fatal(err)
	}
	again, err := cached(cache, k)
	if err != nil || *again != *s {
		t.Fatalf("kept %+v, found %+v, %v", s, again, err)
	}
	if _, err := os.Stat(filepath.Join(again.Repo, "index-0")); err != nil {
		t.Error(err)
	}
}

func TestTheMedianRoundCountsWithTheLargestMemory(t *testing.T) {
	rounds := []run{
		{usage: usage{CPUSeconds: 3, PeakBytes: 10}, Resent: 2},
		{usage: usage{CPUSeconds: 1, PeakBytes: 5}},
		{usage: usage{CPUSeconds: 2, PeakBytes: 7}, Retried: 1},
	}
	var order []string
	i := 0
	got, err := alternate(len(rounds), byCPU, func() (run, error) {
		i++
		order = append(order, "first")
		return rounds[i-1], nil
	}, func() (run, error) {
		order = append(order, "second")
		return run{}, nil
	})
	if err != nil || got[0].CPUSeconds != 2 || got[0].PeakBytes != 10 || got[0].Resent != 2 || got[0].Retried != 1 {
		t.Errorf("got %+v, %v", got, err)
	}
	if !slices.Equal(order, []string{"first", "second", "first", "second", "first", "second"}) {
		t.Errorf("the rounds were not alternated: %v", order)
	}
	if _, err := alternate(2, byTime, func() (run, error) { return run{}, errors.New("lost a document") }); err == nil {
		t.Error("a failed round passed")
	}
}
