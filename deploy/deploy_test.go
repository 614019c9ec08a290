// Package deploy_test holds what lies beside the programs to what the guide promises of it.
package deploy_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func need(t *testing.T, program string) {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		t.Skipf("not run: %s is not installed", program)
	}
}

func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestTheAlertsFireAndStaySilent checks the rules for Prometheus, and evaluates them for the series of their own tests.
func TestTheAlertsFireAndStaySilent(t *testing.T) {
	need(t, "promtool")
	run(t, "promtool", "check", "rules", "prometheus/rfsd.rules.yml")
	run(t, "promtool", "test", "rules", "prometheus/rfsd.rules.test.yml")
}

func TestTheUnitIsHardenedAndStopsGently(t *testing.T) {
	unit := string(read(t, "systemd/rfsd.service"))
	for _, line := range []string{"Type=notify", "KillMode=mixed", "TimeoutStopSec=45s", "OOMPolicy=continue", "WatchdogSec=30s", "RestartPreventExitStatus=6 7 8",
		"RuntimeDirectory=rfsd", "StateDirectory=rfsd", "Group=rfsd", "SupplementaryGroups=rfsd-operators", "NoNewPrivileges=yes", "LimitCORE=0"} {
		if !strings.Contains(unit, "\n"+line+"\n") {
			t.Errorf("the unit has no line %s", line)
		}
	}
	need(t, "systemd-analyze")
	for name, most := range map[string]float64{"systemd/rfsd.service": 2.0, "aws/rfsd-lifecycle.service": 3.0} {
		out := run(t, "systemd-analyze", "security", "--offline=true", name)
		m := regexp.MustCompile(`Overall exposure level for \S+: ([0-9.]+)`).FindStringSubmatch(out)
		if m == nil {
			t.Fatalf("no level in\n%s", out)
		}
		level, err := strconv.ParseFloat(m[1], 64)
		if err != nil || level > most {
			t.Errorf("%s: exposure %s, want at most %.1f", name, m[1], most)
		}
		t.Logf("%s: exposure %s", name, m[1])
	}
}

// TestOperatorsAreNotTheServicesGroup: who may steer a node does not read its keys.
func TestOperatorsAreNotTheServicesGroup(t *testing.T) {
	for name, words := range map[string]string{
		"systemd/rfsd.sysusers.conf": "g rfsd-operators -", "package/postinstall.sh": "groupadd --system rfsd-operators",
		"../daemon/api/api.go": `LookupGroup("rfsd-operators")`, "../docs/DEPLOY.md": "usermod -aG rfsd-operators ", "../docs/SECURITY.md": "group `rfsd-operators`",
	} {
		if text := string(read(t, name)); !strings.Contains(text, words) || strings.Contains(text, "usermod -aG rfsd ") {
			t.Errorf("%s does not have operators in a group of their own", name)
		}
	}
}

// calls maps each action of IAM to the words in the product that need it.
var calls = map[string]struct{ dir, word string }{
	"s3:ListBucket":                       {"../rfs/source/repo", "NewListObjectsV2Paginator("},
	"s3:GetObject":                        {"../rfs/source/repo", ".GetObject("},
	"ec2:DescribeInstances":               {"../gossip", "DescribeInstances"},
	"es:ESHttpGet":                        {"../rfs", "http.MethodGet"},
	"es:ESHttpHead":                       {"../rfs", "http.MethodHead"},
	"es:ESHttpPost":                       {"../rfs", "http.MethodPost"},
	"es:ESHttpPut":                        {"../rfs", "http.MethodPut"},
	"es:ESHttpDelete":                     {"../rfs", "http.MethodDelete"},
	"autoscaling:CompleteLifecycleAction": {"aws", "autoscaling complete-lifecycle-action"},
	"sts:AssumeRole":                      {"aws", `"Service": "ec2.amazonaws.com"`}, // of the machine itself
}

func TestEveryPermissionIsOneThatIsUsed(t *testing.T) {
	files, err := filepath.Glob("aws/*.json")
	if err != nil || len(files) < 4 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	granted := map[string]bool{}
	for _, name := range files {
		var doc map[string]any
		if err := json.Unmarshal(read(t, name), &doc); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		statements, _ := doc["Statement"].([]any)
		if strings.HasSuffix(name, "policy.json") && len(statements) == 0 {
			t.Errorf("%s grants nothing", name)
		}
		for _, x := range statements {
			s := x.(map[string]any)
			for _, action := range list(s["Action"]) {
				granted[action] = true
				if strings.Contains(action, "*") {
					t.Errorf("%s grants %s", name, action)
				}
				if resources := list(s["Resource"]); slices.Contains(resources, "*") && action != "ec2:DescribeInstances" {
					t.Errorf("%s grants %s on everything", name, action) // describing knows no resources
				}
			}
		}
	}
	for action := range granted {
		use, ok := calls[action]
		if !ok || !contains(t, use.dir, use.word) {
			t.Errorf("%s is granted, and nothing needs it", action)
		}
	}
	for action := range calls {
		if !granted[action] {
			t.Errorf("%s is needed and not granted", action)
		}
	}
}

