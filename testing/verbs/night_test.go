package verbs_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// reader returns a function like sources that reads each set of directories once.
func reader(t *testing.T) func(dirs ...string) string {
	read := map[string]string{}
	return func(dirs ...string) string {
		key := strings.Join(dirs, " ")
		if _, ok := read[key]; !ok {
			read[key] = sources(t, dirs...)
		}
		return read[key]
	}
}

// sources returns the text of all Go files of a directory of the checkout and below.
func sources(t *testing.T, dirs ...string) string {
	t.Helper()
	var all bytes.Buffer
	for _, dir := range dirs {
		err := filepath.WalkDir(filepath.Join("..", "..", dir), func(path string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() || !strings.HasSuffix(path, ".go") {
				return err
			}
			b, err := os.ReadFile(path)
			all.Write(b)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all.String()
}

// lost lists what a part of the night asks for and does not exist: variables that no test reads, patterns that name no
// test of the package, verbs that the Makefile lacks.
func lost(t *testing.T, sources func(dirs ...string) string, line, makefile string) (problems []string) {
	t.Helper()
	for _, m := range regexp.MustCompile(`RFSD_[A-Z0-9_]+`).FindAllString(line, -1) {
		if !strings.Contains(sources("testing", "rfs", "deploy", "cmd"), `env("`+m+`")`) {
			problems = append(problems, "no test reads "+m)
		}
	}
	var dirs []string
	for _, m := range regexp.MustCompile(`[\s=]\./([^\s"']+)`).FindAllStringSubmatch(line, -1) {
		dirs = append(dirs, strings.TrimSuffix(m[1], "/..."))
	}
	if dirs == nil {
		dirs = []string{"testing/e2e"}
	}
	if m := regexp.MustCompile(`-run '?([A-Za-z0-9_|]+)`).FindStringSubmatch(line); m != nil {
		text := sources(dirs...)
		for word := range strings.SplitSeq(m[1], "|") {
			if !regexp.MustCompile(`(?m)^func Test\w*` + word).MatchString(text) {
				problems = append(problems, fmt.Sprintf("no test of %s has the name %s", strings.Join(dirs, ", "), word))
			}
		}
	}
	if m := regexp.MustCompile(`\bmake ([a-z0-9-]+)`).FindStringSubmatch(line); m != nil && !strings.Contains(makefile, "\n"+m[1]+":") {
		problems = append(problems, "the Makefile has no "+m[1])
	}
	return problems
}

// TestTheNightAsksForWhatExists: `go test -run` of a name that is gone runs nothing and passes.
func TestTheNightAsksForWhatExists(t *testing.T) {
	script, err := os.ReadFile(filepath.Join("..", "night.sh"))
	if err != nil {
		t.Fatal(err)
	}
	makefile, err := os.ReadFile(filepath.Join("..", "..", "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	all := regexp.MustCompile(`(?m)^all=\((.*)\)$`).FindSubmatch(script)
	if all == nil {
		t.Fatal("the script has no list of parts")
	}
	text := reader(t)
	var parts []string
	for _, m := range regexp.MustCompile(`(?m)^    ([a-z]+)\) (.*) ;;$`).FindAllSubmatch(script, -1) {
		parts = append(parts, string(m[1]))
		for _, p := range lost(t, text, string(m[2]), string(makefile)) {
			t.Errorf("%s: %s", m[1], p)
		}
	}
	if want := strings.Fields(string(all[1])); !slices.Equal(parts, want) {
		t.Errorf("the script lists the parts %v and knows %v", want, parts)
	}
	t.Run("what is gone is found", func(t *testing.T) {
		const line = `RFSD_GONE=1 e2e "-run Daemon|NoSuchTest" && make nosuchverb`
		if got := lost(t, text, line, string(makefile)); len(got) != 3 {
			t.Errorf("%q", got)
		}
	})
}

// TestTheSelectedTestsExist: the Makefile selects tests by words of their names: those of the programs that mostly wait, those that
// make test runs, and those of packages that do not run under the race detector.
func TestTheSelectedTestsExist(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join("..", "..", "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	for variable, dir := range map[string]string{"WAITING": "testing/e2e", "PROMISED": "testing/e2e", "UNRACED": "rfs"} {
		selection := regexp.MustCompile(`(?m)^` + variable + `\s*:= (\S+)$`).FindSubmatch(makefile)
		if selection == nil {
			t.Fatalf("the Makefile has no %s", variable)
		}
		for word := range strings.SplitSeq(string(selection[1]), "|") {
			for _, p := range lost(t, reader(t), " ./"+dir+"/... -run "+word, string(makefile)) {
				t.Errorf("%s: %s", variable, p)
			}
		}
	}
}
