package schedule_test

import (
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/schedule"
)

func TestTheProposedNumberFollowsTheTargetWithinWhatNodesBear(t *testing.T) {
	calm, busy, slow := []schedule.Load{{Workers: 4, MaxWorkers: 8}, {Workers: 4, MaxWorkers: 8}}, []schedule.Load{{Workers: 4, MaxWorkers: 8, TargetRejectRatio: 0.5}, {Workers: 4, MaxWorkers: 8}}, []schedule.Load{{Workers: 4, MaxWorkers: 8, RepoThrottleRatio: 0.3}, {Workers: 4, MaxWorkers: 8, RepoThrottleRatio: 0.2}}
	for _, c := range []struct {
		name      string
		was, open int
		loads     []schedule.Load
		want      int
	}{
		{"the start", 0, -1, calm, 16},
		{"more while nothing is refused", 8, -1, calm, 10},
		{"never more than nodes bear", 16, -1, calm, 16},
		{"never more than is open", 8, 3, calm, 3},
		{"fewer while the target is busy", 8, -1, busy, 6},
		{"fewer while the repository throttles", 8, -1, slow, 6},
		{"never none", 1, -1, busy, 1},
		{"as it is in between", 8, -1, []schedule.Load{{Workers: 8, MaxWorkers: 16, TargetRejectRatio: 0.05}}, 8},
		{"nothing is open", 8, 0, calm, 0},
		{"no node is there", 8, -1, nil, 0},
	} {
		if got := schedule.ProposeWorkers(c.was, c.loads, c.open); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

func TestATypicalShardNeedsOneLease(t *testing.T) {
	shards := []schedule.Shard{{Bytes: 60e9}, {Bytes: 40e9}}
	if d := schedule.TypicalShard(shards, []schedule.Load{{Workers: 2, Rate: 50e6}, {Workers: 0}}, 1); d != 2000*time.Second {
		t.Error(d)
	}
	if d := schedule.TypicalShard(shards, []schedule.Load{{Workers: 2}}, 50e6); d != 1000*time.Second {
		t.Errorf("%v by the history, while no worker has done anything", d)
	}
	for _, d := range []time.Duration{schedule.TypicalShard(nil, []schedule.Load{{Workers: 1, Rate: 1}}, 1), schedule.TypicalShard(shards, nil, 0), schedule.TypicalShard(shards, []schedule.Load{{Workers: 1}}, 0)} {
		if d != 0 {
			t.Error(d)
		}
	}
	for shard, want := range map[time.Duration]int{0: 0, time.Minute: 0, 10 * time.Minute: 0, 11 * time.Minute: 1, 20 * time.Minute: 1, 21 * time.Minute: 2, 24 * time.Hour: 2} {
		if got := (schedule.Plan{ShardDuration: shard}).MinExponent(10 * time.Minute); got != want {
			t.Errorf("%v: %d, want %d", shard, got, want)
		}
	}
	if (schedule.Plan{ShardDuration: time.Hour}).MinExponent(0) != 0 {
		t.Error("no initial lease")
	}
}
