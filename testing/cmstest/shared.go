package cmstest

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/session"
)

func shared(t *testing.T, s cms.Store) {
	c, ctx := Coordinator(t, s, time.Minute), t.Context()
	if _, err := session.SharedSettingsOf(c).Read(ctx); !errors.Is(err, cms.ErrNotFound) {
		t.Fatalf("before any was stored: %v", err)
	}
	first := session.SharedRecord{Settings: session.Shared{"repo-uri": {"s3://bucket"}, "first": {"a", "b"}}, Revision: 7, Signature: "c2lnbmVk"}
	other := session.SharedRecord{Settings: session.Shared{"repo-uri": {"file:///x"}}}
	is := func(want session.SharedRecord) {
		t.Helper()
		got, err := session.SharedSettingsOf(c).Read(ctx)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%v, %v; want %v", got, err, want)
		}
	}
	if stored, err := session.SharedSettingsOf(c).Share(ctx, first, false); err != nil || !stored {
		t.Fatalf("%v, %v", stored, err)
	}
	if stored, err := session.SharedSettingsOf(c).Share(ctx, other, false); err != nil || stored {
		t.Errorf("%v, %v", stored, err)
	}
	is(first)
	if stored, err := session.SharedSettingsOf(c).Share(ctx, other, true); err != nil || !stored {
		t.Errorf("%v, %v", stored, err)
	}
	is(other)
	if _, err := session.SharedSettingsOf(c).Share(ctx, session.SharedRecord{Settings: session.Shared{"rules-text": {strings.Repeat("x", 256<<10)}}}, true); !errors.Is(err, fault.ErrConfig) {
		t.Errorf("more than the bound: %v", err)
	}
	is(other)
}
