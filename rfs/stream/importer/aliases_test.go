package importer_test

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/stream/importer"
)

// aliasTarget is a target that rejects some aliases. It notes what is done, in order.
type aliasTarget struct {
	calls   []string
	rejects string
	err     error
}

func (t *aliasTarget) SetAliases(_ context.Context, index string, aliases json.RawMessage) error {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(aliases, &all); err != nil {
		return err
	}
	names := strings.Join(slices.Sorted(maps.Keys(all)), ",")
	t.calls = append(t.calls, "set "+index+" "+names)
	if t.rejects != "" && all[t.rejects] != nil {
		return fault.ErrRejected
	}
	return t.err
}

func (t *aliasTarget) IntendAliases(_ context.Context, index string, _ json.RawMessage) error {
	t.calls = append(t.calls, "intend "+index)
	return nil
}

func (t *aliasTarget) Event(_ context.Context, subject, code, _ string) (bool, error) {
	t.calls = append(t.calls, code+" "+subject)
	return true, nil
}

func TestAliases_Set(t *testing.T) {
	damaged := errors.New("damaged")
	done := func(name string) session.Creation {
		return session.Creation{Kind: "index", Name: name, State: session.CreationDone}
	}
	for _, c := range []struct {
		name    string
		created []session.Creation
		on      aliasTarget
		readErr error
		want    []string
		fails   error
	}{
		{name: "nothing was created"},
		{name: "only on indices of the session", created: []session.Creation{done("a")}, want: []string{"intend a", "set a x,y"}},
		{name: "an index without aliases", created: []session.Creation{done("c")}},
		{name: "an index whose creation has no answer", created: []session.Creation{{Kind: "index", Name: "a", State: session.CreationIntended}}},
		{name: "a template of the same name", created: []session.Creation{{Kind: "template", Name: "a", State: session.CreationDone}}},
		{
			name: "the target refuses one", created: []session.Creation{done("a"), done("b")}, on: aliasTarget{rejects: "x"},
			want: []string{"intend a", "set a x,y", "set a x", "set a y", "refused alias x of a", "intend b", "set b z"},
		},
		{name: "the target does not answer", created: []session.Creation{done("a"), done("b")}, on: aliasTarget{err: fault.ErrUnavailable}, want: []string{"intend a", "set a x,y"}, fails: fault.ErrUnavailable},
		{name: "the list of indices cannot be read", readErr: fault.ErrUnavailable, fails: fault.ErrUnavailable},
		{name: "the description is damaged", created: []session.Creation{done("a")}, readErr: damaged, fails: damaged},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := &importer.Aliases{
				Described: func(context.Context) (map[string]json.RawMessage, error) {
					if errors.Is(c.readErr, damaged) {
						return nil, damaged
					}
					return map[string]json.RawMessage{"a": json.RawMessage(`{"x":{},"y":{}}`), "b": json.RawMessage(`{"z":{}}`)}, nil
				},
				Created: func(context.Context) iter.Seq2[session.Creation, error] {
					return func(yield func(session.Creation, error) bool) {
						for _, x := range c.created {
							if !yield(x, nil) {
								return
							}
						}
						if c.readErr != nil {
							yield(session.Creation{}, c.readErr)
						}
					}
				},
				Target: &c.on, Ledger: &c.on, Events: &c.on, Log: slog.New(slog.DiscardHandler),
			}
			if err := a.Set(t.Context()); !errors.Is(err, c.fails) || c.fails == nil && err != nil {
				t.Errorf("%v", err)
			}
			if !slices.Equal(c.on.calls, c.want) {
				t.Errorf("%q\nwant %q", c.on.calls, c.want)
			}
		})
	}
}
