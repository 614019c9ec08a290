package plan

import (
	"testing"

	"github.com/rfsd/rfsd/rfs/source/snapshot"
)

func TestIdentityOfASnapshot(t *testing.T) {
	for _, c := range []struct {
		name string
		snap snapshot.Snapshot
		want string
	}{
		{"its UUID", snapshot.Snapshot{Ref: snapshot.Ref{Name: "nightly", UUID: "u1"}, StartMillis: 5}, "u1"},
		{"the time at which it started, where its name stands in for a UUID", snapshot.Snapshot{Ref: snapshot.Ref{Name: "nightly", UUID: "nightly"}, StartMillis: 5}, "started at 5"},
		{"the time at which it started, without a UUID", snapshot.Snapshot{Ref: snapshot.Ref{Name: "nightly"}, StartMillis: 5}, "started at 5"},
		{"none where nothing is known", snapshot.Snapshot{Ref: snapshot.Ref{Name: "nightly", UUID: "nightly"}}, ""},
	} {
		if got := identityOf(&c.snap); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
