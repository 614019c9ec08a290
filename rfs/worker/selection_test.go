package worker

import (
	"errors"
	"slices"
	"testing"

	"github.com/rfsd/rfsd/rfs/fault"
)

func TestAllowlistMatchesExactNamesAndWholePatterns(t *testing.T) {
	a, err := ParseAllowlist([]string{"logs, orders", "regex:metrics-\\d{1,2}"})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{
		"logs": true, "orders": true, "log": false, "logs2": false,
		"metrics-1": true, "metrics-12": true, "metrics-123": false, "xmetrics-1": false,
	} {
		if a.Allows(name) != want {
			t.Errorf("Allows(%q) = %v", name, !want)
		}
	}
	if got := a.Missing([]string{"logs", "x"}); !slices.Equal(got, []string{"orders"}) {
		t.Errorf("Missing = %q", got)
	}
}

func TestEmptyAllowlistAllowsEverything(t *testing.T) {
	a, err := ParseAllowlist(nil)
	if err != nil || !a.Allows("anything") || !a.Empty() {
		t.Fatalf("%v %v", a, err)
	}
}

func TestBadPatternIsAConfigurationError(t *testing.T) {
	if _, err := ParseAllowlist([]string{"regex:("}); !errors.Is(err, fault.ErrConfig) {
		t.Fatalf("err = %v", err)
	}
}

func TestDotIndicesAreSystemButBackingIndicesAreNot(t *testing.T) {
	for name, want := range map[string]bool{".kibana_1": true, ".ds-logs-2024.01.01-000001": false, "a.b": false} {
		if isSystem(name) != want {
			t.Errorf("isSystem(%q) = %v", name, !want)
		}
	}
}
