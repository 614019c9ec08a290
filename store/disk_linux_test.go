package store

import (
	"errors"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/testing/disk"
)

// TestHintsOnAFullDisk: hints that cannot be written are lost and reported; earlier ones stay, and later ones are accepted when space is
// available again.
func TestHintsOnAFullDisk(t *testing.T) {
	m := testMachine(t, maxBytes)
	put := func(key string) any { return m.Apply(entry(t, command{Put: []Hint{hint("k", key, 2000, `1`)}})) }
	if got := put("a"); got != nil {
		t.Fatal(got)
	}
	mend := disk.Break(t, m.path, "/dev/full")
	if err, ok := put("b").(error); !ok || !errors.Is(err, fault.ErrUnavailable) {
		t.Errorf("on a full disk: %v", err)
	}
	mend()
	if got := put("c"); got != nil {
		t.Errorf("with room again: %v", got)
	}
	if all := listed(t, m, "k", 1000); len(all) != 2 || all[0].Key != "a" || all[1].Key != "c" {
		t.Errorf("%v", all)
	}
}
