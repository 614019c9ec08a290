package scale

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/testing/signer"
)

func script(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "scale.sh")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestTheCommandReceivesTheWantedNumber(t *testing.T) {
	seen := filepath.Join(t.TempDir(), "seen")
	for _, name := range []string{"RFS_TARGET_PASSWORD", "AWS_SECRET_ACCESS_KEY", "SOME_TOKEN"} {
		t.Setenv(name, "canary")
	}
	e := &Exec{Args: []string{script(t, "echo \"$@\" >> "+seen+"\nenv >> "+seen+".env\necho started\necho 3\n"), "--group", "a b"}}
	for _, n := range []int{5, 5, 0} {
		if running, err := e.Apply(t.Context(), n); err != nil || running != 3 {
			t.Errorf("%d, %v", running, err)
		}
	}
	if b, err := os.ReadFile(seen); err != nil || string(b) != "--group a b 5\n--group a b 0\n" {
		t.Errorf("%q, %v: want one run for each number", b, err)
	}
	if b, err := os.ReadFile(seen + ".env"); err != nil || strings.Contains(string(b), "canary") || !strings.Contains(string(b), "PATH=") {
		t.Errorf("the environment of the command has a secret, or: %v", err)
	}
}

func TestACommandThatFails(t *testing.T) {
	e := &Exec{Args: []string{script(t, "echo one >&2\necho no quota >&2\nexit 3\n")}}
	if _, err := e.Apply(t.Context(), 2); !errors.Is(err, fault.ErrUnavailable) || !strings.Contains(err.Error(), "exit status 3: no quota") {
		t.Error(err)
	}
	if _, err := (&Exec{Args: []string{"/does/not/exist"}}).Apply(t.Context(), 2); !errors.Is(err, fault.ErrConfig) {
		t.Error(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	begin := time.Now()
	if _, err := (&Exec{Args: []string{script(t, "exec sleep 60\n")}}).Apply(ctx, 2); err == nil || time.Since(begin) > 30*time.Second {
		t.Errorf("%v after %v", err, time.Since(begin))
	}
	noisy := &Exec{Args: []string{script(t, "head -c 3000000 /dev/zero\necho\necho 7\n")}}
	if running, err := noisy.Apply(t.Context(), 2); err != nil || running != 7 {
		t.Errorf("%d, %v", running, err)
	}
}

const (
	asRegion = "eu-central-1"
	asSecret = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
)

// region answers signed requests like Auto Scaling.
type region struct {
	*signer.Verifier
	groups map[string]*group
	refuse func(action string) (status int, code, message string)
	calls  []string
}

func launch(t *testing.T, groups map[string]*group) (*region, AutoScaling) {
	t.Helper()
	signer.SetEnvironment(t, asRegion, "AKIDEXAMPLE", asSecret)
	r := &region{Verifier: &signer.Verifier{Region: asRegion, Service: "autoscaling"}, groups: groups}
	r.Add("AKIDEXAMPLE", signer.Key{Secret: asSecret})
	server := httptest.NewServer(r.Handler(http.HandlerFunc(r.serve)))
	t.Cleanup(server.Close)
	return r, AutoScaling{Group: "workers", Endpoint: server.URL}
}

func (r *region) serve(w http.ResponseWriter, req *http.Request) {
	_ = req.ParseForm()
	action := req.Form.Get("Action")
	r.calls = append(r.calls, action)
	fail := func(status int, code, message string) {
		w.WriteHeader(status)
		fmt.Fprintf(w, "<ErrorResponse xmlns=\"http://autoscaling.amazonaws.com/doc/2011-01-01/\"><Error><Type>Sender</Type><Code>%s</Code><Message>%s</Message></Error></ErrorResponse>", code, message)
	}
	if r.refuse != nil {
		if status, code, message := r.refuse(action); status != 0 {
			fail(status, code, message)
			return
		}
	}
	switch action {
	case "DescribeAutoScalingGroups":
		var answer struct {
			XMLName xml.Name `xml:"http://autoscaling.amazonaws.com/doc/2011-01-01/ DescribeAutoScalingGroupsResponse"`
			Groups  []group  `xml:"DescribeAutoScalingGroupsResult>AutoScalingGroups>member"`
		}
		if g := r.groups[req.Form.Get("AutoScalingGroupNames.member.1")]; g != nil {
			answer.Groups = append(answer.Groups, *g)
		}
		_ = xml.NewEncoder(w).Encode(answer)
	case "SetDesiredCapacity":
		g := r.groups[req.Form.Get("AutoScalingGroupName")]
		n, err := strconv.Atoi(req.Form.Get("DesiredCapacity"))
		if g == nil || err != nil || n < g.Min || n > g.Max {
			fail(400, "ValidationError", fmt.Sprintf("New SetDesiredCapacity value %d is out of the group's limits", n))
			return
		}
		g.Desired = n
		g.Instances = g.Instances[:0]
		for range n {
			g.Instances = append(g.Instances, "Pending")
		}
		fmt.Fprint(w, "<SetDesiredCapacityResponse xmlns=\"http://autoscaling.amazonaws.com/doc/2011-01-01/\"><ResponseMetadata><RequestId>r</RequestId></ResponseMetadata></SetDesiredCapacityResponse>")
	default:
		fail(400, "InvalidAction", "only what the scaler needs is served")
	}
}

func TestTheDesiredCapacityFollowsTheWantedNumber(t *testing.T) {
	r, a := launch(t, map[string]*group{"workers": {Name: "workers", Max: 8}})
	for _, c := range []struct{ n, running, calls int }{{8, 0, 2}, {8, 8, 1}, {0, 8, 2}, {0, 0, 1}} {
		r.calls = nil
		if running, err := a.Apply(t.Context(), c.n); err != nil || running != c.running || len(r.calls) != c.calls || r.groups["workers"].Desired != c.n {
			t.Errorf("%d: %d run, %v, calls %v, capacity %d", c.n, running, err, r.calls, r.groups["workers"].Desired)
		}
	}
}

func TestAutoScalingThatRefusesIsNamedWithItsReason(t *testing.T) {
	answers := func(action string, status int, code, message string) func(*region, *AutoScaling) {
		return func(r *region, _ *AutoScaling) {
			r.refuse = func(is string) (int, string, string) {
				if is == action {
					return status, code, message
				}
				return 0, "", ""
			}
		}
	}
	for _, c := range []struct {
		name  string
		spoil func(*region, *AutoScaling)
		cause error
		want  string
	}{
		{"no such group", func(_ *region, a *AutoScaling) { a.Group = "other" }, fault.ErrConfig, "Auto Scaling group other does not exist"},
		{"throttled", answers("SetDesiredCapacity", 400, "Throttling", "Rate exceeded"), fault.ErrUnavailable, "set the desired capacity to 6: status 400: Throttling: Rate exceeded"},
		{"throttled immediately", answers("DescribeAutoScalingGroups", 400, "Throttling", "Rate exceeded"), fault.ErrUnavailable, "describe: status 400: Throttling"},
		{"broken", answers("DescribeAutoScalingGroups", 503, "ServiceUnavailable", "later"), fault.ErrUnavailable, "later"},
		{"not permitted", answers("SetDesiredCapacity", 403, "AccessDenied", "not authorized to perform: autoscaling:SetDesiredCapacity"), fault.ErrConfig, "autoscaling:SetDesiredCapacity"},
		{"wrong secret", func(r *region, _ *AutoScaling) { r.Add("AKIDEXAMPLE", signer.Key{Secret: "another"}) }, fault.ErrConfig, "does not match the signature"},
		{"unknown key", func(r *region, _ *AutoScaling) { r.Remove("AKIDEXAMPLE") }, fault.ErrConfig, "security token included in the request is invalid"},
		{"another region", func(_ *region, a *AutoScaling) { a.Region = "us-east-1" }, fault.ErrConfig, "valid region"},
		{"being deleted", func(r *region, _ *AutoScaling) { r.groups["workers"].Status = "Delete in progress" }, fault.ErrConfig, "Delete in progress"},
		{"over the group's own limit", func(r *region, _ *AutoScaling) { r.groups["workers"].Max = 5 }, fault.ErrConfig, "allows 0 to 5"},
		{"no server", func(_ *region, a *AutoScaling) { a.Endpoint = "http://127.0.0.1:1/" }, fault.ErrUnavailable, "refused"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, a := launch(t, map[string]*group{"workers": {Name: "workers", Max: 8, Desired: 2}})
			c.spoil(r, &a)
			_, err := a.Apply(t.Context(), 6)
			if !errors.Is(err, c.cause) || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), asSecret) {
				t.Errorf("%v, want %q", err, c.want)
			}
			if got, most := r.groups["workers"].Desired, r.groups["workers"].Max; got > most {
				t.Errorf("capacity %d of at most %d", got, most)
			}
			r.refuse = nil
		})
	}
}

func TestCapacityIsSetAfterThrottlingEnds(t *testing.T) {
	r, a := launch(t, map[string]*group{"workers": {Name: "workers", Max: 8}})
	r.refuse = func(string) (int, string, string) { return 400, "Throttling", "Rate exceeded" }
	for range 3 {
		if _, err := a.Apply(t.Context(), 4); !errors.Is(err, fault.ErrUnavailable) {
			t.Fatal(err)
		}
	}
	r.refuse = nil
	if _, err := a.Apply(t.Context(), 4); err != nil || r.groups["workers"].Desired != 4 {
		t.Errorf("%v, capacity %d", err, r.groups["workers"].Desired)
	}
}
