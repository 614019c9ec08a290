package migrationtest

import (
	"context"
	"net/url"
	"path/filepath"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/source/repo"
)

// Says is a target with recorded responses by path, for any method, and 404 for other paths.
type Says map[string]string

// Do returns the response for a path.
func (a Says) Do(_ context.Context, _, path string, _ url.Values, _ []byte) (int, []byte, error) {
	if body, ok := a[path]; ok {
		return 200, []byte(body), nil
	}
	return 404, []byte(`{"error":"no such thing"}`), nil
}

// Asker is a target with recorded responses.
type Asker struct{ Says }

// IndexExists reports whether a request for the index has a recorded response.
func (a Asker) IndexExists(_ context.Context, name string) (bool, error) {
	_, there := a.Says["/"+name]
	return there, nil
}

// UnfitAliases returns none.
func (Asker) UnfitAliases(context.Context, []string) (map[string]string, error) { return nil, nil }

// PipelineEffects returns that the pipeline drops documents.
func (Asker) PipelineEffects(context.Context, string) ([]string, error) {
	return []string{"drop drops documents"}, nil
}

// FinalPipelines returns none.
func (Asker) FinalPipelines(context.Context, []string) (map[string]string, error) { return nil, nil }

// Unavailable is a target that does not respond.
type Unavailable struct{ Asker }

// Do returns fault.ErrUnavailable.
func (Unavailable) Do(context.Context, string, string, url.Values, []byte) (int, []byte, error) {
	return 0, nil, fault.ErrUnavailable
}

// Answers about index templates, data streams and policies.
const (
	NoTemplates    = `{"index_templates":[]}`
	StreamTemplate = `{"index_templates":[{"name":"t","index_template":{"index_patterns":["*events"],"priority":5,"data_stream":{"timestamp_field":{"name":"@timestamp"}}}}]}`
	StreamThere    = `{"data_streams":[{"name":"events","indices":[{"index_name":".ds-events-000007","index_uuid":"u7"},{"index_name":".ds-events-000008","index_uuid":"u8"}],"generation":8}]}`
	RollsOver      = `{"policies":[{"_id":"hot","policy":{"states":[{"name":"hot","actions":[{"rollover":{"min_doc_count":10}}]}],"ism_template":[{"index_patterns":["eve*"],"priority":1}]}}],"total_policies":1}`
)

// StreamPlan returns the plan of a real snapshot with the data stream events, which has two backing indices.
func StreamPlan(t *testing.T, req plan.Request) (*plan.Plan, error) {
	t.Helper()
	blobs, err := repo.Open(t.Context(), filepath.Join("..", "..", "..", "testing", "fixtures", "os2.19.4-data-stream"), repo.Options{})
	if err != nil {
		t.Fatal(err)
	}
	req.SnapshotName, req.MultiType, req.EmitType = "snap1", plan.SplitTypes, plan.EmitAuto
	return plan.New(t.Context(), blobs, req)
}
