package phase_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/pattern"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/destination/metadata"
	"github.com/rfsd/rfsd/rfs/migration/creation"
	"github.com/rfsd/rfsd/rfs/migration/phase"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/source/repo"
	"github.com/rfsd/rfsd/testing/creationtest"
	"github.com/rfsd/rfsd/testing/migrationtest"
)

// listed returns a session that has created the indices of a snapshot, with its plan. A worker process that leases items has no plan.
func listed(t *testing.T, fixture string, req plan.Request, planned bool) (*phase.Session, *plan.Plan) {
	t.Helper()
	s, p := derives(t, fixture, req)
	if err := toItems(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	if planned {
		return s, p
	}
	other, _ := derives(t, fixture, req)
	other.Coordinator, other.Targets = s.Coordinator, s.Targets
	return other, p
}

// forge changes the recorded entry of an index.
func forge(t *testing.T, s *phase.Session, index string, change func(e *plan.Entry)) {
	t.Helper()
	if err := session.EntriesOf(s.Coordinator).UpdateBody(t.Context(), index, func(was json.RawMessage) json.RawMessage {
		e, err := plan.DecodeEntry(index, was)
		if err != nil {
			t.Error(err)
			return was
		}
		change(&e)
		body, err := e.Encode()
		if err != nil {
			t.Error(err)
			return was
		}
		return body
	}); err != nil {
		t.Fatal(err)
	}
}

// derives returns a session of a snapshot with its plan.
func derives(t *testing.T, fixture string, req plan.Request) (*phase.Session, *plan.Plan) {
	t.Helper()
	blobs, err := repo.NewDir(filepath.Join("..", "..", "..", "testing", "fixtures", fixture))
	if err != nil {
		t.Fatal(err)
	}
	req.SnapshotName, req.MultiType, req.EmitType = "snap1", plan.SplitTypes, plan.EmitAuto
	plan, err := plan.New(t.Context(), blobs, req)
	if err != nil {
		t.Fatal(err)
	}
	s := process(t, migrationtest.NewMemory(), migrationtest.NewOutside(), 1, &migrationtest.Life{})
	s.Snapshot, s.Phases, s.Request, s.Shards.Repo = phase.SnapshotOptions{Name: "snap1"}, phase.Phases{phase.PhaseIndices}, &req, blobs
	plans(s, plan)
	return s, plan
}

// TestSession_AnEntryIsWhatSnapshotAndSettingsDecide: who writes the coordination store cannot send documents elsewhere, or others than
// were selected.
func TestSession_AnEntryIsWhatSnapshotAndSettingsDecide(t *testing.T) {
	const demo, stream, basic = "7.10.2-demo", "os2.19.4-data-stream", "1.7.6-basic"
	rename, err := metadata.ParseRenameRule("*=new-$1")
	if err != nil {
		t.Fatal(err)
	}
	renamed := plan.Request{Rename: metadata.Overrides{Rename: []metadata.RenameRule{rename}}}
	create := plan.Request{DataStreams: plan.StreamsCreate}
	for _, c := range []struct {
		name, fixture string
		req           plan.Request
		forge         func(e *plan.Entry)
		field         string // in the error; "": the entry is taken
		planned       bool   // only a process that has planned finds it
	}{
		{"as planned", demo, plan.Request{}, func(*plan.Entry) {}, "", false},
		{"as renamed", demo, renamed, func(*plan.Entry) {}, "", false},
		{"what a session adds", demo, plan.Request{}, func(e *plan.Entry) { e.Ours, e.Originals, e.Locator.Generations = []string{e.Naming.Index}, true, nil }, "", false},
		{"another index", demo, renamed, func(e *plan.Entry) { e.Naming.Index = "payroll" }, "target name", false},
		{"the name at the source", demo, renamed, func(e *plan.Entry) { e.Naming.Index = e.Locator.IndexName }, "target name", false},
		{"another index as that of a stream", demo, renamed, func(e *plan.Entry) { e.Naming.Index, e.Stream = "payroll", &metadata.StreamPart{Stream: "logs"} }, "target name", false},
		{"creation in a stream", demo, plan.Request{}, func(e *plan.Entry) { e.Create, e.Naming.Index = true, "payroll" }, "creation of documents", false},
		{"creation in a stream with a part", demo, plan.Request{}, func(e *plan.Entry) {
			e.Create, e.Naming.Index, e.Stream = true, "payroll", &metadata.StreamPart{Stream: "payroll"}
		}, "creation of documents", false},
		{"a stream that the snapshot does not have", demo, plan.Request{}, func(e *plan.Entry) { e.Stream = &metadata.StreamPart{Stream: "payroll", Alias: "payroll"} }, "data stream", false},
		{"the alias of another stream", demo, plan.Request{}, func(e *plan.Entry) { e.Stream = &metadata.StreamPart{Stream: "logs", Alias: "payroll"} }, "alias of its data stream", false},
		{"split where there is one type", demo, plan.Request{}, func(e *plan.Entry) { e.Naming.Multi, e.Naming.Types = plan.SplitTypes, []string{"payroll"} }, "several mapping types", false},
		{"split by other types", demo, plan.Request{}, func(e *plan.Entry) {
			e.Naming.Multi, e.Naming.Types, e.Locator.Type = plan.SplitTypes, []string{"a", "payroll"}, ""
		}, "list of mapping types", false},
		{"types in requests", demo, plan.Request{}, func(e *plan.Entry) { e.Naming.Emit = true }, "mapping type in requests", false},
		{"a join field", demo, plan.Request{}, func(e *plan.Entry) { e.Naming.Join, e.Naming.Multi = &metadata.Join{Field: "f"}, plan.UnionTypes }, "join field", false},
		{"a trial run", demo, plan.Request{}, func(e *plan.Entry) { e.Trial = &plan.Trial{Documents: 1} }, "trial run", false},
		{"no trial run", demo, plan.Request{Trial: &plan.Trial{Documents: 5, Prefix: "trial-"}}, func(e *plan.Entry) { e.Trial = nil }, "trial run", false},
		{"duplicate keys", demo, plan.Request{}, func(e *plan.Entry) { e.KeepLast = true }, "duplicate keys", false},
		{"sources rebuilt", demo, plan.Request{}, func(e *plan.Entry) { e.Rebuild = plan.RebuildTerms }, "rebuilding", false},
		{"sources rebuilt otherwise", demo, plan.Request{}, func(e *plan.Entry) { e.Rebuild = plan.RebuildSynthetic }, "rebuilding", false},
		{"lacking sources", demo, plan.Request{}, func(e *plan.Entry) { e.Lacking.Source = true }, "stored forms", true},
		{"another index as created", demo, plan.Request{}, func(e *plan.Entry) { e.Ours = []string{"payroll"} }, "created or empty", false},
		{"another index as empty", demo, plan.Request{}, func(e *plan.Entry) { e.Empty = []string{"payroll"} }, "created or empty", false},
		{"damaged metadata", demo, plan.Request{}, func(e *plan.Entry) { e.Unread = true }, "metadata", false},
		{"the name of another index of the snapshot", demo, plan.Request{}, func(e *plan.Entry) { e.Locator.IndexName = "payroll" }, "index of the snapshot", false},
		{"the files of another index", demo, plan.Request{}, func(e *plan.Entry) { e.Locator.IndexID = "payroll" }, "place in the repository", false},
		{"files by a path", demo, plan.Request{}, func(e *plan.Entry) { e.Locator.SnapshotUUID = "../../payroll/0/snap-x" }, "place in the repository", false},
		{"a list by a path", demo, plan.Request{}, func(e *plan.Entry) { e.Locator.Generations = []string{"../../payroll/0/index-x"} }, "place in the repository", false},
		{"another snapshot", demo, plan.Request{}, func(e *plan.Entry) { e.Locator.SnapshotUUID = "payroll" }, "place in the repository", true},
		{"another snapshot by its name", demo, plan.Request{}, func(e *plan.Entry) { e.Locator.SnapshotName = "payroll" }, "snapshot", false},
		{"fewer shards", demo, plan.Request{}, func(e *plan.Entry) { e.Shards = 0 }, "number of shards", false},

		{"types that have documents", basic, plan.Request{}, func(*plan.Entry) {}, "", false},
		{"another type", basic, plan.Request{}, func(e *plan.Entry) {
			e.Naming.Multi, e.Naming.Types, e.Locator.Type = plan.SplitTypes, append([]string{"payroll"}, e.Naming.Types...), ""
		}, "list of mapping types", false},

		{"a backing index", stream, plan.Request{}, func(*plan.Entry) {}, "", false},
		{"a backing index without dot and alias", stream, plan.Request{}, func(e *plan.Entry) {
			e.Naming.Index, e.Stream.Alias, e.Stream.Writes = metadata.BackingName(e.Naming.Index, true), "", false
		}, "", false},
		{"another alias", stream, plan.Request{}, func(e *plan.Entry) { e.Stream.Alias = "payroll" }, "alias of its data stream", false},
		{"an alias to write by", stream, plan.Request{}, func(e *plan.Entry) { e.Stream.Writes = !e.Stream.Writes }, "alias for writing", true},
		{"an ordinary index created in its stream", stream, plan.Request{}, func(e *plan.Entry) { e.Create, e.Naming.Index = true, "events" }, "creation of documents", false},
		{"created in its stream", stream, create, func(*plan.Entry) {}, "", false},
		{"created in another stream", stream, create, func(e *plan.Entry) { e.Naming.Index = "payroll" }, "target name", false},
		{"created in another stream of another name", stream, create, func(e *plan.Entry) { e.Naming.Index, e.Stream.Stream = "payroll", "payroll" }, "data stream", false},
		{"not created", stream, create, func(e *plan.Entry) { e.Create, e.Naming.Index = false, e.Locator.IndexName }, "creation of documents", false},
		{"created with an alias", stream, create, func(e *plan.Entry) { e.Stream.Alias = "payroll" }, "alias of its data stream", false},
	} {
		for _, planned := range []bool{true, false} {
			t.Run(c.name+map[bool]string{true: "", false: ", without a plan"}[planned], func(t *testing.T) {
				s, all := listed(t, c.fixture, c.req, planned)
				x := all.Indices[0]
				forge(t, s, x.Name, func(e *plan.Entry) {
					e.Ours = nil // which would differ, too
					c.forge(e)
				})
				_, err := s.CheckIndices(t.Context(), atOnce)
				switch refused := c.field != "" && (planned || !c.planned); {
				case !refused && err != nil, refused && !errors.Is(err, fault.ErrConfig):
					t.Fatalf("%v", err)
				case refused && (!strings.Contains(err.Error(), c.field) || !strings.Contains(err.Error(), x.Name)):
					t.Errorf("the error names neither index nor field: %v", err)
				}
			})
		}
	}
}

// interrupting is a target whose first index is not created, because the process is interrupted.
type interrupting struct {
	phase.Indices
	interrupt func()
}

func (i interrupting) Make(ctx context.Context, _ plan.Index) (creation.Made, error) {
	i.interrupt()
	return creation.Made{}, ctx.Err()
}

// TestSession_AForgedEntryCreatesNoIndex: a process that has not planned compares an entry with the metadata of its index before it
// creates anything.
func TestSession_AForgedEntryCreatesNoIndex(t *testing.T) {
	for _, c := range []struct {
		name, fixture string
		forge         func(e *plan.Entry)
		field         string // in the error; "": the index is created
	}{
		{"as planned", "1.7.6-basic", func(*plan.Entry) {}, ""},
		{"another type", "1.7.6-basic", func(e *plan.Entry) { e.Naming.Types = []string{"payroll"} }, "mapping types"},
		{"fewer shards", "1.7.6-basic", func(e *plan.Entry) { e.Shards = 0 }, "number of shards"},
		{"sources rebuilt", "1.7.6-basic", func(e *plan.Entry) { e.Rebuild = plan.RebuildSynthetic }, "rebuilding"},
		{"a backing index", "os2.19.4-data-stream", func(*plan.Entry) {}, ""},
		{"that of another stream", "os2.19.4-data-stream", func(e *plan.Entry) { e.Stream.Stream, e.Stream.Alias = "payroll", "payroll" }, "data stream"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, p := derives(t, c.fixture, plan.Request{})
			p.Indices = p.Indices[:1]
			ctx, interrupt := context.WithCancel(t.Context())
			s.Indices = interrupting{s.Indices, interrupt}
			if err := toItems(ctx, s); !errors.Is(err, context.Canceled) {
				t.Fatalf("%v", err)
			}
			forge(t, s, p.Indices[0].Name, c.forge)
			worker, _ := derives(t, c.fixture, *s.Request)
			on := creationtest.NewIndices()
			worker.Coordinator, worker.Targets = s.Coordinator, nil
			worker.Indices = &creation.Indices{Cluster: on, Version: creationtest.OpenSearch2, Log: slog.New(slog.DiscardHandler)}
			_, _, err := worker.RunOne(t.Context(), nil)
			if c.field == "" && err != nil || c.field != "" && (!errors.Is(err, fault.ErrConfig) || !strings.Contains(err.Error(), c.field)) {
				t.Errorf("%v", err)
			}
			if (len(on.Bodies) > 0) != (c.field == "") {
				t.Errorf("created: %v", on.Bodies)
			}
		})
	}
}

