// Package draw chooses which cases of a long test a change has to pass. `make night` runs all of them.
package draw

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

// Of returns n of all cases in a random order, and logs the seed with which RFSD_DRAW=SEED draws the same cases again. With
// RFSD_DRAW=all it returns all cases as they are.
func Of[T any](t testing.TB, n int, all []T) []T {
	t.Helper()
	chosen := os.Getenv("RFSD_DRAW")
	if chosen == "all" || n >= len(all) {
		return all
	}
	seed := rand.Uint64() //nolint:gosec // a draw
	if chosen != "" {
		var err error
		if seed, err = strconv.ParseUint(chosen, 10, 64); err != nil {
			t.Fatalf("RFSD_DRAW=%s: neither a seed nor all", chosen)
		}
	}
	t.Logf("%d of %d cases; RFSD_DRAW=%d draws the same, RFSD_DRAW=all runs all", n, len(all), seed)
	cases := make([]T, n)
	for i, at := range rand.New(rand.NewPCG(seed, 0)).Perm(len(all))[:n] { //nolint:gosec // a draw
		cases[i] = all[at]
	}
	return cases
}
