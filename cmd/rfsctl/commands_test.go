package main

import (
	"testing"

	"github.com/rfsd/rfsd/cmd/manual"
	"github.com/rfsd/rfsd/testing/configtest"
)

func TestCommands(t *testing.T) {
	p := configtest.Program{App: newApp, Args: map[string][]string{
		"rfsctl items show": {"ID"}, "rfsctl items retry": {"ID"}, "rfsctl items cancel": {"ID"}, "rfsctl cert create": {"NAME"}, "rfsctl scale": {"auto"},
	}}
	t.Run("are declared", p.TestCommandsAreDeclared)
	t.Run("refuse every wrong value by name", p.TestEveryWrongValueIsRefusedByName)
	t.Run("know no misspelt option", p.TestEveryMisspeltOptionIsUnknown)
	t.Run("have a help", p.TestHelp)
	t.Run("have manual pages", func(t *testing.T) { p.TestEveryCommandHasAManualPage(t, manual.Pages(newApp())) })
}
