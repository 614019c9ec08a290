package configtest

import "github.com/rfsd/rfsd/cmd/config"

// Spec is a command of a program and its settings.
type Spec struct {
	Path     string // such as "rfsd config check"
	Settings any
}

// Specs returns all commands of both programs.
func Specs() []Spec {
	return []Spec{
		{"rfsd migrate", config.MigrateCommand{}}, {"rfsd follow", config.Follow{}}, {"rfsd run", config.Run{}}, {"rfsd worker", config.Worker{}}, {"rfsd plan", config.Plan{}}, {"rfsd verify", config.Verify{}},
		{"rfsd import", config.ImportCommand{}}, {"rfsd consume", config.ConsumeCommand{}}, {"rfsd redrive", config.Redrive{}}, {"rfsd config check", config.Checked{}}, {"rfsd config init", config.Checked{}}, {"rfsd version", config.Printed{}}, {"rfsd completion", config.None{}},
		{"rfsctl snapshot list", config.Snapshots{}}, {"rfsctl snapshot show", config.ShowSnapshot{}}, {"rfsctl snapshot check", config.CheckSnapshots{}}, {"rfsctl snapshot diff", config.DiffSnapshots{}}, {"rfsctl snapshot extract", config.ExtractSnapshot{}},
		{"rfsctl items list", config.Items{}}, {"rfsctl items show", config.Either{}}, {"rfsctl items retry", config.Stored{}}, {"rfsctl items cancel", config.Stored{}},
		{"rfsctl failures", config.Failures{}}, {"rfsctl report", config.Either{}}, {"rfsctl cleanup", config.Cleanup{}}, {"rfsctl sessions", config.Stored{}}, {"rfsctl cutover", config.Cutover{}}, {"rfsctl created", config.Stored{}}, {"rfsctl undo", config.Undo{}}, {"rfsctl target restore", config.Restore{}},
		{"rfsctl cert create", config.CreateCertificate{}}, {"rfsctl cert gossip-key", config.Printed{}}, {"rfsctl page", config.ShowPage{}},
		{"rfsctl completion", config.None{}}, {"rfsctl version", config.Printed{}}, {"rfsctl status", config.ShowStatus{}}, {"rfsctl nodes", config.ShowNodes{}}, {"rfsctl events", config.ShowLast{}}, {"rfsctl logs", config.ShowLogs{}},
		{"rfsctl pause", config.Asked{}}, {"rfsctl resume", config.Asked{}}, {"rfsctl drain", config.Asked{}}, {"rfsctl scale", config.Asked{}}, {"rfsctl set", config.Asked{}},
	}
}

// Names returns the names of settings.
func Names(all []config.Setting) []string {
	names := make([]string, len(all))
	for i, s := range all {
		names[i] = s.Name
	}
	return names
}
