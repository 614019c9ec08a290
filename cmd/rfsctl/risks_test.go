package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

// TestRepeatedRisksAreOneLine: twelve indices of one template differ in the same things.
func TestRepeatedRisksAreOneLine(t *testing.T) {
	var all []shownIndex
	for n := range 12 {
		all = append(all, shownIndex{Index: fmt.Sprintf("logs-%02d", n), Risks: []risk{
			{Rule: "r", Path: "index.codec", Detail: "100 % dropped"},
			{Rule: "s", Path: "a", Detail: "gone"}, {Rule: "s", Path: "b", Detail: "gone"}, {Rule: "s", Path: "c", Detail: "gone"}, {Rule: "s", Path: "d", Detail: "gone"},
		}})
	}
	all[3].Risks[0].Detail = "another"
	var out bytes.Buffer
	writeRisks(&out, all)
	want := "11 indices (logs-00, logs-01, logs-02 and 8 more): r: 100 % dropped (index.codec)\n" +
		"12 indices (logs-00, logs-01, logs-02 and 9 more): s: gone (a, b, c and 1 more)\n" +
		"logs-03: r: another (index.codec)\n"
	if out.String() != want {
		t.Errorf("%s\nwant\n%s", strings.TrimSpace(out.String()), want)
	}
}
