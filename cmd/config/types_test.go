package config

import "testing"

func TestSizesAreReadWithTheirUnits(t *testing.T) {
	for text, want := range map[string]int64{"0": 0, "17B": 17, "2kB": 2000, "3KiB": 3072, "512MB": 512e6, "1 GiB": 1 << 30, "1.5GB": 15e8, "2gb": 2e9} {
		var n Size
		if err := n.parse(text); err != nil || int64(n) != want {
			t.Errorf("%q: %d, %v", text, n, err)
		}
	}
	for _, text := range []string{"", "x", "17", "1.5", "1,5GB", "-1", "-1GB", "1e9", "0x10", "1.2.3GB", "NaN", "Inf", "17 bytes", "99999999999GiB", "GB"} {
		var n Size
		if n.parse(text) == nil {
			t.Errorf("%q is taken for %d", text, n)
		}
	}
}
