package e2e

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// helm runs helm, and skips the test where it is missing.
func helm(t *testing.T, args ...string) (string, error) {
	t.Helper()
	path, err := exec.LookPath("helm")
	if err != nil {
		t.Skip("not run: helm is not installed")
	}
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.Env = append(os.Environ(), "HELM_CACHE_HOME="+t.TempDir(), "HELM_CONFIG_HOME="+t.TempDir(), "HELM_DATA_HOME="+t.TempDir())
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// TestChart_Renders what a cluster takes: the configuration passes rfsd config check, and nothing in the pod needs a privilege.
func TestChart_Renders(t *testing.T) {
	chart := filepath.Join(Root(), "deploy", "helm", "rfsd")
	conf, err := os.ReadFile(filepath.Join(Root(), "deploy", "rfsd.toml"))
	must(t, err)
	values := filepath.Join(t.TempDir(), "values.yaml")
	b, err := yaml.Marshal(map[string]any{
		"config": string(conf), "secrets": map[string]string{"environment": "rfsd-env", "files": "rfsd-files"},
		"image": map[string]any{"tag": "9.9.9", "pullSecrets": []string{"registry"}}, "podAnnotations": map[string]string{"a/b": "c"},
		"networkPolicy": map[string]any{"enabled": true, "egress": []any{map[string]any{"ports": []any{map[string]any{"port": 443}}}}},
	})
	must(t, err)
	must(t, os.WriteFile(values, b, 0o600))
	if out, err := helm(t, "lint", "--strict", chart, "-f", values); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if out, err := helm(t, "template", "move", chart); err == nil || !strings.Contains(out, "config is required") {
		t.Errorf("without a configuration: %v: %s", err, out)
	}
	out, err := helm(t, "template", "move", chart, "-f", values)
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	objects := map[string]map[string]any{}
	for d := yaml.NewDecoder(bytes.NewReader([]byte(out))); ; {
		var o map[string]any
		if err := d.Decode(&o); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if o != nil {
			objects[o["kind"].(string)] = o
		}
	}
	at := func(o any, path ...any) any {
		for _, p := range path {
			switch p := p.(type) {
			case string:
				m, _ := o.(map[string]any)
				o = m[p]
			case int:
				l, _ := o.([]any)
				if p >= len(l) {
					return nil
				}
				o = l[p]
			}
		}
		return o
	}
	set := objects["StatefulSet"]
	pod := at(set, "spec", "template", "spec")
	container := at(pod, "containers", 0)
	for _, c := range []struct{ is, want any }{
		{at(pod, "securityContext", "runAsNonRoot"), true}, {at(container, "securityContext", "readOnlyRootFilesystem"), true},
		{at(container, "securityContext", "capabilities", "drop", 0), "ALL"}, {at(container, "image"), "rfsd:9.9.9"},
		{at(container, "envFrom", 0, "secretRef", "name"), "rfsd-env"}, {at(objects["ServiceAccount"], "automountServiceAccountToken"), false},
		{at(objects["NetworkPolicy"], "spec", "egress", 0, "ports", 0, "port"), 443}, {at(objects["Service"], "spec", "clusterIP"), "None"},
		{at(set, "spec", "template", "metadata", "annotations", "a/b"), "c"}, {at(pod, "serviceAccountName"), "move"},
	} {
		if c.is != c.want {
			t.Errorf("%v, want %v", c.is, c.want)
		}
	}
	if in, _ := at(objects["NetworkPolicy"], "spec", "ingress").([]any); len(in) > 0 {
		t.Errorf("ingress: %v", in)
	}
	rendered := filepath.Join(t.TempDir(), "rfsd.toml")
	must(t, os.WriteFile(rendered, []byte(at(objects["ConfigMap"], "data", "rfsd.toml").(string)), 0o600))
	if r := Run(t, "rfsd", "config", "check", rendered); r.Code != 0 {
		t.Errorf("exit %d: %s", r.Code, r.Stderr)
	}
	var args []string
	for _, a := range at(container, "args").([]any)[1:] {
		name, _, _ := strings.Cut(strings.TrimPrefix(a.(string), "--"), "=")
		args = append(args, name)
	}
	help := Run(t, "rfsd", "run", "--help-all").Stdout
	for _, name := range args {
		if !strings.Contains(help, "--"+name) {
			t.Errorf("rfsd run has no option --%s", name)
		}
	}
}

// TestCompose_NamesOptionsThatExist: the example's command is one that rfsd takes.
func TestCompose_NamesOptionsThatExist(t *testing.T) {
	b, err := os.ReadFile(filepath.Join(Root(), "deploy", "container", "compose.yml"))
	must(t, err)
	var compose struct {
		Services map[string]struct{ Command []string }
	}
	must(t, yaml.Unmarshal(b, &compose))
	command := compose.Services["rfsd"].Command
	if len(command) < 4 {
		t.Fatal(command)
	}
	for i, arg := range command { // the variables stand for a fixture
		switch {
		case strings.HasPrefix(arg, "--repo-uri="):
			command[i] = "--repo-uri=" + fixture(t, "7.10.2-demo")
		case strings.HasPrefix(arg, "--snapshot-name="):
			command[i] = "--snapshot-name=snap1"
		case strings.HasPrefix(arg, "--target-host="):
			command[i] = "--discard"
		}
	}
	if r := RunIn(t, t.TempDir(), nil, "rfsd", command...); r.Code != 0 {
		t.Errorf("exit %d: %s", r.Code, r.Stderr)
	}
}
