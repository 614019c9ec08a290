package trial_test

import (
	"fmt"
	"time"

	"github.com/rfsd/rfsd/rfs/operation/trial"
)

func ExampleOf() {
	m := trial.Measured{Wall: 20 * time.Second, Slots: 4, Shards: 10, Load: trial.Rate{Mean: 20e6, Least: 18e6, Most: 22e6, Gain: 1, Requests: 4, Body: 5e6}}
	e, _ := trial.Of(m, trial.Whole{Documents: 40_000_000, Bytes: 36e9, Largest: 4e9}, nil)
	fmt.Printf("%.0f s (%.0f to %.0f s), bound by %s\n", e.Seconds, e.Least, e.Most, e.Bound)
	// Output: 1820 s (1183 to 2525 s), bound by sending
}
