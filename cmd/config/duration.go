package config

import (
	"fmt"
	"regexp"
	"strconv"
	"time"
)

var isoDuration = regexp.MustCompile(`^P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?$`)

// ParseDuration reads a duration as ISO 8601 (PT10M, P1DT2H) or as Go writes it (10m, 1h30m).
func ParseDuration(s string) (time.Duration, error) {
	if m := isoDuration.FindStringSubmatch(s); m != nil && s != "P" && s[len(s)-1] != 'T' {
		var d time.Duration
		for i, unit := range []time.Duration{24 * time.Hour, time.Hour, time.Minute} {
			if m[i+1] == "" {
				continue
			}
			n, err := strconv.ParseInt(m[i+1], 10, 32)
			if err != nil {
				return 0, fmt.Errorf("duration %q: %w", s, err)
			}
			d += time.Duration(n) * unit
		}
		if m[4] != "" {
			sec, err := strconv.ParseFloat(m[4], 64)
			if err != nil || sec > 1e9 {
				return 0, fmt.Errorf("duration %q: seconds out of range", s)
			}
			d += time.Duration(sec * float64(time.Second))
		}
		return d, nil
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		return 0, fmt.Errorf("duration %q is neither ISO 8601 (PT10M) nor like 10m", s)
	}
	if d < 0 {
		return 0, fmt.Errorf("duration %q is negative", s)
	}
	return d, nil
}
