package main

import (
	"encoding/json"
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
)

func TestOrdersHaveAResult(t *testing.T) {
	silent := fmt.Errorf("order %s: no answer: %w", testOrder, fault.ErrUnavailable)
	for _, c := range []struct {
		name   string
		args   string
		state  string
		behind []string
		err    error
		code   int
		out    []string
		errs   []string
	}{
		{"in force", "pause", "", nil, nil, 0, []string{"paused (sent to ", "order " + testOrder + " is in force\n"}, nil},
		{"in force and nodes that do not follow are named", "drain n1 n2", "", []string{"n2", "n3"}, nil, 0, []string{"n1, n2: draining", "do not follow yet: n2, n3; `rfsctl orders " + testOrder + "`"}, nil},
		{"unknown", "resume", "unknown", nil, silent, 9, nil, []string{"order " + testOrder}},
		{"unknown as JSON", "scale 3 --output json", "unknown", nil, silent, 9, []string{`"state": "unknown"`, `"ends": `}, []string{"no answer"}},
		{"a newer order is in force", "pause", "refused", nil, fmt.Errorf("newer: %w", fault.ErrRejected), 1, nil, []string{"newer"}},
		{"the store does not answer", "pause", "refused", nil, silent, 1, nil, []string{"no answer"}},
		{"pause takes no node", "pause n1", "", nil, nil, 1, nil, []string{`unexpected argument "n1"`}},
		{"a list", "orders", "replaced", []string{"n9"}, nil, 0, []string{"ORDER", testOrder + "  replaced  drain n1 n2  ann", "t5xw8j-aaaaaa  in_force  scale 4      bob", "n9"}, nil},
		{"one that is in force", "orders " + testOrder, "", []string{"n9"}, nil, 0, []string{"in_force", "n9"}, nil},
		{"one that was replaced", "orders " + testOrder, "replaced", nil, nil, 0, []string{"replaced"}, nil},
		{"one that may come into force", "orders " + testOrder, "unknown", nil, nil, 9, []string{"unknown"}, nil},
		{"one that never does", "orders " + testOrder, "expired", nil, nil, 1, []string{"expired"}, nil},
		{"one that is too old", "orders " + testOrder, "forgotten", nil, nil, 1, []string{"forgotten"}, nil},
		{"one as JSON", "orders " + testOrder + " --output json", "expired", nil, nil, 1, []string{`"state": "expired"`}, nil},
		{"one while the store does not answer", "orders " + testOrder, "", nil, silent, 9, nil, []string{"no answer"}},
		{"all while the store does not answer", "orders", "", nil, silent, 1, nil, []string{"no answer"}},
		{"no id", "orders x", "", nil, fmt.Errorf("invalid order: %w", fault.ErrConfig), 1, nil, []string{"invalid order"}},
		{"two ids", "orders x y", "", nil, nil, 1, nil, []string{"one id"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, operator, _ := serveNode(t, api.Config{}, &oneNode{state: c.state, behind: c.behind, err: c.err})
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
		{path, 9, "`rfsctl orders` lists it"},
		{path + "," + dead, 9, "`rfsctl orders` lists it"},
	} {
		code, _, errs := rfsctl(t, "pause", "--node", c.nodes)
		if code != c.code || !strings.Contains(errs, c.errs) {
			t.Errorf("%s: exit %d: %s", c.nodes, code, errs)
		}
	}
	_, operator, _ := serveNode(t, api.Config{}, &oneNode{})
	if code, out, errs := rfsctl(t, "pause", "--node", path+","+operator); code != 0 || !strings.Contains(out, testOrder) {
		t.Errorf("another node answers: exit %d: %s%s", code, out, errs)
	}
}

func TestOrdersAreReadFromTheStore(t *testing.T) {
	file := filepath.Join(t.TempDir(), "state.db")
	store, err := boltcms.Open(file, time.Now)
	must(t, err)
	c := cms.New(cms.Config{Store: store, Creator: "test"})
	o, _, err := session.Of(c).Order(t.Context(), session.Order{Kind: session.OrderPause, Who: "ann\x1b[31m"})
	must(t, err)
	must(t, store.Close())
	code, out, errs := rfsctl(t, "orders", "--coordinator-file", file)
	if code != 0 || !strings.Contains(out, o.ID) || !strings.Contains(out, "pause") || strings.Contains(out, "\x1b") {
		t.Errorf("exit %d: %s%q", code, errs, out)
	}
	var got status.Order
	code, out, errs = rfsctl(t, "orders", o.ID, "--coordinator-file", file, "--output", "json")
	if err := json.Unmarshal([]byte(out), &got); code != 0 || err != nil || got.State != "in_force" || got.By != "ann\x1b[31m" || !got.Ends.Equal(o.Ends) {
		t.Errorf("exit %d: %s%s, %v", code, errs, out, err)
	}
}
