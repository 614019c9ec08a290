package main

import (
	"strings"
	"testing"

	"github.com/rfsd/rfsd/cmd/config"
	"github.com/rfsd/rfsd/cmd/manual"
)

func TestEveryCommandHasAManualPage(t *testing.T) {
	pages := map[string]string{}
	for _, page := range manual.Pages(newApp()) {
		pages[page.Name] = page.Markdown
	}
	for _, spec := range config.Specs() {
		if !strings.HasPrefix(spec.Path, "rfsd ") {
			continue
		}
		text := pages[strings.ReplaceAll(spec.Path, " ", "-")]
		if !strings.Contains(text, "Exit codes:") {
			t.Errorf("%s has no page, or one without its exit codes", spec.Path)
		}
	}
}

func TestCompletionCompletesThisProgram(t *testing.T) {
	for shell, want := range map[string]string{"bash": "-F _rfsd rfsd\n", "zsh": "#compdef rfsd\n", "fish": "complete -c rfsd "} {
		var out strings.Builder
		app := newApp()
		app.Writer = &out
		if err := app.RunContext(t.Context(), []string{"rfsd", "completion", shell}); err != nil || !strings.Contains(out.String(), want) {
			t.Errorf("%s: %v\n%.200s", shell, err, out.String())
		}
	}
}
