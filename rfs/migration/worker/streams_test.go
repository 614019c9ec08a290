package worker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/destination/metadata"
	"github.com/rfsd/rfsd/rfs/source/repo"
)

// streamPlan is the plan of a real snapshot with the data stream events of two backing indices.
func streamPlan(t *testing.T, req Request) (*Plan, error) {
	t.Helper()
	blobs, err := repo.Open(t.Context(), filepath.Join("..", "..", "..", "testing", "fixtures", "os2.19.4-data-stream"), repo.S3Options{})
	if err != nil {
		t.Fatal(err)
	}
	req.SnapshotName, req.MultiType, req.EmitType = "snap1", SplitTypes, EmitAuto
	return NewPlan(t.Context(), blobs, req)
}

// says is a target that gives recorded answers by path, whatever the method is; 404 to all else.
type says map[string]string

func (a says) Do(_ context.Context, _, path string, _ url.Values, _ []byte) (int, []byte, error) {
	if body, ok := a[path]; ok {
		return 200, []byte(body), nil
	}
	return 404, []byte(`{"error":"no such thing"}`), nil
}

// asker is a target with recorded answers.
type asker struct{ says }

func (a asker) IndexExists(_ context.Context, name string) (bool, error) {
	_, there := a.says["/"+name]
	return there, nil
}
func (asker) UnfitAliases(context.Context, []string) (map[string]string, error)   { return nil, nil }
func (asker) FinalPipelines(context.Context, []string) (map[string]string, error) { return nil, nil }

type unavailable struct{ asker }

func (unavailable) Do(context.Context, string, string, url.Values, []byte) (int, []byte, error) {
	return 0, nil, fault.ErrUnavailable
}

const (
	noTemplates    = `{"index_templates":[]}`
	streamTemplate = `{"index_templates":[{"name":"t","index_template":{"index_patterns":["*events"],"priority":5,"data_stream":{"timestamp_field":{"name":"@timestamp"}}}}]}`
	streamThere    = `{"data_streams":[{"name":"events","indices":[{"index_name":".ds-events-000007","index_uuid":"u7"},{"index_name":".ds-events-000008","index_uuid":"u8"}],"generation":8}]}`
	rollsOver      = `{"policies":[{"_id":"hot","policy":{"states":[{"name":"hot","actions":[{"rollover":{"min_doc_count":10}}]}],"ism_template":[{"index_patterns":["eve*"],"priority":1}]}}],"total_policies":1}`
)

