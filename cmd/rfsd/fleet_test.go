package main

import "testing"

// TestANodeThatHasNotJoinedItsFleetLeavesItTheRate: nobody counts it yet.
func TestANodeThatHasNotJoinedItsFleetLeavesItTheRate(t *testing.T) {
	m := &member{}
	if p := m.Plan(); p.Rate != 0 {
		t.Errorf("%+v without a limit", p)
	}
	m.r.maxRate = 1_000_000
	if p := m.Plan(); p.Rate <= 0 || p.Rate > 100 {
		t.Errorf("%+v before it is in the list", p)
	}
	m.alone = 4
	if p := m.Plan(); p.Rate != 0 || p.ListedNodes != 4 {
		t.Errorf("%+v when it is in the list without gossip", p)
	}
}
