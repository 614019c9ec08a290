package main

import (
	"strings"
	"testing"
)

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
