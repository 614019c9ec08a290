package main

import (
	"testing"

	"github.com/rfsd/rfsd/cmd/config/configtest"
)

func TestCommands(t *testing.T) {
	p := configtest.Program{App: newApp, Args: map[string][]string{
		"rfsctl items show": {"ID"}, "rfsctl items retry": {"ID"}, "rfsctl cert create": {"NAME"}, "rfsctl scale": {"auto"},
	}}
	t.Run("are declared", p.TestCommandsAreDeclared)
	t.Run("refuse every wrong value by name", p.TestEveryWrongValueIsRefusedByName)
	t.Run("know no misspelt option", p.TestEveryMisspeltOptionIsUnknown)
}
