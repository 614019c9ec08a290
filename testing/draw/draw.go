// Package draw selects the cases of long tests that run for a change. `make night` runs all of them.
package draw

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
)

// Test skips a test that is not in the fraction 1/N of all tests that RFSD_TESTS=N:SEED selects. Subtests follow their test. Without
// RFSD_TESTS it skips nothing.
func Test(t testing.TB) {
	t.Helper()
	chosen := os.Getenv("RFSD_TESTS")
	if chosen == "" {
		return
	}
	share, _, _ := strings.Cut(chosen, ":")
	n, err := strconv.ParseUint(share, 10, 16)
	if err != nil || n == 0 {
		t.Fatalf("RFSD_TESTS=%s: not N:SEED", chosen)
	}
	name, _, _ := strings.Cut(t.Name(), "/")
	h := fnv.New64a()
	fmt.Fprint(h, chosen, name)
	if h.Sum64()%n != 0 {
		t.Skipf("not drawn by RFSD_TESTS=%s; make night runs all", chosen)
	}
}

// Of returns n cases in random order, and logs the seed; RFSD_DRAW=SEED selects the same cases again. With RFSD_DRAW=all it returns all
// cases in their order.
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
