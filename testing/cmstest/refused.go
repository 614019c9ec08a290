package cmstest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/session"
)

func refused(t *testing.T, s cms.Store) {
	c, ctx := Coordinator(t, s, time.Minute), t.Context()
	var all []session.Refused
	for n := range 450 { // more than one record holds
		all = append(all, session.Refused{Index: "logs", ID: fmt.Sprint("id ", n), Shard: n % 3, Ordinal: int64(n), Reason: "mapper_parsing_exception", Status: 400})
	}
	records := func() (n int) {
		for _, err := range session.List(ctx, c, "refused") {
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
		return n
	}
	is := func(want int) {
		t.Helper()
		got := map[session.Refused]int{}
		for d, err := range session.RefusalsOf(c).All(ctx) {
			if err != nil {
				t.Fatal(err)
			}
			got[d]++
		}
		if len(got) != want {
			t.Errorf("%d documents, want %d", len(got), want)
		}
		for _, d := range all {
			if got[d] != 1 {
				t.Errorf("%+v is there %d times", d, got[d])
			}
		}
	}
	keep := func(d []session.Refused) {
		t.Helper()
		if err := session.RefusalsOf(c).Keep(ctx, d); err != nil {
			t.Fatal(err)
		}
	}
	keep(all)
	is(450)
	before := records()
	keep(all) // a worker that crashed before it recorded its progress repeats this
	if after := records(); after != before {
		t.Errorf("%d records became %d", before, after)
	}
	keep(all[:7]) // in smaller requests
	is(450)
	keep(nil)
	is(450)

	keep([]session.Refused{{Index: "long", ID: strings.Repeat("ä", 600), Reason: strings.Repeat("r", 1000)}})
	long := 0
	for d, err := range session.RefusalsOf(c).All(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		if d.Index == "long" {
			long++
			if d.ID != strings.Repeat("ä", 256) || len(d.Reason) != 256 {
				t.Errorf("%d bytes of id, %d of reason", len(d.ID), len(d.Reason))
			}
		}
	}
	if long != 1 {
		t.Errorf("%d long ones", long)
	}

	forget := func(arrived func(session.Refused) bool) {
		t.Helper()
		for range 2 { // a restarted process repeats this
			if err := session.RefusalsOf(c).Forget(ctx, arrived); err != nil {
				t.Fatal(err)
			}
		}
	}
	forget(func(d session.Refused) bool { return d.Index == "long" || d.Ordinal%2 == 1 })
	all = slices.DeleteFunc(all, func(d session.Refused) bool { return d.Ordinal%2 == 1 })
	is(225)
	forget(func(session.Refused) bool { return true })
	if all = nil; records() != 0 {
		t.Errorf("%d records are left", records())
	}
	is(0)
	forget(func(session.Refused) bool { return true })
}
