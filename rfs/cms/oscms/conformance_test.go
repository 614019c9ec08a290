package oscms_test

import (
	"os"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/cms"
	"github.com/rfsd/rfsd/rfs/cms/cmstest"
	"github.com/rfsd/rfsd/rfs/cms/oscms"
)

var versions = []string{"1.3.14", "2.19.4", "3.8.0"}

// cluster gives a client of a running cluster of the version, or skips.
func cluster(t testing.TB, version string) *plain {
	t.Helper()
	env := "RFSD_TEST_OPENSEARCH_" + strings.ReplaceAll(version, ".", "_")
	base := os.Getenv(env)
	if base == "" {
		t.Skipf("no OpenSearch %s: %s is not set", version, env)
	}
	return newPlain(base)
}

func openStore(t testing.TB, cfg oscms.Config) *oscms.Store {
	t.Helper()
	s, err := oscms.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestConformance(t *testing.T) {
	for _, v := range versions {
		for _, mode := range []oscms.Mode{oscms.Auto, oscms.CAS} {
			for _, shared := range []bool{false, true} {
				if mode == oscms.CAS && shared {
					continue // the other engine cannot run without scripts
				}
				name := v + "/" + string(mode)
				if mode == oscms.Auto {
					name = v + "/scripts"
				}
				if shared {
					name += "/shared"
				}
				t.Run(name, func(t *testing.T) {
					c := cluster(t, v)
					cmstest.Run(t, func(t *testing.T) cms.Store {
						return openStore(t, oscms.Config{Client: c, Session: session(t, c), Mode: mode, Shared: shared})
					})
				})
			}
		}
	}
}
