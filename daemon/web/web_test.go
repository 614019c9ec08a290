package web_test

import (
	"encoding/json"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rfsd/rfsd/daemon/status"
	"github.com/rfsd/rfsd/daemon/web"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
)

func TestThePageComesWithAStrictPolicyAndLoadsNothingElse(t *testing.T) {
	s := httptest.NewServer(web.Handler())
	defer s.Close()
	for path, kind := range map[string]string{"/": "text/html", "/page/page.js": "text/javascript", "/docs/FOLLOW.md": "text/plain", "/page/page.css": "text/css", "/page/icon.svg": "image/svg+xml"} {
		res, err := http.Get(s.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != 200 || !strings.HasPrefix(res.Header.Get("Content-Type"), kind) {
			t.Errorf("%s: %d %s", path, res.StatusCode, res.Header.Get("Content-Type"))
		}
		policy := res.Header.Get("Content-Security-Policy")
		if !strings.HasPrefix(policy, "default-src 'none';") || strings.Contains(policy, "unsafe") || strings.Contains(policy, "*") {
			t.Errorf("%s: policy %q", path, policy)
		}
		if res.Header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s may be sniffed", path)
		}
	}
	for _, path := range []string{"/page/web.go", "/page/..%2fweb.go", "/page/nothing", "/page/", "/docs/docs.go", "/docs/", "/docs/..%2fdocs.go", "/page/FOLLOW.md"} {
		res, err := http.Get(s.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %d", path, res.StatusCode)
		}
	}
	linked := 0
	for _, name := range []string{"index.html", "format.js", "losses.js", "rounds.js", "page.js", "page.css"} {
		b, err := os.ReadFile("page/" + name)
		if err != nil {
			t.Fatal(err)
		}
		for _, link := range regexp.MustCompile(`href="(/docs/[^"]*)"`).FindAllStringSubmatch(string(b), -1) {
			linked++
			res, err := http.Get(s.URL + link[1])
			if err != nil {
				t.Fatal(err)
			}
			res.Body.Close()
			if res.StatusCode != http.StatusOK {
				t.Errorf("%s links to %s: %d", name, link[1], res.StatusCode)
			}
		}
		for _, bad := range []string{"http://", "https://", "innerHTML", "insertAdjacentHTML", "document.write", "eval(", "<style", " style="} {
			if text := strings.ReplaceAll(string(b), "http://www.w3.org/2000/svg", ""); strings.Contains(text, bad) {
				t.Errorf("%s contains %q", name, bad)
			}
		}
	}
	if linked < 3 {
		t.Errorf("the page has %d links to the documentation", linked)
	}
}

func TestColoursOfTextAreReadable(t *testing.T) {
	css, err := os.ReadFile("page/page.css")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile(`(?s):root \{(.*?)\}`).FindAllSubmatch(css, -1)
	if len(blocks) != 2 {
		t.Fatalf("%d schemes of colours, want light and dark", len(blocks))
	}
	for _, block := range blocks {
		colours := map[string]float64{}
		for _, m := range regexp.MustCompile(`--([a-z]+): #([0-9a-f]+)`).FindAllSubmatch(block[1], -1) {
			colours[string(m[1])] = luminance(t, string(m[2]))
		}
		for name, least := range map[string]float64{"ink": 7, "quiet": 4.5, "done": 4.5, "bad": 4.5, "wait": 4.5, "doing": 4.5} {
			for _, ground := range []string{"card", "paper"} {
				if got := contrast(colours[name], colours[ground]); got < least {
					t.Errorf("contrast of %s on %s is %.2f, want %.1f", name, ground, got, least)
				}
			}
		}
	}
}

// luminance returns the relative luminance of WCAG 2, 0 to 1.
func luminance(t *testing.T, hex string) float64 {
	t.Helper()
	if len(hex) == 3 {
		hex = string([]byte{hex[0], hex[0], hex[1], hex[1], hex[2], hex[2]})
	}
	sum := 0.0
	for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
		n, err := strconv.ParseUint(hex[2*i:2*i+2], 16, 8)
		if err != nil {
			t.Fatal(err)
		}
		x := float64(n) / 255
		if x <= 0.04045 {
			x /= 12.92
		} else {
			x = math.Pow((x+0.055)/1.055, 2.4)
		}
		sum += weight * x
	}
	return sum
}

func contrast(a, b float64) float64 { return (max(a, b) + 0.05) / (min(a, b) + 0.05) }

