package progress

import "fmt"

// Bytes returns a size of data as every command prints it: in the largest binary unit that fits, such as 157.4 MiB.
func Bytes(n int64) string {
	const units = "KMGTPE"
	size, unit := float64(n), -1
	for size >= 1023.95 && unit+1 < len(units) { // rounds to 1024.0
		size, unit = size/1024, unit+1
	}
	if unit < 0 {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %ciB", size, units[unit])
}
