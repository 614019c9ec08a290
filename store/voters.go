package store

import (
	"cmp"
	"slices"
	"time"
)

// Node is a member of the fleet as reported by gossip.
type Node struct {
	ID      string
	Address string // of its Raft
	Zone    string
	Spot    bool
	Started int64 // epoch ms
	// Gone is the time for which it has been missing; 0 while gossip considers it alive.
	Gone time.Duration
}

// Server is a member of the Raft cluster.
type Server struct {
	ID    string
	Voter bool
}

// Change is one change of the membership.
type Change struct {
	Add    *Node // as a voter
	Remove string
}

const (
	removeAfter = 60 * time.Second
	minVoterAge = 30 * time.Second // of a node, before it may become a voter
)

// Voters returns the desired number of voters in a fleet of n nodes.
func Voters(n int) int {
	switch {
	case n <= 2:
		return 1
	case n <= 10:
		return 3
	default:
		return 5
	}
}

// NextChange returns the best single change of the voters, if any. A missing voter is removed only if the others keep a majority; a
// suitable replacement is added first.
func NextChange(self string, servers []Server, nodes []Node, now time.Time) (Change, bool) {
	byID := map[string]Node{}
	for _, n := range nodes {
		byID[n.ID] = n
	}
	alive := 0
	for _, n := range nodes {
		if n.Gone == 0 {
			alive++
		}
	}
	want := Voters(alive)
	var here, missing []string
	for _, s := range servers {
		n, known := byID[s.ID]
		if s.ID != self && (!known || n.Gone > 0) {
			if !known || n.Gone >= removeAfter {
				missing = append(missing, s.ID)
			}
			continue
		}
		here = append(here, s.ID)
	}
	if len(here) < want || len(missing) > 0 && len(here) <= want {
		if n, ok := bestCandidate(nodes, servers, here, byID, now); ok && len(here) < want {
			return Change{Add: &n}, true
		}
	}
	if len(missing) > 0 && 2*len(here) > len(servers) {
		return Change{Remove: missing[0]}, true
	}
	if len(here) > want && len(here) == len(servers) {
		// Too many: remove the least useful one, never the leader itself.
		slices.SortFunc(here, func(a, b string) int { return placementCost(byID[b], here, byID) - placementCost(byID[a], here, byID) })
		for _, id := range here {
			if id != self {
				return Change{Remove: id}, true
			}
		}
	}
	return Change{}, false
}

// bestCandidate returns the node that should become a voter: in a zone with few voters, not a spot instance, the oldest.
func bestCandidate(nodes []Node, servers []Server, here []string, byID map[string]Node, now time.Time) (Node, bool) {
	var fit []Node
	for _, n := range nodes {
		isServer := slices.ContainsFunc(servers, func(s Server) bool { return s.ID == n.ID })
		if n.Gone == 0 && !isServer && n.Address != "" && now.UnixMilli()-n.Started >= minVoterAge.Milliseconds() {
			fit = append(fit, n)
		}
	}
	if len(fit) == 0 {
		return Node{}, false
	}
	slices.SortFunc(fit, func(a, b Node) int {
		return cmp.Or(placementCost(a, here, byID)-placementCost(b, here, byID), cmp.Compare(a.Started, b.Started), cmp.Compare(a.ID, b.ID))
	})
	return fit[0], true
}

// placementCost returns a lower value for nodes whose vote makes the loss of a majority less likely.
func placementCost(n Node, here []string, byID map[string]Node) int {
	r := 0
	for _, id := range here {
		if id != n.ID && byID[id].Zone == n.Zone {
			r += 2
		}
	}
	if n.Spot {
		r++
	}
	return r
}
