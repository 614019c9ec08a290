// Package dates converts formats of dates.
package dates

import (
	"strings"
	"unicode"
)

// Format returns a format of an index of a major version with built-in names in the spelling that every target accepts (dateOptionalTime
// becomes date_optional_time) and patterns in the letters of java.time, which Elasticsearch uses since 7. Older patterns are Joda's unless
// they have the prefix "8".
func Format(created int, format string) string {
	joda := created < 7
	if created >= 6 && strings.HasPrefix(format, "8") {
		joda, format = false, format[1:]
	}
	parts := strings.Split(format, "||")
	for i, p := range parts {
		p, marked := strings.CutPrefix(p, "8")
		snake := snakeCase(p)
		switch {
		case snake != p && names[strings.TrimPrefix(snake, "strict_")]:
			p = snake
		case joda && !marked && !isName(p):
			p = jodaPattern(p)
		}
		parts[i] = p
	}
	return strings.Join(parts, "||")
}

// isName distinguishes the names of built-in formats from patterns.
func isName(s string) bool {
	switch s {
	case "date", "hour", "year", "weekyear":
		return true
	}
	return strings.Contains(s, "_") && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz_") == ""
}

// jodaPattern returns a Joda pattern in the letters of java.time: year of era Y becomes y, week year x becomes Y,
// offsets Z (+0100) and ZZ (+01:00) become XX and XXX, zone ids ZZZ become VV. Quoted text stays.
func jodaPattern(p string) string {
	var b strings.Builder
	quoted := false
	for i := 0; i < len(p); {
		n := 1
		for i+n < len(p) && p[i+n] == p[i] && p[i] != '\'' {
			n++
		}
		letter, run := p[i], p[i:i+n]
		i += n
		switch {
		case letter == '\'':
			quoted = !quoted
		case quoted:
		case letter == 'Y':
			run = strings.Repeat("y", n)
		case letter == 'x':
			run = strings.Repeat("Y", n)
		case letter == 'Z':
			run = [...]string{"XX", "XXX", "VV"}[min(n, 3)-1]
		}
		b.WriteString(run)
	}
	return b.String()
}

// names are the names of built-in formats, without strict_.
var names = map[string]bool{
	"date_optional_time": true, "basic_date": true, "basic_date_time": true, "basic_date_time_no_millis": true,
	"basic_ordinal_date": true, "basic_ordinal_date_time": true, "basic_ordinal_date_time_no_millis": true, "basic_time": true,
	"basic_time_no_millis": true, "basic_t_time": true, "basic_t_time_no_millis": true, "basic_week_date": true,
	"basic_week_date_time": true, "basic_week_date_time_no_millis": true, "date": true, "date_hour": true, "date_hour_minute": true,
	"date_hour_minute_second": true, "date_hour_minute_second_fraction": true, "date_hour_minute_second_millis": true, "date_time": true,
	"date_time_no_millis": true, "hour_minute": true, "hour_minute_second": true, "hour_minute_second_fraction": true,
	"hour_minute_second_millis": true, "ordinal_date": true, "ordinal_date_time": true, "ordinal_date_time_no_millis": true,
	"time_no_millis": true, "t_time": true, "t_time_no_millis": true, "week_date": true, "week_date_time": true,
	"week_date_time_no_millis": true, "weekyear_week": true, "weekyear_week_day": true, "year_month": true, "year_month_day": true,
}

func snakeCase(s string) string {
	var b strings.Builder
	for _, r := range s {
		if unicode.IsUpper(r) {
			b.WriteByte('_')
			r = unicode.ToLower(r)
		}
		b.WriteRune(r)
	}
	return b.String()
}
