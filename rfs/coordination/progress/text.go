package progress

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// String returns the view in one line: the phase and, from the documents phase on, the documents that arrived, the rate of the last minute
// and the mean, the completed share and the remaining time.
func (v View) String() string {
	s := v.beforeDocuments()
	if s == "" {
		s = fmt.Sprintf("%s documents, %s documents/s (mean %s), %s/s", Count(v.Documents), Count(int64(v.Rate)), Count(int64(v.Mean)), Bytes(int64(v.SourceRate)))
		switch {
		case v.Ended():
			s = Count(v.Documents) + " documents, " + v.State
		case v.State == StateSilent:
			s = fmt.Sprintf("%s documents, no process has reported for %s", Count(v.Documents), Span(v.Silent))
		case v.Rate == 0 && (v.State == StateWaiting || v.State == StatePaused):
			s = Count(v.Documents) + " documents, no work is in progress"
		}
		if v.DryRun {
			s = "dry run, nothing is sent: " + s
		}
		if v.Share > 0 && !v.Ended() {
			s += fmt.Sprintf(", %.1f %% of the bytes", 100*v.Share)
		}
		if v.Left != nil {
			s += fmt.Sprintf(", about %s left", Span(*v.Left))
		}
		if v.Quiet > 0 {
			s += fmt.Sprintf(", no document arrived for %s", Span(v.Quiet))
		}
		if v.Failed > 0 {
			s += fmt.Sprintf(", %s failed", Count(v.Failed))
		}
	}
	if v.GivenUp > 0 {
		s += ", " + v.Abandoned()
	}
	if lost := v.Lost(); lost != "" {
		s += ": " + lost
	}
	return s
}

// Abandoned returns how many items, indices and phases were given up, and the first of them by name.
func (v View) Abandoned() string {
	s, names := Count(v.GivenUp)+" given up", strings.Join(v.GivenUpNames, ", ")
	switch {
	case names == "":
	case int64(len(v.GivenUpNames)) < v.GivenUp:
		s += " (such as " + names + ")"
	default:
		s += " (" + names + ")"
	}
	return s
}

// Lost returns how many documents did not arrive because their shards or indices failed, as text; "" when none did.
func (v View) Lost() string {
	var parts []string
	if v.Undelivered > 0 {
		parts = append(parts, fmt.Sprintf("at most %s documents of failed shards were not delivered", Count(v.Undelivered)))
	}
	if v.Uncounted > 0 {
		parts = append(parts, fmt.Sprintf("the number of documents of %s is unknown", Plural(v.Uncounted, "failed shard")))
	}
	return strings.Join(parts, "; ")
}

// Plural returns a number with a noun, with an s unless the number is 1.
func Plural(n int64, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return Count(n) + " " + noun
}

// beforeDocuments returns the text for a phase before the documents; "" in the documents phase.
func (v View) beforeDocuments() string {
	if v.Phase.Name == "" || v.Phase.Name == "documents" || v.Documents > 0 {
		return ""
	}
	words := map[string]string{"snapshot": "waiting for the snapshot", "metadata": "creating templates", "indices": "creating indices", "import": "reading files", "consume": "waiting for messages"}
	if v.DryRun {
		words["metadata"], words["indices"] = "reading templates", "reading the metadata of indices"
	}
	s := words[v.Phase.Name]
	if v.Phase.Total > 0 {
		done, total := Count(v.Phase.Done), Count(v.Phase.Total)+" "+v.Phase.Unit
		if v.Phase.Unit == "bytes" {
			done, total = Bytes(v.Phase.Done), Bytes(v.Phase.Total)
		}
		s += fmt.Sprintf(": %s of %s", done, total)
	}
	return s
}

// Span returns seconds as text, such as 1m30s.
func Span(seconds float64) string {
	return time.Duration(seconds * float64(time.Second)).Round(time.Second).String()
}

// Count returns a number in groups of three digits: 1,234,567.
func Count(n int64) string {
	s := fmt.Sprint(n)
	var b strings.Builder
	for i, c := range s {
		if i > 0 && (len(s)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(c)
	}
	return b.String()
}

// counted is a number that is formatted in groups of three digits.
type counted int64

// Format writes the number like Count, padded to the width of the verb.
func (n counted) Format(f fmt.State, _ rune) {
	fmt.Fprintf(f, fmt.FormatString(f, 's'), Count(int64(n)))
}

// Fprintf is fmt.Fprintf with integers formatted like Count.
func Fprintf(w io.Writer, format string, args ...any) (int, error) {
	return fmt.Fprintf(w, format, grouped(args)...)
}

// Sprintf is fmt.Sprintf with integers formatted like Count.
func Sprintf(format string, args ...any) string { return fmt.Sprintf(format, grouped(args)...) }

// grouped returns args with the integers converted to counted.
func grouped(args []any) []any {
	all := slices.Clone(args)
	for i, a := range all {
		switch n := a.(type) {
		case int:
			all[i] = counted(n)
		case int64:
			all[i] = counted(n)
		}
	}
	return all
}

// Again returns one line about the documents that were sent more than once, from the counts of a session, an index or an item; "" if none
// were.
func Again(retried, resent, replaced int64) string {
	var parts []string
	if retried > 0 {
		parts = append(parts, Count(retried)+" by repeated requests")
	}
	if resent > 0 {
		parts = append(parts, Count(resent)+" after hand-overs")
	}
	if replaced > 0 {
		parts = append(parts, Count(replaced)+" replaced documents from before this session")
	}
	if len(parts) == 0 {
		return ""
	}
	return "documents sent again: " + strings.Join(parts, ", ")
}
