package status

import (
	"slices"
	"strings"
	"time"
)

// Codes of events about nodes of a fleet. The first two are also the states of such nodes.
const (
	NodeLost     = "node_lost"
	NodeLeft     = "node_left"
	NodeReturned = "node_returned"
)

const (
	nodeSubject = "node "
	nodeStarted = ", started "
)

// NodeSubject returns the subject of events about one run of a node.
func NodeSubject(n Node) string {
	return nodeSubject + n.Name + nodeStarted + n.Started.UTC().Format(time.RFC3339Nano)
}

// GoneNode is a node that has died or left.
type GoneNode struct {
	Name    string    `json:"name"`
	State   string    `json:"state"` // node_lost or node_left
	Started time.Time `json:"started"`
	Seen    time.Time `json:"last_seen"` // when the fleet noticed that, by the store's clock
}

// Gone returns the nodes that left or failed according to the events of the store and are not live, sorted by name.
func Gone(events []Event, live []Node) []GoneNode {
	last := map[string]GoneNode{}
	for _, e := range events {
		if e.Code != NodeLost && e.Code != NodeLeft {
			continue
		}
		subject, ok := strings.CutPrefix(e.Subject, nodeSubject)
		i := strings.LastIndex(subject, nodeStarted)
		if !ok || i < 0 {
			continue
		}
		started, err := time.Parse(time.RFC3339Nano, subject[i+len(nodeStarted):])
		name := subject[:i]
		if err != nil || slices.ContainsFunc(live, func(n Node) bool { return n.Name == name }) {
			continue
		}
		if was, ok := last[name]; !ok || was.Started.Before(started) {
			last[name] = GoneNode{Name: name, State: e.Code, Started: started, Seen: e.Time}
		}
	}
	all := make([]GoneNode, 0, len(last))
	for _, n := range last {
		all = append(all, n)
	}
	slices.SortFunc(all, func(a, b GoneNode) int { return strings.Compare(a.Name, b.Name) })
	return all
}
