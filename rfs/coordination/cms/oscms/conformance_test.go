package oscms_test

import (
	"os"
	"testing"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/oscms"
	"github.com/rfsd/rfsd/testing/cmstest"
)

// TestConformance runs the whole suite on OpenSearch 2.19.4 with scripts, and the operations of the store in every mode of every
// version; with RFSD_SOURCES=all the whole suite everywhere.
func TestConformance(t *testing.T) {
	for _, v := range versions {
		for _, tc := range []struct {
			name string
			cfg  oscms.Config
			want oscms.Mode
		}{
			{"scripts", oscms.Config{}, oscms.Scripts},
			{"cas", oscms.Config{Mode: oscms.CAS}, oscms.CAS},
		} {
			t.Run(v+"/"+tc.name, func(t *testing.T) {
				c, suite := connect(t, v), cmstest.Operations
				if v == "2.19.4" && tc.want == oscms.Scripts || os.Getenv("RFSD_SOURCES") == "all" {
					suite = cmstest.Run
				}
				suite(t, func(t *testing.T) cms.Store {
					cfg := tc.cfg
					cfg.Client, cfg.Session = c, freshSession(t, c)
					s := openStore(t, cfg)
					if s.Mode() != tc.want {
						t.Fatalf("mode %s", s.Mode())
					}
					return s
				})
			})
		}
	}
}
