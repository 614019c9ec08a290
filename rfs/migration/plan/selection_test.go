package plan

import "testing"

func TestDotIndicesAreSystemButBackingIndicesAreNot(t *testing.T) {
	for name, want := range map[string]bool{".kibana_1": true, ".ds-logs-2024.01.01-000001": false, "a.b": false} {
		if isSystem(name) != want {
			t.Errorf("isSystem(%q) = %v", name, !want)
		}
	}
}
