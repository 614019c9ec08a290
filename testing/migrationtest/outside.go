package migrationtest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/destination/objects"
	"github.com/rfsd/rfsd/rfs/migration/creation"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/source/live"
	"github.com/rfsd/rfsd/rfs/source/snapshot"
)

// Outside is the source and the target cluster, with a record of their requests.
type Outside struct {
	mu        sync.Mutex
	Snapshots map[string]live.State
	Ends      string
	Created   map[string]int // successful creations by name
	UUIDs     map[string]string
	bodies    map[string]json.RawMessage // bodies of created indices, including marks
	AliasesOf map[string]string
	Refuse    map[string]string // index → reason for rejecting it
	Refused   map[string]error  // alias → error
	Wrong     map[string]error  // index → error
	Late      string            // withheld aliases; "": one
	Globals   error
	Sent      int // number of requests to create globals
	Busy      int // number of snapshots to reject because another one is running
}

// NewOutside returns clusters that hold nothing.
func NewOutside() *Outside {
	return &Outside{Snapshots: map[string]live.State{}, Ends: "SUCCESS", Created: map[string]int{}, UUIDs: map[string]string{}, bodies: map[string]json.RawMessage{}, AliasesOf: map[string]string{}, Refuse: map[string]string{}}
}

// Seen is the outside as seen by one process.
type Seen struct {
	*Outside
	Life *Life
}

// do runs an effect on the outside while the process is alive.
func (x Seen) do(f func() error) error {
	var err error
	derr := x.Life.Call(func() {
		x.mu.Lock()
		defer x.mu.Unlock()
		err = f()
	})
	return errors.Join(derr, err)
}

// Register does nothing while the process is alive.
func (x Seen) Register(context.Context) (bool, error) {
	return false, x.do(func() error { return nil })
}

// Create starts a snapshot.
func (x Seen) Create(_ context.Context, name string) (created bool, err error) {
	err = x.do(func() error {
		if x.Busy > 0 {
			x.Busy--
			return fmt.Errorf("a snapshot is already running: %w", live.ErrBusy)
		}
		if _, there := x.Snapshots[name]; !there {
			x.Snapshots[name] = live.State{UUID: "uuid of " + name, State: "IN_PROGRESS", ShardsTotal: 4, BytesTotal: 400}
			x.Created["snapshot "+name]++
			created = true
		}
		return nil
	})
	return created, err
}

// State returns a snapshot, which makes progress with each call.
func (x Seen) State(_ context.Context, name string) (st live.State, err error) {
	err = x.do(func() error {
		s, there := x.Snapshots[name]
		if !there {
			return fmt.Errorf("snapshot_missing: %w", fs.ErrNotExist)
		}
		if s.State == "IN_PROGRESS" && s.ShardsDone < 4 {
			s.ShardsDone++
			s.BytesDone += 100
			if s.ShardsDone == 4 {
				s.State = x.Ends
			}
			x.Snapshots[name] = s
		}
		st = s
		return nil
	})
	return st, err
}

// Delete deletes a snapshot.
func (x Seen) Delete(_ context.Context, name string) error {
	return x.do(func() error {
		delete(x.Snapshots, name)
		return nil
	})
}

// MigrateGlobals creates the templates.
func (x Seen) MigrateGlobals(context.Context, *plan.Plan, objects.Ledger) (r creation.GlobalsResult, err error) {
	err = x.do(func() error {
		x.Sent++
		if x.Globals != nil {
			return x.Globals
		}
		x.Created["templates"] = 1
		r.Created = []string{"template t"}
		return nil
	})
	return r, err
}

// Check accepts every plan.
func (x Seen) Check(context.Context, *plan.Plan, creation.Owns) error { return nil }

// Absent returns the names that no index has.
func (x Seen) Absent(_ context.Context, names []string) (absent []string, err error) {
	err = x.do(func() error {
		for _, n := range names {
			if x.UUIDs[n] == "" {
				absent = append(absent, n)
			}
		}
		return nil
	})
	return absent, err
}