// TestSession_AnEntryOfAnIndexThatIsNotSelected: the coordination store cannot add indices of the snapshot.
func TestSession_AnEntryOfAnIndexThatIsNotSelected(t *testing.T) {
	for _, planned := range []bool{true, false} {
		all, _ := listed(t, "7.10.2-demo", plan.Request{}, true)
		indices := all.Planned().Indices
		only, err := pattern.ParseList([]string{indices[0].Name})
		if err != nil {
			t.Fatal(err)
		}
		s, _ := derives(t, "7.10.2-demo", plan.Request{Indices: pattern.Selection{Include: only}})
		s.Coordinator, s.Targets, s.Phases = all.Coordinator, all.Targets, phase.Phases{phase.PhaseDocuments}
		if planned {
			if err := toItems(t.Context(), s); err != nil {
				t.Fatal(err)
			}
		}
		_, err = s.CheckIndices(t.Context(), atOnce)
		if !errors.Is(err, fault.ErrConfig) || !strings.Contains(err.Error(), indices[1].Name) || planned != (s.Planned() != nil) {
			t.Errorf("planned: %t: %v", planned, err)
		}
	}
}

// TestSession_AForgedEntryChangesNoIndex: nothing is set, hardened or sought on the target by an entry that is refused.
func TestSession_AForgedEntryChangesNoIndex(t *testing.T) {
	end := func(ctx context.Context, s *phase.Session, _ string) error {
		_, _, err := s.EndDocuments(ctx, true)
		return err
	}
	for name, does := range map[string]func(ctx context.Context, s *phase.Session, index string) error{
		"seed": func(ctx context.Context, s *phase.Session, _ string) error { return s.SeedOnce(ctx, "worker") },
		"failed items are tried again": func(ctx context.Context, s *phase.Session, index string) error {
			if _, err := s.Coordinator.SeedItems(ctx, slices.Values([]cms.ItemID{{Index: index}})); err != nil {
				return err
			}
			if _, err := s.Coordinator.FailIndex(ctx, index, "damaged"); err != nil {
				return err
			}
			return s.RetryFailed(ctx)
		},
		"arrival": end,
		"aliases": func(ctx context.Context, s *phase.Session, index string) error {
			s.Counts = nil
			return end(ctx, s, index)
		},
		"end of writing": func(ctx context.Context, s *phase.Session, index string) error {
			s.Counts, s.Root = nil, s.Coordinator
			return end(ctx, s, index)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, plan := listed(t, "7.10.2-demo", plan.Request{}, true)
			on := migrationtest.NewOutside()
			at := migrationtest.Whole{Seen: migrationtest.Seen{Outside: on, Life: &migrationtest.Life{}}, Docs: nil}
			s.Tuner, s.Indices, s.Counts = at, at, at
			index := plan.Indices[0].Name
			forge(t, s, index, forgedTarget)
			if err := does(t.Context(), s, index); !errors.Is(err, fault.ErrConfig) || !strings.Contains(err.Error(), "target name") {
				t.Errorf("%v", err)
			}
			if on.AliasesOf["payroll"] != "" || on.AliasesOf[index] != "" {
				t.Errorf("aliases were set: %v", on.AliasesOf)
			}
		})
	}
}

