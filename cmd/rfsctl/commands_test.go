package main

import (
	"testing"

	"github.com/rfsd/rfsd/cmd/config"
	"github.com/rfsd/rfsd/cmd/manual"
	"github.com/rfsd/rfsd/cmd/report"
	"github.com/rfsd/rfsd/daemon/status"
	"github.com/rfsd/rfsd/rfs/destination/tuning"
	"github.com/rfsd/rfsd/rfs/operation/rollback"
	"github.com/rfsd/rfsd/rfs/source/check"
	"github.com/rfsd/rfsd/testing/configtest"
)

func TestCommands(t *testing.T) {
	p := configtest.Program{App: newApp, Args: map[string][]string{
		"rfsctl items show": {"ID"}, "rfsctl items retry": {"ID"}, "rfsctl items cancel": {"ID"}, "rfsctl cert create": {"NAME"}, "rfsctl scale": {"auto"}, "rfsctl set": {"max-rate", "20MiB"},
	}}
	t.Run("are declared", p.TestCommandsAreDeclared)
	t.Run("refuse every wrong value by name", p.TestEveryWrongValueIsRefusedByName)
	t.Run("know no misspelt option", p.TestEveryMisspeltOptionIsUnknown)
	t.Run("have a help", p.TestHelp)
	t.Run("print JSON", func(t *testing.T) {
		p.TestOutput(t, map[string]any{
			"rfsctl snapshot list": snapshotList{}, "rfsctl snapshot show": shownSnapshot{}, "rfsctl snapshot check": check.Report{}, "rfsctl snapshot diff": differentSnapshots{}, "rfsctl snapshot extract": extracted{},
			"rfsctl items list": status.ItemList{}, "rfsctl items show": status.Item{}, "rfsctl items retry": map[string][]string{}, "rfsctl items cancel": map[string][]string{},
			"rfsctl failures": status.Failures{}, "rfsctl report": status.Account{}, "rfsctl cleanup": removed{}, "rfsctl sessions": []listedSession{},
			"rfsctl cutover": struct {
				Ended  report.CutoverResult `json:"ended"`
				DryRun expected             `json:"dry_run"`
			}{},
			"rfsctl created": []rollback.Entry{}, "rfsctl undo": []rollback.Entry{}, "rfsctl target restore": []tuning.Restored{},
			"rfsctl cert create": createdCertificate{}, "rfsctl cert gossip-key": config.WrittenFile{}, "rfsctl page": servedPage{}, "rfsctl version": config.Versions{},
			"rfsctl status": status.Report{}, "rfsctl nodes": knownNodes{}, "rfsctl events": []status.Event{}, "rfsctl logs": []status.LogLine{},
			"rfsctl pause": status.Ordered{}, "rfsctl resume": status.Ordered{}, "rfsctl drain": status.Ordered{}, "rfsctl scale": status.Ordered{}, "rfsctl set": status.Ordered{},
		})
	})
	t.Run("have manual pages", func(t *testing.T) { p.TestEveryCommandHasAManualPage(t, manual.Pages(newApp())) })
}
