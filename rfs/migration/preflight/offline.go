package preflight

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"github.com/rfsd/rfsd/rfs/destination/target"
)

// Offline is an empty target with a known version. It accepts everything.
type Offline struct{}

// Do responds like an empty cluster with default settings that permits simulations.
func (Offline) Do(_ context.Context, method, path string, _ url.Values, _ []byte) (int, []byte, error) {
	if method == http.MethodPost || path == "/_cluster/settings" {
		return http.StatusOK, []byte("{}"), nil
	}
	return http.StatusNotFound, []byte(`{"error":"no such thing"}`), nil
}

// IndexExists returns false.
func (Offline) IndexExists(context.Context, string) (bool, error) { return false, nil }

// FinalPipelines returns none.
func (Offline) FinalPipelines(context.Context, []string) (map[string]string, error) { return nil, nil }

// PipelineEffects returns none.
func (Offline) PipelineEffects(context.Context, string) ([]string, error) { return nil, nil }

// UnfitAliases returns none.
func (Offline) UnfitAliases(context.Context, []string) (map[string]string, error) { return nil, nil }

// VersionOf parses a version of OpenSearch whose format was checked; "" returns the zero Version.
func VersionOf(s string) (v target.Version) {
	if s == "" {
		return v
	}
	v.Distribution, v.Number = "opensearch", s
	_, _ = fmt.Sscanf(s, "%d.%d", &v.Major, &v.Minor) // the format was checked
	return v
}
