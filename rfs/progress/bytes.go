package progress

import "fmt"

// Bytes returns a size of data as every command prints it: in the largest decimal unit that fits, such as 157.4 MB. Settings
// that are given in MiB are printed in MiB instead.
func Bytes(n int64) string {
	f, units := float64(n), []string{"B", "kB", "MB", "GB", "TB", "PB"}
	i := 0
	for f >= 1000 && i < len(units)-1 {
		f, i = f/1000, i+1
	}
	if i == 0 {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %s", f, units[i])
}