// TestSession_AForgedEntryIsNotAdopted: without the phase indices, an index that is missing on the target fails until it is there.
func TestSession_AForgedEntryIsNotAdopted(t *testing.T) {
	s, p := derives(t, "7.10.2-demo", plan.Request{})
	s.Phases = phase.Phases{phase.PhaseDocuments}
	if err := toItems(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	index := p.Indices[0].Name
	if e, err := session.EntriesOf(s.Coordinator).Read(t.Context(), index); err != nil || e.State != session.PhaseFailed {
		t.Fatalf("%+v, %v", e, err)
	}
	forge(t, s, index, forgedTarget)
	if err := s.ReopenFailed(t.Context()); !errors.Is(err, fault.ErrConfig) || !strings.Contains(err.Error(), "target name") {
		t.Errorf("%v", err)
	}
}

// forgedTarget makes an entry that of another target index, with an alias that may not be written through.
func forgedTarget(e *plan.Entry) {
	e.Naming.Index, e.Ours, e.Late = "payroll", nil, map[string]json.RawMessage{"payroll": json.RawMessage(`{"evil":{"is_write_index":false}}`)}
}

// TestSession_AliasesThatWaitAreThoseOfTheIndex: an alias that the index does not have in the snapshot is not set.
func TestSession_AliasesThatWaitAreThoseOfTheIndex(t *testing.T) {
	for _, c := range []struct {
		name, late string
		refused    bool
	}{
		{"its own", `{"some":{"filter":{"term":{"a":1}}},"all":{"is_write_index":true}}`, false},
		{"one of them", `{"all": {"is_write_index": true}}`, false},
		{"another", `{"evil":{}}`, true},
		{"its own and another", `{"all":{"is_write_index":true},"evil":{}}`, true},
		{"without its filter", `{"some":{}}`, true},
		{"no object", `["all"]`, true},
	} {
		s, p := derives(t, "7.10.2-demo", plan.Request{})
		x := &p.Indices[0]
		p.Indices = p.Indices[:1]
		x.Source.Aliases = json.RawMessage(`{"some":{"filter":{"term":{"a":1}}},"all":{"is_write_index":true}}`)
		if err := toItems(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		on := creationtest.NewIndices()
		s.Indices = &creation.Indices{Cluster: on, Version: creationtest.OpenSearch2, Log: slog.New(slog.DiscardHandler)}
		target := x.Entry.Naming.Index
		forge(t, s, x.Name, func(e *plan.Entry) { e.Late = map[string]json.RawMessage{target: json.RawMessage(c.late)} })
		_, _, err := s.EndDocuments(t.Context(), true)
		if errors.Is(err, fault.ErrConfig) != c.refused || !c.refused && err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if set := on.Aliases[target]; (set == "") != c.refused {
			t.Errorf("%s: set %s", c.name, set)
		}
	}
}

// TestSession_AForgedEntryDropsNoAlias: only aliases that an index has lost since the former snapshot are removed.
func TestSession_AForgedEntryDropsNoAlias(t *testing.T) {
	for name, since := range map[string]func(e plan.Entry) *plan.Since{
		"a first snapshot":            func(plan.Entry) *plan.Since { return nil },
		"aliases that did not change": func(e plan.Entry) *plan.Since { return &plan.Since{Locator: e.Locator, Shards: e.Shards} },
		"a recreated index": func(e plan.Entry) *plan.Since {
			return &plan.Since{Locator: e.Locator, Shards: e.Shards, Another: true}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, p := derives(t, "7.10.2-demo", plan.Request{})
			x := &p.Indices[0]
			p.Indices = p.Indices[:1]
			x.Entry.Since, s.Request.Follow = since(x.Entry), &plan.Follow{}
			if err := toItems(t.Context(), s); err != nil {
				t.Fatal(err)
			}
			s.Indices = &creation.Indices{Cluster: creationtest.NewIndices(), Version: creationtest.OpenSearch2, Requester: nothing{t}, Log: slog.New(slog.DiscardHandler)}
			forge(t, s, x.Name, func(e *plan.Entry) { e.Late, e.Dropped = nil, map[string][]string{e.Naming.Index: {"theirs"}} })
			if _, _, err := s.EndDocuments(t.Context(), true); !errors.Is(err, fault.ErrConfig) || !strings.Contains(err.Error(), "dropped aliases") {
				t.Errorf("%v", err)
			}
		})
	}
}

// nothing is a cluster that must not be asked.
type nothing struct{ t *testing.T }

func (n nothing) Do(_ context.Context, method, path string, _ url.Values, _ []byte) (int, []byte, error) {
	if method != "GET" {
		n.t.Errorf("%s %s", method, path)
	}
	return 200, []byte("{}"), nil
}
