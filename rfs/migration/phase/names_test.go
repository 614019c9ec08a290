package phase

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/pattern"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/destination/metadata"
	"github.com/rfsd/rfsd/rfs/migration/creation"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/source/repo"
	"github.com/rfsd/rfsd/testing/creationtest"
	"github.com/rfsd/rfsd/testing/migrationtest"
)

// derives returns a session of a snapshot with its plan; a worker process that leases items has none.
func derives(t *testing.T, fixture string, req plan.Request, planned bool) (*Session, *plan.Plan) {
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
	s.Snapshot, s.Request, s.Shards.Repo = SnapshotOptions{Name: "snap1"}, &req, blobs
	if planned {
		s.planned = plan
	}
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
				s, plan := derives(t, c.fixture, c.req, planned)
				x := plan.Indices[0]
				e := x.Entry
				if e.Stream != nil {
					part := *e.Stream
					e.Stream = &part
				}
				c.forge(&e)
				migrationtest.HaveIndex(t, s.Coordinator, x.Name, "uuid", e)
				_, err := s.entry(t.Context(), x.Name, 0)
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
			s, plan := derives(t, c.fixture, plan.Request{}, false)
			on := creationtest.NewIndices()
			s.Indices, s.Targets, s.Tuner = &creation.Indices{Cluster: on, Version: creationtest.OpenSearch2, Log: slog.New(slog.DiscardHandler)}, nil, nil
			x := plan.Indices[0]
			c.forge(&x.Entry)
			body, err := x.Entry.Encode()
			if err != nil {
				t.Fatal(err)
			}
			if _, err := session.EntriesOf(s.Coordinator).Create(t.Context(), session.IndexEntry{Name: x.Name, State: session.PhaseNotStarted, Shards: x.Entry.Shards, Body: body}); err != nil {
				t.Fatal(err)
			}
			_, _, err = s.makeIndex(t.Context(), x.Name)
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
		s, all := derives(t, "7.10.2-demo", plan.Request{}, false)
		x := all.Indices[1]
		only, err := pattern.ParseList([]string{all.Indices[0].Name})
		if err != nil {
			t.Fatal(err)
		}
		s.Request.Indices = pattern.Selection{Include: only}
		if planned {
			s.planned = &plan.Plan{Indices: all.Indices[:1]}
		}
		migrationtest.HaveIndex(t, s.Coordinator, x.Name, "uuid", x.Entry)
		if _, err := s.entry(t.Context(), x.Name, 0); !errors.Is(err, fault.ErrConfig) {
			t.Errorf("%v", err)
		}
	}
}

// TestSession_AForgedEntryChangesNoIndex: nothing is set, hardened or sought on the target by an entry that is refused.
func TestSession_AForgedEntryChangesNoIndex(t *testing.T) {
	for name, does := range map[string]func(ctx context.Context, s *Session, e session.IndexEntry) error{
		"seed":   func(ctx context.Context, s *Session, _ session.IndexEntry) error { return s.seed(ctx) },
		"unseal": func(ctx context.Context, s *Session, _ session.IndexEntry) error { return s.unseal(ctx) },
		"adopt":  func(ctx context.Context, s *Session, e session.IndexEntry) error { return s.adoptLate(ctx, e) },
		"arrival": func(ctx context.Context, s *Session, _ session.IndexEntry) error {
			_, err := s.checkArrivals(ctx)
			return err
		},
		"aliases": func(ctx context.Context, s *Session, _ session.IndexEntry) error { return s.setLateAliases(ctx) },
		"end of writing": func(ctx context.Context, s *Session, e session.IndexEntry) error {
			entry, err := plan.DecodeEntry(e.Name, e.Body)
			if err != nil {
				return err
			}
			entry.Late = map[string]json.RawMessage{"payroll": json.RawMessage(`{"evil":{"is_write_index":false}}`)}
			return s.endWriting(ctx, e.Name, entry)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, plan := derives(t, "7.10.2-demo", plan.Request{}, true)
			on := migrationtest.NewOutside()
			if err := s.Join(t.Context()); err != nil {
				t.Fatal(err)
			}
			at := migrationtest.Whole{Seen: migrationtest.Seen{Outside: on, Life: &migrationtest.Life{}}, Docs: nil}
			s.Tuner, s.Indices, s.Counts = at, at, at
			x := plan.Indices[0]
			e := x.Entry
			e.Naming.Index, e.Late = "payroll", map[string]json.RawMessage{"payroll": json.RawMessage(`{"evil":{}}`)}
			migrationtest.HaveIndex(t, s.Coordinator, x.Name, "uuid", e)
			stored, err := session.EntriesOf(s.Coordinator).Read(t.Context(), x.Name)
			if err != nil {
				t.Fatal(err)
			}
			if err := does(t.Context(), s, stored); !errors.Is(err, fault.ErrConfig) || !strings.Contains(err.Error(), "target name") {
				t.Errorf("%v", err)
			}
			if len(on.AliasesOf) > 0 {
				t.Errorf("aliases were set: %v", on.AliasesOf)
			}
		})
	}
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
		s, plan := derives(t, "7.10.2-demo", plan.Request{}, true)
		on := creationtest.NewIndices()
		s.Indices = &creation.Indices{Cluster: on, Version: creationtest.OpenSearch2, Log: slog.New(slog.DiscardHandler)}
		x := plan.Indices[0]
		x.Source.Aliases = json.RawMessage(`{"some":{"filter":{"term":{"a":1}}},"all":{"is_write_index":true}}`)
		e := x.Entry
		e.Late = map[string]json.RawMessage{e.Naming.Index: json.RawMessage(c.late)}
		migrationtest.HaveIndex(t, s.Coordinator, x.Name, "uuid", e)
		err := s.setAliases(t.Context(), x.Name, e)
		if errors.Is(err, fault.ErrConfig) != c.refused || !c.refused && err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if set := on.Aliases[e.Naming.Index]; (set == "") != c.refused {
			t.Errorf("%s: set %s", c.name, set)
		}
	}
}

// TestSession_AForgedEntryDropsNoAlias: only aliases that an index has lost since the former snapshot are removed.
func TestSession_AForgedEntryDropsNoAlias(t *testing.T) {
	s, all := derives(t, "7.10.2-demo", plan.Request{}, true)
	x := all.Indices[0]
	same := &plan.Since{Locator: x.Entry.Locator, Shards: x.Entry.Shards}
	for name, since := range map[string]*plan.Since{"a first snapshot": nil, "aliases that did not change": same, "a recreated index": {Locator: same.Locator, Another: true}} {
		t.Run(name, func(t *testing.T) {
			on := creationtest.NewIndices()
			s.Indices = &creation.Indices{Cluster: on, Version: creationtest.OpenSearch2, Requester: nothing{t}, Log: slog.New(slog.DiscardHandler)}
			e := x.Entry
			e.Since, e.Dropped = since, map[string][]string{e.Naming.Index: {"theirs"}}
			if err := s.checkLate(t.Context(), x.Name, e); !errors.Is(err, fault.ErrConfig) || !strings.Contains(err.Error(), "dropped aliases") {
				t.Errorf("%v", err)
			}
			if err := s.dropAliases(t.Context(), x.Name, e); !errors.Is(err, fault.ErrConfig) {
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
