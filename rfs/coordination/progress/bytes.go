package progress

import (
	"fmt"

	"github.com/dustin/go-humanize"
)

// Bytes returns a size of data as every command prints it: in the largest decimal unit that fits, such as 157.4 MB. Settings
// that are given in MiB are printed in MiB instead.
func Bytes(n int64) string {
	if n < 1000 {
		return fmt.Sprintf("%d B", n)
	}
	f, prefix := humanize.ComputeSI(float64(n))
	return fmt.Sprintf("%.1f %sB", f, prefix)
}
