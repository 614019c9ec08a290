package oscms_test

import (
	"os"
	"testing"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/oscms"
	"github.com/rfsd/rfsd/testing/cmstest"
	"github.com/rfsd/rfsd/testing/draw"
)

// TestConformance runs the whole suite on OpenSearch 2.19.4 with scripts, and the store's operations in one randomly drawn other mode or
// version; with RFSD_SOURCES=all the whole suite in every mode of every version.
func TestConformance(t *testing.T) {
	type variant struct {
		version string
		mode    oscms.Mode
	}
	first, all := variant{"2.19.4", oscms.Scripts}, os.Getenv("RFSD_SOURCES") == "all"
	var others []variant
	for _, version := range versions {
		for _, mode := range []oscms.Mode{oscms.Scripts, oscms.CAS} {
			if v := (variant{version, mode}); v != first {
				others = append(others, v)
			}
		}
	}
	if !all {
		others = draw.Of(t, 1, others)
	}
	for _, v := range append(others, first) {
		t.Run(v.version+"/"+string(v.mode), func(t *testing.T) {
			c, suite := connect(t, v.version), cmstest.Operations
			if v == first || all {
				suite = cmstest.Run
			}
			suite(t, func(t *testing.T) cms.Store {
				cfg := oscms.Config{Client: c, Session: freshSession(t, c)}
				if v.mode == oscms.CAS {
					cfg.Mode = oscms.CAS // scripts are found by the store itself
				}
				s := openStore(t, cfg)
				if s.Mode() != v.mode {
					t.Fatalf("mode %s", s.Mode())
				}
				return s
			})
		})
	}
}
