package abuse

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// canary stands for every secret.
const canary = "CANARY7f31"

// TestConfigCheckShowsNoSecret: secrets in values of any form, by environment.
func TestConfigCheckShowsNoSecret(t *testing.T) {
	file := filepath.Join(t.TempDir(), "n.toml")
	must(t, os.WriteFile(file, []byte("[source]\nrepo-uri = \"/tmp\"\nsnapshot-name = \"s\"\n"), 0o600))
	for name, env := range map[string]string{
		"a setting of the repository": "RFS_SOURCE_REPO_SETTING=secret_key=" + canary,
		"a webhook":                   "RFS_WEBHOOK=https://hooks.example/T0/" + canary,
		"a remote store":              "RFS_REMOTE_STORE_URI=x=https://ru:" + canary + "@h/p",
		"a target":                    "RFS_TARGET_HOST=http://u:" + canary + "@127.0.0.1:9",
		"a bucket":                    "RFS_REPO_URI=s3://AKIA:" + canary + "@bucket",
		"a password":                  "RFS_TARGET_PASSWORD=" + canary,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := run(t, patience, []string{"RFS_TARGET_HOST=http://127.0.0.1:9", env}, "rfsd", "config", "check", file)
			if e.late || strings.Contains(e.stdout+e.stderr, canary) {
				t.Errorf("ran on %t: %s%s", e.late, e.stdout, e.stderr)
			}
		})
	}
}

// TestSecretsOnTheCommandLine: the daemon refuses them, the others warn; none repeats them.
func TestSecretsOnTheCommandLine(t *testing.T) {
	for _, secret := range [][]string{
		{"--target-host", "http://u:" + canary + "@127.0.0.1:9"}, {"--target-host=http://u:" + canary + "@127.0.0.1:9"},
		{"--source-repo-setting", "secret_key=" + canary}, {"--repo-uri", "s3://AKIA:" + canary + "@bucket"}, {"--target-password", canary},
		{"--remote-store-uri", "x=s3://AKIA:" + canary + "@bucket/p"},
	} {
		t.Run(strings.ReplaceAll(secret[0]+" "+secret[len(secret)-1], canary, "x"), func(t *testing.T) {
			t.Parallel()
			for command, word := range map[string]string{"run": "would be visible", "migrate": "is visible"} {
				args := append([]string{command, "--repo-uri", "/none", "--snapshot-name", "s", "--coordinator-file", "x.db", "--target-host", "http://127.0.0.1:9"}, secret...)
				e := run(t, patience, nil, "rfsd", args...)
				if e.late || e.code == 0 || !strings.Contains(e.stderr, word) || strings.Contains(e.stdout+e.stderr, canary) {
					t.Errorf("%s: exit %d, ran on %t: %s%s", command, e.code, e.late, e.stdout, e.stderr)
				}
			}
		})
	}
}
