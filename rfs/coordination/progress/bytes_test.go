package progress_test

import (
	"testing"

	"github.com/rfsd/rfsd/rfs/coordination/progress"
)

func TestBytes(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 1000: "1000 B", 1023: "1023 B", 1024: "1.0 KiB", 157_400_000: "150.1 MiB", 5 << 20: "5.0 MiB", 1<<20 - 1: "1.0 MiB", 1 << 20: "1.0 MiB", 3e12: "2.7 TiB", 9e18: "7.8 EiB"} {
		if got := progress.Bytes(n); got != want {
			t.Errorf("Bytes(%d) = %q, want %q", n, got, want)
		}
	}
}
