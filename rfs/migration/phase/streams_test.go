package phase_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/destination/metadata"
	"github.com/rfsd/rfsd/rfs/destination/objects"
	"github.com/rfsd/rfsd/rfs/migration/creation"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/source/repo"
	"github.com/rfsd/rfsd/testing/creationtest"
	"github.com/rfsd/rfsd/testing/migrationtest"
)

func TestBackingIndicesAreNamedAsTheTargetCanTakeThem(t *testing.T) {
	rename, err := metadata.ParseRenameRule("events=happenings")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		req    plan.Request
		target migrationtest.Says
		want   string // of the indices, oldest first: target alias writes create
		fails  error
	}{
		{"free", plan.Request{}, migrationtest.Says{}, "{.ds-events-000001 events false false} {.ds-events-000002 events true false}", nil},
		{"renamed", plan.Request{Rename: metadata.Overrides{Rename: []metadata.RenameRule{rename}}}, migrationtest.Says{}, "{.ds-events-000001 happenings false false} {.ds-events-000002 happenings true false}", nil},
		{"an index has it", plan.Request{}, migrationtest.Says{"/events": ""}, "{.ds-events-000001  false false} {.ds-events-000002  false false}", nil},
		{"its own alias", plan.Request{}, migrationtest.Says{"/events": "", "/_alias/events": `{".ds-events-000002":{}}`}, "{.ds-events-000001 events false false} {.ds-events-000002 events true false}", nil},
		{"a stream has it", plan.Request{}, migrationtest.Says{"/events": "", "/_data_stream/events": migrationtest.StreamThere}, "{ds-events-000001  false false} {ds-events-000002  false false}", nil},
		{"created", plan.Request{DataStreams: plan.StreamsCreate}, migrationtest.Says{"/_index_template": migrationtest.StreamTemplate}, "{events  false true} {events  false true}", nil},
		{"created in one that is there", plan.Request{DataStreams: plan.StreamsCreate}, migrationtest.Says{"/_index_template": migrationtest.StreamTemplate, "/events": "", "/_data_stream/events": migrationtest.StreamThere}, "{events  false true} {events  false true}", nil},
		{"created under another name", plan.Request{DataStreams: plan.StreamsCreate, Rename: metadata.Overrides{Rename: []metadata.RenameRule{{Match: rename.Match, To: "old-events"}}}}, migrationtest.Says{"/_index_template": migrationtest.StreamTemplate}, "{old-events  false true} {old-events  false true}", nil},
		{"created without a template", plan.Request{DataStreams: plan.StreamsCreate}, migrationtest.Says{"/_index_template": migrationtest.NoTemplates}, "", fault.ErrConfig},
		{"created where an index has the name", plan.Request{DataStreams: plan.StreamsCreate}, migrationtest.Says{"/_index_template": migrationtest.StreamTemplate, "/events": ""}, "", fault.ErrConfig},
		{"created under a policy", plan.Request{DataStreams: plan.StreamsCreate}, migrationtest.Says{"/_index_template": migrationtest.StreamTemplate, "/_plugins/_ism/policies": migrationtest.RollsOver, "/_plugins/_ism/explain/events": `{"total_managed_indices":0}`}, "", objects.ErrRollover},
	} {
		t.Run(c.name, func(t *testing.T) {
			plan, err := migrationtest.StreamPlan(t, c.req)
			if err != nil {
				t.Fatal(err)
			}
			on := &creation.Indices{Cluster: creationtest.NewIndices(), Version: creationtest.OpenSearch2, Requester: c.target, Log: slog.New(slog.DiscardHandler)}
			if err := on.Check(t.Context(), plan, nil); !errors.Is(err, c.fails) || (err != nil) != (c.fails != nil) {
				t.Fatalf("%v", err)
			}
			got := ""
			for _, x := range plan.Indices {
				if c.fails == nil {
					got += fmt.Sprintf(" {%s %s %v %v}", x.Entry.Naming.Index, x.Entry.Stream.Alias, x.Entry.Stream.Writes, x.Entry.Create)
				}
			}
			if c.fails == nil && got[1:] != c.want {
				t.Errorf("got %s", got)
			}
		})
	}
}

