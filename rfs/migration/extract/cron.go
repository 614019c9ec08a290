package extract

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A cron expression of Elasticsearch has six or seven fields, in UTC: seconds, minutes, hours, days of the month, months, days of the week
// (1 is Sunday), and years. A field is *, or a list of numbers, names, ranges (22-2 passes the end) and steps (10/15, */5); ? leaves the
// days to the other field of days. L, W and # count from the end, to working days, and weeks.
//
// Snapshot Management has the five fields of Unix: minutes, hours, days of the month, months, days of the week (0 is Sunday), without
// those letters and without ranges that pass the end.

// cronField is a field of a cron expression.
type cronField struct {
	first, last int
	names       []string // of the values from first on
}

var (
	sixty    = cronField{0, 59, nil}
	hours    = cronField{0, 23, nil}
	days     = cronField{1, 31, nil}
	months   = cronField{1, 12, []string{"JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"}}
	weekdays = cronField{1, 7, []string{"SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"}}
)

// maxCron is the maximum length of a schedule in bytes.
const maxCron = 1000

// cronOf converts a schedule of Elasticsearch (a cron expression or an interval) into a cron expression of Snapshot Management. changed
// describes a difference; why is the reason if no conversion exists.
func cronOf(schedule string) (unix, changed, why string) {
	if len(schedule) > maxCron {
		return "", "", fmt.Sprintf("its schedule has more than %d bytes", maxCron)
	}
	if interval.MatchString(schedule) {
		return ofInterval(schedule)
	}
	parts := strings.Fields(strings.ToUpper(schedule))
	if len(parts) != 6 && len(parts) != 7 {
		return "", "", fmt.Sprintf("its schedule %q is neither a cron expression nor an interval", schedule)
	}
	if len(parts) == 7 && parts[6] != "*" {
		return "", "", fmt.Sprintf("its schedule %q names years, which Snapshot Management does not know", schedule)
	}
	if parts[3] != "?" && parts[5] != "?" {
		return "", "", fmt.Sprintf("its schedule %q restricts days of the month and of the week: Snapshot Management takes days that fit one of them", schedule)
	}
	var out []string
	for i, f := range []cronField{sixty, sixty, hours, days, months, weekdays} {
		values, ok := f.values(parts[i])
		if !ok {
			return "", "", fmt.Sprintf("Snapshot Management has no equal of %q in its schedule %q", parts[i], schedule)
		}
		switch {
		case i > 0:
			out = append(out, f.unix(values))
		case len(values) > 1:
			changed = fmt.Sprintf("its schedule %q has several times within a minute: it starts once", schedule)
		case values[0] != 0:
			changed = fmt.Sprintf("it starts at the full minute, not at second %d", values[0])
		}
	}
	return strings.Join(out, " "), changed, ""
}

// values returns the sorted values of a field; false if the text is invalid or uses L, W or #.
func (f cronField) values(text string) ([]int, bool) {
	has := make([]bool, f.last+1)
	for part := range strings.SplitSeq(text, ",") {
		span, stepText, stepped := strings.Cut(part, "/")
		step := 1
		if stepped {
			var err error
			if step, err = strconv.Atoi(stepText); err != nil || step < 1 || step > f.last {
				return nil, false
			}
		}
		from, to, ok := f.span(span, stepped)
		if !ok {
			return nil, false
		}
		for n := from; n <= to; n += step {
			at := n
			if at > f.last {
				at -= f.last - f.first + 1
			}
			has[at] = true
		}
	}
	var all []int
	for n := f.first; n <= f.last; n++ {
		if has[n] {
			all = append(all, n)
		}
	}
	return all, true
}

// span returns the first and last value of a range. If the range wraps around, the last value lies past the end of the field.
func (f cronField) span(text string, stepped bool) (from, to int, ok bool) {
	if text == "*" || text == "?" || text == "" && stepped {
		return f.first, f.last, true
	}
	low, high, ranged := strings.Cut(text, "-")
	if from, ok = f.number(low); !ok {
		return 0, 0, false
	}
	switch {
	case ranged:
		if to, ok = f.number(high); to < from {
			to += f.last - f.first + 1
		}
	case stepped:
		to = f.last
	default:
		to = from
	}
	return from, to, ok
}

func (f cronField) number(text string) (int, bool) {
	if i := slices.Index(f.names, text); i >= 0 {
		return f.first + i, true
	}
	n, err := strconv.Atoi(text)
	return n, err == nil && n >= f.first && n <= f.last
}

// unix returns a field of a Unix cron expression with these values.
func (f cronField) unix(values []int) string {
	if len(values) == f.last-f.first+1 {
		return "*"
	}
	less := 0
	if f.last == weekdays.last {
		less = 1 // Sunday is 0
	}
	var out []string
	for i := 0; i < len(values); {
		end := i
		for end+1 < len(values) && values[end+1] == values[end]+1 {
			end++
		}
		if end > i+1 {
			out = append(out, fmt.Sprintf("%d-%d", values[i]-less, values[end]-less))
			i = end + 1
			continue
		}
		out = append(out, strconv.Itoa(values[i]-less))
		i++
	}
	return strings.Join(out, ",")
}

// interval matches the other form of a schedule, supported since Elasticsearch 8.16.
var interval = regexp.MustCompile(`^\d{1,12}(ms|s|m|h|d)$`)

// ofInterval returns the cron expression of an interval, which must divide an hour or a day.
func ofInterval(text string) (unix, changed, why string) {
	length := text
	if n, ok := strings.CutSuffix(text, "d"); ok {
		length = n + "h"
	}
	every, err := time.ParseDuration(length)
	if strings.HasSuffix(text, "d") {
		every *= 24
	}
	minutes, hour := int(every/time.Minute), int(every/time.Hour)
	switch {
	case err != nil || every <= 0 || every > 24*time.Hour || every%time.Minute != 0:
	case minutes < 60 && 60%minutes == 0:
		values, _ := sixty.values(fmt.Sprintf("0/%d", minutes))
		unix = sixty.unix(values) + " * * * *"
	case minutes%60 == 0 && hour == 24:
		unix = "0 0 * * *"
	case minutes%60 == 0 && 24%hour == 0:
		values, _ := hours.values(fmt.Sprintf("0/%d", hour))
		unix = "0 " + hours.unix(values) + " * * *"
	}
	if unix == "" {
		return "", "", fmt.Sprintf("no cron expression has its interval %s, which divides neither an hour nor a day", text)
	}
	return unix, fmt.Sprintf("its interval %s counts from midnight UTC, not from the last change of the policy", text), ""
}
