package progress

import "testing"

func TestBytes(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 999: "999 B", 1000: "1.0 kB", 157_400_000: "157.4 MB", 5 << 20: "5.2 MB", 999_999: "1000.0 kB", 1_000_000: "1.0 MB", 3e12: "3.0 TB", 9e18: "9.0 EB"} {
		if got := Bytes(n); got != want {
			t.Errorf("Bytes(%d) = %q, want %q", n, got, want)
		}
	}
}
