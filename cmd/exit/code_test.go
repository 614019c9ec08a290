package exit

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"github.com/rfsd/rfsd/rfs/coordination/progress"
)

var update = flag.Bool("update", false, "write the table of docs/EXIT-CODES.md anew")

// The page of exit codes holds the table of this package.
func TestThePageOfExitCodesIsTrue(t *testing.T) {
	var table strings.Builder
	table.WriteString("| code | meaning | commands |\n|---|---|---|\n")
	names := slices.Sorted(func(yield func(string) bool) {
		for name := range further {
			if !yield(name) {
				return
			}
		}
	})
	for code, meaning := range meanings {
		commands := []string{}
		for _, name := range names {
			if slices.Contains(further[name], Code(code)) {
				commands = append(commands, "`"+name+"`")
			}
		}
		if slices.Contains(usual, Code(code)) {
			commands = []string{"all"}
		}
		fmt.Fprintf(&table, "| %d | %s | %s |\n", code, meaning, strings.Join(commands, ", "))
	}
	const page = "../../docs/EXIT-CODES.md"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	begin := strings.Index(string(text), "| code | meaning | commands |")
	if begin < 0 {
		t.Fatal("the page has no table")
	}
	end := begin + strings.Index(string(text[begin:])+"\n\n", "\n\n") + 1
	if string(text[begin:min(end, len(text))]) == table.String() {
		return
	}
	if !*update {
		t.Fatalf("the table is another; go test ./cmd/exit -update writes it:\n%s", table.String())
	}
	if err := os.WriteFile(page, []byte(string(text[:begin])+table.String()+string(text[min(end, len(text)):])), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestTheCodeOfAnError(t *testing.T) {
	cause := errors.New("cause")
	for _, c := range []struct {
		name string
		err  error
		code Code
		left error
	}{
		{"no error", nil, OK, nil},
		{"an error without a code", cause, Failed, cause},
		{"a code without an error", With(Parts, nil), Parts, nil},
		{"both", With(Snapshot, cause), Snapshot, cause},
		{"wrapped", fmt.Errorf("around: %w", With(Documents, cause)), Documents, cause},
		{"success is not an error", With(OK, nil), OK, nil},
		{"an error that is only printed", With(OK, cause), OK, cause},
	} {
		t.Run(c.name, func(t *testing.T) {
			if code, left := Of(c.err); code != c.code || !errors.Is(left, c.left) {
				t.Errorf("%d, %v; want %d, %v", code, left, c.code, c.left)
			}
		})
	}
}

func TestTheCodeOfAMigration(t *testing.T) {
	for _, c := range []struct {
		name    string
		m       *progress.Migration
		reduced bool
		want    Code
	}{
		{"not read yet", nil, false, OK},
		{"every document arrived", &progress.Migration{}, false, OK},
		{"documents were rejected", &progress.Migration{Totals: progress.Counts{Failed: 1}}, false, Documents},
		{"sources are reduced", &progress.Migration{Totals: progress.Counts{Reduced: 1}}, false, Documents},
		{"reduced sources are accepted", &progress.Migration{Totals: progress.Counts{Reduced: 1}}, true, OK},
		{"a failed shard wins over rejected documents", &progress.Migration{Totals: progress.Counts{Failed: 1, ItemsBad: 1}}, false, Parts},
		{"an index that was given up", &progress.Migration{Failures: []progress.Failure{{Count: 1}}}, false, Parts},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := OfMigration(c.m, c.reduced); got != c.want {
				t.Errorf("%d, want %d", got, c.want)
			}
		})
	}
}

// Each command states its codes, those of groups in their commands.
func TestHelpStatesTheCodes(t *testing.T) {
	status, check := &cli.Command{Name: "status"}, &cli.Command{Name: "check", Description: "Checks."}
	Document(&cli.App{Name: "rfsctl", Commands: []*cli.Command{status, {Name: "snapshot", Subcommands: []*cli.Command{check}}}})
	if want := "Exit codes:\n  0  " + meanings[0] + "\n  1  " + meanings[1] + "\n  4  " + meanings[4] + "\n  6  " + meanings[6] + "\n  7  " + meanings[7]; status.Description != want {
		t.Errorf("%q, want %q", status.Description, want)
	}
	if !strings.HasPrefix(check.Description, "Checks.\n\nExit codes:\n  0  ") || !strings.Contains(check.Description, "\n  5  ") {
		t.Errorf("%q", check.Description)
	}
}
