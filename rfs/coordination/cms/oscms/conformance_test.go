package oscms_test

import (
	"testing"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/oscms"
	"github.com/rfsd/rfsd/testing/cmstest"
)

// TestConformance runs the suite in each mode.
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
				c := connect(t, v)
				cmstest.Run(t, func(t *testing.T) cms.Store {
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
