package main

import (
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rfsd/rfsd/daemon/api"
	"github.com/rfsd/rfsd/daemon/status"
	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/boltcms"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/testing/outputtest"
)

func TestOrdersHaveAResult(t *testing.T) {
	silent := fmt.Errorf("no answer: %w", fault.ErrUnavailable)
	unknown := fmt.Errorf("%w: no answer", session.ErrOrderUnknown)
	for _, c := range []struct {
		name   string
		args   string
		behind []string
		err    error
		code   int
		out    []string
		errs   []string
	}{
		{"in force", "pause", nil, nil, 0, []string{"the fleet: paused (sent to "}, nil},
		{"in force and nodes that do not follow are named", "drain n1 n2", []string{"n2", "n3"}, nil, 0, []string{"n1, n2: draining", "do not follow yet: n2, n3; `rfsctl nodes`"}, nil},
		{"in force as JSON", "scale 3 --output json", []string{"n2"}, nil, 0, []string{`"by": "ann"`, `"revision": 7`, `"not_following": [`}, nil},
		{"unknown", "resume", nil, unknown, 9, nil, []string{"no answer", "`rfsctl status` shows it"}},
		{"an order to the contrary is in force", "pause", nil, fmt.Errorf("newer: %w", fault.ErrRejected), 1, nil, []string{"newer"}},
		{"the store does not answer", "pause", nil, silent, 1, nil, []string{"no answer"}},
		{"a rate", "set max-rate 20MiB", nil, nil, 0, []string{"max-rate is set to 20MiB (sent to "}, nil},
		{"a rate that is taken back", "set max-rate default", nil, nil, 0, []string{"the option --max-rate of each node holds again (sent to "}, nil},
		{"a latency as JSON", "set target-max-latency 500ms --output json", nil, nil, 0, []string{`"by": "ann"`}, nil},
		{"a rate without a unit that is known", "set max-rate 20parsecs", nil, nil, 1, nil, []string{`invalid --max-rate "20parsecs"`}},
		{"a latency that is too long", "set target-max-latency 2h", nil, nil, 1, nil, []string{`invalid --target-max-latency "2h"`}},
		{"a setting that cannot be set", "set slots 4", nil, nil, 1, nil, []string{`"slots" cannot be set while the work runs: want max-rate`}},
		{"a setting without a value", "set max-rate", nil, nil, 1, nil, []string{"takes the name of a setting and its value"}},
		{"pause takes no node", "pause n1", nil, nil, 1, nil, []string{`unexpected argument "n1"`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, operator, _ := serveNode(t, api.Config{}, &oneNode{behind: c.behind, err: c.err})
			code, out, errs := rfsctl(t, append(strings.Fields(c.args), "--node", operator)...)
			if code != c.code {
				t.Errorf("exit %d: %s", code, errs)
			}
			for want, in := range map[*[]string]string{&c.out: out, &c.errs: errs} {
				for _, w := range *want {
					if !strings.Contains(in, w) {
						t.Errorf("no %q in\n%s", w, in)
					}
				}
			}
		})
	}
}

// A node that takes an order and ends before it answers may have stored it.
func TestAnOrderToANodeThatDoesNotAnswerIsNotKnown(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	must(t, err)
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Read(make([]byte, 1024))
			c.Close()
		}
	}()
	dead := filepath.Join(t.TempDir(), "dead")
	for _, c := range []struct {
		nodes string
		code  int
		errs  string
	}{
		{dead, 1, "does not answer"}, // it was never sent
		{path, 9, "`rfsctl status` shows"},
		{path + "," + dead, 9, "`rfsctl status` shows"},
	} {
		code, _, errs := rfsctl(t, "pause", "--node", c.nodes)
		if code != c.code || !strings.Contains(errs, c.errs) {
			t.Errorf("%s: exit %d: %s", c.nodes, code, errs)
		}
	}
	_, operator, _ := serveNode(t, api.Config{}, &oneNode{})
	if code, out, errs := rfsctl(t, "pause", "--node", path+","+operator); code != 0 || !strings.Contains(out, "paused") {
		t.Errorf("another node answers: exit %d: %s%s", code, out, errs)
	}
}

func TestTheLastOrderIsInTheStatus(t *testing.T) {
	file := filepath.Join(t.TempDir(), "state.db")
	store, err := boltcms.Open(file, time.Now)
	must(t, err)
	c := cms.New(cms.Config{Store: store, Creator: "test"})
	three := 3
	_, err = session.OrdersOf(c).Issue(t.Context(), session.Order{Kind: session.OrderScale, Workers: &three, Who: "bob"})
	must(t, err)
	i, err := session.OrdersOf(c).Issue(t.Context(), session.Order{Kind: session.OrderPause, Who: "ann\x1b[31m"})
	must(t, err)
	must(t, store.Close())
	code, out, errs := rfsctl(t, "status", "--coordinator-file", file)
	if want := "intent: pause, 3 workers; last order by ann"; code != 0 || !strings.Contains(out, want) || strings.Contains(out, "\x1b") {
		t.Errorf("exit %d: %s%q, want %q", code, errs, out, want)
	}
	var got status.Report
	code, out, errs = rfsctl(t, "status", "--coordinator-file", file, "--output", "json")
	if err := outputtest.Decode(out, &got); code != 0 || err != nil || got.Migration.Intent.By != "ann\x1b[31m" || !got.Migration.Intent.At.Equal(i.When.Truncate(time.Millisecond)) {
		t.Errorf("exit %d: %s%s, %v", code, errs, out, err)
	}
}
