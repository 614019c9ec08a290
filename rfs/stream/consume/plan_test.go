package consume

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/rfsd/rfsd/rfs/coordination/cms/primitive"
)

// TestAssign lets nodes come and go: every partition has one node, numbers differ by one at most, and no more partitions move than
// must.
func TestAssign(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		partitions := 1 + rng.IntN(40)
		var plan Plan
		var nodes []primitive.Node
		for step := range 30 {
			was := len(nodes)
			if len(nodes) == 0 || rng.IntN(2) == 0 {
				nodes = append(nodes, primitive.Node{Token: fmt.Sprintf("n%d", step)})
			} else {
				i := rng.IntN(len(nodes))
				nodes = slices.Delete(nodes, i, i+1)
			}
			before := plan
			plan = Plan{Nodes: assign(before, nodes, partitions)}
			of := map[int]string{}
			least, most := partitions, 0
			for _, n := range plan.Nodes {
				least, most = min(least, len(n.Partitions)), max(most, len(n.Partitions))
				for _, p := range n.Partitions {
					if of[p] != "" || p < 0 || p >= partitions {
						t.Fatalf("partition %d of %d is assigned twice, or is none", p, partitions)
					}
					of[p] = n.Token
				}
			}
			if len(nodes) == 0 {
				continue
			}
			if len(of) != partitions || most-least > 1 || len(plan.Nodes) != len(nodes) {
				t.Fatalf("%d of %d partitions of %d nodes, %d to %d each", len(of), partitions, len(nodes), least, most)
			}
			moved := 0
			for _, n := range before.Nodes {
				for _, p := range n.Partitions {
					alive := slices.ContainsFunc(nodes, func(x primitive.Node) bool { return x.Token == n.Token })
					if alive && of[p] != n.Token {
						moved++
					}
				}
			}
			// A node that joins takes its part; when one leaves, nothing of the others moves.
			if len(nodes) > was && moved > partitions/len(nodes)+1 || len(nodes) < was && moved > 0 {
				t.Errorf("%d partitions of nodes that stayed moved, from %d to %d nodes", moved, was, len(nodes))
			}
			if again := assign(plan, nodes, partitions); fmt.Sprint(again) != fmt.Sprint(plan.Nodes) {
				t.Errorf("assigned again: %v, before %v", again, plan.Nodes)
			}
		}
	}
}

func TestIdleNodesAreListed(t *testing.T) {
	plan := Plan{Nodes: assign(Plan{}, []primitive.Node{{Token: "a"}, {Token: "b"}, {Token: "c"}}, 2)}
	if idle := plan.Idle(); len(idle) != 1 || idle[0].Token != "c" {
		t.Errorf("%+v", idle)
	}
}
