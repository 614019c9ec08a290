package draw_test

import (
	"slices"
	"testing"

	"github.com/rfsd/rfsd/testing/draw"
)

func TestOf_CasesBySeed(t *testing.T) {
	all := []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}
	t.Setenv("RFSD_DRAW", "all")
	if got := draw.Of(t, 3, all); !slices.Equal(got, all) {
		t.Errorf("all: %v", got)
	}
	seen := map[int]bool{}
	for _, seed := range []string{"1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15", "16"} {
		t.Setenv("RFSD_DRAW", seed)
		got := draw.Of(t, 3, all)
		if again := draw.Of(t, 3, all); !slices.Equal(got, again) {
			t.Errorf("seed %s: %v, then %v", seed, got, again)
		}
		for _, n := range got {
			seen[n] = true
		}
		if slices.Sort(got); len(slices.Compact(got)) != 3 {
			t.Errorf("seed %s: %v", seed, got)
		}
	}
	if len(seen) != len(all) {
		t.Errorf("16 draws never had some cases: %v", seen)
	}
	t.Setenv("RFSD_DRAW", "")
	if got := draw.Of(t, 3, all); len(got) != 3 {
		t.Errorf("without a seed: %v", got)
	}
}

func TestTest_DrawsAShare(t *testing.T) {
	ran := func(t *testing.T, chosen string) (names string) {
		t.Helper()
		t.Setenv("RFSD_TESTS", chosen)
		for i := range 60 {
			name := string(rune('0' + i))
			one := &named{TB: t, name: "Test" + name + "/case"}
			if draw.Test(one); !one.skipped {
				names += name
			}
		}
		return names
	}
	if got := ran(t, ""); len(got) != 60 {
		t.Errorf("without a draw: %q", got)
	}
	first, again, other := ran(t, "3:1"), ran(t, "3:1"), ran(t, "3:2")
	if n := len(first); first != again || first == other || n < 10 || n > 32 {
		t.Errorf("%q, %q again, %q with another seed", first, again, other)
	}
}

// named is a test of another name that notes when it is skipped.
type named struct {
	testing.TB
	name    string
	skipped bool
}

func (n *named) Helper()              {}
func (n *named) Name() string         { return n.name }
func (n *named) Skipf(string, ...any) { n.skipped = true }
