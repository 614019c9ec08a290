package manual_test

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/cpuguy83/go-md2man/v2/md2man"
	"github.com/urfave/cli/v2"

	"github.com/rfsd/rfsd/cmd/config"
	"github.com/rfsd/rfsd/cmd/manual"
)

// sample is a program with one command that has the settings of rfsd migrate, one that is hidden, and one below another.
func sample() *cli.App {
	nothing := func(context.Context, *config.Call) error { return nil }
	return &cli.App{Name: "sample", Usage: "show what pages hold", Version: "v1.2.3", Commands: []*cli.Command{
		config.Raw[config.MigrateCommand](cli.Command{Name: "move", Usage: "move <all> of *it*", Description: "Moves all.\nIt is _one_ line\nlonger.\n\n  $ sample move\n  moved\n\nExit codes:\n  0  done"}, nothing),
		{Name: "parts", Usage: "what there is", Subcommands: []*cli.Command{
			config.Raw[config.None](cli.Command{Name: "show", Usage: "show a part", ArgsUsage: "ID..."}, nothing),
		}},
		manual.Command(sample),
	}}
}

func TestPages(t *testing.T) {
	pages := map[string]string{}
	for name, page := range manual.Pages(sample()) {
		pages[name] = roff(page)
	}
	for name, want := range map[string][]string{
		"sample":            {`.TH "SAMPLE" "1" "" "sample v1.2.3" "User Commands"`, "sample - show what pages hold", "sample move\\fP", "sample parts\\fP", "sample-move\\fP(1)"},
		"sample-move":       {"move <all> of *it*", "Moves all.\nIt is _one_ line\nlonger.\n", ".EX\n$ sample move\nmoved\n.EE", ".EX\n0  done\n", "sample\\fP(1)"},
		"sample-parts":      {"sample parts show\\fP", "sample-parts-show\\fP(1)"},
		"sample-parts-show": {"sample parts show\\fP \\fIID...\\fP"},
	} {
		text, ok := pages[name]
		if !ok {
			t.Errorf("there is no page %s", name)
		}
		for _, w := range want {
			if !strings.Contains(text, w) {
				t.Errorf("%s has no %q:\n%.3000s", name, w, text)
			}
		}
		delete(pages, name)
	}
	for name := range pages {
		t.Errorf("there is a page %s", name)
	}
}

// The options of the page are those of the help, each with its variable and its default.
func TestPagesListEveryOption(t *testing.T) {
	app := sample()
	text := roff(manual.Pages(app)["sample-move"])
	settings := config.Honours(app.Commands[0])
	if len(settings) < 50 {
		t.Fatalf("the command has %d options", len(settings))
	}
	for _, s := range settings {
		if listed := strings.Contains(text, "--"+s.Name+"\\fP"); listed == s.Hidden {
			t.Errorf("--%s is listed: %v", s.Name, listed)
		}
		if s.Hidden {
			continue
		}
		for _, w := range []string{s.Usage(), s.Variable(), s.Default} {
			if w != "" && w != "false" && !strings.Contains(strings.ReplaceAll(text, "\n", " "), w) {
				t.Errorf("--%s: the page has no %q", s.Name, w)
			}
		}
	}
}

func TestTheCommandWritesThePages(t *testing.T) {
	dir := t.TempDir()
	if err := sample().Run([]string{"sample", "manual", dir}); err != nil {
		t.Fatal(err)
	}
	for name, page := range manual.Pages(sample()) {
		if b, err := os.ReadFile(dir + "/" + name + ".1.md"); err != nil || string(b) != page {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := sample().Run([]string{"sample", "manual", dir + "/absent"}); err == nil {
		t.Error("a directory that is missing was written to")
	}
}

// roff returns a page as man shows it, but for its fonts.
func roff(markdown string) string {
	return strings.NewReplacer(`\-`, "-", `\&`, "", `\[la]`, "<", `\[ra]`, ">", `\\`, `\`, `\(ti`, "~", `\(ha`, "^", `\e`, `\`, `\_`, "_", `\.`, ".").Replace(string(md2man.Render([]byte(markdown))))
}
