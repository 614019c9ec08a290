package web_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rfsd/rfsd/daemon/status"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
	"github.com/rfsd/rfsd/testing/browser"
)

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
