package spec

import (
	"strings"
	"testing"
)

const limit = 3_000_000

func TestTheProtocolHoldsInEveryState(t *testing.T) {
	for _, v := range []Variant{
		{Name: "leases may end at any moment, zombies continue"},
		{Name: "clocks within margin and grace", Timely: true},
		{Name: "the store forgets two acknowledged writes", Forget: 2},
		{Name: "watermarks are not used for restarts", RestartAtCursor: true},
		{Name: "records arrive beside everything else", Beside: true},
		{Name: "files appear when they are committed", Export: true},
		{Name: "a shard in two parts", Split: true},
		{Name: "a shard in two parts, the store forgets two acknowledged writes", Split: true, Forget: 2},
	} {
		t.Run(v.Name, func(t *testing.T) {
			if testing.Short() && v.Forget > 0 {
				t.Skip("-short: more than a million states")
			}
			r := v.Explore(limit)
			t.Logf("%d states", r.States)
			if r.Violation != "" {
				t.Errorf("%s:\n  %s", r.Violation, strings.Join(r.Trace, "\n  "))
			}
			if r.States < 10_000 {
				t.Errorf("only %d states: the model does nothing", r.States)
			}
		})
	}
}

func TestEveryMutantIsCaught(t *testing.T) {
	for _, tc := range []struct {
		v    Variant
		want string
	}{
		{Variant{Name: "cursor counts finished documents", CountCursor: true}, "is lost"},
		{Variant{Name: "complete before create", CompleteFirst: true}, "is lost"},
		{Variant{Name: "stored successor not asserted", NoAssertion: true, Forget: 2}, "is lost"},
		{Variant{Name: "send without lease check", NoDeadline: true, Timely: true}, "sends for item"},
		{Variant{Name: "refused acquisition (409) taken for won", BlindAfterLost: true, Timely: true}, "sends for item"},
		{Variant{Name: "no holder check", NoHolderCheck: true}, "changed its successor"},
		{Variant{Name: "hand-off beside a record", Beside: true, RecordBeside: true, Timely: true}, "for lost, which it holds"},
		{Variant{Name: "hand-off of files that are not committed", Export: true, NoCommit: true}, "is lost"},
		{Variant{Name: "progress of files that are not committed is recorded", Export: true, RecordVolatile: true}, "is lost"},
		{Variant{Name: "an earlier attempt publishes its file", Export: true, AnyPublishes: true}, "is lost"},
		{Variant{Name: "the border is computed again", Split: true, SplitAgain: true}, "is lost"},
		{Variant{Name: "a successor does not carry its end", Split: true, NoEnd: true}, "its successor at 0"},
		{Variant{Name: "completion before the end", Split: true, CompleteAny: true}, "is lost"},
		{Variant{Name: "only the first root is audited", Split: true, FirstRoot: true, Forget: 2}, "is lost"},
	} {
		t.Run(tc.v.Name, func(t *testing.T) {
			r := tc.v.Explore(limit)
			t.Logf("%d states: %s\n  %s", r.States, r.Violation, strings.Join(r.Trace, "\n  "))
			if !strings.Contains(r.Violation, tc.want) {
				t.Errorf("not caught: %q", r.Violation)
			}
		})
	}
}
