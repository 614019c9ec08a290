package web_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rfsd/rfsd/daemon/status"
	"github.com/rfsd/rfsd/daemon/web"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
	"github.com/rfsd/rfsd/testing/browser"
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

func chromium(t *testing.T, ctx context.Context) *browser.Browser {
	t.Helper()
	b, err := browser.Start(ctx)
	if errors.Is(err, browser.ErrNone) {
		t.Skip("not run: ", err)
	}
	must(t, err)
	t.Cleanup(b.Close)
	return b
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// keep saves a screenshot where the environment requests it, for people to look at.
func keep(t *testing.T, ctx context.Context, b *browser.Browser, name string) {
	t.Helper()
	png, err := b.Screenshot(ctx)
	must(t, err)
	if len(png) < 10_000 {
		t.Errorf("screenshot %s of %d bytes: the page is empty", name, len(png))
	}
	if dir := os.Getenv("RFSD_ARTIFACTS"); dir != "" {
		must(t, os.MkdirAll(dir, 0o755))
		must(t, os.WriteFile(filepath.Join(dir, name), png, 0o644))
	}
}

// TestFailedIndicesAreShownHoweverManyThereAre: if there are more indices than rows, the failed ones are not cut off.
func TestFailedIndicesAreShownHoweverManyThereAre(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	b := chromium(t, ctx)
	r := migration(0.3)
	r.Migration.Indices = nil
	for i := range 600 {
		x := progress.Index{Name: fmt.Sprintf("logs-%03d", i), State: "IN_PROGRESS", Shards: []progress.Shard{{State: "IN_PROGRESS", Bytes: 1}}}
		switch i {
		case 550:
			x.State = "FAILED"
		case 599:
			x.Shards[0].State = "FAILED"
		}
		r.Migration.Indices = append(r.Migration.Indices, x)
	}
	s := newSite(t, r, nil)
	must(t, b.Open(ctx, s.URL+"/"))
	must(t, b.Wait(ctx, "document.querySelectorAll('#indices > li').length === 500"))
	var names []string
	must(t, b.Eval(ctx, "[...document.querySelectorAll('#indices .name')].map((c) => c.textContent)", &names))
	if !slices.Contains(names[:2], "logs-550") || !slices.Contains(names[:2], "logs-599") || !slices.Contains(names, "logs-497") || slices.Contains(names, "logs-498") {
		t.Errorf("first %v, last %v", names[:2], names[498:])
	}
	// One that fails later comes to the top, and takes the last row of the others.
	r.Migration.Indices[570].State = "FAILED"
	s.tell(r)
	must(t, b.Wait(ctx, "document.querySelectorAll('#indices .name')[1].textContent === 'logs-570' && document.querySelectorAll('#indices > li').length === 500"))
	var more string
	must(t, b.Eval(ctx, "document.getElementById('more').textContent", &more))
	if !strings.HasPrefix(more, "and 100 more") {
		t.Errorf("%q", more)
	}
	// The others are a button away, which leaves the reader at the first of them; filter, state and order choose among all.
	see := func(what, expression string) {
		t.Helper()
		var is bool
		if must(t, b.Eval(ctx, expression, &is)); !is {
			t.Errorf("not so: %s", what)
		}
	}
	const choose = "((id, v) => { const e = document.getElementById(id); e.value = v; e.dispatchEvent(new Event('input')); })"
	const names2 = "[...document.querySelectorAll('#indices .name')].map((c) => c.textContent)"
	see("all have a row", "document.getElementById('further').click(), document.querySelectorAll('#indices > li').length === 600 && document.getElementById('more').hidden")
	see("the reader continues", "document.activeElement === document.querySelectorAll('#indices summary')[500]")
	see("a part of the name", choose+"('filter', 'GS-59'), "+names2+".join() === 'logs-599,logs-590,logs-591,logs-592,logs-593,logs-594,logs-595,logs-596,logs-597,logs-598' && document.getElementById('chosen').textContent === '10 of 600 indices'")
	see("only failed ones", choose+"('filter', ''), "+choose+"('only', 'FAILED'), "+names2+".join() === 'logs-550,logs-570,logs-599'")
	see("by name", choose+"('only', ''), "+choose+"('order', 'name'), "+names2+"[0] === 'logs-000' && document.querySelectorAll('#indices > li').length === 500")
	complaints(t, b, s.URL)
}

// TestThePageShowsTwoThousandIndices: 5,000 shards, 750 indices with five each. Every index has a row, each shard a cell, and a change
// arrives.
func TestThePageShowsTwoThousandIndices(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	b := chromium(t, ctx)
	r := migration(0.3)
	r.Migration.Indices = nil
	for i := range 2000 {
		x := progress.Index{Name: fmt.Sprintf("logs-%04d", i), State: "IN_PROGRESS", Shards: make([]progress.Shard, 1)}
		if i < 750 {
			x.Shards = make([]progress.Shard, 5)
		}
		for k := range x.Shards {
			x.Shards[k] = progress.Shard{Number: k, State: "NOT_STARTED", Bytes: 1 << 20}
		}
		r.Migration.Indices = append(r.Migration.Indices, x)
	}
	s := newSite(t, r, nil)
	begin := time.Now()
	must(t, b.Open(ctx, s.URL+"/"))
	must(t, b.Wait(ctx, "document.querySelectorAll('#indices > li').length === 500"))
	shown := time.Since(begin)
	begin = time.Now()
	must(t, b.Eval(ctx, "[1, 2, 3].forEach(() => document.getElementById('further').click()), true", new(bool)))
	must(t, b.Wait(ctx, "document.querySelectorAll('#indices > li').length === 2000 && document.querySelectorAll('.shard').length === 5000"))
	all := time.Since(begin)
	r.Migration.Indices = slices.Clone(r.Migration.Indices)
	r.Migration.Indices[1999].Shards = []progress.Shard{{State: "COMPLETED", Bytes: 1 << 20, Fraction: 1}}
	begin = time.Now()
	s.tell(r)
	must(t, b.Wait(ctx, "document.querySelectorAll('.shard.done').length === 1"))
	t.Logf("500 rows after %v, all rows %v later, a change after %v", shown, all, time.Since(begin))
	complaints(t, b, s.URL)
}

func TestAMigrationIsSeenLiveInARealBrowser(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	b := chromium(t, ctx)
	s := newSite(t, migration(0.3), []status.Event{
		{Time: time.Now(), Subject: "logs-2026-01, shard 3", Code: "lease_expired", Detail: "worker of mover-2"}, // of another node
		{Time: time.Now(), Node: "mover-1", Subject: hostile, Code: "failed", Detail: hostile},
	})
	eval := func(expression string, out any) { t.Helper(); must(t, b.Eval(ctx, expression, out)) }
	must(t, b.Look(ctx, 1280, 1500, false))
	must(t, b.Open(ctx, s.URL+"/"))
	must(t, b.Wait(ctx, "document.querySelectorAll('.shard').length === 100 && document.querySelectorAll('#events tbody tr').length === 2"))

	var name string
	eval("[...document.querySelectorAll('#indices .name')].map((c) => c.textContent).find((n) => n.startsWith('<img'))", &name)
	if name != hostile {
		t.Errorf("hostile name is shown as %q", name)
	}
	// Each worker shows the phase that it acts on, and the state of that phase. Events of the whole session are shown, the newest first.
	var phases, events []string
	eval("[...document.querySelectorAll('#workers tbody tr')].map((r) => r.cells[2].textContent)", &phases)
	eval("[...document.querySelectorAll('#events tbody tr')].map((r) => [...r.cells].slice(1).map((c) => c.textContent)).flat()", &events)
	if want := []string{"documents in progress", ""}; !slices.Equal(phases, want) {
		t.Errorf("phases of the workers: %q, want %q", phases, want)
	}
	if want := []string{"failed", hostile, hostile, "lease_expired", "logs-2026-01, shard 3", "worker of mover-2"}; !slices.Equal(events, want) {
		t.Errorf("events: %q, want %q", events, want)
	}
	// The keyboard opens an index to its shards in words.
	var said []string
	eval("[...document.querySelectorAll('#indices summary')].forEach((s) => s.click()), true", new(bool))
	must(t, b.Wait(ctx, "document.querySelectorAll('#indices .words li').length === 120"))
	eval("[...document.querySelectorAll('#indices > li:first-child .words li')].map((c) => c.textContent)", &said)
	for _, line := range said[1:] {
		if !strings.HasPrefix(line, "shard ") || !strings.Contains(line, " % of ") {
			t.Errorf("words of a shard: %q", line)
		}
	}
	if !strings.Contains(said[3], "failed") || !strings.Contains(said[3], "checksum") {
		t.Errorf("the failed shard of the first index: %q", said[3])
	}
	eval("[...document.querySelectorAll('#indices summary')].forEach((s) => s.click()), true", new(bool))
	var seen struct {
		State, Class  string
		Focusable     int
		First, Second float64
	}
	eval(`({State: document.getElementById('state').textContent, Class: document.getElementById('state').className, Focusable: document.querySelectorAll('summary,button,input,select,[tabindex="0"]').length,
		First: document.getElementById('losses').getBoundingClientRect().bottom, Second: document.getElementById('indices').getBoundingClientRect().top})`, &seen)
	if seen.State != "running, 1 given up" || !strings.Contains(seen.Class, "bad") || seen.Focusable < 25 || seen.First > seen.Second {
		t.Errorf("%+v: failures come first, the state names them, and keys reach every row", seen)
	}
	var widths []float64
	eval("[...document.querySelectorAll('#indices > li:nth-child(2) .shard')].map((c) => c.getBoundingClientRect().width)", &widths)
	if len(widths) != 5 || widths[4]/widths[0] < 4 || widths[4]/widths[0] > 5.5 {
		t.Errorf("widths of shards of 1 to 5 times the bytes: %v", widths)
	}
	keep(t, ctx, b, "page-light.png")
	must(t, b.Look(ctx, 1280, 1500, true))
	keep(t, ctx, b, "page-dark.png")

	// Live: a change arrives without loading anything again.
	var before, after float64
	filled := "[...document.querySelectorAll('.shard .fill')].reduce((sum, f) => sum + f.getBoundingClientRect().width, 0)"
	eval(filled, &before)
	s.tell(migration(0.6))
	must(t, b.Wait(ctx, "document.body.dataset.updates >= 2"))
	eval(filled, &after)
	if after < 1.5*before {
		t.Errorf("cells are filled to %.0f pixels, then to %.0f", before, after)
	}
	var rate string
	eval("document.getElementById('rate').textContent", &rate)
	if !strings.HasPrefix(rate, "65,600 documents per second") {
		t.Errorf("throughput %q", rate)
	}

	// The throughput has a scale, and times of day in 24 hours with their zone.
	var axes []string
	eval("['most', 'from', 'to'].map((id) => document.getElementById(id).textContent)", &axes)
	day := regexp.MustCompile(`^([0-9-]+ )?[0-2][0-9]:[0-5][0-9]:[0-5][0-9] \S+`)
	if len(axes) != 3 || axes[0] != "65,600 documents/s" || !day.MatchString(axes[1]) || !day.MatchString(axes[2]) {
		t.Errorf("axes of the throughput: %q", axes)
	}
	var midnight string
	eval("clock(new Date().setHours(0, 5, 9))", &midnight)
	if !strings.HasPrefix(midnight, "00:05:09 ") {
		t.Errorf("shortly after midnight: %q", midnight)
	}
	// Events that are alike and follow each other are one.
	var few string
	eval("together([{code: 'a', subject: 'x'}, {code: 'a', subject: 'x'}, {code: 'a', subject: 'y'}, {code: 'b', subject: 'x'}, {code: 'a', subject: 'x'}]).map((e) => e.code + e.times + e.subject).join()", &few)
	if few != "a3x and others,b1x,a1x" {
		t.Errorf("events together: %s", few)
	}

	// Other nodes appear when there are any.
	var alone bool
	eval("document.getElementById('fleet').hidden", &alone)
	r := migration(0.6)
	r.Nodes = []status.Node{r.Node, {Name: hostile, Version: "1.0", State: "drained", Address: "10.0.0.2:9443", Zone: "b"}}
	s.tell(r)
	must(t, b.Wait(ctx, "document.querySelectorAll('#nodes tbody tr').length === 2"))
	var nodes []string
	eval("[...document.querySelectorAll('#nodes tbody td')].map((c) => c.textContent)", &nodes)
	if want := []string{"mover-1", "running", "2", "", "", "1.0", hostile, "drained", "0", "10.0.0.2:9443", "b", "1.0"}; !alone || !slices.Equal(nodes, want) {
		t.Errorf("without others hidden %v; then %q", alone, nodes)
	}

	// A store that does not answer is told, with the age of what is shown.
	r.Stale, r.StoreError = 75, "coordination store: no answer"
	s.tell(r)
	must(t, b.Wait(ctx, "!document.getElementById('alarm').hidden && /no answer/.test(document.getElementById('alarm').textContent) && /1 min 1\\d s old/.test(document.getElementById('age').textContent)"))
	// The age changes every second; what a screen reader reads at once does not.
	eval("window.rewritten = 0, new MutationObserver((all) => window.rewritten += all.length).observe(document.getElementById('alarm'), {childList: true, characterData: true, subtree: true}), window.was = document.getElementById('age').textContent, true", new(bool))
	must(t, b.Wait(ctx, "document.getElementById('age').textContent !== window.was"))
	var rewritten int
	if eval("window.rewritten", &rewritten); rewritten > 0 {
		t.Errorf("the alarm was written again %d times", rewritten)
	}

	must(t, b.Look(ctx, 400, 900, false))
	var wide bool
	eval("document.documentElement.scrollWidth > innerWidth", &wide)
	if wide {
		t.Error("on a narrow screen the page has to be moved sideways")
	}
	var cards []string // the heading is part of each cell
	eval("[getComputedStyle(document.querySelector('#nodes tbody tr')).display, getComputedStyle(document.querySelector('#nodes tbody td'), '::before').content]", &cards)
	if !slices.Equal(cards, []string{"block", `"node"`}) {
		t.Errorf("tables on a narrow screen: %q", cards)
	}
	keep(t, ctx, b, "page-phone.png")
	var owned bool
	eval("document.body.dataset.owned !== undefined || document.scripts.length !== 4 || document.images.length !== 0", &owned)
	if owned {
		t.Error("an index's name became markup")
	}
	complaints(t, b, s.URL)

	s.die()
	must(t, b.Wait(ctx, "/does not answer/.test(document.getElementById('alarm').textContent)"))
}

// complaints fails the test if the page broke, violated its own policy, or sent requests to another host than its node.
func complaints(t *testing.T, b *browser.Browser, origin string) {
	t.Helper()
	for _, method := range []string{"Runtime.exceptionThrown", "Log.entryAdded"} {
		for _, e := range b.Events(method) {
			t.Errorf("%s: %s", method, e.Params)
		}
	}
	requests := b.Events("Network.requestWillBeSent")
	if len(requests) < 5 {
		t.Errorf("only %d requests were seen", len(requests))
	}
	for _, e := range requests {
		var p struct {
			Request struct {
				URL string `json:"url"`
			} `json:"request"`
		}
		must(t, json.Unmarshal(e.Params, &p))
		if !strings.HasPrefix(p.Request.URL, origin+"/") {
			t.Errorf("the page asked for %s", p.Request.URL)
		}
	}
}
