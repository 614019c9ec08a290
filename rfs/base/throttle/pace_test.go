package throttle_test

import (
	"math"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/throttle"
)

func TestAPaceLeavesAtLeastOneAndAtMostAll(t *testing.T) {
	var p *throttle.Pace
	if p.Of(4) != 4 || new(throttle.Pace).Of(4) != 4 {
		t.Error("without a pace not all is used")
	}
	for _, c := range []struct {
		part float64
		n    int
		want int
	}{
		{1, 4, 4}, {0.75, 4, 3}, {0.74, 4, 3}, {0.5, 4, 2}, {0.1, 4, 1}, {0, 4, 1}, {-3, 4, 1}, {7, 4, 4}, {math.Inf(1), 4, 4}, {0.3, 10, 3}, {1.0 / 3, 3, 1}, {0.5, 1, 1},
	} {
		p := new(throttle.Pace)
		p.Set(c.part)
		p.Set(math.NaN()) // no number changes nothing
		if got := p.Of(c.n); got != c.want {
			t.Errorf("%v of %d: %d, want %d", c.part, c.n, got, c.want)
		}
	}
}
