package progress_test

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/progress"
	"github.com/rfsd/rfsd/rfs/coordination/session"
)

// TestReading_SumHasTimesOfRFC3339: rounds and cut-overs are shown with times in UTC, and a damaged record does not end the output.
func TestReading_SumHasTimesOfRFC3339(t *testing.T) {
	c := session.Cutover{State: session.CutoverDone, Ordered: 1_000, Blocked: 2_000, Arrived: 4_500, Ended: math.MaxInt64}
	c.MaxOutage = 60_000
	shown := progress.CutoverOf(c)
	b, err := json.Marshal(shown)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"state":"DONE","block_source_writes":false,"max_outage_seconds":60,"accept_failed":false,"ordered_by":"","ordered":"1970-01-01T00:00:01Z",` +
		`"blocked":"1970-01-01T00:00:02Z","arrived":"1970-01-01T00:00:04.5Z","ended":"9999-12-31T23:59:59.999Z","outage_seconds":2.5}`
	if string(b) != want {
		t.Errorf("%s\nwant %s", b, want)
	}
	reading := &progress.Reading{At: time.UnixMilli(9_000), Rounds: session.Followed{FailedBefore: 2, Rounds: []session.Round{
		{Number: 3, Started: 1_000, Arrived: 3_000, Account: session.Account{Failed: 1}}, {Number: 4, Started: math.MinInt64},
	}}}
	m, _ := reading.Sum()
	b, err = json.Marshal(m.Rounds)
	const rounds = `{"rounds":[{"number":3,"snapshot":"","started":"1970-01-01T00:00:01Z","arrived":"1970-01-01T00:00:03Z",` +
		`"inserted":0,"updated":0,"deleted":0,"unchanged":0,"failed":1,"bytes":0},` +
		`{"number":4,"snapshot":"","started":"1970-01-01T00:00:00Z","inserted":0,"updated":0,"deleted":0,"unchanged":0,"failed":0,"bytes":0}],"failed":3}`
	if err != nil || string(b) != rounds || *m.Lag != 8 {
		t.Errorf("%v, lag %v: %s\nwant %s", err, *m.Lag, b, rounds)
	}
	reading.Undone = true
	if m, _ := reading.Sum(); m.Lag != nil {
		t.Errorf("after an undo the target lags %v s", *m.Lag)
	}
}
