package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// figure is a row of the table of docs/PERFORMANCE.md.
type figure struct {
	Name     string  `json:"name"`
	Measured string  `json:"measured"`
	Beside   string  `json:"beside"`  // the limit measured in the same run; "" if the goal is absolute
	Value    float64 `json:"value"`   // value to compare with the goal
	Goal     float64 `json:"goal"`    // 0: no goal
	AtMost   bool    `json:"at_most"` // the goal is a maximum; otherwise a minimum
	Unit     string  `json:"unit"`    // unit of value and goal; "": a ratio
}

func (f figure) met() bool { return f.Value == f.Goal || f.AtMost == (f.Value < f.Goal) }

// part is a set of rows that are measured together, in a few minutes.
type part struct {
	name    string
	measure func(ctx context.Context, o options) ([]figure, error)
}

func parts() []part {
	return []part{
		{"sources", func(ctx context.Context, o options) ([]figure, error) { return nil, prepare(ctx, o) }},
		{"reading", readingFigures}, {"cores", coresFigures}, {"memory", memoryFigures}, {"shard", shardFigures}, {"latency", latencyFigures},
		{"plan", planFigures}, {"start", startFigures}, {"target", targetFigures}, {"tiny", tinyFigures}, {"rounds", roundFigures}, {"flow", flowFigures}, {"overload", overloadFigures}, {"searches", searchFigures},
	}
}

func partNames() (names []string) {
	for _, p := range parts() {
		names = append(names, p.name)
	}
	return names
}

// measuredPart is the cached result of a part.
type measuredPart struct {
	Day     string   `json:"day"`
	Figures []figure `json:"figures"`
}

// table measures parts of the table, caches their results, and writes all cached results into the document.
func table(ctx context.Context, o options) error {
	if o.part != "" && o.part != "all" && !slices.Contains(partNames(), o.part) {
		return fmt.Errorf("no part is called %q: there are %s", o.part, strings.Join(partNames(), ", "))
	}
	path := filepath.Join(o.cache, "bench", "table.json")
	kept := map[string]measuredPart{}
	raw, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(raw, &kept)
	}
	if err != nil && !isAbsent(err) {
		return err
	}
	if o.document != "" && o.part != "all" {
		if err := lostParts(o.document, o.part, kept); err != nil {
			return err
		}
	}
	for _, p := range parts() {
		if o.part != p.name && o.part != "all" {
			continue
		}
		progress("part %s", p.name)
		figures, err := p.measure(ctx, o)
		for _, f := range figures {
			fmt.Println(f.row())
		}
		if err != nil {
			return fmt.Errorf("part %s: %w", p.name, err)
		}
		if len(figures) == 0 || o.only != "" {
			continue
		}
		kept[p.name] = measuredPart{Day: time.Now().UTC().Format("2 January 2006"), Figures: figures}
		if raw, err = json.MarshalIndent(kept, "", " "); err == nil {
			err = os.WriteFile(path, raw, 0o644)
		}
		if err != nil {
			return err
		}
	}
	if o.document == "" {
		return nil
	}
	return writeTable(o.document, kept)
}

// lostParts returns an error that names the parts in the document that are neither cached nor about to be measured.
func lostParts(document, measured string, kept map[string]measuredPart) error {
	raw, err := os.ReadFile(document)
	if err != nil {
		return err
	}
	_, text, _ := strings.Cut(string(raw), tableBegin)
	text, _, _ = strings.Cut(text, tableEnd)
	_, days, _ := strings.Cut(text, "\nMeasured: ")
	var lost []string
	for _, p := range parts() {
		if _, is := kept[p.name]; !is && p.name != measured && strings.Contains(" "+days, " "+p.name+" ") {
			lost = append(lost, p.name)
		}
	}
	if len(lost) == 0 {
		return nil
	}
	return fmt.Errorf("%s would lose the figures of the parts %s, which were measured elsewhere: measure them here, too, or leave out --write", document, strings.Join(lost, ", "))
}

// row returns the figure as a row of a Markdown table.
func (f figure) row() string {
	bound := "at least "
	if f.AtMost {
		bound = "at most "
	}
	mark := "no"
	if f.met() {
		mark = "yes"
	}
	unit := f.Unit
	if unit != "" {
		unit = " " + unit
	}
	head := fmt.Sprintf("| %s | %s | %s | %.3g%s |", f.Name, f.Measured, f.Beside, f.Value, unit)
	if f.Goal == 0 {
		return head + " none | |"
	}
	return fmt.Sprintf("%s %s%g%s | %s |", head, bound, f.Goal, unit, mark)
}

// Lines of the document that enclose the table.
const (
	tableBegin = "<!-- make bench writes what follows -->"
	tableEnd   = "<!-- make bench wrote what precedes -->"
)

// writeTable replaces the table in a document.
func writeTable(document string, kept map[string]measuredPart) error {
	var b strings.Builder
	b.WriteString("| what | measured | compared with, in the same run | value | goal | met |\n|---|---|---|---|---|---|\n")
	var days []string
	for _, p := range parts() {
		for _, f := range kept[p.name].Figures {
			b.WriteString(f.row() + "\n")
		}
		if day := kept[p.name].Day; day != "" {
			days = append(days, p.name+" "+day)
		}
	}
	fmt.Fprintf(&b, "\nMeasured: %s.\n", strings.Join(days, ", "))
	return replaceBetween(document, tableBegin, tableEnd, b.String())
}

// replaceBetween replaces the text between two lines of a document.
func replaceBetween(document, begin, end, text string) error {
	raw, err := os.ReadFile(document)
	if err != nil {
		return err
	}
	before, rest, ok := strings.Cut(string(raw), begin)
	_, after, there := strings.Cut(rest, end)
	if !ok || !there {
		return fmt.Errorf("%s does not have the lines %s and %s", document, begin, end)
	}
	return os.WriteFile(document, []byte(before+begin+"\n\n"+text+"\n"+end+after), 0o644)
}
