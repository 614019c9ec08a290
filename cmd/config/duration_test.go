package config_test

import (
	"testing"
	"time"

	"github.com/rfsd/rfsd/cmd/config"
)

func TestDurationsAreReadInBothSpellings(t *testing.T) {
	for in, want := range map[string]time.Duration{
		"PT10M": 10 * time.Minute, "10m": 10 * time.Minute, "PT1H30M": 90 * time.Minute,
		"P1DT2H": 26 * time.Hour, "PT0.5S": 500 * time.Millisecond, "P2D": 48 * time.Hour,
	} {
		if got, err := config.ParseDuration(in); err != nil || got != want {
			t.Errorf("%s = %v, %v", in, got, err)
		}
	}
	for _, in := range []string{"", "P", "PT", "10", "-5m", "P1M", "PT99999999999H", "ten"} {
		if d, err := config.ParseDuration(in); err == nil {
			t.Errorf("%q accepted as %v", in, d)
		}
	}
}
