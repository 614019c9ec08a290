package status

import (
	"fmt"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
	"github.com/rfsd/rfsd/rfs/coordination/session"
)

func TestStatesTellLeasedFromExpired(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	for _, c := range []struct {
		want string
		it   cms.Item
	}{
		{Open, cms.Item{}},
		{Leased, cms.Item{Holder: "a", Expiration: 1_000_001}},
		{Expired, cms.Item{Holder: "a", Expiration: 1_000_000}},
		{Done, cms.Item{Holder: "a", CompletedAt: 5}},
		{HandedOff, cms.Item{Holder: "a", CompletedAt: 5, Successors: "x"}},
		{Failed, cms.Item{CompletedAt: 5, Status: cms.StatusFailed}},
	} {
		if got := stateOf(c.it, now); got != c.want {
			t.Errorf("%+v is %s, want %s", c.it, got, c.want)
		}
	}
}

func TestSuggestedLeaseFitsSetupAndDuration(t *testing.T) {
	for _, c := range []struct{ setup, work, want time.Duration }{
		{0, time.Second, time.Minute},
		{30 * time.Second, time.Minute, 10 * time.Minute},
		{time.Second, 30 * time.Minute, 40 * time.Minute},
		{time.Second, 5 * time.Hour, time.Hour},
		{time.Hour, time.Hour, 6 * time.Hour},
	} {
		if got := suggestLease(c.setup, c.work); got != c.want {
			t.Errorf("setup %v, work %v: %v, want %v", c.setup, c.work, got, c.want)
		}
	}
	ten := make([]time.Duration, 10)
	for i := range ten {
		ten[i] = time.Duration(i + 1)
	}
	if p50, p90 := percentile(ten, 50), percentile(ten, 90); p50 != 5 || p90 != 9 {
		t.Errorf("p50 %d, p90 %d", p50, p90)
	}
}

func TestRefusedDocumentsAreCountedBeyondThoseThatAreListed(t *testing.T) {
	f := NewFailures()
	for i := range MaxRefused + 7 {
		f.Add(session.Refused{Index: "logs", ID: fmt.Sprint(i), Reason: "mapper_parsing_exception"}, "")
	}
	f.Add(session.Refused{Index: "other", ID: "x", Reason: "mapper_parsing_exception"}, "")
	f.Sort()
	if len(f.Documents) != MaxRefused || f.Omitted != 8 || f.Groups[0].Count != MaxRefused+7 {
		t.Errorf("%d documents, %d omitted, %+v", len(f.Documents), f.Omitted, f.Groups)
	}
	if of := f.Of("other"); len(of.Documents) != 0 || of.Omitted != 1 || len(of.Groups) != 1 {
		t.Errorf("%+v", of)
	}
	if of := f.Of("logs").WithoutDocuments(); len(of.Documents) != 0 || of.Omitted != MaxRefused+7 {
		t.Errorf("%d documents, %d omitted", len(of.Documents), of.Omitted)
	}
}

func TestTheTargetIsNotSafeBeforeEveryItemExists(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	early, late := now.Add(-time.Second), now.Add(time.Second)
	for name, c := range map[string]struct {
		m    progress.Migration
		safe bool
	}{
		"items are missing":           {progress.Migration{ReadAt: now}, false},
		"the last request may arrive": {progress.Migration{ReadAt: now, Seeded: true, SafeFrom: &late}, false},
		"over":                        {progress.Migration{ReadAt: now, Seeded: true, SafeFrom: &early}, true},
	} {
		if l := NewItemList(&c.m, nil, ItemFilter{}); l.Safe != c.safe {
			t.Errorf("%s: safe %v", name, l.Safe)
		}
	}
}
