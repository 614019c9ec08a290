package cms

import (
	"testing"
	"time"
)

// TestPhasesAreLeasedToOneUntilItsTimeIsOver is the table of transitions of a phase's record.
func TestPhasesAreLeasedToOneUntilItsTimeIsOver(t *testing.T) {
	at := time.UnixMilli(1_000_000)
	ms := func(d time.Duration) int64 { return at.Add(d).UnixMilli() }
	acquire := Terms{Holder: "me_1", States: []string{PhaseSetup}, Window: time.Minute, Grow: true, Grace: 2 * time.Second, Attempts: 5}
	for _, c := range []struct {
		name   string
		was    Record
		result Result
		want   Record
	}{
		{"no record", Record{}, Applied, Record{State: PhaseSetup, Holder: "me_1", Attempts: 1, Expire: ms(time.Minute)}},
		{"free", Record{State: PhaseSetup, Attempts: 2}, Applied, Record{State: PhaseSetup, Holder: "me_1", Attempts: 3, Expire: ms(3 * time.Minute)}},
		{"another's", Record{State: PhaseSetup, Holder: "you_1", Attempts: 1, Expire: ms(time.Second)}, Held, Record{}},
		{"another's, in its grace", Record{State: PhaseSetup, Holder: "you_1", Attempts: 1, Expire: ms(-3 * time.Second)}, Held, Record{}},
		{"another's, over", Record{State: PhaseSetup, Holder: "you_1", Attempts: 1, Expire: ms(-3*time.Second - time.Millisecond)}, Applied,
			Record{State: PhaseSetup, Holder: "me_1", Attempts: 2, Expire: ms(2 * time.Minute)}},
		{"mine: the answer was lost", Record{State: PhaseSetup, Holder: "me_1", Attempts: 1, Expire: ms(time.Second)}, Already, Record{}},
		{"moved on", Record{State: PhaseInProgress}, Done, Record{}},
		{"completed", Record{State: PhaseCompleted}, Done, Record{}},
		{"tried too often", Record{State: PhaseSetup, Attempts: 5, Error: "refused"}, Exhausted,
			Record{State: PhaseFailed, Attempts: 5, Error: "given up after 5 attempts: refused"}},
		{"died too often", Record{State: PhaseSetup, Attempts: 5, Holder: "you_1", Expire: ms(-time.Hour)}, Exhausted,
			Record{State: PhaseFailed, Attempts: 5, Error: "given up after 5 attempts: every worker that tried died or lost its lease"}},
	} {
		got, v := acquire.acquire(c.was, at, time.Second)
		if v == Applied || v == Exhausted {
			checkRecord(t, c.name, got, c.want)
		} else {
			checkRecord(t, c.name, got, c.was)
		}
		if v != c.result {
			t.Errorf("%s: %v, want %v", c.name, v, c.result)
		}
	}
}

func checkRecord(t *testing.T, name string, got, want Record) {
	t.Helper()
	if got.State != want.State || got.Holder != want.Holder || got.Expire != want.Expire || got.Attempts != want.Attempts || got.Error != want.Error {
		t.Errorf("%s: %+v, want %+v", name, got, want)
	}
}

func TestOnlyTheHolderOfAPhaseChangesIt(t *testing.T) {
	at := time.UnixMilli(1_000_000)
	ms := func(d time.Duration) int64 { return at.Add(d).UnixMilli() }
	mine := Record{State: PhaseInProgress, Holder: "me_1", Attempts: 3, Expire: ms(time.Second)}
	late, others := mine, mine
	late.Expire = ms(0)
	others.Holder = "you_1"
	for _, c := range []struct {
		name   string
		was    Record
		change HolderChange
		result Result
		want   Record
	}{
		{"renew", mine, HolderChange{}, Applied, Record{State: PhaseInProgress, Holder: "me_1", Attempts: 3, Expire: ms(3 * time.Minute)}},
		{"renew with progress", mine, HolderChange{Moved: true}, Applied, Record{State: PhaseInProgress, Holder: "me_1", Attempts: 1, Expire: ms(time.Minute)}},
		{"renew too late", late, HolderChange{}, Lost, late},
		{"renew another holder's", others, HolderChange{}, Lost, others},
		{"complete", mine, HolderChange{State: PhaseCompleted, Free: true}, Applied, Record{State: PhaseCompleted, Attempts: 3}},
		{"complete late, while no other holder came", late, HolderChange{State: PhaseCompleted, Free: true}, Applied, Record{State: PhaseCompleted, Attempts: 3}},
		{"complete another holder's", others, HolderChange{State: PhaseCompleted, Free: true}, Lost, others},
		{"complete again", Record{State: PhaseCompleted}, HolderChange{State: PhaseCompleted, Free: true}, Already, Record{State: PhaseCompleted}},
		{"release", mine, HolderChange{Free: true, Error: "refused"}, Applied, Record{State: PhaseInProgress, Attempts: 3, Error: "refused"}},
		{"release again", Record{State: PhaseInProgress}, HolderChange{Free: true}, Already, Record{State: PhaseInProgress}},
		{"renew what was freed", Record{State: PhaseInProgress}, HolderChange{}, Lost, Record{State: PhaseInProgress}},
		{"release without counting", mine, HolderChange{Free: true, Forget: true}, Applied, Record{State: PhaseInProgress, Attempts: 2}},
	} {
		c.was.Revision = Revision{1, 1}
		got, v := c.change.apply(Terms{Holder: "me_1", Window: time.Minute, Grow: true}, c.was, at)
		checkRecord(t, c.name, got, c.want)
		if v != c.result {
			t.Errorf("%s: %v, want %v", c.name, v, c.result)
		}
	}
}

func TestLeasesOfPhasesGrowWithTheAttempts(t *testing.T) {
	for _, c := range []struct {
		initial time.Duration
		attempt int
		want    time.Duration
	}{{10 * time.Minute, 1, time.Minute}, {10 * time.Minute, 3, 3 * time.Minute}, {20 * time.Second, 2, 40 * time.Second}, {time.Hour, 0, time.Minute}} {
		if got := PhaseWindow(c.initial, c.attempt); got != c.want {
			t.Errorf("%v, attempt %d: %v, want %v", c.initial, c.attempt, got, c.want)
		}
	}
}

func TestSnapshotNamesAreDerivedFromSessionAndSettings(t *testing.T) {
	one := SnapshotName("s", map[string]string{"repository": "a"})
	if one != SnapshotName("s", map[string]string{"repository": "a"}) || one == SnapshotName("s", map[string]string{"repository": "b"}) || len(one) != len("rfs-s-")+16 {
		t.Errorf("%q", one)
	}
	if got := SnapshotName("", nil); got[:12] != "rfs-default-" {
		t.Errorf("%q", got)
	}
}
