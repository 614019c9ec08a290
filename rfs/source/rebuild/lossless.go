package rebuild

import (
	"math"
	"strings"
	"time"
	"unicode"
)

// losslessFormat returns the writer of timestamps for a format of a mapping: it uses the first alternative that loses nothing of the
// timestamp. It returns nil if no alternative is known. A value of a field fits at least one of them.
func losslessFormat(format string) dateFormat {
	type alternative struct {
		write dateFormat
		loses func(time.Time) bool
	}
	var all []alternative
	for name := range strings.SplitSeq(format, "||") {
		name = snakeCase(name)
		if strings.TrimPrefix(strings.TrimPrefix(name, "8"), "strict_") == "date_time" {
			name = "" // it takes up to nine digits of the second
		}
		if write := parseDateFormat(name); write != nil {
			all = append(all, alternative{write, loses(name)})
		}
	}
	if len(all) == 0 {
		return nil
	}
	return func(dst []byte, t time.Time) []byte {
		for _, a := range all {
			if mark := len(dst); !a.loses(t) {
				if out := a.write(dst, t); len(out) > mark {
					return out
				}
			}
		}
		return dst
	}
}

// snakeCase returns the name of a format in the form of versions since 2; 1.x wrote dateOptionalTime.
func snakeCase(name string) string {
	var b strings.Builder
	for _, r := range name {
		if unicode.IsUpper(r) {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	if out := b.String(); namedFormats[out] != nil || namedPatterns[out] != "" {
		return out
	}
	return name
}

// loses returns a function that reports whether a timestamp has parts that the format does not write.
func loses(name string) func(time.Time) bool {
	name = strings.TrimPrefix(name, "8")
	if namedFormats[name] != nil {
		return func(time.Time) bool { return false }
	}
	p := name
	if named := namedPatterns[name]; named != "" {
		p = named
	}
	has := map[rune]int{}
	quoted := false
	for _, r := range p {
		if r == '\'' {
			quoted = !quoted
		} else if !quoted {
			has[r]++
		}
	}
	unit := int(math.Pow10(9 - min(has['S'], 9)))
	return func(t time.Time) bool {
		return has['y']+has['u'] == 0 && t.Year() != 1970 || has['M'] == 0 && t.Month() != time.January || has['d'] == 0 && t.Day() != 1 ||
			has['H'] == 0 && t.Hour() != 0 || has['m'] == 0 && t.Minute() != 0 || has['s'] == 0 && t.Second() != 0 || t.Nanosecond()%unit != 0
	}
}