// TestTheOperatorsPolicyCoversUndo: every method that `rfsctl undo` sends is granted on everything that it may remove.
func TestTheOperatorsPolicyCoversUndo(t *testing.T) {
	var operator policy
	if err := json.Unmarshal(read(t, "aws/operator-policy.json"), &operator); err != nil {
		t.Fatal(err)
	}
	const everything = "arn:aws:es:REGION:ACCOUNT:domain/DOMAIN/orders"
	for action, use := range calls {
		method, ok := strings.CutPrefix(action, "es:ESHttp")
		if !ok {
			continue
		}
		for _, dir := range []string{"../rfs/operation/rollback", "../rfs/destination/tuning", "../rfs/coordination/cms/oscms"} {
			if contains(t, dir, use.word) && !operator.allows(action, everything) {
				t.Errorf("%s sends %s, which the policy does not grant", dir, method)
			}
		}
	}
	if !operator.allows("es:ESHttpDelete", everything) {
		t.Error("operators may not remove anything")
	}
}

func list(v any) (all []string) {
	switch v := v.(type) {
	case string:
		return []string{v}
	case []any:
		for _, x := range v {
			all = append(all, x.(string))
		}
	}
	return all
}

func contains(t *testing.T, dir, word string) (found bool) {
	t.Helper()
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasSuffix(name, "_test.go") || strings.HasSuffix(name, "node-policy.json") {
			return err
		}
		found = found || bytes.Contains(read(t, name), []byte(word))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestAnInstanceThatIsTakenAwayHandsItsWorkOver runs the real script beside a server of metadata and
// stand-ins for systemctl and aws.
func TestAnInstanceThatIsTakenAwayHandsItsWorkOver(t *testing.T) {
	need(t, "curl")
	for _, script := range []string{"aws/lifecycle.sh", "aws/user-data.sh", "package/postinstall.sh", "package/preremove.sh", "package/build.sh"} {
		run(t, "bash", "-n", script)
	}
	var state atomic.Value
	state.Store("InService")
	asked := make(chan struct{}, 100)
	metadata := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodPut && r.URL.Path == "/latest/api/token":
			fmt.Fprint(w, "t0ken")
		case r.Header.Get("X-Aws-Ec2-Metadata-Token") != "t0ken":
			w.WriteHeader(http.StatusUnauthorized)
		case strings.HasSuffix(r.URL.Path, "/target-lifecycle-state"):
			fmt.Fprint(w, state.Load())
			select {
			case asked <- struct{}{}:
			default:
			}
		case strings.HasSuffix(r.URL.Path, "/instance-id"):
			fmt.Fprint(w, "i-0123")
		case strings.HasSuffix(r.URL.Path, "/placement/region"):
			fmt.Fprint(w, "eu-central-1")
		default:
			http.NotFound(w, r)
		}
	}))
	defer metadata.Close()
	bin := t.TempDir()
	said := filepath.Join(bin, "said")
	for _, name := range []string{"systemctl", "aws"} {
		script := "#!/bin/sh\necho " + name + " \"$@\" >> " + said + "\n"
		if err := os.WriteFile(filepath.Join(bin, name), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "aws/lifecycle.sh")
	cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "RFSD_METADATA="+metadata.URL, "RFSD_METADATA_EVERY=0.05")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	<-asked
	<-asked // it looked twice and did nothing
	if b, err := os.ReadFile(said); err == nil {
		t.Fatalf("in service, and yet: %s", b)
	}
	state.Store("Terminated")
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	lines := strings.Split(strings.TrimSpace(string(read(t, said))), "\n")
	want := []string{"systemctl stop rfsd.service",
		"aws autoscaling complete-lifecycle-action --lifecycle-hook-name rfsd-hand-over --auto-scaling-group-name rfsd --lifecycle-action-result CONTINUE --instance-id i-0123 --region eu-central-1",
		"systemctl stop rfsd-lifecycle.service"}
	if !slices.Equal(lines, want) {
		t.Errorf("it did\n%s", strings.Join(lines, "\n"))
	}
}