func TestBackingIndicesAreNamedAsTheTargetCanTakeThem(t *testing.T) {
	rename, err := metadata.ParseRenameRule("events=happenings")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		req    Request
		target says
		want   string // of the indices, oldest first: target alias writes create
		fails  error
	}{
		{"free", Request{}, says{}, "{.ds-events-000001 events false false} {.ds-events-000002 events true false}", nil},
		{"renamed", Request{Rename: metadata.Overrides{Rename: []metadata.RenameRule{rename}}}, says{}, "{.ds-events-000001 happenings false false} {.ds-events-000002 happenings true false}", nil},
		{"an index has it", Request{}, says{"/events": ""}, "{.ds-events-000001  false false} {.ds-events-000002  false false}", nil},
		{"its own alias", Request{}, says{"/events": "", "/_alias/events": `{".ds-events-000002":{}}`}, "{.ds-events-000001 events false false} {.ds-events-000002 events true false}", nil},
		{"a stream has it", Request{}, says{"/events": "", "/_data_stream/events": streamThere}, "{ds-events-000001  false false} {ds-events-000002  false false}", nil},
		{"created", Request{DataStreams: StreamsCreate}, says{"/_index_template": streamTemplate}, "{events  false true} {events  false true}", nil},
		{"created in one that is there", Request{DataStreams: StreamsCreate}, says{"/_index_template": streamTemplate, "/events": "", "/_data_stream/events": streamThere}, "{events  false true} {events  false true}", nil},
		{"created under another name", Request{DataStreams: StreamsCreate, Rename: metadata.Overrides{Rename: []metadata.RenameRule{{Match: rename.Match, To: "old-events"}}}}, says{"/_index_template": streamTemplate}, "{old-events  false true} {old-events  false true}", nil},
		{"created without a template", Request{DataStreams: StreamsCreate}, says{"/_index_template": noTemplates}, "", fault.ErrConfig},
		{"created where an index has the name", Request{DataStreams: StreamsCreate}, says{"/_index_template": streamTemplate, "/events": ""}, "", fault.ErrConfig},
		{"created under a policy", Request{DataStreams: StreamsCreate}, says{"/_index_template": streamTemplate, "/_plugins/_ism/policies": rollsOver, "/_plugins/_ism/explain/events": `{"total_managed_indices":0}`}, "", metadata.ErrRollover},
	} {
		t.Run(c.name, func(t *testing.T) {
			plan, err := streamPlan(t, c.req)
			if err != nil {
				t.Fatal(err)
			}
			on := &TargetIndices{Cluster: newIndices(), Version: opensearch2, Requester: c.target, Log: quiet()}
			if err := on.Check(t.Context(), plan); !errors.Is(err, c.fails) || (err != nil) != (c.fails != nil) {
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

func TestBackingIndicesOfOneStreamShareAnotherAndNothingElseDoes(t *testing.T) {
	backing := func(name, stream, target string) IndexPlan {
		return IndexPlan{Name: name, Entry: Entry{Naming: Naming{Index: target}, Create: true, Stream: &metadata.StreamPart{Stream: stream}}}
	}
	for _, c := range []struct {
		name    string
		indices []IndexPlan
		fails   bool
	}{
		{"one stream", []IndexPlan{backing(".ds-a-1", "a", "a"), backing(".ds-a-2", "a", "a")}, false},
		{"two streams", []IndexPlan{backing(".ds-a-1", "a", "x"), backing(".ds-b-1", "b", "x")}, true},
		{"an index before", []IndexPlan{{Name: "a", Entry: Entry{Naming: Naming{Index: "a"}}}, backing(".ds-a-1", "a", "a")}, true},
		{"an index after", []IndexPlan{backing(".ds-a-1", "a", "a"), {Name: "a", Entry: Entry{Naming: Naming{Index: "a"}}}}, true},
	} {
		if err := (&Plan{Indices: c.indices}).checkTargets(); (err != nil) != c.fails {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestAStreamIsKnownByItsOldestIndexAndRefusedUnderAPolicy(t *testing.T) {
	policy := says{"/_plugins/_ism/policies": rollsOver, "/_plugins/_ism/explain/events": `{"total_managed_indices":0}`, "/events": "", "/_data_stream/events": streamThere}
	for _, c := range []struct {
		name   string
		target says
		uuid   string
		fails  error
	}{
		{"there", says{"/events": "", "/_data_stream/events": streamThere}, "u7", nil},
		{"missing", says{}, "", fs.ErrNotExist},
		{"an index", says{"/events": ""}, "", fault.ErrConfig},
		{"under a policy", policy, "", metadata.ErrRollover},
	} {
		on := &TargetIndices{Cluster: newIndices(), Version: opensearch2, Requester: c.target, Log: quiet()}
		if uuid, err := on.StreamUUID(t.Context(), "events"); uuid != c.uuid || !errors.Is(err, c.fails) {
			t.Errorf("%s: %s, %v", c.name, uuid, err)
		}
	}
}

// TestAPolicyStopsWorkOnAStreamAtEveryLook attaches the policy when everything is planned.
func TestAPolicyStopsWorkOnAStreamAtEveryLook(t *testing.T) {
	e := Entry{Naming: Naming{Index: "events"}, Create: true, Stream: &metadata.StreamPart{Stream: "events"}}
	on := &TargetIndices{Cluster: newIndices(), Version: opensearch2, Log: quiet(), Requester: says{"/_plugins/_ism/policies": rollsOver, "/_plugins/_ism/explain/events": `{"total_managed_indices":0}`}}
	if _, err := on.Make(t.Context(), IndexPlan{Name: ".ds-events-000001", Entry: e}); !errors.Is(err, metadata.ErrRollover) {
		t.Errorf("made: %v", err)
	}
	s := &Session{Targets: noTargets{t}, Streams: on.StreamUUID, Runner: &Runner{Clock: cms.SystemClock()}}
	if err := s.checkTargets(t.Context(), e, 0); !errors.Is(err, metadata.ErrRollover) {
		t.Errorf("guarded: %v", err)
	}
}

func TestATargetIsKnownByTheUUIDOfItsIndexOrStream(t *testing.T) {
	s := &Session{
		Targets: &countable{uuids: map[string]string{"events": "of the index"}},
		Streams: func(context.Context, string) (string, error) { return "of the stream", nil },
	}
	for create, want := range map[bool]string{true: "of the stream", false: "of the index"} {
		if uuid, err := s.targetUUID(t.Context(), Entry{Create: create}, "events"); uuid != want || err != nil {
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
	if err := os.WriteFile(broken[0], []byte("this is no metadata"), 0o600); err != nil {
		t.Fatal(err)
	}
	blobs, err := repo.Open(t.Context(), dir, repo.S3Options{})
	if err != nil {
		t.Fatal(err)
	}
	req := Request{SnapshotName: "snap1", MultiType: SplitTypes, EmitType: EmitAuto}
	plan, err := NewPlan(t.Context(), blobs, req)
	if err != nil || len(plan.Indices) != 2 || len(plan.Warnings) != 1 || plan.Indices[0].Entry.Note() != "" {
		t.Errorf("%+v, %v", plan, err)
	}
	req.DataStreams = StreamsCreate
	if _, err := NewPlan(t.Context(), blobs, req); !errors.Is(err, fault.ErrCorrupt) {
		t.Errorf("to be created: %v", err)
	}
}
