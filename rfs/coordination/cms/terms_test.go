package cms

import (
	"testing"
	"time"
)

// TestPhasesAreLeasedToOneUntilItsTimeIsOver is the table of transitions of a phase's record.
func TestPhasesAreLeasedToOneUntilItsTimeIsOver(t *testing.T) {
	at := time.UnixMilli(1_000_000)
	ms := func(d time.Duration) int64 { return at.Add(d).UnixMilli() }
	acquire := Terms{Holder: "me_1", States: []string{"SETUP"}, Window: time.Minute, Grow: true, Grace: 2 * time.Second, Attempts: 5}
	for _, c := range []struct {
		name   string
		was    Record
		result Result
		want   Record
	}{
		{"no record", Record{}, Applied, Record{State: "SETUP", Holder: "me_1", Attempts: 1, Expire: ms(time.Minute)}},
		{"free", Record{State: "SETUP", Attempts: 2}, Applied, Record{State: "SETUP", Holder: "me_1", Attempts: 3, Expire: ms(3 * time.Minute)}},
		{"another's", Record{State: "SETUP", Holder: "you_1", Attempts: 1, Expire: ms(time.Second)}, Held, Record{}},
		{"another's, in its grace", Record{State: "SETUP", Holder: "you_1", Attempts: 1, Expire: ms(-3 * time.Second)}, Held, Record{}},
		{"another's, over", Record{State: "SETUP", Holder: "you_1", Attempts: 1, Expire: ms(-3*time.Second - time.Millisecond)}, Applied,
			Record{State: "SETUP", Holder: "me_1", Attempts: 2, Expire: ms(2 * time.Minute)}},
		{"mine: the answer was lost", Record{State: "SETUP", Holder: "me_1", Attempts: 1, Expire: ms(time.Second)}, Already, Record{}},
		{"moved on", Record{State: "IN_PROGRESS"}, Done, Record{}},
		{"completed", Record{State: "COMPLETED"}, Done, Record{}},
		{"tried too often", Record{State: "SETUP", Attempts: 5, Error: "refused"}, Exhausted,
			Record{State: StatusFailed, Attempts: 5, Error: "given up after 5 attempts: refused"}},
		{"died too often", Record{State: "SETUP", Attempts: 5, Holder: "you_1", Expire: ms(-time.Hour)}, Exhausted,
			Record{State: StatusFailed, Attempts: 5, Error: "given up after 5 attempts: every worker that tried died or lost its lease"}},
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
	mine := Record{State: "IN_PROGRESS", Holder: "me_1", Attempts: 3, Expire: ms(time.Second)}
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
		{"renew", mine, HolderChange{}, Applied, Record{State: "IN_PROGRESS", Holder: "me_1", Attempts: 3, Expire: ms(3 * time.Minute)}},
		{"renew with progress", mine, HolderChange{Moved: true}, Applied, Record{State: "IN_PROGRESS", Holder: "me_1", Attempts: 1, Expire: ms(time.Minute)}},
		{"renew too late", late, HolderChange{}, Lost, late},
		{"renew another holder's", others, HolderChange{}, Lost, others},
		{"complete", mine, HolderChange{State: "COMPLETED", Free: true}, Applied, Record{State: "COMPLETED", Attempts: 3}},
		{"complete late, while no other holder came", late, HolderChange{State: "COMPLETED", Free: true}, Applied, Record{State: "COMPLETED", Attempts: 3}},
		{"complete another holder's", others, HolderChange{State: "COMPLETED", Free: true}, Lost, others},
		{"complete again", Record{State: "COMPLETED"}, HolderChange{State: "COMPLETED", Free: true}, Already, Record{State: "COMPLETED"}},
		{"release", mine, HolderChange{Free: true, Error: "refused"}, Applied, Record{State: "IN_PROGRESS", Attempts: 3, Error: "refused"}},
		{"release again", Record{State: "IN_PROGRESS"}, HolderChange{Free: true}, Already, Record{State: "IN_PROGRESS"}},
		{"renew what was freed", Record{State: "IN_PROGRESS"}, HolderChange{}, Lost, Record{State: "IN_PROGRESS"}},
		{"release without counting", mine, HolderChange{Free: true, Forget: true}, Applied, Record{State: "IN_PROGRESS", Attempts: 2}},
	} {
		c.was.Revision = Revision{1, 1}
		got, v := c.change.apply(Terms{Holder: "me_1", Window: time.Minute, Grow: true}, c.was, at)
		checkRecord(t, c.name, got, c.want)
		if v != c.result {
			t.Errorf("%s: %v, want %v", c.name, v, c.result)
		}
	}
}