// Make creates the target indices of an entry.
func (x Seen) Make(_ context.Context, p plan.Index) (made creation.Made, err error) {
	err = x.do(func() error {
		if err := x.Wrong[p.Name]; err != nil {
			x.Created["tried "+p.Name]++
			return err
		}
		if why := x.Refuse[p.Name]; why != "" {
			return fmt.Errorf("%s: %w", why, fault.ErrRejected)
		}
		for _, n := range p.Entry.Naming.Targets() {
			if x.UUIDs[n] == "" {
				x.Created["index "+n]++
				x.UUIDs[n] = "uuid of " + n
				if x.bodies[n], err = p.Mark.Put(p.MarkKind(), n, json.RawMessage(`{}`)); err != nil {
					return err
				}
				made.Created = append(made.Created, n)
			}
		}
		made.Originals = true
		made.Late = map[string]json.RawMessage{p.Name: json.RawMessage(cmp.Or(x.Late, `{"alias-of-`+p.Name+`":{}}`))}
		return nil
	})
	return made, err
}

// Aliases returns the withheld aliases.
func (x Seen) Aliases(_ context.Context, p plan.Index) (map[string]json.RawMessage, error) {
	return map[string]json.RawMessage{p.Name: json.RawMessage(cmp.Or(x.Late, `{"alias-of-`+p.Name+`":{}}`))}, nil
}

// RemoveAliases removes aliases from an index.
func (x Seen) RemoveAliases(_ context.Context, index string, names []string) error {
	return x.do(func() error {
		all := map[string]json.RawMessage{}
		_ = json.Unmarshal([]byte(x.AliasesOf[index]), &all)
		maps.DeleteFunc(all, func(name string, _ json.RawMessage) bool { return slices.Contains(names, name) })
		body, err := json.Marshal(all)
		x.AliasesOf[index] = string(body)
		return err
	})
}

// ChangeSettings changes nothing.
func (Seen) ChangeSettings(context.Context, plan.Index, *snapshot.Index, []string) ([]string, error) {
	return nil, nil
}

// SetAliases adds aliases to an index.
func (x Seen) SetAliases(_ context.Context, index string, aliases json.RawMessage) error {
	return x.do(func() error {
		var all map[string]json.RawMessage
		if err := json.Unmarshal(aliases, &all); err != nil {
			return err
		}
		for name := range all {
			if err := x.Refused[name]; err != nil {
				return err
			}
		}
		merged := map[string]json.RawMessage{}
		_ = json.Unmarshal([]byte(x.AliasesOf[index]), &merged)
		maps.Copy(merged, all)
		body, err := json.Marshal(merged)
		x.AliasesOf[index] = string(body)
		return err
	})
}

// IndexUUID returns the UUID of an index.
func (x Seen) IndexUUID(_ context.Context, name string) (uuid string, err error) {
	err = x.do(func() error {
		if uuid = x.UUIDs[name]; uuid == "" {
			return fmt.Errorf("index_not_found: %w", fs.ErrNotExist)
		}
		return nil
	})
	return uuid, err
}

// Do answers for indices.
func (x Seen) Do(_ context.Context, _, path string, _ url.Values, _ []byte) (status int, answer []byte, err error) {
	name := strings.TrimPrefix(path, "/")
	err = x.do(func() error {
		if status = http.StatusNotFound; x.UUIDs[name] != "" {
			status = http.StatusOK
			answer = fmt.Appendf(nil, `{%q:{"settings":{"index.uuid":%q}`, name, x.UUIDs[name])
			if body := x.bodies[name]; len(body) > 2 {
				answer = append(append(answer, ','), body[1:len(body)-1]...)
			}
			answer = append(answer, "}}"...)
		}
		return nil
	})
	return status, answer, err
}
