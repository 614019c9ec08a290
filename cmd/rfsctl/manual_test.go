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
		if !strings.HasPrefix(spec.Path, "rfsctl ") {
			continue
		}
		text := pages[strings.ReplaceAll(spec.Path, " ", "-")]
		if !strings.Contains(text, "Exit codes:") {
			t.Errorf("%s has no page, or one without its exit codes", spec.Path)
		}
	}
}
