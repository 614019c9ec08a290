package abuse

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// controls are what steers a terminal.
const controls = "\x1b\x07\u009b"

// cloudCanary stands for secrets in variables of AWS.
const cloudCanary = "CLOUDcanary88"

const ofWorkers = "arguments or variables of a worker"

// planted is a secret and an escape: in an address, and where settings are KEY=VALUE as one. That of an option that renames
// indices is a name.
func planted(variable string) string {
	if strings.HasSuffix(variable, "_SETTING") {
		return "secret_key=" + canary + escape
	}
	return "https://u:" + canary + "@h/" + escape
}

// TestCanaryInEveryOption: a secret and an escape in each variable of a node; what the program prints is searched.
func TestCanaryInEveryOption(t *testing.T) {
	t.Parallel()
	help := run(t, patience, nil, "rfsd", "run", "--help-all")
	var variables []string
	for _, option := range regexp.MustCompile(`(?m)^  --([a-z0-9-]+)`).FindAllStringSubmatch(help.stdout, -1) {
		variables = append(variables, "RFS_"+strings.ToUpper(strings.ReplaceAll(option[1], "-", "_")))
	}
	if len(variables) < 120 {
		t.Fatalf("only %d options in the help: %s", len(variables), help.stdout)
	}
	file := filepath.Join(t.TempDir(), "n.toml")
	must(t, os.WriteFile(file, []byte("[source]\nrepo-uri = \"/tmp\"\nsnapshot-name = \"s\"\n"), 0o600))
	for _, v := range variables {
		e := run(t, patience, []string{"RFS_TARGET_HOST=http://127.0.0.1:9", v + "=" + planted(v)}, "rfsd", "config", "check", file)
		for stream, text := range map[string]string{"stdout": e.stdout, "stderr": e.stderr} {
			if e.late || strings.Contains(text, canary) || strings.ContainsAny(text, controls) {
				t.Errorf("%s: %s %q", v, stream, text)
			}
		}
	}
}

// TestCanaryOfARunningNode: secrets in its variables, and a target whose words hold one and an escape. Everything that a
// node gives away is searched.
func TestCanaryOfARunningNode(t *testing.T) {
	t.Parallel()
	words := `target http://u:` + canary + `@h secret_key=` + canary + strings.NewReplacer("\x1b", `\u001b`, "\x07", `\u0007`).Replace(escape)
	played := &cluster{bulk: func(w http.ResponseWriter, _ []string) {
		w.WriteHeader(http.StatusTooManyRequests)
		_, _ = io.WriteString(w, `{"error":{"type":"rejected","reason":"`+words+`"},"status":429}`)
	}}
	hook, address := attacker(t)
	n := startOn(t, serve(t, played), []string{
		"RFS_TARGET_PASSWORD=" + canary, "RFS_SOURCE_PASSWORD=" + canary, "RFS_COORDINATOR_PASSWORD=" + canary, "RFS_WEBHOOK=" + address + "/T0/" + canary,
		"RFS_SOURCE_REPO_SETTING=secret_key=" + canary, "AWS_ACCESS_KEY_ID=AKIA" + cloudCanary, "AWS_SECRET_ACCESS_KEY=" + cloudCanary, "AWS_SESSION_TOKEN=" + cloudCanary,
	}, "--target-username", "admin", "--phases", "documents", "--log-level", "debug")
	var seen []string
	until(t, "a worker runs and was refused: "+n.logged(t), func() bool {
		all := n.children(t)
		if len(all) > 0 {
			seen = all
		}
		return len(seen) > 0 && strings.Contains(n.whole(t), "429")
	})
	search := func(what, text string) {
		for _, secret := range []string{canary, cloudCanary} {
			// The library of AWS reads its variables itself, in workers too.
			if i := strings.Index(text, secret); i >= 0 && !(secret == cloudCanary && what == ofWorkers) {
				t.Errorf("%s holds the secret: %.300q", what, text[max(0, i-150):])
			}
		}
		steers := controls
		if strings.Contains(what, " /v1/") || strings.HasSuffix(what, "/readyz") || strings.HasPrefix(what, "the control index") {
			steers = controls[:2] // JSON is data; what it escapes cannot steer
		}
		if strings.ContainsAny(text, steers) {
			t.Errorf("%s holds controls", what)
		}
	}
	for socket, path := range map[string]string{"operator": n.operator, "reader": n.reader} {
		client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", path)
		}}}
		for _, route := range []string{"/v1/status", "/v1/events", "/v1/failures", "/v1/items", "/v1/logs", "/v1/report", "/metrics", "/readyz", "/v1/openapi.json"} {
			res, err := client.Get("http://rfsd" + route)
			must(t, err)
			b, err := io.ReadAll(res.Body)
			must(t, err)
			res.Body.Close()
			search(socket+" "+route, string(b))
		}
		client.CloseIdleConnections()
	}
	for _, command := range []string{"status", "events", "failures", "logs", "report"} {
		e := run(t, patience, nil, "rfsctl", command, "--node", n.operator)
		search("rfsctl "+command, e.stdout+e.stderr)
	}
	search("the log", n.whole(t))
	for _, child := range seen {
		search(ofWorkers, child)
	}
	args, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", n.cmd.Process.Pid))
	must(t, err)
	search("arguments of the daemon", string(args))
	limits, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", n.cmd.Process.Pid))
	must(t, err)
	for of, text := range map[string]string{"daemon": string(limits), "worker": seen[0]} {
		if !regexp.MustCompile(`(?m)^Max core file size +0 +0 `).MatchString(text) {
			t.Errorf("the %s may leave a core dump with its secrets: %s", of, regexp.MustCompile(`(?m)^Max core.*`).FindString(text))
		}
	}
	played.mu.Lock()
	defer played.mu.Unlock()
	for key, text := range played.docs {
		search("the control index, "+key, text)
	}
	if _, got := hook.requests(); len(got) > 0 {
		t.Errorf("the webhook got credentials: %q", got)
	}
}

// whole is all that the daemon has logged.
func (n *node) whole(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(n.dir, "log"))
	must(t, err)
	return string(b)
}

// children are arguments, variables and limits of each process that the daemon has started and that still runs.
func (n *node) children(t *testing.T) []string {
	t.Helper()
	var all []string
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	must(t, err)
	for _, file := range stats {
		b, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		_, rest, _ := strings.Cut(string(b), ") ")
		if fields := strings.Fields(rest); len(fields) < 2 || fields[1] != fmt.Sprint(n.cmd.Process.Pid) {
			continue
		}
		args, err := os.ReadFile(filepath.Join(filepath.Dir(file), "cmdline"))
		if err != nil || !strings.Contains(string(args), "worker") {
			continue
		}
		env, err := os.ReadFile(filepath.Join(filepath.Dir(file), "environ"))
		if err != nil {
			continue
		}
		if limits, err := os.ReadFile(filepath.Join(filepath.Dir(file), "limits")); err == nil {
			all = append(all, string(args)+string(env)+"\n"+string(limits))
		}
	}
	return all
}
