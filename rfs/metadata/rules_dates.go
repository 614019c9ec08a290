package metadata

import (
	"strings"
	"unicode"
)

// dateFormats converts the format of date fields.
func dateFormats(e *edit, _, path string, f map[string]any) {
	s, ok := f["format"].(string)
	if t := f["type"]; ok && (t == "date" || t == "date_nanos" || t == "date_range") {
		f["format"] = e.dateFormat(path, s)
	}
}

// dateFormat writes built-in names in the only spelling that every target takes
// (dateOptionalTime is date_optional_time) and drops the mark "8" that versions 6.8 gave
// to java.time patterns. Patterns stay as they are.
func (e *edit) dateFormat(path, format string) string {
	parts := strings.Split(format, "||")
	for i, p := range parts {
		p = strings.TrimPrefix(p, "8")
		if snake := snakeCase(p); snake != p && dateNames[strings.TrimPrefix(snake, "strict_")] {
			p = snake
		}
		parts[i] = p
	}
	out := strings.Join(parts, "||")
	if out != format {
		e.note("date-format", path, "%s is %s", format, out)
	}
	return out
}

// dateNames are the built-in formats whose name has more than one word, without strict_.
var dateNames = map[string]bool{
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
