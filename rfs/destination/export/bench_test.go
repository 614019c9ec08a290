//go:build unix

package export

import (
	"syscall"
	"testing"
	"time"
)

// BenchmarkSend writes bodies of 16 MB, more than a window; the figures are bytes of lines, by time and by the processor time of all threads.
func BenchmarkSend(b *testing.B) {
	cpu := func() time.Duration {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	body := lines(16 << 20)
	for _, c := range []Compression{None, "gzip", "gzip:1", "zstd", "zstd:3", "zstd:7"} {
		b.Run(string(c), func(b *testing.B) {
			f := create(b, enter(b, dirHome(b.TempDir()), "w", c), "logs", 0, 0)
			b.SetBytes(int64(len(body)))
			began, rounds := cpu(), 0
			for b.Loop() {
				if _, err := f.Send(b.Context(), body, 1); err != nil {
					b.Fatal(err)
				}
				rounds++
			}
			written := f.out.(*attempt).parts["logs"].sum.n.Load()
			b.ReportMetric(float64(rounds)*float64(len(body))/1e6/(cpu()-began).Seconds(), "MB/cpu-s")
			b.ReportMetric(float64(written)/float64(rounds)/float64(len(body)), "ratio")
			if err := f.Abort(); err != nil {
				b.Fatal(err)
			}
		})
	}
}
