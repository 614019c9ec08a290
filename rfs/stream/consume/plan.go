package consume

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/primitive"
)

// Plan assigns partitions to processes, as last written by the leader.
type Plan struct {
	Version int     `json:"v"`
	Changes int64   `json:"changes"` // how often partitions were assigned
	Nodes   []Node  `json:"nodes"`   // in order of their tokens
	Ends    []int64 `json:"ends"`    // of the partitions, at the leader's last check
}

// Node is a process of the session.
type Node struct {
	Token      string `json:"token"`
	Name       string `json:"name,omitempty"` // of the machine
	Partitions []int  `json:"partitions,omitempty"`
}

// of returns the partitions of a node.
func (p Plan) of(token string) []int {
	for _, n := range p.Nodes {
		if n.Token == token {
			return n.Partitions
		}
	}
	return nil
}

// Idle returns the nodes without a partition.
func (p Plan) Idle() []Node {
	return slices.DeleteFunc(slices.Clone(p.Nodes), func(n Node) bool { return len(n.Partitions) > 0 })
}

// readPlan returns the plan; an empty one before the first.
func readPlan(ctx context.Context, store cms.Records) (Plan, error) {
	r, err := store.Record(ctx, planID)
	if errors.Is(err, cms.ErrNotFound) {
		return Plan{}, nil
	}
	if err != nil {
		return Plan{}, fmt.Errorf("plan of the stream: %w", err)
	}
	return decodePlan(r)
}

func decodePlan(r cms.Record) (p Plan, err error) {
	if len(r.Body) == 0 {
		return p, nil
	}
	if err := json.Unmarshal(r.Body, &p); err != nil {
		return p, fmt.Errorf("plan of the stream: %w: %w", err, fault.ErrCorrupt)
	}
	return p, nil
}

// assign divides partitions among nodes. The numbers of partitions per node differ by at most one, and as many partitions as possible
// keep their node in before.
func assign(before Plan, nodes []primitive.Node, partitions int) []Node {
	all := make([]Node, 0, len(nodes))
	taken := make([]bool, partitions)
	for _, n := range nodes {
		x := Node{Token: n.Token, Name: n.API}
		for _, p := range before.of(n.Token) {
			if 0 <= p && p < partitions && !taken[p] {
				taken[p] = true
				x.Partitions = append(x.Partitions, p)
			}
		}
		all = append(all, x)
	}
	if len(all) == 0 {
		return nil
	}
	slices.SortFunc(all, func(a, b Node) int { // nodes with most partitions keep most
		return cmp.Or(cmp.Compare(len(b.Partitions), len(a.Partitions)), cmp.Compare(a.Token, b.Token))
	})
	quota := func(i int) int {
		if i < partitions%len(all) {
			return partitions/len(all) + 1
		}
		return partitions / len(all)
	}
	for i := range all {
		for most := quota(i); len(all[i].Partitions) > most; {
			last := len(all[i].Partitions) - 1
			taken[all[i].Partitions[last]] = false
			all[i].Partitions = all[i].Partitions[:last]
		}
	}
	next := 0
	for i := range all {
		for most := quota(i); len(all[i].Partitions) < most; next++ {
			if !taken[next] {
				all[i].Partitions = append(all[i].Partitions, next)
			}
		}
		slices.Sort(all[i].Partitions)
	}
	slices.SortFunc(all, func(a, b Node) int { return cmp.Compare(a.Token, b.Token) })
	return all
}

// lead assigns partitions whenever this process is the leader, until ctx is done or a permanent error occurs.
func (t *Task) lead(ctx context.Context) error {
	locks := &primitive.Locks{Store: t.Store, Clock: t.Clock}
	for {
		err := locks.Lead(ctx, Kind, t.Lease, t.leadOn)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && !mends(err) && !errors.Is(err, fault.ErrLeaseLost):
			return err
		}
		if err := t.Clock.Sleep(ctx, t.beat()); err != nil {
			return err
		}
	}
}

// leadOn assigns partitions as nodes join and leave, as long as this process leads.
func (t *Task) leadOn(ctx context.Context) error {
	for {
		err := t.arrange(ctx)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil && mends(err): // partitions stay where they are
			t.Log.Warn("partitions cannot be assigned", "error", err)
		case err != nil:
			return err
		}
		if t.Clock.Sleep(ctx, t.beat()) != nil {
			return context.Cause(ctx)
		}
	}
}

// arrange assigns all partitions to the live nodes, unless they already are.
func (t *Task) arrange(ctx context.Context) error {
	if err := t.nodes.Expire(ctx, t.Lease); err != nil {
		return err
	}
	nodes, err := t.nodes.List(ctx)
	if err != nil {
		return err
	}
	nodes = slices.DeleteFunc(nodes, func(n primitive.Node) bool { return n.Task != Kind })
	d, err := t.Stream.Describe(ctx)
	if err == nil {
		err = t.same(d)
	}
	if err != nil {
		return err
	}
	s, err := t.cover(ctx, d)
	if err != nil {
		return err
	}
	if before := len(*t.begins.Load()); before < len(s.Begins) {
		t.Log.Info("the topic has more partitions", "before", before, "now", len(s.Begins))
		if err := t.seed(ctx, s); err != nil {
			return err
		}
		t.begins.Store(&s.Begins)
	}
	return t.plan(ctx, nodes, d, len(s.Begins))
}

// plan stores an assignment.
func (t *Task) plan(ctx context.Context, nodes []primitive.Node, d Description, partitions int) error {
	var was, is Plan
	err := cms.NewLeases(t.Store, t.Clock, nil).Change(ctx, planID, Kind, func(_ context.Context, r cms.Record, _ time.Time, _ time.Duration) (cms.Record, cms.Result, error) {
		var err error
		if was, err = decodePlan(r); err != nil {
			return r, cms.Already, err
		}
		is = Plan{Version: stateVersion, Changes: was.Changes, Nodes: assign(was, nodes, partitions)}
		for _, p := range d.Partitions {
			is.Ends = append(is.Ends, p.End)
		}
		same := slices.EqualFunc(was.Nodes, is.Nodes, func(a, b Node) bool {
			return a.Token == b.Token && a.Name == b.Name && slices.Equal(a.Partitions, b.Partitions)
		})
		switch {
		case same && slices.Equal(was.Ends, is.Ends):
			return r, cms.Already, nil
		case !same:
			is.Changes++
		}
		r.Body, err = json.Marshal(is)
		return r, cms.Applied, err
	})
	if err == nil && is.Changes > was.Changes {
		t.Log.Info("partitions assigned", "partitions", partitions, "nodes", len(is.Nodes), "idle", len(is.Idle()))
	}
	return err
}