// site is a node as the page sees it; tell changes its responses.
type site struct {
	*httptest.Server
	failed  []status.RefusedGroup
	mu      sync.Mutex
	report  status.Report
	changed chan struct{}
}

func (s *site) tell(r status.Report) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.report = r
	close(s.changed)
	s.changed = make(chan struct{})
}

// die ends the node as a kill does.
func (s *site) die() { s.CloseClientConnections(); s.Close() }

func (s *site) now() (status.Report, chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.report, s.changed
}

func newSite(t *testing.T, r status.Report, events []status.Event) *site {
	t.Helper()
	return siteAt(t, "127.0.0.1:0", r, events)
}

func siteAt(t *testing.T, address string, r status.Report, events []status.Event) *site {
	t.Helper()
	s := &site{report: r, changed: make(chan struct{})}
	mux := http.NewServeMux()
	mux.Handle("/", web.Handler())
	mux.HandleFunc("/v1/events", func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(events) })
	mux.HandleFunc("/v1/failures", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(status.Failures{Groups: s.failed})
	})
	mux.HandleFunc("/v1/stream", func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for {
			r, changed := s.now()
			b, _ := json.Marshal(r)
			fmt.Fprintf(w, "event: status\ndata: %s\n\n", b)
			w.(http.Flusher).Flush()
			select {
			case <-req.Context().Done():
				return
			case <-changed:
			}
		}
	})
	l, err := net.Listen("tcp", address)
	must(t, err)
	s.Server = &httptest.Server{Listener: l, Config: &http.Server{Handler: mux}}
	s.Start()
	t.Cleanup(s.die)
	return s
}

const hostile = `<img src=x onerror="document.body.dataset.owned=1">"'><script>document.body.dataset.owned=1</script>`

// migration makes one of 20 indices with 5 shards each, done to the part done.
func migration(done float64) status.Report {
	m := &progress.Migration{Session: "night", ReadAt: time.Now(), Intent: progress.Intent{State: "run"}}
	for i, name := range []string{"snapshot", "metadata", "indices", "documents"} {
		state := "COMPLETED"
		if i == 3 {
			state = "IN_PROGRESS"
		}
		m.Phases = append(m.Phases, progress.Phase{Name: name, State: state})
	}
	for i := range 20 {
		x := progress.Index{Name: fmt.Sprintf("logs-2026-%02d", i), State: "IN_PROGRESS"}
		if i == 3 {
			x.Name = hostile
		}
		x.Targets = []string{x.Name}
		for n := range 5 {
			size := int64((i + 1) * (n + 1) * 40_000_000)
			s := progress.Shard{Number: n, State: "IN_PROGRESS", Bytes: size, Fraction: math.Min(1, math.Max(0, done*25-float64(i)))}
			switch {
			case i == 5 && n == 2:
				s.State, s.Error, s.Fraction = "FAILED", "segment _3: checksum "+hostile, 0.4
			case s.Fraction == 1:
				s.State = "COMPLETED"
			case s.Fraction == 0:
				s.State = "NOT_STARTED"
			}
			s.Counts = progress.Counts{Shards: 1, Bytes: size, BytesDone: int64(float64(size) * s.Fraction), Indexed: int64(float64(size) / 900 * s.Fraction)}
			x.Shards = append(x.Shards, s)
			x.Counts.Bytes += size
			x.Counts.BytesDone += s.Counts.BytesDone
			x.Counts.Indexed += s.Counts.Indexed
		}
		m.Totals.Bytes += x.Counts.Bytes
		m.Totals.BytesDone += x.Counts.BytesDone
		m.Totals.Indexed += x.Counts.Indexed
		m.Indices = append(m.Indices, x)
	}
	m.Totals.Shards, m.Totals.ShardsDone = 100, int64(done*100)
	m.Failures = []progress.Failure{{Reason: "segment _3: checksum " + hostile, Count: 1, Examples: []string{hostile}}}
	left := 3725.0
	return status.Report{
		Node: status.Node{Name: "mover-1", Version: "1.0", State: "running", Wanted: 2, Running: 2}, Migration: m,
		Progress: progress.View{State: progress.StateWorking, GivenUp: 1, Rate: 41_000 * (1 + done), ByteRate: 62e6, Share: done, Left: &left},
		Workers: []status.Worker{
			{Slot: 0, PID: 100, State: "working", Phase: "documents", PhaseState: "IN_PROGRESS", Item: "i", Index: hostile, Shard: 4, Rate: 20_500, Resident: 180 << 20},
			{Slot: 1, PID: 101, State: "backing off", Restarts: 2, LastExit: "signal: killed"},
		},
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
