package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// example is a command of a document with the output that it states.
type example struct{ page, command, output string }

var (
	console  = regexp.MustCompile("(?ms)^```console\n(.*?)^```")
	logLines = regexp.MustCompile(`(?m)^\{.*\n`)
)

// recording is the page whose commands run one after the other in one directory; RFSD_UPDATE=1 writes their output into it.
const recording = "RECORDING.md"

// examples returns the commands of console blocks that read a bundled snapshot and need no server, and those of the recording.
func examples(t *testing.T) []example {
	t.Helper()
	pages, err := filepath.Glob(filepath.Join(Root(), "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	var all []example
	for _, page := range append(pages, filepath.Join(Root(), "README.md")) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range console.FindAllStringSubmatch(string(text), -1) {
			for _, part := range strings.Split("\n"+block[1], "\n$ ")[1:] {
				command, output, _ := strings.Cut(strings.ReplaceAll(part, "\\\n", " "), "\n")
				needsServer := strings.Contains(command, "--target-host") || strings.Contains(command, "--source-host")
				bundled := strings.Contains(command, " testing/fixtures/") || strings.Contains(command, " rfs/migration/worker/testdata/")
				if bundled && !needsServer && strings.TrimSpace(output) != "" || filepath.Base(page) == recording {
					all = append(all, example{filepath.Base(page), command, output})
				}
			}
		}
	}
	return all
}

// TestExamplesOfDocumentsAreTrue runs the commands of the documents. Blanks and line breaks do not count, … stands for any
// text, and log lines are left out.
func TestExamplesOfDocumentsAreTrue(t *testing.T) {
	all := examples(t)
	if len(all) < 10 {
		t.Fatalf("only %d examples found", len(all))
	}
	together := prepared(t)
	var recorded []example
	for _, e := range all {
		dir := together
		if e.page != recording {
			dir = ""
		}
		t.Run(e.page+"/"+e.command, func(t *testing.T) {
			if dir == "" {
				dir = prepared(t)
			}
			args := strings.Fields(e.command)
			result := RunIn(t, dir, nil, strings.TrimPrefix(args[0], "bin/"), args[1:]...)
			output := result.Stdout + logLines.ReplaceAllString(result.Stderr, "")
			if e.page == recording {
				recorded = append(recorded, example{e.page, e.command, output})
				if os.Getenv("RFSD_UPDATE") != "" {
					return
				}
			}
			if got := strings.Join(strings.Fields(output), " "); !stated(e.output, got) {
				t.Errorf("exit code %d, prints\n%s\n%s\nthe page has\n%s", result.Code, result.Stdout, result.Stderr, e.output)
			}
		})
	}
	if os.Getenv("RFSD_UPDATE") != "" {
		writeRecording(t, recorded)
	} else if len(recorded) < 5 {
		t.Errorf("%s has %d commands", recording, len(recorded))
	}
}

// prepared returns a directory in which the commands of the documents find what they name.
func prepared(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"testing", "rfs"} {
		if err := os.Symlink(filepath.Join(Root(), name), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// varies matches what another run prints differently: seconds, and times.
var varies = regexp.MustCompile(`\b\d+\.\d+ s\b|\b\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\b`)

// writeRecording replaces the outputs in the page of the recording.
func writeRecording(t *testing.T, all []example) {
	t.Helper()
	path := filepath.Join(Root(), "docs", recording)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	next := 0
	page := console.ReplaceAllStringFunc(string(text), func(string) string {
		if next >= len(all) {
			t.Fatalf("%s has more than %d blocks: each has one command", recording, len(all))
		}
		e := all[next]
		next++
		return "```console\n$ " + e.command + "\n" + varies.ReplaceAllString(e.output, "…") + "```"
	})
	if err := os.WriteFile(path, []byte(page), 0o644); err != nil {
		t.Fatal(err)
	}
}

// stated reports whether an output, with single blanks, is what a page states.
func stated(page, output string) bool {
	words := strings.Fields(page)
	for i, w := range words {
		words[i] = strings.ReplaceAll(regexp.QuoteMeta(w), "…", ".*")
	}
	pattern := strings.ReplaceAll(strings.ReplaceAll(strings.Join(words, " "), " .* ", "(?: .*)? "), " .*", ".*")
	return regexp.MustCompile("^" + pattern + "$").MatchString(output)
}

func TestStatedOutputsAreCompared(t *testing.T) {
	for _, c := range []struct {
		name, page, output string
		want               bool
	}{
		{"blanks", "a   b\nc", "a b c", true},
		{"another word", "a b", "a c", false},
		{"more at the end", "a", "a b", false},
		{"text left out", "a … d", "a b c d", true},
		{"nothing left out", "a … d", "a d", true},
		{"the end left out", "a …", "a b c", true},
		{"a part of a word left out", "id …x", "id 12x", true},
		{"dots", "0.1 s", "0x1 s", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if stated(c.page, c.output) != c.want {
				t.Errorf("%q states %q: %v", c.page, c.output, !c.want)
			}
		})
	}
}
