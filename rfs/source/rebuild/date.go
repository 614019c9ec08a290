package rebuild

import (
	"strconv"
	"strings"
	"time"
)

// dateFormat appends a timestamp in the first format of a mapping.
type dateFormat func(dst []byte, t time.Time) []byte

// parseDateFormat returns the writer of a format of a mapping ("" is the default of dates), or nil if it is unknown.
func parseDateFormat(format string) dateFormat {
	first, _, _ := strings.Cut(format, "||")
	first = strings.TrimPrefix(first, "8")
	if named := namedFormats[first]; named != nil {
		return named
	}
	if named := namedPatterns[first]; named != "" {
		return pattern(named)
	}
	return pattern(first)
}

// namedFormats and namedPatterns are the formats with a name.
var (
	namedFormats = map[string]dateFormat{
		"": isoDate, "strict_date_optional_time": isoDate, "date_optional_time": isoDate, "strict_date_optional_time_nanos": isoDate, "iso8601": isoDate,
		"epoch_millis": epochMillis, "epoch_second": epochSeconds,
	}
	namedPatterns = map[string]string{
		"strict_date": "yyyy-MM-dd", "date": "yyyy-MM-dd", "basic_date": "yyyyMMdd",
		"strict_date_time": "yyyy-MM-dd'T'HH:mm:ss.SSSXXX", "date_time": "yyyy-MM-dd'T'HH:mm:ss.SSSXXX",
		"strict_date_time_no_millis": "yyyy-MM-dd'T'HH:mm:ssXXX", "date_time_no_millis": "yyyy-MM-dd'T'HH:mm:ssXXX",
		"strict_date_hour_minute_second": "yyyy-MM-dd'T'HH:mm:ss", "date_hour_minute_second": "yyyy-MM-dd'T'HH:mm:ss",
	}
)

// isoDate writes three to nine fractional digits of the second.
func isoDate(dst []byte, t time.Time) []byte {
	dst = appendYear(append(dst, '"'), t.Year())
	dst = t.AppendFormat(dst, "-01-02T15:04:05.")
	dst = appendFraction(dst, t.Nanosecond(), 3)
	return append(dst, `Z"`...)
}

func appendFraction(dst []byte, nanos, least int) []byte {
	digits := pad(nil, nanos, 9)
	n := 9
	for n > least && digits[n-1] == '0' {
		n--
	}
	return append(dst, digits[:n]...)
}

// appendYear writes four digits, or more with a sign.
func appendYear(dst []byte, year int) []byte {
	switch {
	case year > 9999:
		dst = append(dst, '+')
	case year < 0:
		dst, year = append(dst, '-'), -year
	}
	return pad(dst, year, 4)
}

func pad(dst []byte, v, width int) []byte {
	s := strconv.Itoa(v)
	for n := len(s); n < width; n++ {
		dst = append(dst, '0')
	}
	return append(dst, s...)
}

func epochMillis(dst []byte, t time.Time) []byte {
	dst = strconv.AppendInt(append(dst, '"'), t.UnixMilli(), 10)
	if n := t.Nanosecond() % 1e6; n != 0 {
		dst = append(dst, '.')
		dst = appendTrimmed(dst, n, 6)
	}
	return append(dst, '"')
}

func epochSeconds(dst []byte, t time.Time) []byte {
	if t.Unix() < 0 && t.Nanosecond() != 0 {
		return nil // the cluster itself cannot write values between -1 and 0
	}
	dst = strconv.AppendInt(append(dst, '"'), t.Unix(), 10)
	if n := t.Nanosecond(); n != 0 {
		dst = append(dst, '.')
		dst = appendTrimmed(dst, n, 9)
	}
	return append(dst, '"')
}

func appendTrimmed(dst []byte, v, width int) []byte {
	return append(dst, strings.TrimRight(string(pad(nil, v, width)), "0")...)
}

// pattern returns the writer of a Java date pattern, or nil if it has letters that are unknown or depend on a locale.
func pattern(p string) dateFormat {
	var parts []func(dst []byte, t time.Time) []byte
	for len(p) > 0 {
		c := p[0]
		if c == '\'' {
			end := strings.IndexByte(p[1:], '\'')
			if end < 0 {
				return nil
			}
			text := p[1 : 1+end]
			if text == "" {
				text = "'"
			}
			parts = append(parts, literal(text))
			p = p[end+2:]
			continue
		}
		n := len(p) - len(strings.TrimLeft(p, string(c)))
		part := letters(c, n)
		if part == nil {
			return nil
		}
		parts = append(parts, part)
		p = p[n:]
	}
	return func(dst []byte, t time.Time) []byte {
		dst = append(dst, '"')
		for _, part := range parts {
			dst = part(dst, t)
		}
		return append(dst, '"')
	}
}

func literal(s string) func(dst []byte, t time.Time) []byte {
	return func(dst []byte, _ time.Time) []byte {
		quoted := appendUTF8(nil, []byte(s))
		return append(dst, quoted[1:len(quoted)-1]...)
	}
}

// letters returns the writer of n repetitions of a letter.
func letters(c byte, n int) func(dst []byte, t time.Time) []byte {
	number := func(of func(t time.Time) int) func(dst []byte, t time.Time) []byte {
		if n > 2 {
			return nil
		}
		return func(dst []byte, t time.Time) []byte { return pad(dst, of(t), n) }
	}
	switch c {
	case 'y', 'u':
		if n == 4 {
			return func(dst []byte, t time.Time) []byte { return appendYear(dst, t.Year()) }
		}
	case 'M':
		return number(func(t time.Time) int { return int(t.Month()) })
	case 'd':
		return number(time.Time.Day)
	case 'H':
		return number(time.Time.Hour)
	case 'm':
		return number(time.Time.Minute)
	case 's':
		return number(time.Time.Second)
	case 'S':
		if n <= 9 {
			return func(dst []byte, t time.Time) []byte { return append(dst, pad(nil, t.Nanosecond(), 9)[:n]...) }
		}
	case 'X':
		return literal("Z")
	case 'Z':
		if n < 4 {
			return literal("+0000")
		}
	case 'x':
		if n < 4 {
			return literal([]string{"+00", "+0000", "+00:00"}[n-1])
		}
	default:
		if c < 0x80 && (c|0x20 < 'a' || c|0x20 > 'z') && !strings.ContainsRune("[]{}#", rune(c)) {
			return literal(strings.Repeat(string(c), n))
		}
	}
	return nil
}