// TestBackingIndices_OfLaterRounds: the first backing index was brought by a former round. It keeps its name. The
// mark of the session distinguishes its indices from others.
func TestBackingIndices_OfLaterRounds(t *testing.T) {
	const both = `{".ds-events-000001":{},".ds-events-000002":{}}`
	for _, c := range []struct {
		name         string
		target       migrationtest.Says
		there, owned []string // indices of the target
		want         string   // of the indices, oldest first: target alias unchanged
		fails        error
	}{
		{"the alias leads to the first one", migrationtest.Says{"/events": "", "/_alias/events": `{".ds-events-000001":{}}`}, nil, nil, "{.ds-events-000001 events true} {.ds-events-000002 events false}", nil},
		{"the alias leads to a vanished one, too", migrationtest.Says{"/events": "", "/_alias/events": `{".ds-events-000000":{},".ds-events-000001":{}}`}, nil, []string{".ds-events-000000"}, "{.ds-events-000001 events true} {.ds-events-000002 events false}", nil},
		{"this round has set the alias before", migrationtest.Says{"/events": "", "/_alias/events": both}, nil, []string{".ds-events-000002"}, "{.ds-events-000001 events true} {.ds-events-000002 events true}", nil},
		{"rolled over by others", migrationtest.Says{"/events": "", "/_alias/events": both}, nil, nil, "", fault.ErrConfig},
		{"rolled over by others to another name", migrationtest.Says{"/events": "", "/_alias/events": `{".ds-events-000001":{},"theirs":{}}`}, nil, nil, "", fault.ErrConfig},
		{"an alias of others", migrationtest.Says{"/events": "", "/_alias/events": `{"theirs":{}}`}, []string{".ds-events-000001"}, nil, "{.ds-events-000001  true} {.ds-events-000002  true}", nil},
		{"the name was given up", migrationtest.Says{}, []string{".ds-events-000001"}, nil, "{.ds-events-000001 events false} {.ds-events-000002 events false}", nil},
		{"others had a stream of the name", migrationtest.Says{}, []string{"ds-events-000001"}, nil, "{ds-events-000001 events false} {.ds-events-000002 events false}", nil},
		{"the alias leads to one without its dot", migrationtest.Says{"/events": "", "/_alias/events": `{"ds-events-000001":{}}`}, nil, nil, "{ds-events-000001 events true} {.ds-events-000002 events false}", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := migrationtest.StreamPlan(t, plan.Request{})
			if err != nil {
				t.Fatal(err)
			}
			p.Indices[0].Entry.Since = &plan.Since{}
			for i := range p.Indices {
				p.Indices[i].Unchanged = true
			}
			cluster := creationtest.NewIndices()
			for _, name := range c.there {
				if err := cluster.CreateIndex(t.Context(), name, []byte(`{}`)); err != nil {
					t.Fatal(err)
				}
			}
			on := &creation.Indices{Cluster: cluster, Version: creationtest.OpenSearch2, Requester: c.target, Log: slog.New(slog.DiscardHandler)}
			err = on.Check(t.Context(), p, func(_ context.Context, name string) (bool, error) { return slices.Contains(c.owned, name), nil })
			if !errors.Is(err, c.fails) || (err != nil) != (c.fails != nil) {
				t.Fatalf("%v", err)
			}
			got := ""
			for _, x := range p.Indices {
				if c.fails == nil {
					got += fmt.Sprintf(" {%s %s %v}", x.Entry.Naming.Index, x.Entry.Stream.Alias, x.Unchanged)
				}
			}
			if c.fails == nil && got[1:] != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func TestBackingIndicesOfOneStreamShareAnotherAndNothingElseDoes(t *testing.T) {
	backing := func(name, stream, target string) plan.Index {
		return plan.Index{Name: name, Entry: plan.Entry{Naming: plan.Naming{Index: target}, Create: true, Stream: &metadata.StreamPart{Stream: stream}}}
	}
	for _, c := range []struct {
		name    string
		indices []plan.Index
		fails   bool
	}{
		{"one stream", []plan.Index{backing(".ds-a-1", "a", "a"), backing(".ds-a-2", "a", "a")}, false},
		{"two streams", []plan.Index{backing(".ds-a-1", "a", "x"), backing(".ds-b-1", "b", "x")}, true},
		{"an index before", []plan.Index{{Name: "a", Entry: plan.Entry{Naming: plan.Naming{Index: "a"}}}, backing(".ds-a-1", "a", "a")}, true},
		{"an index after", []plan.Index{backing(".ds-a-1", "a", "a"), {Name: "a", Entry: plan.Entry{Naming: plan.Naming{Index: "a"}}}}, true},
	} {
		if err := (&plan.Plan{Indices: c.indices}).CheckTargets(); (err != nil) != c.fails {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestAStreamIsKnownByItsOldestIndexAndRefusedUnderAPolicy(t *testing.T) {
	policy := migrationtest.Says{"/_plugins/_ism/policies": migrationtest.RollsOver, "/_plugins/_ism/explain/events": `{"total_managed_indices":0}`, "/events": "", "/_data_stream/events": migrationtest.StreamThere}
	for _, c := range []struct {
		name   string
		target migrationtest.Says
		uuid   string
		fails  error
	}{
		{"there", migrationtest.Says{"/events": "", "/_data_stream/events": migrationtest.StreamThere}, "u7", nil},
		{"missing", migrationtest.Says{}, "", fs.ErrNotExist},
		{"an index", migrationtest.Says{"/events": ""}, "", fault.ErrConfig},
		{"under a policy", policy, "", objects.ErrRollover},
	} {
		on := &creation.Indices{Cluster: creationtest.NewIndices(), Version: creationtest.OpenSearch2, Requester: c.target, Log: slog.New(slog.DiscardHandler)}
		if uuid, err := on.StreamUUID(t.Context(), "events"); uuid != c.uuid || !errors.Is(err, c.fails) {
			t.Errorf("%s: %s, %v", c.name, uuid, err)
		}
	}
}

// atOnce runs a step of CheckIndices without repetitions.
func atOnce(_ context.Context, step func() error) error { return step() }

// TestAPolicyStopsWorkOnAStreamAtEveryLook attaches the policy when everything is planned.
func TestAPolicyStopsWorkOnAStreamAtEveryLook(t *testing.T) {
	e := plan.Entry{Naming: plan.Naming{Index: "events"}, Create: true, Stream: &metadata.StreamPart{Stream: "events"}}
	on := &creation.Indices{Cluster: creationtest.NewIndices(), Version: creationtest.OpenSearch2, Log: slog.New(slog.DiscardHandler), Requester: migrationtest.Says{"/_plugins/_ism/policies": migrationtest.RollsOver, "/_plugins/_ism/explain/events": `{"total_managed_indices":0}`}}
	if _, err := on.Make(t.Context(), plan.Index{Name: ".ds-events-000001", Entry: e}); !errors.Is(err, objects.ErrRollover) {
		t.Errorf("made: %v", err)
	}
	s := process(t, migrationtest.NewMemory(), migrationtest.NewOutside(), 1, &migrationtest.Life{})
	s.Targets, s.Streams = noTargets{t}, on.StreamUUID
	migrationtest.HaveIndex(t, s.Coordinator, ".ds-events-000001", "", e)
	if _, err := s.CheckIndices(t.Context(), atOnce); !errors.Is(err, objects.ErrRollover) {
		t.Errorf("guarded: %v", err)
	}
}

func TestATargetIsKnownByTheUUIDOfItsIndexOrStream(t *testing.T) {
	for create, want := range map[bool]string{true: "of the stream", false: "of the index"} {
		s := process(t, migrationtest.NewMemory(), migrationtest.NewOutside(), 1, &migrationtest.Life{})
		s.Targets = &migrationtest.Countable{UUIDs: map[string]string{"events": "of the index"}}
		s.Streams = func(context.Context, string) (string, error) { return "of the stream", nil }
		migrationtest.HaveIndex(t, s.Coordinator, "logs", "", plan.Entry{Naming: plan.Naming{Index: "events"}, Create: create})
		if _, err := s.CheckIndices(t.Context(), atOnce); err != nil {
			t.Fatal(err)
		}
		if uuid, err := session.EntriesOf(s.Coordinator).ClaimTarget(t.Context(), "events", "another"); uuid != want || err != nil {
			t.Errorf("documents are created in a stream: %v; %s, %v", create, uuid, err)
		}
	}
}

// noTargets must not be asked.
type noTargets struct{ t *testing.T }

func (n noTargets) IndexUUID(_ context.Context, name string) (string, error) {
	n.t.Errorf("asked for the index %s", name)
	return "", fs.ErrNotExist
}

func TestDocumentsOfAStreamAreReadWhereItsMetadataCannotBe(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("..", "..", "..", "testing", "fixtures", "os2.19.4-data-stream"))); err != nil {
		t.Fatal(err)
	}
	broken, err := filepath.Glob(filepath.Join(dir, "meta-*.dat"))
	if err != nil || len(broken) != 1 {
		t.Fatal(broken, err)
	}
	if err := os.WriteFile(broken[0], []byte("this is not metadata"), 0o600); err != nil {
		t.Fatal(err)
	}
	blobs, err := repo.Open(t.Context(), dir, repo.Options{})
	if err != nil {
		t.Fatal(err)
	}
	req := plan.Request{SnapshotName: "snap1", MultiType: plan.SplitTypes, EmitType: plan.EmitAuto}
	p, err := plan.New(t.Context(), blobs, req)
	if err != nil || len(p.Indices) != 2 || len(p.Warnings) != 1 || p.Indices[0].Entry.Note() != "" {
		t.Errorf("%+v, %v", p, err)
	}
	req.DataStreams = plan.StreamsCreate
	if _, err := plan.New(t.Context(), blobs, req); !errors.Is(err, fault.ErrCorrupt) {
		t.Errorf("to be created: %v", err)
	}
}
